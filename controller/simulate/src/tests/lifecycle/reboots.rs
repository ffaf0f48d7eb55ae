//! Nodes are rebooted, and the controller is killed before and after every single write: each comes back as if it had
//! not been.

use std::time::Duration;

use muster_api::{annotations, events, labels, taints};
use muster_cloud::CloudError;
use muster_cloud::memory::{Fault, Operation};

use super::invariants::taint_keys;
use super::life::{Deed, Life, NEVER, Story};
use super::rehearsal::{Disturbance, Rehearsal};

/// Time at which everything has to be over, in seconds: usually, and where the node does not come back.
const END: (u64, u64) = (900, 3000);
/// Time at which the reboot is requested.
const ASKED: u64 = 300;

/// Returns a life whose node is to be rebooted, drained for at most `grace` seconds.
fn life(story: Story, grace: Option<u64>, faults: &[Fault]) -> Life {
    let mut life = Life::new(story);
    for fault in faults {
        life.world.cloud.faults.push(Operation::Reboot, fault.clone());
    }
    life.plan([(0, Deed::Create("x")), (ASKED, Deed::Reboot("x", grace))]);
    life
}

/// Returns the life at its end, undisturbed.
fn undisturbed(mut life: Life) -> Life {
    life.run(END.1);
    life
}

/// Checks that the node is back, on the same instance, and that no trace of the reboot is left.
fn is_back(life: &Life, what: &str) {
    let (status, reason, _) = life.condition("x", "Rebooting");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RebootSucceeded"), "{what}\n{}", life.diary());
    assert_eq!(life.condition("x", "Initialized").0, "True", "{what}\n{}", life.diary());
    assert_eq!(life.launched().len(), 1, "{what}: nothing else was bought");
    let own = life.claim("x").metadata.annotations.clone().unwrap();
    assert!(!own.contains_key(annotations::REBOOT_PRE_BOOT_ID), "{what}: {own:?}");
    assert!(!own.contains_key(annotations::REBOOT_TERMINATION_GRACE_PERIOD), "{what}: {own:?}");
    assert_eq!(own[annotations::REBOOTS].split(',').count(), 1, "{what}: one reboot: {own:?}");
    let [node] = life.world.api.nodes.values().collect::<Vec<_>>()[..] else { panic!("{what}\n{}", life.diary()) };
    assert!(taint_keys(node).all(|key| key != taints::REBOOTING), "{what}: {node:?}");
    assert!(node.metadata.labels.as_ref().unwrap().contains_key(labels::INITIALIZED), "{what}");
}

fn reboots(life: &Life) -> usize {
    life.launched().iter().map(|one| life.world.cloud.reboots(&one.provider_id).len()).sum()
}

/// Checks the life undisturbed, and disturbed at each of its writes.
fn disturb_everywhere(life: &Life, until: u64, check: impl Fn(&Life, &str)) {
    let rehearsal = Rehearsal::of(life, until);
    check(&rehearsal.end, "undisturbed");
    for disturbance in [Disturbance::Kill { downtime: Duration::ZERO }, Disturbance::Conflict] {
        for (what, life) in rehearsal.disturbed(disturbance) {
            check(&life, &what);
        }
    }
}

#[test]
fn a_node_is_drained_and_back_wherever_the_controller_stops() {
    disturb_everywhere(&life(Story::default(), None, &[]), END.0, |life, what| {
        is_back(life, what);
        assert!(life.evicted().contains(&"web-x"), "{what}: it was drained");
        // A call whose answer was lost is made again as long as the boot is the same.
        assert!((1..=2).contains(&reboots(life)), "{what}: {}", reboots(life));
    });
    let undisturbed = undisturbed(life(Story::default(), None, &[]));
    assert_eq!(reboots(&undisturbed), 1);
    assert_eq!(undisturbed.events(events::REBOOT_OBSERVED).len(), 1);
}

#[test]
fn a_pod_that_may_not_leave_is_waited_for_no_longer_than_the_grace_period() {
    let story = Story { budget: Some(1_000_000), ..Story::default() };
    let held = undisturbed(life(story.clone(), None, &[]));
    let (_, reason, message) = held.condition("x", "Rebooting");
    assert_eq!(reason, "RebootRequested", "without a grace period it waits: {message}");
    assert!(message.starts_with("rebooting for AcceleratedHardwareReady/XID48; Draining: `shop/web-x`"), "{message}");
    assert_eq!(reboots(&held), 0);
    disturb_everywhere(&life(story, Some(60), &[]), END.0, is_back);
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again() {
    let lost = CloudError::Transient { message: "no answer".to_owned() };
    let life = undisturbed(life(Story::default(), None, &[Fault::LoseAnswer, Fault::Refuse(lost)]));
    is_back(&life, "two answers are lost");
}

/// Checks that the node is gone, and with it its claim.
fn is_gone(life: &Life, result: &str) {
    assert!(life.is_over(), "{}", life.diary());
    let told = life.events(events::REBOOT_FAILED);
    assert!(!told.is_empty() && told.iter().all(|message| message.starts_with(result)), "{told:?}");
}

#[test]
fn a_node_that_does_not_come_back_goes() {
    let life = life(Story::of([(ASKED - 1, Deed::JoinAfter(NEVER))]), None, &[]);
    disturb_everywhere(&life, END.1, |life, _| is_gone(life, "recovery_timeout: "));
}

#[test]
fn a_cloud_that_refuses_for_five_minutes_ends_the_node() {
    let denied = CloudError::Unauthorized { action: "ec2:RebootInstances".to_owned(), message: "denied".to_owned() };
    disturb_everywhere(&life(Story::default(), None, &vec![Fault::Refuse(denied); 100]), END.1, |life, _| {
        is_gone(life, "provider_error: not authorized to perform ec2:RebootInstances");
    });
}
