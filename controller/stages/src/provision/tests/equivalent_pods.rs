//! Who goes its own way leaves its place to another one of its kind.

use muster_api::labels;
use serde_json::json;

use super::fixture::{Cluster, pod};
use super::gang::replica;

/// Four nodes with a replica each, two in either zone, and one with a pod of another kind. All Nodes are there, and all pods
/// are told.
fn five_nodes() -> Cluster {
    let mut cluster = Cluster::new();
    for name in ["w", "x", "y", "z"] {
        cluster.add(replica(name, "3"));
    }
    cluster.add(pod("other", "3200m"));
    cluster.round(0);
    let claims = cluster.claims();
    assert_eq!(claims.len(), 5);
    for claim in claims {
        let name = claim.metadata.name.unwrap();
        cluster.launch(&name, "3900m");
        // Which of its zones it got.
        let zone = claim.spec.requirements.iter().find(|one| one.key == labels::ZONE).map(|one| one.values[0].clone());
        cluster.get("NodeClaim", &name)["metadata"]["labels"][labels::ZONE] = json!(zone.as_deref().unwrap_or("a"));
        cluster.join(&name, 20);
    }
    assert_eq!(cluster.nominate(20).len(), 5);
    cluster
}

fn node_of(cluster: &Cluster, pod: &str) -> String {
    format!("node-{}", cluster.plan.place_of(&format!("default/{pod}")).unwrap())
}

fn zone_of(cluster: &Cluster, pod: &str) -> String {
    let claim = cluster.plan.place_of(&format!("default/{pod}")).unwrap();
    let claims = cluster.claims();
    let claim = claims.iter().find(|one| one.metadata.name.as_deref() == Some(claim)).unwrap();
    claim.metadata.labels.as_ref().unwrap()[labels::ZONE].clone()
}

#[test]
fn whose_node_is_taken_gets_the_place_of_who_took_it() {
    let mut cluster = five_nodes();
    let (left, taken) = (node_of(&cluster, "w"), node_of(&cluster, "x"));
    cluster.bind("w", &taken);
    assert_eq!(cluster.nominate(21), [format!("nominate x {left}")]);
    assert_eq!(node_of(&cluster, "x"), left);
    assert_eq!(cluster.nominate(21), [""; 0], "it is told once");
}

#[test]
fn whose_zone_is_taken_gets_the_place_in_the_other_one() {
    let mut cluster = five_nodes();
    let elsewhere = zone_of(&cluster, "other");
    let (here, there): (Vec<&str>, Vec<&str>) =
        ["w", "x", "y", "z"].into_iter().partition(|pod| zone_of(&cluster, pod) != elsewhere);
    let left = node_of(&cluster, here[0]);
    cluster.arrived = there.iter().map(ToString::to_string).collect();
    cluster.bind(here[0], &node_of(&cluster, "other"));
    assert_eq!(cluster.nominate(21), [format!("nominate {} {left}", there[1])], "the last one in the queue");
    assert_eq!(zone_of(&cluster, there[1]), zone_of(&cluster, here[1]), "two in either zone, as before");
}

#[test]
fn who_stays_in_its_zone_or_goes_where_it_was_told_leaves_nothing() {
    let mut cluster = five_nodes();
    let elsewhere = zone_of(&cluster, "other");
    let there = ["w", "x", "y", "z"].into_iter().find(|pod| zone_of(&cluster, pod) == elsewhere).unwrap();
    cluster.bind(there, &node_of(&cluster, "other"));
    assert_eq!(cluster.nominate(21), [""; 0]);
    let mut cluster = five_nodes();
    cluster.bind("y", &node_of(&cluster, "y"));
    assert_eq!(cluster.nominate(21), [""; 0]);
}

#[test]
fn pods_of_which_none_cares_for_the_others_keep_their_places() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1800m")).add(pod("b", "1800m"));
    cluster.round(0);
    for claim in cluster.claims() {
        let name = claim.metadata.name.unwrap();
        cluster.launch(&name, "1900m");
        cluster.join(&name, 20);
    }
    cluster.nominate(20);
    let taken = node_of(&cluster, "b");
    cluster.bind("a", &taken);
    assert_eq!(cluster.nominate(21), [""; 0]);
    assert_eq!(node_of(&cluster, "b"), taken);
}
