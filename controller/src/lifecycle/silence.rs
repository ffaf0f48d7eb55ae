//! An agent that says nothing any more: its node is as it was, and nobody knows how it is.
//!
//! A replica sees which of its own streams end, and not whether the agent has gone to another replica. So whoever hears of an agent
//! notes when; connections are made anew every half hour, which bounds how old that may be of an agent that lives. No replica needs to
//! know of another, and one that is killed has nothing to hand over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{NodeClaim, annotations};
use muster_cloud::after;

use super::conditions::{Draft, Status, condition, is_true};
use super::seen::Seen;
use crate::step::Step;

/// What was noted less than this ago is not noted again: a fleet that comes back after a restart is not a write for each node.
const NOTED: SignedDuration = SignedDuration::from_mins(15);
/// After what time an agent is silent. One that lives is noted every 49 minutes at the latest: [`NOTED`], and then a connection of 33
/// minutes and the pause before the next one.
const SILENT: Duration = Duration::from_mins(60);

/// When an agent was heard of last, as far as that is noted: when it enrolled, or connected.
fn heard(claim: &NodeClaim) -> Option<Timestamp> {
    let annotation = |key: &str| claim.metadata.annotations.as_ref()?.get(key);
    let enrolled = annotation(annotations::AGENT_KEY).and_then(|text| text.split_once(' ')?.1.parse().ok());
    let connected = annotation(annotations::AGENT_HEARD).and_then(|text| text.parse().ok());
    enrolled.max(connected)
}

/// Whether it is to be noted that an agent is heard of now.
pub(crate) fn is_worth_noting(claim: &NodeClaim, now: Timestamp) -> bool {
    heard(claim).is_none_or(|at| now.duration_since(at) >= NOTED)
}

/// Says of an agent that has spoken that it does not any more. What it says next stands in the place of that.
pub(super) fn silence(seen: &Seen<'_>, now: Timestamp) -> Step {
    let has_spoken = condition(seen.claim, nodeclaim::AGENT_READY).is_some_and(|it| it.reason != reason::AGENT_SILENT);
    // Until then its word is waited for, and initialization has its own time.
    if !has_spoken || !is_true(seen.claim, nodeclaim::INITIALIZED) {
        return Step::rest();
    }
    let Some(heard) = heard(seen.claim) else { return Step::rest() };
    let deadline = after(heard, SILENT);
    if now < deadline {
        return Step::until(deadline);
    }
    let mut draft = Draft::of(seen, now);
    let message = format!("the node's agent has not been heard of since {heard}");
    draft.set(nodeclaim::AGENT_READY, Status::Unknown, reason::AGENT_SILENT, &message);
    Step::act(draft.write())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_is_noted_now_and_then() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let mut claim = NodeClaim::default();
        assert!(is_worth_noting(&claim, at(0)) && heard(&claim).is_none());
        let all = claim.metadata.annotations.get_or_insert_default();
        all.insert(annotations::AGENT_KEY.to_owned(), format!("key {}", at(5)));
        assert!(!is_worth_noting(&claim, at(19)) && is_worth_noting(&claim, at(20)));
        claim.metadata.annotations.as_mut().unwrap().insert(annotations::AGENT_HEARD.to_owned(), at(20).to_string());
        assert_eq!(heard(&claim), Some(at(20)));
        claim
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .insert(annotations::AGENT_KEY.to_owned(), format!("key {}", at(30)));
        assert_eq!(heard(&claim), Some(at(30)), "it has enrolled again");
    }
}
