//! Interruption notices of the cloud: recorded in a condition of the claim, on which disruption acts.

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, events};

use super::conditions::{Status, at, condition, set};
use crate::step::{Event, EventType, Step, Subject, Write};

/// An interruption notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A spot instance will be interrupted in two minutes.
    Spot,
}

// === impl Notice ===

impl Notice {
    /// Returns the reason of the condition and of the event.
    const fn reason(self) -> &'static str {
        match self {
            Self::Spot => events::SPOT_INTERRUPTED,
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Spot => "the cloud reclaims the spot instance two minutes after its notice",
        }
    }
}

/// Records on `claim` a notice given at `given_at`. Repeated notices are ignored.
#[must_use]
pub fn heed(claim: &NodeClaim, notice: Notice, given_at: Timestamp) -> Step {
    let is_known = condition(claim, nodeclaim::INTERRUPTED).is_some_and(|one| one.status == Status::True.name());
    if is_known || claim.metadata.deletion_timestamp.is_some() {
        return Step::rest();
    }
    let mut status = claim.status.clone().unwrap_or_default();
    let wanted = at(
        nodeclaim::INTERRUPTED,
        Status::True,
        notice.reason(),
        notice.message(),
        claim.metadata.generation,
        given_at,
    );
    set(&mut status.conditions, wanted);
    let name = claim.metadata.name.clone().unwrap_or_default();
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let about = Subject { kind: "NodeClaim".to_owned(), namespace: None, name: name.clone(), uid };
    let event =
        Event { about, kind: EventType::Warning, reason: notice.reason(), message: notice.message().to_owned() };
    Step::act([Write::Event(event), Write::ClaimStatus { name, status: Box::new(status) }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_noted_once_with_its_own_moment() {
        let given_at = Timestamp::from_second(100).unwrap();
        let mut claim = NodeClaim::default();
        let step = heed(&claim, Notice::Spot, given_at);
        let [Write::Event(event), Write::ClaimStatus { status, .. }] = step.writes.as_slice() else {
            panic!("{step:?}")
        };
        assert_eq!(event.reason, "SpotInterrupted");
        let noted = status.conditions.iter().find(|one| one.type_ == "Interrupted").unwrap();
        assert_eq!((noted.status.as_str(), noted.last_transition_time.0), ("True", given_at));
        claim.status = Some((**status).clone());
        assert_eq!(heed(&claim, Notice::Spot, given_at), Step::rest());
    }
}
