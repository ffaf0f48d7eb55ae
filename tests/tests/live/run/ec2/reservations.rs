//! Capacity reservations from their first launch to their end: open and targeted ones, capacity blocks, interruptible ones; used
//! up, used by others, ended, taken back. What the nodes say is what EC2 bills.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_ec2::types::{CapacityReservationInstancePlatform, InstanceMatchCriteria};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::DynamicObject;
use muster_controller::ec2;
use muster_stages::disruption::Timing;
use muster_tests::ec2::Record;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::super::disruption::is_up;
use super::controller::{Controller, listening};
use super::drift::{no_pod_was_unplaced, pool_with};
use super::ground::{CLUSTER, CONTROLLER, Ground, SOON, condition, launches, requirements};
use super::queue::Queue;

const ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
const TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
const INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// A reservation of so many m5.large.
async fn reserve(ground: &Ground, count: i32, criteria: InstanceMatchCriteria) -> String {
    let create = ground.client.create_capacity_reservation().instance_type("m5.large").instance_count(count);
    let create = create.instance_platform(CapacityReservationInstancePlatform::LinuxUnix);
    let made = create.availability_zone("us-east-1a").instance_match_criteria(criteria).send().await.unwrap();
    made.capacity_reservation().unwrap().capacity_reservation_id().unwrap().to_owned()
}

/// A pool that takes reserved capacity and else buys on demand, and a class that selects these reservations. Nothing is replaced
/// but what the cloud takes.
async fn furnish(ground: &Ground, reservations: Value) {
    let either = json!({
        "requirements": requirements(&["m5.large"], &["us-east-1a", "us-east-1b"], &["reserved", "on-demand"]),
    });
    let class = ground.class(json!({ "capacityReservationSelectorTerms": reservations }));
    ground.apply(&[class, pool_with(&either, 0)]).await;
    ground.pool_is_ready().await;
}

/// So many pods, each on a node of its own; the Nodes, once they are up.
async fn up(ground: &Ground, count: usize) -> Vec<Node> {
    ground.deploy(count, json!({})).await;
    ground.running(count, SOON * 2).await;
    let are_up = |nodes: &[Node]| nodes.len() == count && nodes.iter().all(is_up);
    let up = wait::until_all(ground.nodes(), Selection::all(), SOON, "all nodes are up", are_up).await;
    up.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()))
}

/// Waits until so many nodes are up, none in a reservation.
async fn on_demand(ground: &Ground, count: usize) {
    let is_on_demand = |node: &Node| is_up(node) && node.labels()[CAPACITY_TYPE] == "on-demand";
    let moved =
        wait::until_all(ground.nodes(), Selection::all(), SOON * 2, "all nodes are on demand", |nodes: &[Node]| {
            nodes.len() == count && nodes.iter().all(is_on_demand)
        });
    moved.await.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    ground.running(count, SOON).await;
}

/// The number of nodes by capacity type. Each says of its reservation what EC2 says.
async fn billed(ground: &Ground) -> BTreeMap<String, usize> {
    let mut billed = BTreeMap::new();
    for node in ground.nodes().list(&ListParams::default()).await.unwrap().items {
        let id = node.spec.as_ref().unwrap().provider_id.clone().unwrap();
        let id = id.rsplit('/').next().unwrap();
        let described = ground.client.describe_instances().instance_ids(id).send().await.unwrap();
        let reservation = described.reservations()[0].instances()[0].capacity_reservation_id().map(str::to_owned);
        assert_eq!(node.labels().get(ID).cloned(), reservation, "{id}");
        let capacity_type = node.labels()[CAPACITY_TYPE].clone();
        assert_eq!(capacity_type == "reserved", reservation.is_some(), "{id}");
        *billed.entry(capacity_type).or_default() += 1;
    }
    billed
}

fn of(reserved: usize, on_demand: usize) -> BTreeMap<String, usize> {
    let all = [("on-demand", on_demand), ("reserved", reserved)];
    all.into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| (kind.to_owned(), count)).collect()
}

/// A controller that decides on nodes every second, and asks for reservations once an hour.
async fn forgetful_controller(ground: &Ground) -> Controller {
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
    let provider = ec2::Options { look_up_every: hour, tries_launches: false, ..ec2::Options::of(CLUSTER) };
    let timing = Timing { every: second, validation: second * 2, ..Timing::default() };
    ground.controller_as(provider, |options| muster_controller::run::Options { timing, ..options }).await
}

fn minutes_from_now(minutes: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_mins(minutes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_is_full_or_filled_by_others_is_passed_over_at_once() {
    let ground = Ground::bare("run ec2 suite").await;
    let _controller = forgetful_controller(&ground).await;
    let id = reserve(&ground, 3, InstanceMatchCriteria::Open).await;
    furnish(&ground, json!([{"instanceMatchCriteria": "open"}])).await;
    // EC2 has been asked once, and each launch counts from then on.
    up(&ground, 2).await;
    assert_eq!(billed(&ground).await, of(2, 0));
    assert_eq!(launches(&ground), 2, "{}", ground.ec2.calls().by(CONTROLLER).lines());

    // Others take the last one, of which the controller knows nothing.
    ground.ec2.reservations().fill(&id, 1);
    up(&ground, 4).await;
    assert_eq!(billed(&ground).await, of(2, 2));
    // One was refused, the rest was not even tried.
    assert_eq!(launches(&ground), 5, "{}", ground.ec2.calls().by(CONTROLLER).lines());

    // They give it back: what was refused is asked for again, long before the next lookup.
    ground.ec2.reservations().fill(&id, 0);
    let given_back = Timestamp::now();
    // Every five seconds as long as there are none, and the refusal counts for ten.
    let asked =
        |calls: &Record| calls.clone().by(CONTROLLER).of("DescribeCapacityReservations").since(given_back).len();
    ground.ec2.wait_for_calls(SOON, |calls| asked(calls) >= 1).await.unwrap();
    wait::until_some("the refusal is over", SOON, || async {
        Ok((Timestamp::now() >= given_back + SignedDuration::from_secs(10)).then_some(()))
    })
    .await
    .unwrap();
    up(&ground, 5).await;
    assert_eq!(billed(&ground).await, of(3, 2), "{}", ground.ec2.calls().by(CONTROLLER).lines());
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_billed_as_reserved_does_not_say_so() {
    let ground = Ground::bare("run ec2 suite").await;
    let id = reserve(&ground, 2, InstanceMatchCriteria::Targeted).await;
    let controller = ground.quick_controller().await;
    furnish(&ground, json!([{ "id": id }])).await;
    let nodes = up(&ground, 2).await;
    assert!(nodes.iter().all(|node| node.labels()[TYPE] == "default" && node.labels()[INTERRUPTIBLE] == "false"));
    assert_eq!(billed(&ground).await, of(2, 0));

    // It ends while no controller runs, and nodes of an ended reservation run on.
    drop(controller);
    ground.launched_ago(5).await;
    ground.ec2.reservations().end_at(&id, minutes_from_now(-1));
    let _controller = ground.quick_controller().await;
    on_demand(&ground, 2).await;
    assert_eq!(billed(&ground).await, of(0, 2));
    ground.event("NodeClaim", "CapacityReservationEnded", &id).await;
    ground.event("Node", "CapacityReservationEnded", &id).await;
    let before: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    let after = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    assert!(after.iter().all(|node| before.contains(&node.name_any())), "the nodes are the same");
    for claim in ground.claims().list(&ListParams::default()).await.unwrap().items {
        assert_eq!(claim.labels()[CAPACITY_TYPE], "on-demand");
        assert!([ID, TYPE, INTERRUPTIBLE].iter().all(|key| !claim.labels().contains_key(*key)), "{claim:?}");
    }
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capacity_block_is_empty_before_ec2_takes_its_instances() {
    let ground = Ground::bare("run ec2 suite").await;
    let reservations = ground.ec2.reservations();
    let id = reservations.buy_block("m5.large", "us-east-1a", 3, minutes_from_now(90));
    let _controller = ground.quick_controller().await;
    furnish(&ground, json!([{ "id": id }])).await;
    let nodes = up(&ground, 2).await;
    assert!(nodes.iter().all(|node| node.labels()[TYPE] == "capacity-block"));
    assert_eq!(billed(&ground).await, of(2, 0));

    // Nothing new is launched into it an hour before its end, and what is there stays.
    reservations.end_at(&id, minutes_from_now(58));
    let says_so = |class: &DynamicObject| class.data["status"]["capacityReservations"][0]["state"] == "expiring";
    wait::until(ground.classes(), "default", SOON, "the block is closed", says_so).await.unwrap();
    up(&ground, 3).await;
    assert_eq!(billed(&ground).await, of(2, 1));

    // Fifty minutes before its end its nodes leave, which takes less than ten minutes.
    let end = minutes_from_now(49);
    reservations.end_at(&id, end);
    let interrupted = ground.of_claim("Interrupted", "True", "CapacityBlockEnding").await;
    assert!(interrupted.contains("capacity block ends"), "{interrupted}");
    on_demand(&ground, 3).await;
    wait::until_some("the instances of the block have ended", SOON, || async {
        Ok(ground.ec2.running().iter().all(|one| one.reservation.is_none()).then_some(()))
    })
    .await
    .unwrap();
    assert!(Timestamp::now() < end - SignedDuration::from_mins(40), "ten minutes before EC2 takes them");
    assert_eq!(reservations.terminate_left(&id).await.unwrap(), [""; 0], "nothing is left to be taken");
    ground.event("NodeClaim", "CapacityBlockEnding", "").await;
    no_pod_was_unplaced(&ground).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_no_budget_lets_go_leaves_its_block_in_time() {
    let ground = Ground::bare("run ec2 suite").await;
    let reservations = ground.ec2.reservations();
    let id = reservations.buy_block("m5.large", "us-east-1a", 1, minutes_from_now(90));
    let _controller = ground.quick_controller().await;
    furnish(&ground, json!([{ "id": id }])).await;
    up(&ground, 1).await;
    assert_eq!(billed(&ground).await, of(1, 0));
    ground
        .apply(&[json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        })])
        .await;
    // As if no controller had run when it was time: half a minute is left until instances have to shut down.
    let end = Timestamp::now() + SignedDuration::from_secs(31 * 60 + 30);
    reservations.end_at(&id, end);
    on_demand(&ground, 1).await;
    ground.event("NodeClaim", "TerminationGracePeriodExpiring", "").await;
    wait::until_some("the instance of the block has ended", SOON, || async {
        Ok(ground.ec2.running().iter().all(|one| one.reservation.is_none()).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(reservations.terminate_left(&id).await.unwrap(), [""; 0], "nothing is left to be taken");
    ground.cluster().kubectl(&["delete", "pdb", "web"]).await.unwrap();
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_the_owner_takes_back_are_replaced_elsewhere() {
    let ground = Ground::bare("run ec2 suite").await;
    Queue::deploy(&ground).await;
    let id = reserve(&ground, 4, InstanceMatchCriteria::Targeted).await;
    ground.ec2.reservations().make_interruptible(&id);
    let provider = ec2::Options { look_up_every: Duration::from_secs(1), ..listening(CLUSTER) };
    let _controller = ground.controller_as(provider, |options| options).await;
    furnish(&ground, json!([{ "id": id }])).await;
    let nodes = up(&ground, 2).await;
    assert!(nodes.iter().all(|node| node.labels()[INTERRUPTIBLE] == "true"));
    assert_eq!(billed(&ground).await, of(2, 0));

    ground.ec2.reservations().take_back(&id).await.unwrap();
    ground.event("NodeClaim", "CapacityReservationInstanceInterrupted", "").await;
    on_demand(&ground, 2).await;
    assert_eq!(billed(&ground).await, of(0, 2), "nothing is launched into it any more");
    wait::until_some("the instances of the reservation have ended", SOON, || async {
        Ok(ground.ec2.running().iter().all(|one| one.reservation.is_none()).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(ground.ec2.reservations().terminate_left(&id).await.unwrap(), [""; 0], "before EC2 does that");
    no_pod_was_unplaced(&ground).await;
    // Claims of ended instances leave a moment later.
    let are_new = |claims: &[DynamicObject]| {
        claims.len() == 2 && claims.iter().all(|claim| condition(claim, "Interrupted").is_none())
    };
    wait::until_all(ground.claims(), Selection::all(), SOON, "claims that nothing interrupts", are_new).await.unwrap();
    ground.clear().await;
}
