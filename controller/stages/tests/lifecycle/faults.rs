//! Any mixture of faults of the cloud, of nodes that misbehave and of crashes: in the end nothing is left.

use muster_cloud::memory::{Fault, Operation};
use muster_cloud::{CloudError, Refusal, Refused};
use proptest::prelude::*;

use super::edge::Blow;
use super::world::{Deed, Habits, World};

fn seconds(most: u64) -> impl Strategy<Value = Option<u64>> {
    prop_oneof![4 => (0..most).prop_map(Some), 1 => Just(None)]
}

fn habits() -> impl Strategy<Value = Habits> {
    (
        (seconds(1000), seconds(1200), seconds(1200), any::<bool>()),
        (seconds(2000), any::<bool>(), seconds(60), prop_oneof![3 => Just(None), 1 => (0..1500_u64).prop_map(Some)]),
        (any::<bool>(), seconds(2000)),
    )
        .prop_map(
            |((joins, ready, startup, has_resource), (budget, has_stuck_pod, volume, dies), (has_hold, boots))| {
                Habits { joins, ready, startup, has_resource, budget, has_stuck_pod, volume, dies, has_hold, boots }
            },
        )
}

fn fault() -> impl Strategy<Value = Fault> {
    let throttled = CloudError::Throttled { operation: "it".to_owned() };
    let denied = CloudError::Unauthorized { action: "ec2:It".to_owned(), message: "denied".to_owned() };
    let lost = CloudError::Transient { message: "no answer".to_owned() };
    let bad = CloudError::BadClass { reason: "InvalidAMIID".to_owned(), message: "no such image".to_owned() };
    let errors = [throttled, denied, lost, bad, CloudError::TemplateGone];
    prop_oneof![
        2 => Just(Fault::LoseAnswer),
        2 => proptest::sample::select(errors.to_vec()).prop_map(Fault::Refuse),
        1 => proptest::sample::select(errors.to_vec()).prop_map(Fault::Fail),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    proptest::sample::select(vec![
        Operation::Launch,
        Operation::Launch,
        Operation::Get,
        Operation::List,
        Operation::Terminate,
        Operation::Console,
        Operation::Tag,
        Operation::Reboot,
    ])
}

fn blow() -> impl Strategy<Value = Blow> {
    proptest::sample::select(vec![Blow::Before, Blow::After, Blow::Meddle])
}

/// Two claims, of which one is deleted at any time, with or without its node, and the other one rebooted.
fn deeds() -> impl Strategy<Value = Vec<(u64, Deed)>> {
    (0..4000_u64, 0..4000_u64, any::<bool>()).prop_map(|(deleted, rebooted, is_by_node)| {
        let mut deeds = vec![(0, Deed::Create("x")), (1, Deed::Create("y")), (deleted, Deed::Delete("x"))];
        deeds.push((rebooted, Deed::Reboot("y", Some(60))));
        if is_by_node {
            deeds.push((deleted, Deed::DeleteNodes));
        }
        deeds.push((4500, Deed::Delete("y")));
        deeds
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn in_the_end_nothing_is_left(
        habits in habits(),
        faults in proptest::collection::vec((operation(), fault()), 0..8),
        blows in proptest::collection::btree_map(0..80_usize, blow(), 0..6),
        exhausted in proptest::collection::vec(0..4_usize, 0..4),
        deeds in deeds(),
    ) {
        let mut world = World::new();
        world.habits = habits;
        world.grace = Some(300);
        for (operation, fault) in faults {
            world.cloud.faults.push(operation, fault);
        }
        for number in exhausted {
            let offering = world.offered[number].offering.clone();
            world.cloud.capacity.insert(offering, 0);
        }
        world.edge.blows = blows;
        world.deeds = deeds;
        world.run(9000);
        prop_assert!(world.api.claims.is_empty(), "{}", world.diary());
        prop_assert!(world.api.nodes.is_empty(), "{}", world.diary());
        prop_assert!(world.alive().is_empty(), "{}", world.diary());
        // A claim is never launched twice, whatever is lost.
        prop_assert!(world.cloud.everything(world.now).len() <= 2, "{}", world.diary());
    }
}

#[test]
fn node_whose_claim_never_heard_of_its_instance_is_taken_away() {
    let mut world = World::new();
    world.habits = Habits { joins: Some(0), ready: Some(0), startup: Some(0), ..Habits::default() };
    let lost = CloudError::Transient { message: "no answer".to_owned() };
    world.cloud.faults.push(Operation::Launch, Fault::Fail(lost));
    world.cloud.faults.push(Operation::Launch, Fault::LoseAnswer);
    // What happens to `y` has the controller look at `x` before it is deleted.
    world.deeds =
        vec![(0, Deed::Create("x")), (1, Deed::Create("y")), (1, Deed::Delete("x")), (500, Deed::Delete("y"))];
    world.run(1500);
    assert_eq!(world.cloud.everything(world.now).len(), 2, "{}", world.diary());
    assert!(world.api.claims.is_empty() && world.api.nodes.is_empty(), "{}", world.diary());
}

#[test]
fn what_was_refused_is_told_by_its_cause() {
    let full = Refused {
        offering: super::world::offering("a", muster_cloud::CapacityType::Spot),
        refusal: Refusal::Addresses { subnet: "subnet-1".to_owned() },
    };
    let error = CloudError::NoCapacity { refused: vec![full] };
    assert_eq!(error.reason(), "InsufficientFreeAddressesInSubnet");
}
