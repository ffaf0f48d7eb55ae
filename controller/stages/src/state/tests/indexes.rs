//! What is found by index is what a scan finds.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use muster_api::{NodeClaim, labels};
use proptest::prelude::*;

use super::super::{Cluster, Kind};
use super::objects::{Deed, deeds, object, path};
use crate::lifecycle::{Attachment, Resident};
use crate::provision::PendingPod;

/// What is left of all objects, by kind and path.
type Left = BTreeMap<(Kind, String), String>;

/// What is left of a kind.
fn texts(left: &Left, kind: Kind) -> impl Iterator<Item = &str> {
    left.iter().filter(move |((of, _), _)| *of == kind).map(|(_, text)| text.as_str())
}

/// What is around a claim: its nodes, their pods and volumes, and its pool.
fn around_is_found(cluster: &Cluster, left: &Left, pods: &[Pod], claim: &NodeClaim) -> Result<(), TestCaseError> {
    let volume = |pod: &Pod| {
        let volume = &pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0];
        let claim = &volume.persistent_volume_claim.as_ref().unwrap().claim_name;
        let text =
            left.get(&(Kind::PersistentVolumeClaim, format!("{}/{claim}", pod.metadata.namespace.as_ref().unwrap())))?;
        let claim: serde_json::Value = serde_json::from_str(text).unwrap();
        Some(claim["spec"]["volumeName"].as_str().unwrap().to_owned())
    };
    let around = cluster.around(claim.metadata.name.as_ref().unwrap()).unwrap();
    let id = claim.status.as_ref().unwrap().provider_id.clone().filter(|id| !id.is_empty());
    let has_id = |node: &&crate::node::Node| id.is_some() && node.spec.as_ref().unwrap().provider_id == id;
    let nodes: Vec<_> = cluster.nodes().filter(has_id).collect();
    prop_assert_eq!(&around.nodes, &nodes);
    let names: Vec<String> = nodes.iter().map(|node| node.metadata.name.clone().unwrap()).collect();
    let is_here = |pod: &&Pod| pod.spec.as_ref().unwrap().node_name.as_ref().is_some_and(|node| names.contains(node));
    let mut residents: Vec<_> =
        pods.iter().filter(is_here).map(|pod| Resident::of(pod, volume(pod).into_iter().collect()).unwrap()).collect();
    let mut found = around.residents().to_vec();
    for all in [&mut residents, &mut found] {
        all.sort_by(|a, b| a.pod.cmp(&b.pod));
    }
    prop_assert_eq!(found, residents, "the compact pod says what the typed one does");
    let attachments =
        texts(left, Kind::VolumeAttachment).map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
    let mut attachments: Vec<_> = attachments
        .map(|one| {
            (
                one["spec"]["nodeName"].as_str().unwrap().to_owned(),
                one["spec"]["source"]["persistentVolumeName"].as_str().unwrap().to_owned(),
            )
        })
        .filter(|(node, _)| names.contains(node))
        .map(|(node, volume)| Attachment { node, volume })
        .collect();
    let mut found = around.attachments.clone();
    for all in [&mut attachments, &mut found] {
        all.sort_by(|a, b| (&a.node, &a.volume).cmp(&(&b.node, &b.volume)));
    }
    prop_assert_eq!(found, attachments);
    let pool = claim.metadata.labels.as_ref().unwrap()[labels::NODEPOOL].clone();
    prop_assert_eq!(around.pool.is_some(), left.contains_key(&(Kind::NodePool, pool)));
    Ok(())
}

fn pending_pods_are_found(cluster: &Cluster, pods: &[Pod]) -> Result<(), TestCaseError> {
    let waits = |pod: &&Pod| {
        let phase = pod.status.as_ref().unwrap().phase.as_deref();
        pod.spec.as_ref().unwrap().node_name.is_none()
            && phase != Some("Succeeded")
            && pod.metadata.deletion_timestamp.is_none()
    };
    prop_assert_eq!(cluster.count_unbound(), pods.iter().filter(waits).count());
    let pending_pods = cluster.moment().pending_pods;
    for pod in pods.iter().filter(waits) {
        let scanned = PendingPod::of(pod);
        let found = pending_pods.get(&*scanned.path()).map(|one| PendingPod {
            denied: 0,
            arrival: 0,
            queued: 0,
            ..(**one).clone()
        });
        prop_assert_eq!(found, Some(scanned));
    }
    for node in ["x0", "x1", "x2"] {
        let is_nominated = |pod: &&Pod| pod.status.as_ref().unwrap().nominated_node_name.as_deref() == Some(node);
        let scanned = pods.iter().filter(waits).filter(is_nominated).map(|pod| PendingPod::of(pod).path());
        let found = cluster.nominated_to(node).map(|pod| pod.pod.path.to_string());
        prop_assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(scanned.collect::<BTreeSet<_>>()));
    }
    Ok(())
}

/// The claims of an instance, and of a pool.
fn claims_are_found(cluster: &Cluster) -> Result<(), TestCaseError> {
    for instance in ["i-0", "i-1"] {
        let id = Some(format!("aws:///z/{instance}"));
        let of_instance = |claim: &&NodeClaim| claim.status.as_ref().unwrap().provider_id == id;
        let scanned: Vec<_> = cluster.claims().filter(of_instance).collect();
        prop_assert_eq!(cluster.claims_of_instance(instance).collect::<Vec<_>>(), scanned);
    }
    for pool in 0..3 {
        let pool = format!("x{pool}");
        let of_pool = |claim: &&NodeClaim| claim.metadata.labels.as_ref().unwrap()[labels::NODEPOOL] == pool;
        let scanned: Vec<_> = cluster.claims().filter(of_pool).collect();
        prop_assert_eq!(cluster.claims_of_pool(&pool).collect::<Vec<_>>(), scanned);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_a_scan_finds(all in deeds()) {
        let mut cluster = Cluster::default();
        let mut left = Left::new();
        for Deed { kind, name, look } in &all {
            let path = path(*kind, *name);
            match look {
                Some(look) => {
                    let text = object(*kind, *name, *look).to_string();
                    cluster.apply(*kind, &text);
                    left.insert((*kind, path), text);
                }
                None => {
                    cluster.remove(*kind, &path);
                    left.remove(&(*kind, path));
                }
            }
        }
        let pods: Vec<Pod> = texts(&left, Kind::Pod).map(|text| serde_json::from_str(text).unwrap()).collect();
        for claim in cluster.claims() {
            around_is_found(&cluster, &left, &pods, claim)?;
        }
        pending_pods_are_found(&cluster, &pods)?;
        claims_are_found(&cluster)?;
        // Nothing is left behind of what is gone.
        for (kind, path) in left.keys() {
            cluster.remove(*kind, path);
        }
        let indexes = [&cluster.pods_by_node, &cluster.pods_by_nomination, &cluster.nodes_by_provider,
                       &cluster.claims_by_provider, &cluster.claims_by_pool, &cluster.claims_by_instance,
                       &cluster.claims_by_class, &cluster.attachments_by_node, &cluster.slices_by_node];
        prop_assert_eq!(indexes.map(super::super::index::Index::len), [0; 9]);
    }
}
