//! Whatever happened before, the cache is that of the objects as they are.

use std::collections::{BTreeMap, BTreeSet};

use muster_manifest::{Intake, Manifests};
use proptest::prelude::*;
use serde_json::json;

use super::super::{Changed, Cluster, Kind};
use super::objects::{Deed, deeds, object, path};

/// The objects that are left, read at once as files are.
fn at_once(all: &[Deed]) -> Manifests {
    let mut left: BTreeMap<(Kind, String), String> = BTreeMap::new();
    for Deed { kind, name, look } in all {
        let key = (*kind, path(*kind, *name));
        match look {
            Some(look) => {
                let mut object = object(*kind, *name, *look);
                object["metadata"].as_object_mut().unwrap().remove("managedFields");
                drop(left.insert(key, object.to_string()));
            }
            None => drop(left.remove(&key)),
        }
    }
    let mut intake = Intake::default();
    for (number, text) in left.into_values().enumerate() {
        intake.text(&format!("{number}.json"), text).unwrap();
    }
    Manifests { warnings: Vec::new(), ..intake.finish() }
}

/// The manifests, in whatever version of the objects.
fn manifests(cluster: &Cluster) -> Manifests {
    let mut manifests = cluster.manifests();
    let pools = manifests.node_pools.iter_mut().map(|pool| &mut pool.object);
    for object in pools.chain(manifests.node_classes.iter_mut().map(|class| &mut class.object)) {
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    }
    manifests
}

fn apply(cluster: &mut Cluster, deed: &Deed) -> Changed {
    let Deed { kind, name, look } = deed;
    match look {
        Some(look) => cluster.apply(*kind, &object(*kind, *name, *look).to_string()),
        None => cluster.remove(*kind, &path(*kind, *name)),
    }
}

/// What stages can see of each claim, in words.
fn views(cluster: &Cluster) -> BTreeMap<String, String> {
    let names: Vec<String> = cluster.claims().filter_map(|claim| claim.metadata.name.clone()).collect();
    let view = |name: String| {
        let around = cluster.around(&name).unwrap();
        let mut claim = around.claim.clone();
        claim.metadata.resource_version = None;
        let mut pool = around.pool.cloned();
        pool.iter_mut().for_each(|pool| pool.metadata.resource_version = None);
        let mut nodes: Vec<_> = around.nodes.iter().map(|node| (*node).clone()).collect();
        nodes.iter_mut().for_each(|node| node.metadata.resource_version = None);
        let class = cluster.class(&claim.spec.node_class_ref).map(|class| class.object["spec"].to_string());
        let words = format!(
            "{claim:?} {pool:?} {class:?} {nodes:?} {:?} {:?} {:?}",
            around.residents(),
            around.attachments,
            around.device_drivers
        );
        (name, words)
    };
    names.into_iter().map(view).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_way_to_the_same_objects_gives_the_same_cluster(all in deeds()) {
        let mut cluster = Cluster::default();
        for deed in &all {
            apply(&mut cluster, deed);
        }
        prop_assert_eq!(cluster.manifests(), at_once(&all));
        prop_assert_eq!(cluster.notes().count(), 0);
    }

    #[test]
    fn what_looks_different_is_said_to_have_changed(all in deeds()) {
        let mut cluster = Cluster::default();
        for deed in &all {
            let (before, revision, pods) = (views(&cluster), cluster.revision(), manifests(&cluster));
            let changed = apply(&mut cluster, deed);
            let after = views(&cluster);
            // Volumes of pods are bound before the pods are: nobody waits for that.
            let expected = !matches!(deed.kind, Kind::PersistentVolumeClaim);
            for name in before.keys().chain(after.keys()).filter(|name| expected && before.get(*name) != after.get(*name)) {
                prop_assert!(changed.claims.contains(name.as_str()), "{name} after {deed:?}: {changed:?}");
            }
            let same = manifests(&cluster) == pods && before == after;
            prop_assert!(same || !changed.is_empty(), "{deed:?}");
            prop_assert_eq!(cluster.revision() > revision, !changed.is_empty());
            // The same again is no news, in whatever version.
            if let Some(look) = deed.look {
                let mut again = object(deed.kind, deed.name, look);
                again["metadata"]["resourceVersion"] = "later".into();
                prop_assert!(cluster.apply(deed.kind, &again.to_string()).is_empty(), "{deed:?}");
            }
        }
    }

    #[test]
    fn a_new_list_leaves_what_it_has(all in deeds(), kept in prop::collection::btree_set(0..5_usize, 0..5)) {
        let mut cluster = Cluster::default();
        for deed in &all {
            apply(&mut cluster, deed);
        }
        let paths: BTreeSet<_> = kept.iter().map(|name| path(Kind::Pod, *name).into()).collect();
        let there = cluster.paths(Kind::Pod);
        cluster.retain(Kind::Pod, &paths);
        let left: Vec<_> = there.into_iter().filter(|path| paths.contains(path)).collect();
        prop_assert_eq!(cluster.paths(Kind::Pod), left);
    }
}

#[test]
fn a_pause_that_begins_or_ends_is_news_of_all_claims() {
    let mut cluster = Cluster::default();
    cluster.apply(Kind::NodeClaim, &object(Kind::NodeClaim, 0, 0).to_string());
    let mut namespace = json!({"metadata": {"name": "karpenter", "annotations": {"muster.dev/pause": "all"}}});
    let is_news = |changed: &Changed| !changed.claims.is_empty();
    assert!(is_news(&cluster.apply(Kind::Namespace, &namespace.to_string())));
    assert!(is_news(&cluster.remove(Kind::Namespace, "karpenter")));
    namespace["metadata"]["annotations"] = json!({});
    assert!(!is_news(&cluster.apply(Kind::Namespace, &namespace.to_string())));
    assert!(!is_news(&cluster.remove(Kind::Namespace, "karpenter")));
}

#[test]
fn a_pod_that_waits_is_named_until_it_has_a_node() {
    let mut cluster = Cluster::default();
    let mut pod = json!({"metadata": {"name": "x", "namespace": "n"}, "spec": {"containers": [{"name": "c"}]}});
    let changed = cluster.apply(Kind::Pod, &pod.to_string());
    assert_eq!(changed.waiting.iter().map(|path| &**path).collect::<Vec<_>>(), ["n/x"]);
    pod["spec"]["nodeName"] = "a".into();
    let changed = cluster.apply(Kind::Pod, &pod.to_string());
    assert!(changed.waiting.is_empty() && changed.kinds.contains(Kind::Pod));
    assert_eq!(cluster.unbound().count(), 0);
}
