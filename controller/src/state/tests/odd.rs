//! Objects that make no sense.

use serde_json::{Value, json};

use super::super::{Cluster, Kind};
use super::objects::object;

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
    let planned: Vec<_> = cluster.manifests().pods.into_iter().map(|pod| pod.path.to_string()).collect();
    assert_eq!(planned, ["n/fine"]);
    let around = cluster.around("x0").unwrap();
    assert_eq!(around.residents.iter().map(|one| one.pod.name.as_str()).collect::<Vec<_>>(), ["fine", "odd"]);
    assert_eq!(around.residents[0].hold, around.residents[1].hold);

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
    insta::assert_snapshot!(notes(&cluster).join("\n"), @"NodePool `x0`: field `spec.weight` is 1000, but must be at most 100; write a value that the CRD accepts; `muster crds` prints its schema");
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
