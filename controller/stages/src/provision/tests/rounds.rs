//! Who is decided, what is launched, and what is said about it.

use jiff::Timestamp;
use serde_json::json;

use super::fixture::{Cluster, at, marked, node, pod, pool};
use crate::lifecycle::caps::Caps;
use crate::lifecycle::pause::Pause;
use crate::provision::Stop;

fn reasons(words: &[String]) -> Vec<&str> {
    words.iter().map(|word| word.split(':').next().unwrap()).collect()
}

#[test]
fn what_fits_nowhere_needs_no_mark() {
    let mut cluster = Cluster::new();
    cluster.add(pod("a", "1")).add(pod("b", "500m"));
    assert_eq!(reasons(&cluster.round(0)), ["create 2", "Nominated a", "Nominated b"]);
    assert_eq!(cluster.round(1), [""; 0], "the claim is on its way, and holds both");
}

#[test]
fn what_fits_is_left_to_kube_scheduler() {
    let mut cluster = Cluster::new();
    cluster.add(node("n", "2")).add(pod("a", "1"));
    let outcome = cluster.decide(0);
    assert_eq!((outcome.step.writes.len(), outcome.figures.pods), (0, 1));
    cluster.add(pod("b", "1500m"));
    assert_eq!(reasons(&cluster.round(0)).len(), 2, "one of them has room, the other one gets a node");
}

#[test]
fn preferences_are_no_proof() {
    // Planned as if it were required, the spread would send the pod to another zone; kube-scheduler binds it where it is.
    let mut cluster = Cluster::new();
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let mut there = pod("there", "100m");
    there["spec"]["nodeName"] = json!("n");
    let mut here = pod("here", "100m");
    here["spec"]["topologySpreadConstraints"] = spread;
    cluster.add(node("n", "4")).add(there).add(here.clone());
    assert_eq!(cluster.decide(0).step.writes, []);
    here["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("5");
    cluster.add(here);
    assert_eq!(reasons(&cluster.round(0)), ["FailedScheduling here"], "no type is that large");
}

#[test]
fn karpenters_rule_can_be_restored() {
    let mut cluster = Cluster::new();
    cluster.settings.wait_for_unschedulable_mark = true;
    cluster.add(pod("a", "1"));
    let outcome = cluster.decide(0);
    assert_eq!((outcome.step.writes.len(), outcome.figures.waiting), (0, 1));
    cluster.add(marked("a", "1"));
    assert_eq!(reasons(&cluster.round(0)), ["create 1", "Nominated a"]);
}

#[test]
fn pods_of_other_schedulers_and_gated_pods_wait() {
    let mut cluster = Cluster::new();
    let mut theirs = pod("theirs", "1");
    theirs["spec"]["schedulerName"] = json!("volcano");
    let mut gated = pod("gated", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "later"}]);
    cluster.add(theirs).add(gated);
    let outcome = cluster.decide(0);
    assert_eq!((outcome.step.writes.len(), outcome.figures.waiting, outcome.figures.pods), (0, 1, 0));
    let mut theirs = marked("theirs", "1");
    theirs["spec"]["schedulerName"] = json!("volcano");
    cluster.add(theirs);
    assert_eq!(reasons(&cluster.round(0)), ["create 1", "Nominated theirs"]);
}

#[test]
fn a_failure_is_told_once_and_tried_again() {
    let mut cluster = Cluster::new();
    cluster.add(marked("big", "64"));
    let outcome = cluster.decide(0);
    assert_eq!(outcome.step.again, Some(at(10)), "what is for sale may change");
    assert_eq!(outcome.figures.unplaced, 1);
    let words = cluster.round(0);
    assert_eq!(words.len(), 1);
    assert!(
        words[0].starts_with("FailedScheduling big: Failed to schedule pod, incompatible with nodepool"),
        "{words:?}"
    );
    assert_eq!(cluster.round(10), [""; 0]);
    cluster.remove("NodePool", "general");
    assert_eq!(cluster.round(20), ["FailedScheduling big: Failed to schedule pod, there is no nodepool"]);
}

#[test]
fn what_fits_nowhere_is_decided_again_once_something_has_changed() {
    let mut cluster = Cluster::new();
    cluster.add(marked("big", "64"));
    assert_eq!(reasons(&cluster.round(0)), ["FailedScheduling big"]);
    assert_eq!(cluster.decide(10).step.again, Some(at(30)), "nothing has changed");
    assert_eq!(cluster.round(10), [""; 0]);
    assert_eq!(cluster.decide(30).step.again, Some(at(70)));
    cluster.add(marked("small", "1"));
    assert_eq!(reasons(&cluster.round(31)), ["create 1", "Nominated small"], "it does not hold up others");
    let outcome = cluster.decide(32);
    assert_eq!((outcome.figures.unplaced, outcome.step.again), (1, Some(at(42))), "another cluster");
}

#[test]
fn pods_that_caps_hold_back_are_decided_again_although_nothing_has_changed() {
    let mut cluster = Cluster::new();
    cluster.settings.caps = Caps { launches_per_minute: Some(0), hourly_price: None };
    cluster.add(marked("a", "1"));
    assert_eq!(reasons(&cluster.round(0)), ["FailedScheduling a"]);
    cluster.settings.caps = Caps::default();
    assert_eq!(reasons(&cluster.round(10)), ["create 1", "Nominated a"]);
}

#[test]
fn pods_move_before_their_node_has_gone() {
    let mut cluster = Cluster::new();
    let mut leaving = node("n", "2");
    leaving["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    let mut moving = pod("a", "1");
    moving["spec"]["nodeName"] = json!("n");
    moving["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
    cluster.settings.wait_for_unschedulable_mark = true;
    cluster.add(leaving).add(moving);
    assert_eq!(reasons(&cluster.round(0)), ["create 1", "Nominated a"]);
    assert_eq!(cluster.round(1), [""; 0]);
}

/// Of a class with which launches fail one node is tried, in whichever pool, and the other pods hear why they wait.
#[test]
fn a_trial_is_one_node() {
    let mut cluster = Cluster::new();
    cluster.add(pool("other"));
    for name in ["a", "b", "c"] {
        let mut pod = marked(name, "1");
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}});
        cluster.add(pod);
    }
    let all = cluster.stops.clone();
    for pool in ["general", "other"] {
        cluster.stops.insert(pool.to_owned(), Stop::ButOne { why: "one node is being tried".to_owned() });
    }
    let words = cluster.round(0);
    assert_eq!(words.iter().filter(|word| word.starts_with("create")).count(), 1, "{words:?}");
    assert_eq!(words.iter().filter(|word| word.contains("one node is being tried")).count(), 2, "{words:?}");
    let until = Some(Timestamp::from_second(600).unwrap());
    cluster.stops = all;
    cluster.stops.insert("general".to_owned(), Stop::All { why: "it fails".to_owned(), until });
    cluster.stops.insert("other".to_owned(), Stop::All { why: "it fails".to_owned(), until });
    assert!(!cluster.round(10).iter().any(|word| word.starts_with("create")));
}

#[test]
fn what_is_paused_or_stopped_sends_pods_elsewhere() {
    let mut cluster = Cluster::new();
    cluster.add(marked("a", "1"));
    let why = "BootstrapInvalid: EB01".to_owned();
    cluster.stops.insert("general".to_owned(), Stop::All { why, until: None });
    let words = cluster.round(0);
    assert!(words[0].contains("BootstrapInvalid: EB01"), "{words:?}");
    cluster.stops.clear();
    cluster.get("NodePool", "general")["metadata"]["annotations"] = json!({"muster.dev/pause": "launches"});
    assert_eq!(cluster.round(10), [""; 0], "the same reason in other words can wait");
    let words = cluster.round(600);
    assert!(words[0].contains("launches are paused by the annotation muster.dev/pause"), "{words:?}");
    cluster.add(pool("other"));
    assert_eq!(reasons(&cluster.round(610)), ["create 1", "Nominated a"]);
    let mut cluster = Cluster::new();
    cluster.add(marked("a", "1"));
    cluster.pause = Pause::ALL;
    assert_eq!(reasons(&cluster.round(0)), ["FailedScheduling a"]);
}

#[test]
fn caps_hold_back_what_is_too_much() {
    let mut cluster = Cluster::new();
    cluster.settings.caps = Caps { launches_per_minute: Some(1), hourly_price: None };
    cluster.add(marked("a", "3")).add(marked("b", "3"));
    let outcome = cluster.decide(100);
    assert_eq!((outcome.figures.claims, outcome.figures.unplaced, outcome.step.again), (1, 1, Some(at(110))));
    let words = cluster.round(100);
    assert_eq!(words[2], "FailedScheduling b: Failed to schedule pod, no more than 1 nodes are launched in a minute");
    assert_eq!(cluster.round(110), [""; 0]);
    assert_eq!(reasons(&cluster.round(160)), ["create 1", "Nominated b"]);

    let mut cluster = Cluster::new();
    cluster.settings.caps = Caps { launches_per_minute: None, hourly_price: Some(0.3) };
    cluster.add(marked("a", "3"));
    cluster.round(0);
    cluster.add(marked("b", "3"));
    assert_eq!(
        cluster.round(10),
        [
            "FailedScheduling b: Failed to schedule pod, all nodes together may cost 0.3 USD an hour, and one more would \
          exceed that by 0.0800"
        ]
    );
}

#[test]
fn limits_count_what_is_on_its_way() {
    let mut cluster = Cluster::new();
    cluster.get("NodePool", "general")["spec"]["limits"] = json!({"cpu": "6"});
    cluster.add(marked("a", "3"));
    assert_eq!(cluster.round(0).len(), 2);
    cluster.add(marked("b", "3"));
    let words = cluster.round(1);
    assert_eq!(reasons(&words), ["FailedScheduling b"], "the first one is not launched yet, and counts");
    cluster.add(marked("c", "1500m"));
    assert_eq!(reasons(&cluster.round(2)), ["create 1", "Nominated c"], "two cores are left");
}

#[test]
fn static_pools_get_what_they_lack() {
    let mut cluster = Cluster::new();
    let mut fixed = pool("fixed");
    fixed["spec"]["replicas"] = json!(3);
    cluster.add(fixed);
    let outcome = cluster.decide(0);
    assert_eq!(outcome.figures.claims, 3);
    assert_eq!(outcome, cluster.decide(0));
    cluster.plan = outcome.plan.clone();
    for write in outcome.step.writes {
        let crate::step::Write::CreateClaim(claim) = write else { panic!("{write:?}") };
        assert!(!claim.spec.requirements.iter().any(|one| one.key == "node.kubernetes.io/instance-type"));
        cluster.add(serde_json::to_value(claim).unwrap());
    }
    assert_eq!(cluster.decide(1).figures.claims, 0);
    let gone = cluster.claims()[0].metadata.name.clone().unwrap();
    cluster.remove("NodeClaim", &gone);
    assert_eq!(cluster.decide(2).figures.claims, 1);
}
