//! Places are kept until pods are where they were planned.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixture::{Cluster, marked, node, pod};
use crate::provision::Plan;

#[test]
fn a_decision_is_made_once_even_if_it_is_forgotten() {
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c"] {
        cluster.add(pod(name, "1"));
    }
    let first = cluster.decide(0);
    assert_eq!(first, cluster.decide(0), "the same bytes");
    cluster.round(0);
    let claims = cluster.claims().len();
    cluster.plan = Plan::default();
    let words = cluster.round(1);
    assert_eq!(words.iter().filter(|word| word.starts_with("create")).count(), 0, "{words:?}");
    assert_eq!(cluster.claims().len(), claims);
    assert!(cluster.plan.place_of("default/a").is_some());
}

#[test]
fn a_tight_plan_is_not_made_anew_when_others_come() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1900m"));
    cluster.round(0);
    let first = cluster.only_claim();
    // Larger ones come first when a plan is made; the place is not theirs.
    cluster.add(pod("b", "1800m"));
    cluster.round(1);
    assert_eq!(cluster.claims().len(), 2);
    assert_eq!(cluster.plan.place_of("default/a"), Some(&*first));
    assert_ne!(cluster.plan.place_of("default/b"), Some(&*first));
}

#[test]
fn places_on_claims_that_nobody_has_seen_yet_are_kept_for_a_while() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1"));
    let decided = cluster.decide(0);
    cluster.plan = decided.plan;
    // Pods change all the time, so pods are told of their nodes while hundreds of claims are being created.
    assert_eq!(cluster.nominate(1), [""; 0]);
    assert!(cluster.plan.place_of("default/a").is_some());
    assert_eq!(cluster.nominate(29), [""; 0]);
    assert!(cluster.plan.place_of("default/a").is_some());
    assert_eq!(cluster.nominate(30), [""; 0]);
    assert_eq!(cluster.plan.place_of("default/a"), None, "it was never created");
    cluster.round(31);
    let claim = cluster.only_claim();
    assert_eq!(cluster.nominate(32), [""; 0]);
    cluster.remove("NodeClaim", &claim);
    assert_eq!(cluster.nominate(33), [""; 0]);
    assert_eq!(cluster.plan.place_of("default/a"), None, "it was seen, and has gone");
}

#[test]
fn a_claim_that_ends_is_followed_by_another() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1"));
    cluster.round(0);
    let first = cluster.only_claim();
    cluster.get("NodeClaim", &first)["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:01Z");
    let words = cluster.round(2);
    assert_eq!(words.len(), 2, "{words:?}");
    cluster.remove("NodeClaim", &first);
    let second = cluster.only_claim();
    assert_ne!(first, second, "the name is taken until the first one has gone");
    assert_eq!(cluster.round(3), [""; 0]);
}

#[test]
fn a_node_that_turns_out_smaller_is_planned_again() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1")).add(pod("b", "900m"));
    cluster.round(0);
    let first = cluster.only_claim();
    cluster.launch(&first, "1500m");
    let words = cluster.round(5);
    assert_eq!(cluster.claims().len(), 2, "{words:?}");
}

/// A pod with a volume of its own.
fn with_volume(name: &str) -> Value {
    let mut one = pod(name, "100m");
    one["spec"]["volumes"] = json!([{"name": "data", "awsElasticBlockStore": {"volumeID": format!("vol-{name}")}}]);
    one
}

/// The driver's word for the number of volumes that a node can attach.
fn attaches(node: &str, count: u32) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": node, "allocatable": {"count": count}}]},
    })
}

#[test]
fn volumes_of_planned_pods_take_attachments_of_their_node() {
    let mut cluster = Cluster::new();
    let mut full = node("full", "0");
    full["metadata"]["labels"] =
        json!({"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "small"});
    cluster.add(full).add(attaches("full", 3));
    cluster.get("NodePool", "general")["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"]}]);
    for name in ["a", "b", "c"] {
        cluster.add(with_volume(name));
    }
    cluster.round(0);
    let first = cluster.only_claim();
    // It has room for them, but not for their volumes.
    cluster.add(with_volume("d")).add(with_volume("e"));
    cluster.round(1);
    assert_eq!((cluster.claims().len(), placed(&cluster, &first)), (2, ["a", "b", "c"].map(String::from).to_vec()));
    // Nominated, they take attachments as well.
    cluster.launch(&first, "1900m");
    cluster.join(&first, 20);
    assert_eq!(cluster.nominate(20).len(), 3);
    cluster.add(with_volume("f"));
    cluster.round(21);
    assert_eq!(cluster.claims().len(), 2);
    // The driver attaches fewer there: the last pod is planned again, once that is certain.
    cluster.add(attaches(&format!("node-{first}"), 2));
    cluster.round(22);
    assert_eq!((cluster.claims().len(), placed(&cluster, &first).len()), (2, 3));
    cluster.initialize(&first, 23);
    cluster.round(24);
    assert_eq!((cluster.claims().len(), placed(&cluster, &first)), (3, ["a", "b"].map(String::from).to_vec()));
}

#[test]
fn pods_are_told_before_the_node_takes_any() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1")).add(pod("b", "500m"));
    cluster.round(0);
    let claim = cluster.only_claim();
    let node = format!("node-{claim}");
    assert_eq!(cluster.nominate(1), [""; 0], "there is no Node yet");
    assert_eq!(cluster.hold(&claim, 1), None);
    cluster.launch(&claim, "1900m");
    cluster.join(&claim, 20);
    let hold = cluster.hold(&claim, 20).unwrap();
    assert_eq!(hold.why, format!("some of its pods are not nominated to Node `{node}` yet"));
    assert_eq!(cluster.nominate(20), [format!("nominate a {node}"), format!("nominate b {node}")]);
    assert_eq!(cluster.hold(&claim, 20), None);
    assert_eq!(cluster.nominate(21), [""; 0]);
    assert_eq!(cluster.round(22), [""; 0], "both hold their room");
    cluster.initialize(&claim, 30);
    cluster.bind("a", &node);
    assert_eq!(cluster.nominate(31), [""; 0]);
    assert_eq!(cluster.nominate(50), ["nominate b -"], "after 20 seconds the room is free again");
}

#[test]
fn a_cluster_that_cannot_be_told_holds_up_nobody_for_long() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1"));
    cluster.round(0);
    let claim = cluster.only_claim();
    cluster.launch(&claim, "1900m");
    cluster.join(&claim, 20);
    assert!(cluster.hold(&claim, 49).is_some());
    assert_eq!(cluster.hold(&claim, 50), None);
}

#[test]
fn what_others_have_nominated_is_left_alone() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1")).add(pod("b", "500m"));
    cluster.round(0);
    let claim = cluster.only_claim();
    cluster.add(node("busy", "1"));
    cluster.get("Pod", "a")["status"]["nominatedNodeName"] = json!("busy");
    cluster.get("Pod", "b")["status"]["nominatedNodeName"] = json!("gone-long-ago");
    cluster.launch(&claim, "1900m");
    cluster.join(&claim, 20);
    assert_eq!(cluster.nominate(20), [format!("nominate b node-{claim}")]);
    assert_eq!(cluster.hold(&claim, 20), None, "a preemption is under way, and b has been told");
}

#[test]
fn a_nomination_is_taken_back_when_the_node_fails() {
    let mut cluster = Cluster::new();
    cluster.add(marked("a", "1"));
    cluster.round(0);
    let claim = cluster.only_claim();
    cluster.launch(&claim, "1900m");
    cluster.join(&claim, 20);
    cluster.nominate(20);
    cluster.get("NodeClaim", &claim)["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:40Z");
    assert_eq!(cluster.nominate(40), ["nominate a -"]);
    let words = cluster.round(41);
    assert!(words[0].starts_with("create 1"), "{words:?}");
}

#[test]
fn a_crowd_keeps_its_places_for_longer() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1"));
    cluster.round(0);
    let claim = cluster.only_claim();
    cluster.launch(&claim, "1900m");
    cluster.join(&claim, 20);
    cluster.nominate(20);
    cluster.initialize(&claim, 30);
    for number in 0..199 {
        cluster.add(pod(&format!("other{number}"), "64"));
    }
    assert_eq!(cluster.nominate(89), [""; 0], "200 pods take a starved kube-scheduler forty seconds more");
    assert_eq!(cluster.nominate(90), ["nominate a -"]);
}

#[test]
fn a_node_that_does_not_hold_its_only_pod_is_followed_by_another() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1500m"));
    cluster.round(0);
    let first = cluster.only_claim();
    cluster.launch(&first, "1");
    let words = cluster.round(5);
    assert!(words[0].starts_with("create 1"), "{words:?}");
    assert_eq!(cluster.round(6), [""; 0]);
}

#[test]
fn a_zone_that_is_still_open_is_no_reason_to_buy_again() {
    let mut cluster = Cluster::new();
    let mut picky = pod("a", "1");
    picky["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]}]}}});
    cluster.add(picky);
    cluster.round(0);
    cluster.plan = Plan::default();
    let words = cluster.round(1);
    assert_eq!(words, [format!("Nominated a: Pod should schedule on: nodeclaim/{}", cluster.only_claim())]);
}

/// Two nodes with three pods each, which fill them. All are told, and the nodes have begun to take pods.
fn two_full_nodes() -> (Cluster, [String; 2]) {
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        cluster.add(pod(name, "1300m"));
    }
    cluster.round(0);
    let claims: Vec<String> = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    for claim in &claims {
        cluster.launch(claim, "3900m");
        cluster.join(claim, 20);
    }
    assert_eq!(cluster.nominate(20).len(), 6);
    claims.iter().for_each(|claim| cluster.initialize(claim, 21));
    (cluster, claims.try_into().unwrap())
}

fn placed(cluster: &Cluster, claim: &str) -> Vec<String> {
    let names = cluster.plan.placed_on(claim).map(|path| path.trim_start_matches("default/").to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn who_takes_the_room_of_others_is_exchanged_for_one_of_them() {
    let (mut cluster, [one, other]) = two_full_nodes();
    let stray = placed(&cluster, &one).remove(0);
    cluster.bind(&stray, &format!("node-{other}"));
    let before = placed(&cluster, &other);
    assert_eq!(cluster.round(22), [""; 0], "nothing is bought, and nobody is told that there is no place");
    let told = cluster.nominate(22);
    let [told] = &told[..] else { panic!("{told:?}") };
    let moved = placed(&cluster, &one).into_iter().find(|name| before.contains(name)).unwrap();
    assert_eq!(*told, format!("nominate {moved} node-{one}"));
    assert_eq!(cluster.plan.placed_on(&one).count() + cluster.plan.placed_on(&other).count(), 5);
    assert_eq!(cluster.round(23), [""; 0]);
    assert_eq!(cluster.nominate(23), [""; 0], "it is done once");
}

#[test]
fn where_a_stranger_takes_room_one_pod_is_planned_again_and_the_others_keep_their_places() {
    let (mut cluster, [one, other]) = two_full_nodes();
    cluster.add(pod("stranger", "1000m"));
    cluster.bind("stranger", &format!("node-{one}"));
    let words = cluster.round(22);
    assert_eq!(words.iter().filter(|word| word.starts_with("create")).count(), 1, "{words:?}");
    assert_eq!((placed(&cluster, &one).len(), placed(&cluster, &other).len()), (2, 3));
    let told = cluster.nominate(22);
    let [told] = &told[..] else { panic!("{told:?}") };
    assert!(told.ends_with(" -"), "{told}");
    assert_eq!(cluster.round(23), [""; 0]);
}

#[test]
fn who_is_moved_to_a_node_that_comes_keeps_its_room_there_until_it_is_told() {
    let (mut cluster, [one, other]) = two_full_nodes();
    let stray = placed(&cluster, &one).remove(0);
    cluster.bind(&stray, &format!("node-{other}"));
    cluster.round(22);
    // Still nominated to the old node when the next round begins.
    cluster.add(pod("late", "1300m"));
    let words = cluster.round(23);
    assert_eq!(words.iter().filter(|word| word.starts_with("create")).count(), 1, "{words:?}");
    assert_eq!((placed(&cluster, &one).len(), placed(&cluster, &other).len()), (3, 2), "as before");
}

/// Buys nodes for a pod of which another scheduler takes each, before it is open or when the pod has been told of it.
/// Returns the number of nodes, and what is said in the end.
fn taken_by_another_scheduler(is_told: bool) -> (usize, Vec<String>) {
    let mut cluster = Cluster::new();
    cluster.add(marked("a", "1500m"));
    let mut words = cluster.round(0);
    let mut known = BTreeSet::new();
    for now in (10..100).step_by(10) {
        let mut claims = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name);
        let Some(claim) = claims.find(|claim| known.insert(claim.clone())) else { break };
        cluster.launch(&claim, "1900m");
        cluster.join(&claim, now);
        if is_told {
            cluster.nominate(now);
            cluster.initialize(&claim, now + 1);
        }
        let other = format!("other{now}");
        cluster.add(pod(&other, "1800m"));
        cluster.bind(&other, &format!("node-{claim}"));
        words = cluster.round(now + 2);
    }
    (known.len(), words)
}

#[test]
fn third_node_that_another_scheduler_takes_is_the_last() {
    for is_told in [false, true] {
        let (bought, words) = taken_by_another_scheduler(is_told);
        let is_held =
            |word: &String| word.starts_with("LaunchesHeld a: ") && word.contains("exceeds node resources, cpu");
        assert!(words.iter().any(is_held), "{words:?}");
        assert_eq!(bought, 3, "told before it is taken: {is_told}");
    }
}
