//! A cluster as Karpenter's KWOK provider leaves it is gone on with: no node is replaced, though disruption is at work.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, TypeMeta};
use muster_api::{NodePool, hash};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON, condition, of_karpenter};

/// Two passes and the time in between, and then some.
const TWO_PASSES: Duration = Duration::from_secs(40);

/// What a claim and its Node say of their instance: four CPUs, the cheapest of which two pods fit on.
fn labels(zone: &str) -> Value {
    json!({
        "karpenter.kwok.sh/instance-cpu": "4", "karpenter.kwok.sh/instance-family": "c",
        "karpenter.kwok.sh/instance-memory": "8Gi", "karpenter.kwok.sh/instance-size": "4",
        "karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": "general", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "c-4x-amd64-linux", "topology.kubernetes.io/zone": zone,
    })
}

/// A NodeClaim of Karpenter's and its Node.
async fn leave(ground: &Ground, name: &str, hash: (&str, &str), zone: &str) {
    let node = format!("kwok-{name}-brave-otter-1234567890");
    let pool = of_karpenter(ground.client(), "NodePool").get("general").await.unwrap();
    let annotations = json!({
        "karpenter.sh/nodepool-hash": hash.0, "karpenter.sh/nodepool-hash-version": hash.1,
        "kwok.x-k8s.io/node": "fake",
    });
    let only = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let mut claim = DynamicObject {
        types: Some(TypeMeta { api_version: "karpenter.sh/v1".to_owned(), kind: "NodeClaim".to_owned() }),
        metadata: ObjectMeta::default(),
        data: json!({"spec": {
            "expireAfter": "720h",
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [
                only("karpenter.sh/capacity-type", "on-demand"), only("karpenter.kwok.sh/instance-cpu", "4"),
                only("karpenter.sh/nodepool", "general"), only("node.kubernetes.io/instance-type", "c-4x-amd64-linux"),
            ],
            "resources": {"requests": {"cpu": "3600m", "memory": "200Mi", "pods": "2"}},
        }}),
    };
    claim.metadata = serde_json::from_value(json!({
        "name": name, "labels": labels(zone), "annotations": annotations, "finalizers": ["karpenter.sh/termination"],
        "ownerReferences": [{
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general", "uid": pool.uid().unwrap(),
            "blockOwnerDeletion": true,
        }],
    }))
    .unwrap();
    let made = ground.claims().create(&PostParams::default(), &claim).await.unwrap();
    let since = "2026-01-01T00:00:00Z";
    let kinds = ["Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound", "Consolidatable"];
    let told = |kind: &&str| {
        json!({
            "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since,
            "observedGeneration": 1,
        })
    };
    let room = json!({"cpu": "3900m", "memory": "8182Mi", "pods": "64", "ephemeral-storage": "20Gi"});
    let status = json!({"status": {
        "providerID": format!("kwok://{node}"), "nodeName": node, "imageID": "", "lastPodEventTime": since,
        "capacity": room, "allocatable": room, "conditions": kinds.iter().map(told).collect::<Vec<_>>(),
    }});
    ground.claims().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let mut on_node = labels(zone);
    for (key, value) in [
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("kubernetes.io/hostname", name),
        ("kwok-partition", "a"),
        ("kwok.x-k8s.io/node", "fake"),
        ("eks-node-viewer/instance-price", "0.108590"),
    ] {
        on_node[key] = json!(value);
    }
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": node, "labels": on_node, "annotations": annotations, "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": made.uid().unwrap(),
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {"providerID": format!("kwok://{node}")},
        "status": {"capacity": room, "allocatable": room, "phase": "Pending"},
    });
    let node: Node = serde_json::from_value(node).unwrap();
    ground.nodes().create(&PostParams::default(), &node).await.unwrap();
}

#[tokio::test]
async fn what_karpenter_has_left_is_gone_on_with() {
    let ground = Ground::new("run suite").await;
    // Nothing is to be gained: the nodes are full, and nothing that holds two of these pods is cheaper.
    let policy = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    ground.small_nodes(&json!({"team": "a"}), &policy).await;
    let pools = of_karpenter(ground.client(), "NodePool");
    let pool = pools.get("general").await.unwrap();
    let typed: NodePool = serde_json::from_value(serde_json::to_value(&pool).unwrap()).unwrap();
    let current = hash::node_pool(&typed);
    let said = json!({"metadata": {"annotations": {
        "karpenter.sh/nodepool-hash": current, "karpenter.sh/nodepool-hash-version": hash::NODEPOOL_HASH_VERSION,
    }}});
    pools.patch("general", &PatchParams::default(), &Patch::Merge(said)).await.unwrap();
    leave(&ground, "general-7xk2p", (&current, hash::NODEPOOL_HASH_VERSION), "test-zone-a").await;
    // From before an upgrade of Karpenter.
    leave(&ground, "general-q9w4z", ("1234567890123456789", "v1"), "test-zone-b").await;
    ground.deploy_pairs(4).await;
    let before = ground.running(4, SOON).await;

    let _replica = ground.replica("muster");
    let ready =
        |claims: &[DynamicObject]| claims.len() == 2 && claims.iter().all(|one| condition(one, "Ready") == "True");
    let names: BTreeSet<String> = BTreeSet::from(["general-7xk2p".to_owned(), "general-q9w4z".to_owned()]);
    let is_left_alone = |nodes: &[Node]| {
        let owners = nodes.iter().flat_map(|node| node.owner_references()).map(|owner| owner.name.clone());
        let taints = nodes.iter().flat_map(|node| node.spec.iter().flat_map(|spec| &spec.taints).flatten());
        let taints = taints.filter(|taint| taint.key.starts_with("karpenter.sh/")).count();
        owners.collect::<BTreeSet<String>>() == names && taints == 0
    };
    // The condition of Muster's own making shows that it is at work.
    let counted = wait::until(pools, "general", SOON, "the pool's nodes are counted", |pool| {
        pool.data["status"]["nodes"] == 2 && condition(pool, "Ready") == "True"
    });
    counted.await.unwrap();
    let stay = wait::stays(ground.nodes(), Selection::all(), TWO_PASSES, "no node is replaced", is_left_alone);
    stay.await.unwrap();
    wait::until_all(ground.claims(), Selection::all(), SOON, "both claims are ready", ready).await.unwrap();
    let after = ground.running(4, SOON).await;
    let uids = |pods: &[k8s_openapi::api::core::v1::Pod]| pods.iter().map(ResourceExt::uid).collect::<BTreeSet<_>>();
    assert_eq!(uids(&before), uids(&after), "no pod has moved");
}

/// Makes a claim and its Node those of a reboot that Karpenter has issued.
async fn reboot(ground: &Ground, claim: &str, since: &str) {
    let node = format!("kwok-{claim}-brave-otter-1234567890");
    let there = ground.claims().get(claim).await.unwrap();
    let mut conditions = there.data["status"]["conditions"].as_array().unwrap().clone();
    conditions.retain(|one| one["type"] != "Initialized");
    for (kind, status, reason) in [("Initialized", "Unknown", "Rebooting"), ("Rebooting", "True", "RebootIssued")] {
        conditions.push(json!({
            "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": since,
        }));
    }
    let status = json!({"status": {"conditions": conditions}});
    ground.claims().patch_status(claim, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let annotated = json!({"metadata": {"annotations": {"karpenter.sh/reboot-pre-boot-id": "1-2-3"}}});
    ground.claims().patch(claim, &PatchParams::default(), &Patch::Merge(annotated)).await.unwrap();
    // KWOK lets it be, so that it does not become ready.
    let change = json!({
        "metadata": {
            "labels": {"karpenter.sh/initialized": null, "kwok.x-k8s.io/node": null},
            "annotations": {"kwok.x-k8s.io/node": null},
        },
        "spec": {"taints": [{"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}]},
    });
    ground.nodes().patch(&node, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    let unknown = ready("Unknown", since);
    ground.nodes().patch_status(&node, &PatchParams::default(), &Patch::Strategic(unknown)).await.unwrap();
}

fn ready(status: &str, since: &str) -> Value {
    json!({"status": {"conditions": [{
        "type": "Ready", "status": status, "reason": "Test", "message": "", "lastHeartbeatTime": since,
        "lastTransitionTime": since,
    }]}})
}

#[tokio::test]
async fn a_node_that_karpenter_reboots_is_left_alone_until_it_is_back() {
    let ground = Ground::new("run suite").await;
    // Empty nodes go at once, but for what this test is about.
    ground.small_nodes(&json!({"team": "a"}), &json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})).await;
    leave(&ground, "general-7xk2p", ("1234567890123456789", "v1"), "test-zone-a").await;
    let issued = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    reboot(&ground, "general-7xk2p", &issued.to_string()).await;

    let _replica = ground.replica("muster");
    let is_rebooting = |claims: &[DynamicObject]| {
        let [claim] = claims else { return false };
        let is = |kind: &str, status: &str| condition(claim, kind) == status;
        claim.metadata.deletion_timestamp.is_none() && is("Rebooting", "True") && is("Initialized", "Unknown")
    };
    let stay = wait::stays(ground.claims(), Selection::all(), TWO_PASSES, "the node is left alone", is_rebooting);
    stay.await.unwrap();

    let node = "kwok-general-7xk2p-brave-otter-1234567890";
    let back = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    let is_back = ready("True", &back.to_string());
    ground.nodes().patch_status(node, &PatchParams::default(), &Patch::Strategic(is_back)).await.unwrap();
    let ends = wait::until_all(ground.claims(), Selection::all(), SOON, "the reboot has ended", |claims| {
        claims.iter().all(|claim| condition(claim, "Rebooting") == "False")
    });
    ends.await.unwrap();
    // It is initialized once more, and then as dispensable as any other.
    let gone = wait::until_all(ground.claims(), Selection::all(), SOON * 2, "no NodeClaim is left", <[_]>::is_empty);
    gone.await.unwrap();
}
