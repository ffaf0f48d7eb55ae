//! What happens to a claim, from end to end.

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{annotations, events};
use muster_cloud::memory::{Call, Fault, Operation};
use muster_cloud::{CapacityType, CloudError};
use muster_stages::step::EventType;
use serde_json::Value;

use super::world::{Deed, Habits, RESET, World, offering};

fn with(habits: Habits, deeds: Vec<(u64, Deed)>) -> World {
    let mut world = World::new();
    world.habits = habits;
    world.deeds = deeds;
    world
}

fn launches(world: &World) -> usize {
    world.cloud.record().iter().filter(|one| matches!(one.call, Call::Launch(_))).count()
}

#[test]
fn a_claim_becomes_a_node_and_leaves_without_a_trace() {
    let mut world = with(Habits::default(), vec![(0, Deed::Create("x")), (600, Deed::Delete("x"))]);
    world.run(300);
    assert_eq!(world.condition("x", "Ready").0, "True", "{}", world.diary());
    assert_eq!(world.alive().len(), 1);
    assert_eq!(world.alive()[0].tags["Name"], "ip-10-0-0-1.ec2.internal");
    let node = world.api.nodes.values().next().unwrap();
    assert_eq!(node.metadata.labels.as_ref().unwrap()["karpenter.sh/nodepool"], "default");
    assert_eq!(node.spec.as_ref().unwrap().taints.as_ref().unwrap().len(), 0);
    assert!(node.metadata.annotations.is_none(), "how the launch went is no business of the Node");
    world.run(3600);
    assert!(world.api.claims.is_empty() && world.api.nodes.is_empty() && world.alive().is_empty(), "{}", world.diary());
    let warnings = world.api.events.iter().filter(|one| one.kind == EventType::Warning);
    let warnings: Vec<&str> = warnings.map(|one| one.message.as_str()).collect();
    assert!(warnings.is_empty(), "nothing went wrong, so nothing is told: {warnings:?}");
}

#[test]
fn a_node_that_is_deleted_takes_its_claim_with_it() {
    let mut world = with(Habits::default(), vec![(0, Deed::Create("x")), (600, Deed::DeleteNodes)]);
    world.run(3600);
    assert!(world.api.claims.is_empty() && world.api.nodes.is_empty() && world.alive().is_empty(), "{}", world.diary());
}

#[test]
fn an_exhausted_offering_widens_the_launch_of_the_same_claim() {
    let mut world = with(Habits::default(), vec![(0, Deed::Create("x"))]);
    for (name, bought) in [("a", CapacityType::Spot), ("b", CapacityType::Spot), ("a", CapacityType::OnDemand)] {
        world.cloud.capacity.insert(offering(name, bought), 0);
    }
    world.run(300);
    assert_eq!(world.alive()[0].offering, offering("c", CapacityType::OnDemand), "{}", world.diary());
    assert_eq!(launches(&world), 2, "one for all of spot, one for the rest");
    assert_eq!(world.condition("x", "Ready").0, "True");
}

#[test]
fn without_capacity_anywhere_the_claim_is_given_up() {
    let mut world = with(Habits::default(), vec![(0, Deed::Create("x"))]);
    for one in world.offered.clone() {
        world.cloud.capacity.insert(one.offering, 0);
    }
    world.run(300);
    assert!(world.api.claims.is_empty());
    assert_eq!(
        world.events(events::INSUFFICIENT_CAPACITY_ERROR),
        ["NodeClaim `x` failed: none of the 2 offerings tried is available: \
          a/eu-west-1a/on-demand: no capacity; c/eu-west-1a/on-demand: no capacity"]
    );
}

#[test]
fn a_node_that_never_joins_is_given_up_with_what_was_observed() {
    let mut world = with(Habits { joins: None, ..Habits::default() }, vec![(0, Deed::Create("x"))]);
    world.cloud.console_output = Some("booting\ncloud-init: token=AbCdEf0123456789xyz\nno route to host\n".to_owned());
    world.run(1200);
    assert!(world.api.claims.is_empty() && world.alive().is_empty(), "{}", world.diary());
    let told = world.events(events::REGISTRATION_TIMEOUT);
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
    let mut world = with(Habits { startup: None, ..Habits::default() }, vec![(0, Deed::Create("x"))]);
    world.run(600);
    assert_eq!(
        world.condition("x", nodeclaim::INITIALIZED).2,
        "StartupTaint `ebs.csi.aws.com/agent-not-ready:NoExecute` still exists; it is removed by the driver of EBS volumes"
    );
    world.run(1500);
    assert!(world.api.claims.is_empty() && world.alive().is_empty(), "{}", world.diary());
    assert!(
        world.events(events::INITIALIZATION_TIMEOUT)[0]
            .starts_with("not initialized within 15m of its registration: StartupTaint")
    );
}

#[test]
fn a_resource_that_never_comes_is_named() {
    let mut world = with(Habits { has_resource: false, ..Habits::default() }, vec![(0, Deed::Create("x"))]);
    world.run(600);
    let (status, reason, message) = world.condition("x", nodeclaim::INITIALIZED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "ResourceNotRegistered"));
    assert!(message.starts_with("Resource `nvidia.com/gpu` was requested but not registered"), "{message}");
}

#[test]
fn an_instance_that_ends_while_it_starts_is_seen_with_its_reason() {
    let mut world = with(Habits { dies: Some(5), ..Habits::default() }, vec![(0, Deed::Create("x"))]);
    world.run(400);
    assert!(world.api.claims.is_empty(), "{}", world.diary());
    let told = world.events(events::INSTANCE_ENDED);
    assert!(told[0].ends_with("has ended: Client.InvalidKMSKey.InvalidState: the key is disabled"), "{told:?}");
}

#[test]
fn three_failures_for_one_reason_stop_launches_until_somebody_says_otherwise() {
    let deeds = [(0, "a"), (10, "b"), (20, "c"), (1200, "d")].map(|(second, name)| (second, Deed::Create(name)));
    let mut world = with(Habits { joins: None, ..Habits::default() }, deeds.to_vec());
    world.deeds.push((1300, Deed::Annotate(RESET, "true")));
    world.run(1250);
    assert_eq!(launches(&world), 3, "{}", world.diary());
    let (status, reason, message) = world.condition("d", nodeclaim::LAUNCHED);
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "LaunchesStopped"));
    assert!(message.contains("the last 3 launches failed with RegistrationTimeout"), "{message}");
    let class = world.api.class.as_ref().unwrap();
    assert_eq!((class.conditions[0].type_.as_str(), class.conditions[0].status.as_str()), ("LaunchesSucceed", "False"));
    assert_eq!(world.events(events::LAUNCHES_STOPPED).len(), 1);
    world.run(1310);
    assert_eq!(launches(&world), 4, "resumed");
    let class = world.api.class.as_ref().unwrap();
    assert_eq!(class.conditions[0].status, "True");
    assert!(!class.meta.annotations.as_ref().unwrap().contains_key(annotations::RESET_BREAKER));
}

/// Whoever mends what is outside of the class (a registry, an endpoint) has not to tell anybody.
#[test]
fn one_launch_is_tried_after_a_growing_while() {
    // Claims that nobody launches end after five minutes, as in a cluster whose pods wait on.
    let deeds = [(0, "a"), (10, "b"), (20, "c"), (1400, "d"), (2000, "e"), (4300, "f"), (4800, "g"), (8200, "h")];
    let mut world =
        with(Habits { joins: None, ..Habits::default() }, deeds.map(|(at, name)| (at, Deed::Create(name))).to_vec());
    world.run(1690);
    let failures = |world: &World| {
        let class = world.api.class.as_ref().unwrap();
        let text = class.meta.annotations.as_ref().and_then(|all| all.get(annotations::LAUNCH_FAILURES)).cloned();
        let value: Value = serde_json::from_str(&text.unwrap()).unwrap();
        (value["trials"].as_u64().unwrap(), value["at"].as_str().unwrap().parse::<Timestamp>().unwrap().as_second())
    };
    let (trials, closed_at) = failures(&world);
    assert_eq!((trials, launches(&world)), (0, 3));
    assert!((900..1000).contains(&closed_at), "{closed_at}");
    world.run(1750);
    assert_eq!(launches(&world), 3, "it is not time: {}", world.diary());
    // `e` is the trial: it is launched a quarter of an hour after the last failure, and fails a quarter of an hour later.
    world.run(4300);
    assert_eq!(launches(&world), 4, "{}", world.diary());
    let (trials, failed_at) = failures(&world);
    assert!(trials == 1 && (2900..3000).contains(&failed_at), "{trials} {failed_at}");
    // Half an hour after that comes the next, and then an hour.
    world.run(4750);
    assert_eq!(launches(&world), 4, "{}", world.diary());
    world.run(8000);
    assert_eq!(launches(&world), 5, "{}", world.diary());
    let (trials, failed_at) = failures(&world);
    assert!(trials == 2 && (5600..5800).contains(&failed_at), "{trials} {failed_at}");
    world.run(8400);
    assert_eq!(launches(&world), 5, "{}", world.diary());
}

#[test]
fn a_change_of_the_class_closes_the_breaker() {
    let deeds = [(0, "a"), (0, "b"), (0, "c")].map(|(second, name)| (second, Deed::Create(name)));
    let mut world = with(Habits { joins: None, ..Habits::default() }, deeds.to_vec());
    world.deeds.extend([(1200, Deed::ChangeClass("2")), (1201, Deed::Create("d"))]);
    world.run(1202);
    assert_eq!(launches(&world), 4, "{}", world.diary());
}

#[test]
fn a_missing_permission_is_named_and_stops_launches() {
    let deeds = [(0, "a"), (0, "b"), (0, "c")].map(|(second, name)| (second, Deed::Create(name)));
    let mut world = with(Habits::default(), deeds.to_vec());
    for _ in 0..3 {
        let error = CloudError::Unauthorized { action: "ec2:RunInstances".to_owned(), message: "denied".to_owned() };
        world.cloud.faults.push(Operation::Launch, Fault::Refuse(error));
    }
    world.run(100);
    assert_eq!(launches(&world), 3, "{}", world.diary());
    assert_eq!(world.condition("c", nodeclaim::LAUNCHED).1, "LaunchesStopped");
    assert_eq!(world.events(events::LAUNCH_FAILED)[0], "not authorized to perform ec2:RunInstances: denied");
}

#[test]
fn throttling_is_waited_for_with_the_same_token() {
    let mut world = with(Habits::default(), vec![(0, Deed::Create("x"))]);
    for _ in 0..4 {
        let error = CloudError::Throttled { operation: "CreateFleet".to_owned() };
        world.cloud.faults.push(Operation::Launch, Fault::Refuse(error));
    }
    world.run(300);
    let calls: Vec<(i64, String)> = world
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
    let habits = Habits { budget: Some(900), ..Habits::default() };
    let mut world = with(habits, vec![(0, Deed::Create("x")), (600, Deed::Delete("x"))]);
    world.run(800);
    assert_eq!(
        world.condition("x", nodeclaim::DRAINED).2,
        "Draining: `shop/web`: the disruption budget web needs 3 healthy pods and has 3 currently"
    );
    assert_eq!(world.events(events::FAILED_DRAINING).len(), 1);
    let evictions = world.edge.evicted().len();
    assert!(evictions < 40, "{evictions} evictions in 200 s");
    world.run(3600);
    assert!(world.api.claims.is_empty() && world.alive().is_empty(), "{}", world.diary());
}

#[test]
fn what_keeps_its_node_is_ended_when_the_grace_period_is_over() {
    let habits = Habits { budget: Some(1_000_000), has_hold: true, volume: None, ..Habits::default() };
    let mut world = with(habits, vec![(0, Deed::Create("x")), (600, Deed::Delete("x"))]);
    world.grace = Some(120);
    world.run(685);
    assert_eq!(world.api.pods.len(), 3, "30 s before the end nobody has been ended yet");
    world.run(3600);
    assert!(world.api.claims.is_empty() && world.alive().is_empty(), "{}", world.diary());
    assert_eq!(world.events(events::DISRUPTED).len(), 3);
}

#[test]
fn pods_leave_in_tiers() {
    let mut world = with(Habits::default(), vec![(0, Deed::Create("x")), (600, Deed::Delete("x"))]);
    world.run(3600);
    assert_eq!(world.edge.evicted(), ["web", "dns", "proxy"]);
}

#[test]
fn a_pod_that_its_kubelet_does_not_end_is_left_behind_after_a_minute() {
    let habits = Habits { has_stuck_pod: true, ..Habits::default() };
    let mut world = with(habits, vec![(0, Deed::Create("x")), (600, Deed::Delete("x"))]);
    world.run(3600);
    assert!(world.api.claims.is_empty() && world.alive().is_empty(), "{}", world.diary());
}

#[test]
fn a_claim_that_nobody_replaces_goes_an_hour_after_its_time() {
    let mut world = with(Habits::default(), vec![(0, Deed::Create("x"))]);
    world.startup_wait = muster_api::Lifetime::After(std::time::Duration::from_secs(1800));
    world.run(5399);
    assert_eq!(world.alive().len(), 1);
    world.run(7200);
    assert!(world.api.claims.is_empty() && world.alive().is_empty(), "{}", world.diary());
}
