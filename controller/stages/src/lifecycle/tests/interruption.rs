//! Notices of the cloud: a claim without time left, or without a node, is deleted at once; disruption has the others.

use muster_api::conditions::nodeclaim::INTERRUPTED;

use super::check;
use super::fixture::{Fixture, at};
use crate::lifecycle::conditions::Status;
use crate::step::Write;

/// Words of the events about the claim and its Node.
const OF_CLAIM: &str = "event TerminatingOnInterruption about x: it is removed because its instance is interrupted";
const OF_NODE: &str = "event TerminatingOnInterruption about node-1: it is removed because its instance is interrupted";

fn interrupted(it: &mut Fixture, reason: &str) {
    it.judge(INTERRUPTED, Status::True, reason, "", 90);
}

#[test]
fn a_claim_without_time_or_node_is_deleted_at_once() {
    check(&[
        (
            "An instance that has not registered has no pods to move.",
            |it| {
                it.launched();
                interrupted(it, "SpotInterrupted");
            },
            100,
            &[OF_CLAIM, "delete claim x: spot_interrupted"],
        ),
        (
            "An instance that ends is not waited for.",
            |it| {
                it.initialized();
                interrupted(it, "InstanceTerminating");
            },
            100,
            &[OF_CLAIM, OF_NODE, "delete claim x: instance_terminated"],
        ),
        (
            "One that fails its check is not drained.",
            |it| {
                it.initialized();
                interrupted(it, "InstanceStatus");
            },
            100,
            &[
                "claim x: karpenter.sh/nodeclaim-termination-timestamp=1970-01-01T00:01:40Z",
                OF_CLAIM,
                OF_NODE,
                "delete claim x: instance_status",
            ],
        ),
    ]);
}

#[test]
fn a_node_with_time_left_is_for_disruption() {
    let reasons = [
        "SpotInterrupted",
        "CapacityReservationInstanceInterrupted",
        "CapacityBlockEnding",
        "ScheduledChange",
        "EventStatus",
    ];
    for reason in reasons {
        let mut fixture = Fixture::new();
        fixture.initialized();
        interrupted(&mut fixture, reason);
        let writes = fixture.decide(at(100)).writes;
        assert!(!writes.iter().any(|write| matches!(write, Write::DeleteClaim { .. })), "{reason}: {writes:?}");
    }
}
