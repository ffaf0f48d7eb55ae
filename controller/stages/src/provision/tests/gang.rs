//! Nodes that pods are spread over open together, and pods are told of them then.

use muster_api::labels;
use serde_json::{Value, json};

use super::fixture::{Cluster, pod};
use crate::provision::Queue;

/// A replica of a Deployment that is spread over zones.
pub(super) fn replica(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": labels::ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    pod
}

/// Nodes that two pods were spread over, and their claims.
fn spread_over_two() -> (Cluster, [String; 2]) {
    let mut cluster = Cluster::new();
    cluster.add(replica("x", "1800m")).add(replica("y", "1800m"));
    cluster.round(0);
    assert_eq!(cluster.nominate(1), [""; 0], "the claims are there, and no Node is");
    let claims: Vec<String> = cluster.claims().iter().map(|claim| claim.metadata.name.clone().unwrap()).collect();
    (cluster, claims.try_into().unwrap())
}

#[test]
fn nodes_that_pods_are_spread_over_open_together() {
    let (mut cluster, [first, second]) = spread_over_two();
    cluster.launch(&first, "1900m");
    cluster.appear(&first, 20);
    assert_eq!(cluster.nominate(20), [""; 0], "a node that is not ready is not told of");
    cluster.ready(&first, 24);
    assert_eq!(cluster.nominate(24), [""; 0], "the other one is not there");
    cluster.launch(&second, "1900m");
    cluster.appear(&second, 26);
    let hold = cluster.hold(&first, 26).unwrap();
    assert_eq!(hold.why, "its pods are spread over it and other nodes, and some of them are not nominated yet");
    cluster.ready(&second, 28);
    let told = cluster.nominate(28);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((cluster.hold(&first, 28), cluster.hold(&second, 28)), (None, None));
}

#[test]
fn what_a_pod_has_forgotten_it_is_told_again_before_any_of_the_nodes_opens() {
    let (mut cluster, [first, second]) = spread_over_two();
    for claim in [&first, &second] {
        cluster.launch(claim, "1900m");
        cluster.join(claim, 20);
    }
    cluster.nominate(20);
    let forgetful = cluster.plan.placed_on(&first).next().unwrap().trim_start_matches("default/").to_owned();
    // Its scheduler has tried it in vain, which is seen.
    cluster.get("Pod", &forgetful)["status"]["nominatedNodeName"] = Value::Null;
    cluster.denied.push(forgetful.clone());
    assert_eq!(cluster.nominate(20), [""; 0], "it may be on its way");
    for claim in [&first, &second] {
        let why = cluster.hold(claim, 20).unwrap().why;
        assert_eq!(why, "its pods are spread over it and other nodes, and some of them are not nominated yet");
    }
    assert_eq!(cluster.nominate(21), [format!("nominate {forgetful} node-{first}")]);
    assert_eq!((cluster.hold(&first, 21), cluster.hold(&second, 21)), (None, None));
}

#[test]
fn nobody_waits_long_for_a_node_that_does_not_come() {
    let (mut cluster, [first, second]) = spread_over_two();
    cluster.launch(&first, "1900m");
    cluster.join(&first, 20);
    assert_eq!(cluster.nominate(29), [""; 0]);
    assert_eq!(cluster.nominate(30).len(), 1, "after ten seconds");
    assert_eq!(cluster.hold(&first, 30), None);
    // One that came to nothing is not waited for at all.
    let (mut cluster, [first, second_again]) = spread_over_two();
    assert_eq!(second, second_again);
    cluster.launch(&first, "1900m");
    cluster.join(&first, 20);
    cluster.remove("NodeClaim", &second);
    assert_eq!(cluster.nominate(20).len(), 1);
    assert_eq!(cluster.hold(&first, 20), None);
}

#[test]
fn a_node_that_is_long_in_becoming_ready_is_told_of_anyway() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1"));
    cluster.round(0);
    let claim = cluster.only_claim();
    cluster.launch(&claim, "1900m");
    cluster.appear(&claim, 20);
    assert_eq!(cluster.nominate(34), [""; 0]);
    assert_eq!(cluster.nominate(35), [format!("nominate a node-{claim}")]);
    assert_eq!(cluster.hold(&claim, 35), None);
}

#[test]
fn pods_that_only_prefer_a_spread_wait_for_no_other_node() {
    let mut cluster = Cluster::new();
    for name in ["x", "y"] {
        let mut pod = replica(name, "1800m");
        pod["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] = json!("ScheduleAnyway");
        cluster.add(pod);
    }
    cluster.round(0);
    let claim = cluster.claims()[0].metadata.name.clone().unwrap();
    cluster.launch(&claim, "1900m");
    cluster.join(&claim, 20);
    cluster.nominate(20);
    assert_eq!(cluster.hold(&claim, 20), None);
}

#[test]
fn the_node_whose_pods_are_first_in_the_queue_opens_first() {
    let (mut cluster, claims) = spread_over_two();
    let pod_on = |claim: &str| cluster.plan.placed_on(claim).next().unwrap().trim_start_matches("default/").to_owned();
    let [on_first, on_second] = [pod_on(&claims[0]), pod_on(&claims[1])];
    let turns = |cluster: &Cluster| {
        let turn = |claim: &String| {
            cluster.with_round(|round| {
                round.plan.first_in_queue(claim, &round.view, &Queue::default()).map(|at| at.queued)
            })
        };
        claims.each_ref().map(turn)
    };
    cluster.arrived = vec![on_first.clone(), on_second.clone()];
    assert_eq!(turns(&cluster), [Some(1), Some(2)]);
    cluster.arrived = vec![on_second, on_first];
    assert_eq!(turns(&cluster), [Some(2), Some(1)]);
}
