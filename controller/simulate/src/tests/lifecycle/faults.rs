//! Any mixture of faults of the cloud, of nodes that misbehave and of crashes: in the end nothing is left.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_cloud::memory::{Fault, Operation};
use muster_cloud::{CapacityType, CloudError, Refusal, Refused};
use proptest::prelude::*;

use super::life::{Deed, Life, NEVER, Story, offering, only};
use crate::world::Habits;

fn seconds(most: u64) -> impl Strategy<Value = Option<u64>> {
    prop_oneof![4 => (0..most).prop_map(Some), 1 => Just(None)]
}

fn duration(most: u64) -> impl Strategy<Value = Duration> {
    seconds(most).prop_map(|seconds| seconds.map_or(NEVER, Duration::from_secs))
}

/// A story without deeds. That machines never come back from a reboot is a deed.
fn story() -> impl Strategy<Value = Story> {
    let habits = (duration(1000), duration(1200), duration(1200), duration(60));
    let dies = prop_oneof![3 => Just(None), 1 => (0..1500_u64).prop_map(Some)];
    let pods = (seconds(2000), any::<bool>(), any::<bool>());
    (habits, pods, any::<bool>(), dies).prop_map(
        |((join, ready, startup_taint, detach), (budget, has_stuck_pod, has_hold), has_gpu, dies)| Story {
            habits: Habits { join, ready, startup_taint, detach, ..Habits::default() },
            has_gpu,
            budget,
            has_stuck_pod,
            has_hold,
            dies,
            grace: Some(300),
            ..Story::default()
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

/// Two claims, of which one is deleted at any time, with or without its node, and the other one rebooted.
fn deeds() -> impl Strategy<Value = Vec<(u64, Deed)>> {
    (0..4000_u64, 0..4000_u64, any::<bool>(), seconds(2000)).prop_map(|(deleted, rebooted, is_by_node, boots)| {
        let mut deeds = vec![(0, Deed::Create("x")), (1, Deed::Create("y")), (deleted, Deed::Delete("x"))];
        deeds.push((rebooted, Deed::JoinAfter(boots.map_or(NEVER, Duration::from_secs))));
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
        story in story(),
        faults in proptest::collection::vec((operation(), fault()), 0..8),
        disturbances in proptest::collection::btree_map(0..80_u64, any::<bool>(), 0..6),
        exhausted in proptest::collection::vec(0..4_usize, 0..4),
        deeds in deeds(),
    ) {
        let mut life = Life::new(story);
        for (operation, fault) in faults {
            life.world.cloud.faults.push(operation, fault);
        }
        for number in exhausted {
            let (name, bought) = [
                ("a", CapacityType::Spot),
                ("b", CapacityType::Spot),
                ("a", CapacityType::OnDemand),
                ("c", CapacityType::OnDemand),
            ][number];
            life.world.run_out(only(name, bought), NEVER);
        }
        let (kills, conflicts): (BTreeSet<_>, BTreeSet<_>) = disturbances.iter().partition(|(_, is_kill)| **is_kill);
        life.kills = kills.into_iter().map(|(number, _)| *number).collect();
        life.log_mut().conflicts = conflicts.into_iter().map(|(number, _)| *number).collect();
        life.plan(deeds);
        life.run(9000);
        prop_assert!(life.world.api.claims.is_empty(), "{}", life.diary());
        prop_assert!(life.world.api.nodes.is_empty(), "{}", life.diary());
        prop_assert!(life.alive().is_empty(), "{}", life.diary());
        // A claim is never launched twice, whatever is lost.
        prop_assert!(life.launched().len() <= 2, "{}", life.diary());
    }
}

#[test]
fn node_whose_claim_never_heard_of_its_instance_is_taken_away() {
    let at_once =
        Habits { join: Duration::ZERO, ready: Duration::ZERO, startup_taint: Duration::ZERO, ..Habits::default() };
    let mut life = Life::new(Story { habits: at_once, ..Story::default() });
    let lost = CloudError::Transient { message: "no answer".to_owned() };
    life.world.cloud.faults.push(Operation::Launch, Fault::Fail(lost));
    life.world.cloud.faults.push(Operation::Launch, Fault::LoseAnswer);
    // The second launch of `x`, after 1.1 seconds, is not listed yet when it is deleted.
    life.plan([(0, Deed::Create("x")), (2, Deed::Delete("x")), (3, Deed::Create("y")), (500, Deed::Delete("y"))]);
    life.run(1500);
    assert_eq!(life.launched().len(), 2, "{}", life.diary());
    assert!(life.is_over(), "{}", life.diary());
}

#[test]
fn what_was_refused_is_told_by_its_cause() {
    let full = Refused {
        offering: offering("a", CapacityType::Spot),
        refusal: Refusal::Addresses { subnet: "subnet-1".to_owned() },
    };
    let error = CloudError::NoCapacity { refused: vec![full] };
    assert_eq!(error.reason(), "InsufficientFreeAddressesInSubnet");
}
