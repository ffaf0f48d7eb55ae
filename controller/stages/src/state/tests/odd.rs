//! Objects that make no sense.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Cluster, Kind};
use super::objects::{Deed, deed, object};

fn notes(cluster: &Cluster) -> Vec<String> {
    cluster.notes().map(|(_, _, note)| note.to_owned()).collect()
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        "spec": {"nodeName": "x0", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    })
}

#[test]
fn a_node_with_the_provider_id_of_another_does_not_take_its_claim() {
    let mut cluster = Cluster::default();
    // The first by name is the other one.
    for name in ["a0", "x0"] {
        let node = json!({"metadata": {"name": name}, "spec": {"providerID": "id"}});
        cluster.apply(Kind::Node, &node.to_string());
    }
    let mut claim = object(Kind::NodeClaim, 0, 0);
    claim["status"]["providerID"] = "id".into();
    let found = |cluster: &Cluster| {
        let claim = cluster.claims().next().unwrap();
        cluster.claimed(claim).node.unwrap().metadata.name.clone().unwrap()
    };
    claim["status"]["nodeName"] = "x0".into();
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    assert_eq!(found(&cluster), "x0");
    let planned = cluster.manifests();
    let node = planned.node_claims[0].node.as_deref();
    assert_eq!(node, Some("x0"));
    // One that is not registered has the first.
    claim["status"].as_object_mut().unwrap().remove("nodeName");
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    assert_eq!(found(&cluster), "a0");
}

#[test]
fn a_node_with_the_provider_id_of_another_decides_nothing_about_its_claim() {
    let mut cluster = Cluster::default();
    let node = |name: &str, is_leaving: bool| {
        let mut node = json!({"metadata": {"name": name}, "spec": {"providerID": "id"}});
        if is_leaving {
            node["metadata"]["deletionTimestamp"] = "2026-11-26T06:00:00Z".into();
            node["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        }
        node.to_string()
    };
    // Somebody deletes the other one, and a pod is on each.
    cluster.apply(Kind::Node, &node("a0", true));
    cluster.apply(Kind::Node, &node("x0", false));
    for (name, node) in [("theirs", "a0"), ("ours", "x0")] {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = node.into();
        cluster.apply(Kind::Pod, &pod.to_string());
    }
    let mut claim = object(Kind::NodeClaim, 0, 0);
    claim["status"]["providerID"] = "id".into();
    let seen = |cluster: &Cluster| {
        let around = cluster.around("x0").unwrap();
        let nodes = around.nodes.iter().map(|node| node.metadata.name.clone().unwrap()).collect::<Vec<_>>().join(" ");
        let pods = around.residents().iter().map(|one| one.pod.name.clone()).collect::<Vec<_>>().join(" ");
        let is_claimed = ["a0", "x0"].map(|name| cluster.claim_of(cluster.node(name).unwrap()).is_some());
        (nodes, pods, is_claimed)
    };
    // Registration refuses two, so it has to see them.
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    assert_eq!(seen(&cluster), ("a0 x0".to_owned(), "ours theirs".to_owned(), [true, false]));
    claim["status"]["nodeName"] = "x0".into();
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    assert_eq!(seen(&cluster), ("x0".to_owned(), "ours".to_owned(), [false, true]));
    // The end of the claim cleans up after both: of what has its instance's ID, nothing is left.
    cluster.remove(Kind::Node, "x0");
    let left = cluster.around("x0").unwrap().nodes.iter().map(|node| node.metadata.name.clone()).collect::<Vec<_>>();
    assert_eq!(left, [Some("a0".to_owned())]);
}

#[test]
fn one_odd_pod_is_a_note_and_still_has_to_leave_its_node() {
    let mut cluster = Cluster::default();
    // A Node and a claim with the same provider ID.
    cluster.apply(Kind::Node, r#"{"metadata":{"name":"x0"},"spec":{"providerID":"id"}}"#);
    let mut claim = object(Kind::NodeClaim, 0, 0);
    claim["status"]["providerID"] = "id".into();
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    let mut odd = pod("odd");
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "one".into();
    cluster.apply(Kind::Pod, &odd.to_string());
    cluster.apply(Kind::Pod, &pod("fine").to_string());
    insta::assert_snapshot!(notes(&cluster).join("\n"), @"Pod `n/odd`: field `spec.containers[0].resources.requests.cpu` `one` is not a quantity; write a number with an optional suffix, such as `500m`, `2`, `1.5Gi` or `10M`");
    let pods = cluster.manifests().pods.into_iter().map(|pod| (pod.path.to_string(), pod.is_unreadable));
    assert_eq!(pods.collect::<Vec<_>>(), [("n/fine".to_owned(), false), ("n/odd".to_owned(), true)]);
    let around = cluster.around("x0").unwrap();
    assert_eq!(around.residents().iter().map(|one| one.pod.name.as_str()).collect::<Vec<_>>(), ["fine", "odd"]);
    assert_eq!(around.residents()[0].hold, around.residents()[1].hold);

    // Corrected, or gone, it leaves no trace.
    assert!(!cluster.apply(Kind::Pod, &pod("odd").to_string()).is_empty());
    assert_eq!(notes(&cluster), Vec::<String>::new());
    cluster.apply(Kind::Pod, &odd.to_string());
    cluster.remove(Kind::Pod, "n/odd");
    assert_eq!(notes(&cluster), Vec::<String>::new());
}

#[test]
fn what_is_no_object_is_a_note() {
    let mut cluster = Cluster::default();
    for text in ["", "{", "[]", "3", r#"{"metadata":{}}"#, r#"{"metadata":{"name":""}}"#] {
        for kind in Kind::ALL {
            assert!(!cluster.apply(kind, text).is_empty(), "{kind:?} {text}");
        }
    }
    assert_eq!(cluster.notes().count(), Kind::ALL.len());
    assert!(Kind::ALL.into_iter().all(|kind| cluster.has_unreadable(kind)));
}

#[test]
fn a_claim_that_can_no_longer_be_read_is_not_taken_for_gone() {
    let mut cluster = Cluster::default();
    let mut claim = object(Kind::NodeClaim, 0, 0);
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    claim["spec"]["requirements"] = "none".into();
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    assert_eq!((cluster.claims().len(), cluster.notes().count()), (1, 1));
    assert!(!cluster.has_unreadable(Kind::NodeClaim), "it is known by what it said before");
    cluster.remove(Kind::NodeClaim, "x0");
    assert_eq!((cluster.claims().len(), cluster.notes().count()), (0, 0));
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    assert!(cluster.has_unreadable(Kind::NodeClaim));
}

#[test]
fn a_pool_that_its_crd_refuses_is_kept_from_the_engine() {
    let mut cluster = Cluster::default();
    let mut pool = object(Kind::NodePool, 0, 0);
    pool["spec"]["weight"] = 1000.into();
    cluster.apply(Kind::NodePool, &pool.to_string());
    assert_eq!((cluster.pools().len(), cluster.manifests().node_pools.len()), (1, 0));
    insta::assert_snapshot!(notes(&cluster).join("\n"), @"NodePool `x0`: field `spec.weight` is 1000, but must be at most 100; write a number from 1 to 100");
}

#[test]
fn what_no_longer_occurs_is_not_kept() {
    let mut cluster = Cluster::default();
    for round in 0..10_000 {
        let mut one = pod("x");
        one["spec"]["nodeName"] = format!("node-{round}").into();
        one["metadata"]["labels"] = json!({"round": round.to_string()});
        cluster.apply(Kind::Pod, &one.to_string());
    }
    let (texts, templates) = cluster.names.len();
    assert!(texts <= 2048 && templates <= 2048, "{texts} {templates}");
}

#[test]
fn megabytes_that_no_longer_occur_are_not_kept() {
    let mut cluster = Cluster::default();
    for round in 0..40 {
        let mut one = pod("x");
        one["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": format!("{round}{}", "x".repeat(1 << 20)), "controller": true}]);
        cluster.apply(Kind::Pod, &one.to_string());
    }
    let kept: usize = cluster.names.texts().map(|text| text.len()).sum();
    assert!(kept < 20 << 20, "{kept} bytes");
}

#[test]
fn node_has_few_conditions_whatever_it_writes() {
    let mut cluster = Cluster::default();
    let conditions: Vec<Value> =
        (0..10_000).map(|number| json!({"type": format!("c{number}"), "status": "True"})).collect();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "status": {"conditions": conditions},
    });
    cluster.apply(Kind::Node, &node.to_string());
    let node = cluster.nodes().next().unwrap();
    assert_eq!(node.status.as_ref().unwrap().conditions.as_ref().unwrap().len(), 64);
}

/// Replaces the value at position `at` of the tree, in order of a walk.
fn replace(value: &mut Value, at: &mut usize, with: &Value) {
    if *at == 0 {
        *value = with.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, at, with)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, at, with)),
        _ => {}
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    let values = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("x"),
        json!([]),
        json!([{}]),
        json!({}),
        json!({"a": {"b": 3}}),
    ];
    (0..values.len()).prop_map(move |number| values[number].clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn whatever_stands_in_a_field_what_is_removed_leaves_no_trace(
        changes in prop::collection::vec((deed(), 0..40_usize, odd_value()), 1..20)
    ) {
        let mut cluster = Cluster::default();
        for (Deed { kind, name, look }, mut at, value) in changes {
            let mut odd = object(kind, name, look.unwrap_or_default());
            replace(&mut odd, &mut at, &value);
            cluster.apply(kind, &odd.to_string());
        }
        let _ = cluster.manifests();
        let claims: Vec<String> = cluster.paths(Kind::NodeClaim).iter().map(ToString::to_string).collect();
        prop_assert!(claims.iter().all(|claim| cluster.around(claim).is_some()));
        for kind in Kind::ALL {
            cluster.retain(kind, &BTreeSet::new());
        }
        prop_assert_eq!(cluster.notes().count(), 0);
        prop_assert_eq!(cluster.manifests(), muster_manifest::Manifests::default());
        prop_assert_eq!(cluster.pods_by_node.len() + cluster.claims_by_class.len() + cluster.nodes_by_provider.len(), 0);
    }
}

#[test]
fn what_a_pool_counts_is_no_news_of_its_claims() {
    let mut cluster = Cluster::default();
    let pool = |nodes: u32, condition: &str| {
        let mut pool = object(Kind::NodePool, 0, 0);
        pool["status"] = json!({"nodes": nodes, "resources": {"nodes": nodes.to_string()}, "conditions": [{
            "type": "Ready", "status": condition, "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-22T20:00:00Z"}]});
        pool.to_string()
    };
    let mut claim = object(Kind::NodeClaim, 0, 0);
    claim["metadata"]["labels"]["karpenter.sh/nodepool"] = "x0".into();
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    assert_eq!(cluster.apply(Kind::NodePool, &pool(1, "True")).claims.len(), 1);
    let counted = cluster.apply(Kind::NodePool, &pool(2, "True"));
    assert_eq!((counted.pools.len(), counted.claims.len()), (1, 0));
    assert_eq!(cluster.apply(Kind::NodePool, &pool(2, "False")).claims.len(), 1, "one that launches nothing is");
}
