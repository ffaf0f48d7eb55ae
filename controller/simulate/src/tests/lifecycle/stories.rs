//! Lives of single claims, from end to end.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::conditions::{nodeclaim, nodeclass};
use muster_api::{Lifetime, annotations, decode, events};
use muster_cloud::memory::{Call, Fault, Operation};
use muster_cloud::{CapacityType, CloudError};
use serde_json::Value;

use super::life::{Deed, Life, NEVER, Story, offering, only};
use crate::api::Path;
use crate::world::{Habits, Meant};

fn create_and_delete() -> Vec<(u64, Deed)> {
    vec![(0, Deed::Create("x")), (600, Deed::Delete("x"))]
}

fn creations(all: &[(u64, &'static str)]) -> Vec<(u64, Deed)> {
    all.iter().map(|(second, name)| (*second, Deed::Create(name))).collect()
}

/// Returns the condition of the class that says whether launches succeed.
fn launches_succeed(life: &Life) -> Condition {
    let conditions: Vec<Condition> = decode(&life.class().data["status"]["conditions"]).unwrap();
    conditions.into_iter().find(|one| one.type_ == nodeclass::LAUNCHES_SUCCEED).unwrap()
}

#[test]
fn a_claim_becomes_a_node_and_leaves_without_a_trace() {
    let mut life = Life::new(Story::of(create_and_delete()));
    life.run(300);
    assert_eq!(life.condition("x", "Ready").0, "True", "{}", life.diary());
    assert_eq!(life.alive().len(), 1);
    assert_eq!(life.alive()[0].tags["Name"], "ip-10-0-0-1.ec2.internal");
    let node = life.world.api.nodes.values().next().unwrap();
    assert_eq!(node.metadata.labels.as_ref().unwrap()["karpenter.sh/nodepool"], "default");
    assert_eq!(node.spec.as_ref().unwrap().taints.as_ref().unwrap().len(), 0);
    let own: Vec<&str> = node.metadata.annotations.iter().flat_map(|all| all.keys().map(String::as_str)).collect();
    let hashes = [annotations::EC2NODECLASS_HASH, annotations::EC2NODECLASS_HASH_VERSION];
    assert_eq!(own, hashes, "how the launch went is no business of the Node");
    life.run(3600);
    assert!(life.is_over(), "{}", life.diary());
    assert_eq!(life.warnings(), [""; 0], "nothing went wrong, so nothing is told");
}

#[test]
fn a_node_that_is_deleted_takes_its_claim_with_it() {
    let mut life = Life::new(Story::of([(0, Deed::Create("x")), (600, Deed::DeleteNodes)]));
    life.run(3600);
    assert!(life.is_over(), "{}", life.diary());
}

#[test]
fn an_exhausted_offering_widens_the_launch_of_the_same_claim() {
    let mut life = Life::new(Story::of([(0, Deed::Create("x"))]));
    for (name, bought) in [("a", CapacityType::Spot), ("b", CapacityType::Spot), ("a", CapacityType::OnDemand)] {
        life.world.run_out(only(name, bought), NEVER);
    }
    life.run(300);
    assert_eq!(life.alive()[0].offering, offering("c", CapacityType::OnDemand), "{}", life.diary());
    assert_eq!(life.launches(), 2, "one for all of spot, one for the rest");
    assert_eq!(life.condition("x", "Ready").0, "True");
}

#[test]
fn without_capacity_anywhere_the_claim_is_given_up() {
    let mut life = Life::new(Story::of([(0, Deed::SellOut(Meant::default())), (0, Deed::Create("x"))]));
    life.run(300);
    assert!(life.is_over());
    assert_eq!(
        life.events(events::INSUFFICIENT_CAPACITY_ERROR),
        ["NodeClaim `x` failed: none of the 2 offerings tried is available: \
          a/eu-west-1a/on-demand: no capacity; c/eu-west-1a/on-demand: no capacity"]
    );
}

#[test]
fn a_node_that_never_joins_is_given_up_with_what_was_observed() {
    let mut life = Life::new(Story::without_nodes([(0, Deed::Create("x"))]));
    life.world.console = Some("booting\ncloud-init: token=AbCdEf0123456789xyz\nno route to host\n".to_owned());
    life.run(1200);
    assert!(life.is_over(), "{}", life.diary());
    let told = life.events(events::REGISTRATION_TIMEOUT);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with(
            "no Node registered within 15m of the launch; instance `aws:///eu-west-1a/i-00000000000000001` is running;"
        ),
        "{}",
        told[0]
    );
    assert!(told[0].ends_with("/ no route to host") && !told[0].contains("AbCdEf"), "{}", told[0]);
}

#[test]
fn a_startup_taint_that_stays_ends_the_node_and_names_its_owner() {
    let habits = Habits { startup_taint: NEVER, ..Habits::default() };
    let mut life = Life::new(Story { habits, ..Story::of([(0, Deed::Create("x"))]) });
    life.run(600);
    assert_eq!(
        life.condition("x", nodeclaim::INITIALIZED).2,
        "StartupTaint `ebs.csi.aws.com/agent-not-ready:NoExecute` still exists; \
         it is removed by the driver of EBS volumes"
    );
    life.run(1500);
    assert!(life.is_over(), "{}", life.diary());
    assert!(
        life.events(events::INITIALIZATION_TIMEOUT)[0]
            .starts_with("not initialized within 15m of its registration: StartupTaint")
    );
}

#[test]
fn a_resource_that_never_comes_is_named() {
    let mut life = Life::new(Story { has_gpu: false, ..Story::of([(0, Deed::Create("x"))]) });
    life.run(600);
    let (status, reason, message) = life.condition("x", nodeclaim::INITIALIZED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "ResourceNotRegistered"));
    assert!(message.starts_with("Resource `nvidia.com/gpu` was requested but not registered"), "{message}");
}

#[test]
fn an_instance_that_ends_while_it_starts_is_seen_with_its_reason() {
    let mut life = Life::new(Story { dies: Some(5), ..Story::of([(0, Deed::Create("x"))]) });
    life.run(400);
    assert!(life.is_over(), "{}", life.diary());
    let told = life.events(events::INSTANCE_ENDED);
    assert!(told[0].ends_with("has ended: Client.InvalidKMSKey.InvalidState: the key is disabled"), "{told:?}");
}

#[test]
fn three_failures_for_one_reason_stop_launches_until_somebody_says_otherwise() {
    let mut life = Life::new(Story::without_nodes(creations(&[(0, "a"), (10, "b"), (20, "c"), (1200, "d")])));
    life.plan([(1300, Deed::ResetBreaker)]);
    life.run(1250);
    assert_eq!(life.launches(), 3, "{}", life.diary());
    let (status, reason, message) = life.condition("d", nodeclaim::LAUNCHED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "LaunchesStopped"));
    assert!(message.contains("the last 3 launches failed with RegistrationTimeout"), "{message}");
    let condition = launches_succeed(&life);
    assert_eq!((condition.type_.as_str(), condition.status.as_str()), ("LaunchesSucceed", "False"));
    assert_eq!(life.events(events::LAUNCHES_STOPPED).len(), 1);
    life.run(1310);
    assert_eq!(life.launches(), 4, "resumed");
    assert_eq!(launches_succeed(&life).status, "True");
    assert!(!life.class().metadata.annotations.as_ref().unwrap().contains_key(annotations::RESET_BREAKER));
}

/// Whoever mends what is outside of the class (a registry, an endpoint) has not to tell anybody.
#[test]
fn one_launch_is_tried_after_a_growing_while() {
    // Claims that nobody launches end after five minutes, as in a cluster whose pods wait on.
    let first = [(0, "a"), (10, "b"), (20, "c"), (1400, "d")];
    let mut life = Life::new(Story::without_nodes(creations(&first)));
    life.plan(creations(&[(2000, "e"), (4300, "f"), (4800, "g"), (8200, "h")]));
    life.run(1690);
    let failures = |life: &Life| {
        let annotations = life.class().metadata.annotations.as_ref();
        let text = annotations.and_then(|all| all.get(annotations::LAUNCH_FAILURES)).cloned();
        let value: Value = serde_json::from_str(&text.unwrap()).unwrap();
        (value["trials"].as_u64().unwrap(), value["at"].as_str().unwrap().parse::<Timestamp>().unwrap().as_second())
    };
    let (trials, closed_at) = failures(&life);
    assert_eq!((trials, life.launches()), (0, 3));
    assert!((900..1000).contains(&closed_at), "{closed_at}");
    life.run(1750);
    assert_eq!(life.launches(), 3, "it is not time: {}", life.diary());
    // `e` is the trial: it is launched a quarter of an hour after the last failure, and fails a quarter of an hour
    // later.
    life.run(4300);
    assert_eq!(life.launches(), 4, "{}", life.diary());
    let (trials, failed_at) = failures(&life);
    assert!(trials == 1 && (2900..3000).contains(&failed_at), "{trials} {failed_at}");
    // Half an hour after that comes the next, and then an hour.
    life.run(4750);
    assert_eq!(life.launches(), 4, "{}", life.diary());
    life.run(8000);
    assert_eq!(life.launches(), 5, "{}", life.diary());
    let (trials, failed_at) = failures(&life);
    assert!(trials == 2 && (5600..5800).contains(&failed_at), "{trials} {failed_at}");
    life.run(8400);
    assert_eq!(life.launches(), 5, "{}", life.diary());
}

#[test]
fn a_change_of_the_class_closes_the_breaker() {
    let mut life = Life::new(Story::without_nodes(creations(&[(0, "a"), (0, "b"), (0, "c"), (1201, "d")])));
    life.plan([(1200, Deed::ChangeClass)]);
    life.run(1202);
    assert_eq!(life.launches(), 4, "{}", life.diary());
}

#[test]
fn a_missing_permission_is_named_and_stops_launches() {
    let mut life = Life::new(Story::of(creations(&[(0, "a"), (0, "b"), (0, "c")])));
    for _ in 0..3 {
        let error = CloudError::Unauthorized { action: "ec2:RunInstances".to_owned(), message: "denied".to_owned() };
        life.world.cloud.faults.push(Operation::Launch, Fault::Refuse(error));
    }
    life.run(100);
    assert_eq!(life.launches(), 3, "{}", life.diary());
    assert_eq!(life.condition("c", nodeclaim::LAUNCHED).1, "LaunchesStopped");
    assert_eq!(life.events(events::LAUNCH_FAILED)[0], "not authorized to perform ec2:RunInstances: denied");
}

#[test]
fn throttling_is_waited_for_with_the_same_token() {
    let mut life = Life::new(Story::of([(0, Deed::Create("x"))]));
    for _ in 0..4 {
        let error = CloudError::Throttled { operation: "CreateFleet".to_owned() };
        life.world.cloud.faults.push(Operation::Launch, Fault::Refuse(error));
    }
    life.run(300);
    let calls: Vec<(i64, String)> = life
        .world
        .cloud
        .record()
        .iter()
        .filter_map(|one| match &one.call {
            Call::Launch(token) => Some((one.at.as_second(), token.attempt.to_string())),
            Call::On(..) => None,
        })
        .collect();
    let expected = [0, 1, 2, 4, 8].map(|second| (second, "1".to_owned()));
    assert_eq!(calls, expected);
}

#[test]
fn a_budget_is_waited_for_and_named() {
    let mut life = Life::new(Story { budget: Some(900), ..Story::of(create_and_delete()) });
    life.run(800);
    assert_eq!(
        life.condition("x", nodeclaim::DRAINED).2,
        "Draining: `shop/web-x`: Cannot evict pod as it would violate the pod's disruption budget. \
         The disruption budget web needs 1 healthy pods and has 1 currently"
    );
    assert_eq!(life.events(events::FAILED_DRAINING).len(), 1);
    let evictions = life.evicted().len();
    assert!(evictions < 40, "{evictions} evictions in 200 s");
    life.run(3600);
    assert!(life.is_over(), "{}", life.diary());
}

#[test]
fn what_keeps_its_node_is_ended_when_the_grace_period_is_over() {
    let habits = Habits { detach: NEVER, ..Habits::default() };
    let story = Story { habits, budget: Some(1_000_000), has_hold: true, ..Story::of(create_and_delete()) };
    let mut life = Life::new(Story { grace: Some(120), ..story });
    life.run(685);
    assert_eq!(life.world.api.pods.values().count(), 3, "30 s before the end nobody has been ended yet");
    life.run(3600);
    assert!(life.is_over(), "{}", life.diary());
    assert_eq!(life.events(events::DISRUPTED).len(), 3);
}

#[test]
fn pods_leave_in_tiers() {
    let mut life = Life::new(Story::of(create_and_delete()));
    life.run(3600);
    assert_eq!(life.evicted(), ["web-x", "dns-x", "proxy-ip-10-0-0-1.ec2.internal"]);
}

#[test]
fn a_pod_that_its_kubelet_does_not_end_is_left_behind_after_a_minute() {
    let mut life = Life::new(Story { has_stuck_pod: true, ..Story::of(create_and_delete()) });
    life.run(650);
    assert!(life.world.api.pods.get(&Path::new("shop", "dns-x")).is_some(), "its grace period of 30 s is over");
    life.run(3600);
    assert!(life.is_over(), "{}", life.diary());
}

/// A controller that runs replaces the node before that; this one is away. That a node has the hour is a unit test of
/// `muster_stages::lifecycle`.
#[test]
fn a_claim_that_nobody_replaces_goes_an_hour_after_its_time() {
    let expire_after = Lifetime::After(Duration::from_secs(1800));
    let mut life = Life::new(Story { expire_after, ..Story::of([(0, Deed::Create("x"))]) });
    life.run(1700);
    let mut life = life.killed_in(life.world.clone(), Duration::from_secs(3800));
    life.run(7200);
    assert!(life.is_over(), "{}", life.diary());
    let told = life.events(events::DISRUPTION_TERMINATING);
    assert_eq!(told, ["NodeClaim `x` is older than its expireAfter of 30m"]);
}
