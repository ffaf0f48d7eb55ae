//! Silent agents: the node continues unchanged, but its state is unknown.
//!
//! A replica sees when its own streams end, but not whether the agent has connected to another replica. So each replica
//! records the time at which an agent connects; connections are renewed every half hour, which bounds the age of the
//! record for a live agent. Replicas need not know each other, and a killed one has nothing to hand over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{NodeClaim, annotations};
use muster_cloud::after;

use super::conditions::{Draft, Status, condition, is_true};
use super::seen::Seen;
use crate::step::Step;

/// Minimum age of a record before it is renewed, so that a restart does not cause a write for each node.
const NOTED: SignedDuration = SignedDuration::from_mins(15);
/// Time after which an agent is silent. The record of a live one is renewed every 49 minutes at the latest: [`NOTED`],
/// and then a connection of 33 minutes and the pause before the next one.
const SILENT: Duration = Duration::from_mins(60);

/// Returns the recorded time at which the agent last enrolled or connected.
fn heard(claim: &NodeClaim) -> Option<Timestamp> {
    let annotation = |key: &str| claim.metadata.annotations.as_ref()?.get(key);
    let enrolled = annotation(annotations::AGENT_KEY).and_then(|text| text.split_once(' ')?.1.parse().ok());
    let connected = annotation(annotations::AGENT_HEARD).and_then(|text| text.parse().ok());
    enrolled.max(connected)
}

/// Returns true if the record is missing or old enough to be renewed.
pub fn is_worth_noting(claim: &NodeClaim, now: Timestamp) -> bool {
    heard(claim).is_none_or(|at| now.duration_since(at) >= NOTED)
}

/// Sets the condition of an agent that has reported before to silent. Its next report replaces this.
pub fn silence(seen: &Seen<'_>, now: Timestamp) -> Step {
    let has_spoken = condition(seen.claim, nodeclaim::AGENT_READY).is_some_and(|it| it.reason != reason::AGENT_SILENT);
    // Before that, initialization waits for the agent with its own timeout.
    if !has_spoken || !is_true(seen.claim, nodeclaim::INITIALIZED) {
        return Step::rest();
    }
    let Some(heard) = heard(seen.claim) else { return Step::rest() };
    let deadline = after(heard, SILENT);
    if now < deadline {
        return Step::until(deadline);
    }
    let mut draft = Draft::of(seen, now);
    let message = format!("the node's agent has not reported since {heard}");
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
