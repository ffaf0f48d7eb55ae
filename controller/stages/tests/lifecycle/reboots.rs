//! Nodes are rebooted, and the controller stops before and after every single write: each comes back as if it had not.

use muster_api::{annotations, events, labels, taints};
use muster_cloud::CloudError;
use muster_cloud::memory::{Fault, Operation};

use super::edge::Blow;
use super::rehearsal::Rehearsal;
use super::world::{Deed, Habits, World};

/// When everything has to be over, in seconds.
const END: u64 = 3000;
/// When the reboot is asked for.
const ASKED: u64 = 300;

fn rehearse(habits: Habits, grace: Option<u64>, faults: &[Fault]) -> Rehearsal {
    let mut world = World::new();
    world.habits = habits;
    for fault in faults {
        world.cloud.faults.push(Operation::Reboot, fault.clone());
    }
    world.deeds = vec![(0, Deed::Create("x")), (ASKED, Deed::Reboot("x", grace))];
    Rehearsal::of(world, END)
}

/// Checks that the node is back, on the same instance, and that no trace of the reboot is left.
fn is_back(world: &World, what: &str) {
    let (status, reason, _) = world.condition("x", "Rebooting");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RebootSucceeded"), "{what}\n{}", world.diary());
    assert_eq!(world.condition("x", "Initialized").0, "True", "{what}\n{}", world.diary());
    assert_eq!(world.cloud.everything(world.now).len(), 1, "{what}: nothing else was bought");
    let own = world.claim("x").metadata.annotations.clone().unwrap();
    assert!(!own.contains_key(annotations::REBOOT_PRE_BOOT_ID), "{what}: {own:?}");
    assert!(!own.contains_key(annotations::REBOOT_TERMINATION_GRACE_PERIOD), "{what}: {own:?}");
    assert_eq!(own[annotations::REBOOTS].split(',').count(), 1, "{what}: one reboot: {own:?}");
    let [node] = world.api.nodes.values().collect::<Vec<_>>()[..] else { panic!("{what}\n{}", world.diary()) };
    let all = node.spec.as_ref().unwrap().taints.clone().unwrap_or_default();
    assert!(all.iter().all(|taint| taint.key != taints::REBOOTING), "{what}: {all:?}");
    assert!(node.metadata.labels.as_ref().unwrap().contains_key(labels::INITIALIZED), "{what}");
}

fn reboots(world: &World) -> usize {
    world.cloud.everything(world.now).iter().map(|one| world.cloud.reboots(&one.provider_id).len()).sum()
}

/// Plays a story undisturbed, and with each blow at each of its writes.
fn blow_everywhere(habits: &Habits, grace: Option<u64>, faults: &[Fault], check: impl Fn(&World, &str)) {
    let rehearsal = rehearse(habits.clone(), grace, faults);
    check(&rehearsal.end, "undisturbed");
    for write in 0..rehearsal.end.edge.writes {
        for blow in [Blow::Before, Blow::After, Blow::Meddle] {
            let world = rehearsal.with(write, blow, 0);
            check(&world, &format!("{blow:?} write {write}"));
        }
    }
}

#[test]
fn a_node_is_drained_and_back_wherever_the_controller_stops() {
    blow_everywhere(&Habits::default(), None, &[], |world, what| {
        is_back(world, what);
        assert!(world.edge.evicted().contains(&"web"), "{what}: it was drained");
        // A call whose answer was lost is made again as long as the boot is the same.
        assert!((1..=2).contains(&reboots(world)), "{what}: {}", reboots(world));
    });
    let undisturbed = rehearse(Habits::default(), None, &[]).end;
    assert_eq!(reboots(&undisturbed), 1);
    assert_eq!(undisturbed.events(events::REBOOT_OBSERVED).len(), 1);
}

#[test]
fn a_pod_that_may_not_leave_is_waited_for_no_longer_than_the_grace_period() {
    let habits = Habits { budget: Some(1_000_000), ..Habits::default() };
    let held = rehearse(habits.clone(), None, &[]).end;
    let (_, reason, message) = held.condition("x", "Rebooting");
    assert_eq!(reason, "RebootRequested", "without a grace period it waits: {message}");
    assert!(message.starts_with("rebooting for AcceleratedHardwareReady/XID48; Draining: `shop/web`"), "{message}");
    assert_eq!(reboots(&held), 0);
    blow_everywhere(&habits, Some(60), &[], is_back);
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again() {
    let lost = CloudError::Transient { message: "no answer".to_owned() };
    let world = rehearse(Habits::default(), None, &[Fault::LoseAnswer, Fault::Refuse(lost)]).end;
    is_back(&world, "two answers are lost");
}

/// Checks that the node is gone, and with it its claim.
fn is_gone(world: &World, result: &str) {
    assert!(world.api.claims.is_empty() && world.alive().is_empty(), "{}", world.diary());
    let told = world.events(events::REBOOT_FAILED);
    assert!(!told.is_empty() && told.iter().all(|message| message.starts_with(result)), "{told:?}");
}

#[test]
fn a_node_that_does_not_come_back_goes() {
    blow_everywhere(&Habits { boots: None, ..Habits::default() }, None, &[], |world, _| {
        is_gone(world, "recovery_timeout: ");
    });
}

#[test]
fn a_cloud_that_refuses_for_five_minutes_ends_the_node() {
    let denied = CloudError::Unauthorized { action: "ec2:RebootInstances".to_owned(), message: "denied".to_owned() };
    blow_everywhere(&Habits::default(), None, &vec![Fault::Refuse(denied); 100], |world, _| {
        is_gone(world, "provider_error: not authorized to perform ec2:RebootInstances");
    });
}
