//! Interruption notices of the cloud: recorded in a condition of the claim, on which disruption acts while there is
//! time, and this stage where there is none.
//!
//! ```text
//!   agent, queue, status ──► heed ──► condition Interrupted ─┬─ Planned, Imminent ──► disruption: replacement first
//!                                                            └─ Immediate, or no Node yet ──► interrupt: deleted
//! ```

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations, events};
use muster_cloud::{NoticeKind, Urgency};

use super::conditions::{Status, condition, is_true, set, whole_seconds};
use super::seen::Seen;
use crate::node::Node;
use crate::step::{DeletionCause, Event, EventType, MetaChange, Step, Subject, Write};

/// Message of the event about a claim or Node that is deleted because of a notice.
pub(crate) const TERMINATING: &str = "it is removed because its instance is interrupted";

/// Reason of the condition, by kind of the notice.
const REASONS: [(NoticeKind, &str); 9] = [
    (NoticeKind::SpotInterrupted, events::SPOT_INTERRUPTED),
    (NoticeKind::ScheduledChange, "ScheduledChange"),
    (NoticeKind::InstanceStopped, events::INSTANCE_STOPPING),
    (NoticeKind::InstanceTerminated, events::INSTANCE_TERMINATING),
    (NoticeKind::CapacityReservationInterrupted, events::CAPACITY_RESERVATION_INSTANCE_INTERRUPTED),
    (NoticeKind::CapacityBlockEnding, events::CAPACITY_BLOCK_ENDING),
    (NoticeKind::InstanceStatus, "InstanceStatus"),
    (NoticeKind::SystemStatus, "SystemStatus"),
    (NoticeKind::EventStatus, "EventStatus"),
];

/// Returns the reason of the event about a notice.
const fn event_reason(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::SpotInterrupted => events::SPOT_INTERRUPTED,
        NoticeKind::RebalanceRecommendation => events::SPOT_REBALANCE_RECOMMENDATION,
        NoticeKind::InstanceStopped => events::INSTANCE_STOPPING,
        NoticeKind::InstanceTerminated => events::INSTANCE_TERMINATING,
        NoticeKind::CapacityReservationInterrupted => events::CAPACITY_RESERVATION_INSTANCE_INTERRUPTED,
        NoticeKind::CapacityBlockEnding => events::CAPACITY_BLOCK_ENDING,
        NoticeKind::ScheduledChange
        | NoticeKind::InstanceStatus
        | NoticeKind::SystemStatus
        | NoticeKind::EventStatus => events::INSTANCE_UNHEALTHY,
    }
}

const fn message(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::SpotInterrupted => "the cloud reclaims the spot instance two minutes after its notice",
        NoticeKind::RebalanceRecommendation => "the spot instance is at elevated risk of interruption",
        NoticeKind::ScheduledChange => "the cloud has scheduled maintenance of the instance",
        NoticeKind::InstanceStopped => "the instance is stopping or has stopped",
        NoticeKind::InstanceTerminated => "the instance is terminating or has terminated",
        NoticeKind::CapacityReservationInterrupted => {
            "the owner of the capacity reservation reclaims the instance two minutes after the notice"
        }
        NoticeKind::CapacityBlockEnding => {
            "the capacity block ends in less than an hour, and EC2 terminates its instances before"
        }
        NoticeKind::InstanceStatus => "the instance fails its status check",
        NoticeKind::SystemStatus => "the machine of the instance fails its status check",
        NoticeKind::EventStatus => "the instance has a scheduled event, such as a reboot or retirement",
    }
}

/// Returns the kind of the notice that is recorded on the claim. A reason that this release does not know counts as the
/// notice of a spot interruption.
#[must_use]
pub fn recorded(claim: &NodeClaim) -> Option<NoticeKind> {
    let told = condition(claim, nodeclaim::INTERRUPTED).filter(|one| one.status == Status::True.name())?;
    let kind = REASONS.iter().find(|(_, reason)| *reason == told.reason).map(|(kind, _)| *kind);
    Some(kind.unwrap_or(NoticeKind::SpotInterrupted))
}

/// Records on `claim` a notice given at `given_at`, with events about the claim and its Node. A notice that is not more
/// urgent than the recorded one is ignored. About a claim that is being deleted, only the end of its instance is news.
#[must_use]
pub fn heed(claim: &NodeClaim, node: Option<&Node>, kind: NoticeKind, given_at: Timestamp) -> Step {
    let is_known = recorded(claim).is_some_and(|known| known.urgency() >= kind.urgency());
    let is_news = claim.metadata.deletion_timestamp.is_none() || cuts_drain(claim, kind);
    if is_known || !is_news {
        return Step::rest();
    }
    let name = claim.metadata.name.clone().unwrap_or_default();
    let of_events = if kind.urgency() == Urgency::None { EventType::Normal } else { EventType::Warning };
    let event = |about| Event { about, kind: of_events, reason: event_reason(kind), message: message(kind).to_owned() };
    let mut writes: Vec<Write> = subjects(claim, node).map(|about| Write::Event(event(about))).collect();
    if let Some((_, reason)) = REASONS.iter().find(|(one, _)| *one == kind) {
        let mut status = claim.status.clone().unwrap_or_default();
        let generation = claim.metadata.generation;
        let wanted =
            super::conditions::at(nodeclaim::INTERRUPTED, Status::True, reason, message(kind), generation, given_at);
        // A more urgent notice replaces the recorded one, with its own time.
        status.conditions.retain(|one| one.type_ != nodeclaim::INTERRUPTED);
        set(&mut status.conditions, wanted);
        writes.push(Write::ClaimStatus { name, status: Box::new(status) });
    }
    Step::act(writes)
}

/// Returns true if the notice says that the instance has ended while its Node was being drained. After the drain it is
/// this controller that ends it.
fn cuts_drain(claim: &NodeClaim, kind: NoticeKind) -> bool {
    let is_drained = is_true(claim, nodeclaim::DRAINED);
    kind == NoticeKind::InstanceTerminated && is_true(claim, nodeclaim::REGISTERED) && !is_drained
}

/// Returns the claim and its Node as subjects of events.
pub(crate) fn subjects(claim: &NodeClaim, node: Option<&Node>) -> impl Iterator<Item = Subject> {
    let subject = |kind: &str, name: Option<&String>, uid: Option<&String>| Subject {
        kind: kind.to_owned(),
        namespace: None,
        name: name.cloned().unwrap_or_default(),
        uid: uid.cloned().unwrap_or_default(),
    };
    let of_claim = subject("NodeClaim", claim.metadata.name.as_ref(), claim.metadata.uid.as_ref());
    let of_node = node.map(|node| subject("Node", node.metadata.name.as_ref(), node.metadata.uid.as_ref()));
    std::iter::once(of_claim).chain(of_node)
}

/// Deletes a claim whose node has no time left, or has not registered, so that it has no pods to move. The drain of a
/// node that does not answer is not waited for.
pub(super) fn interrupt(seen: &Seen<'_>, now: Timestamp) -> Step {
    let Some(kind) = recorded(seen.claim) else { return Step::rest() };
    if kind.urgency() < Urgency::Immediate && is_true(seen.claim, nodeclaim::REGISTERED) {
        return Step::rest();
    }
    let mut writes = Vec::new();
    if matches!(kind, NoticeKind::InstanceStatus | NoticeKind::SystemStatus) {
        let key = annotations::NODECLAIM_TERMINATION_TIMESTAMP;
        let change = MetaChange::default().annotation(key, whole_seconds(now).to_string());
        if seen.annotation(key).is_none() {
            writes.push(Write::ClaimMeta { name: seen.name(), change });
        }
    }
    let node = seen.nodes.first().copied();
    writes.extend(subjects(seen.claim, node).map(|about| {
        let (reason, message) = (events::TERMINATING_ON_INTERRUPTION, TERMINATING.to_owned());
        Write::Event(Event { about, kind: EventType::Warning, reason, message })
    }));
    writes.push(seen.delete(DeletionCause::Notice(kind)));
    Step::act(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns the claim with the condition, and the reasons of the events.
    fn told(claim: &mut NodeClaim, kind: NoticeKind, second: i64) -> Vec<&'static str> {
        let node = Node::default();
        let step = heed(claim, Some(&node), kind, moment(second));
        let mut reasons = Vec::new();
        for write in step.writes {
            match write {
                Write::Event(event) => reasons.push(event.reason),
                Write::ClaimStatus { status, .. } => claim.status = Some(*status),
                other => panic!("{other:?}"),
            }
        }
        reasons
    }

    fn since(claim: &NodeClaim) -> Timestamp {
        condition(claim, nodeclaim::INTERRUPTED).unwrap().last_transition_time.0
    }

    #[test]
    fn a_notice_is_noted_once_with_its_own_moment() {
        let mut claim = NodeClaim::default();
        assert_eq!(told(&mut claim, NoticeKind::SpotInterrupted, 100), ["SpotInterrupted"; 2], "of claim and Node");
        assert_eq!((recorded(&claim), since(&claim)), (Some(NoticeKind::SpotInterrupted), moment(100)));
        assert!(told(&mut claim, NoticeKind::SpotInterrupted, 101).is_empty(), "the agent or the queue was first");
        assert!(told(&mut claim, NoticeKind::ScheduledChange, 102).is_empty(), "there is less time already");
        assert_eq!(told(&mut claim, NoticeKind::InstanceTerminated, 220), ["InstanceTerminating"; 2]);
        assert_eq!((recorded(&claim), since(&claim)), (Some(NoticeKind::InstanceTerminated), moment(220)));
    }

    #[test]
    fn every_kind_that_ends_an_instance_is_read_as_it_was_written() {
        for kind in NoticeKind::ALL {
            let mut claim = NodeClaim::default();
            assert_eq!(told(&mut claim, kind, 100).len(), 2);
            let is_recommendation = kind == NoticeKind::RebalanceRecommendation;
            assert_eq!(recorded(&claim), (!is_recommendation).then_some(kind), "{kind:?}");
        }
    }

    #[test]
    fn a_claim_that_goes_hears_nothing_more() {
        let mut claim = NodeClaim::default();
        claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(moment(90)));
        for kind in NoticeKind::ALL {
            assert!(told(&mut claim, kind, 100).is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn a_claim_that_goes_hears_that_its_instance_has_ended_before_it_was_drained() {
        let mut claim = NodeClaim::default();
        claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(moment(90)));
        let mut is = |kind| {
            let conditions = &mut claim.status.get_or_insert_default().conditions;
            set(conditions, super::super::conditions::at(kind, Status::True, kind, "", None, moment(80)));
            claim.clone()
        };
        let (mut registered, mut drained) = (is(nodeclaim::REGISTERED), is(nodeclaim::DRAINED));
        assert!(told(&mut registered, NoticeKind::SpotInterrupted, 100).is_empty());
        assert_eq!(told(&mut registered, NoticeKind::InstanceTerminated, 100), ["InstanceTerminating"; 2]);
        assert!(told(&mut drained, NoticeKind::InstanceTerminated, 100).is_empty(), "we have ended it");
    }
}
