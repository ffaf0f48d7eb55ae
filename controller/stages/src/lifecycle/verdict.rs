//! Deletion of a claim whose agent reports that the node cannot join, without waiting for the timeout.
//!
//! The agent knows within seconds what the API server never shows: the reason why there is no Node, or why it is not
//! ready. Its verdict counts until the node is initialized. From then on the node has pods, and disruption decides
//! about it.

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::events;

use super::breaker;
use super::conditions::{Draft, Status, condition, is_true};
use super::seen::Seen;
use crate::step::{DeletionCause, Event, EventType, Step, Subject, Write};

/// Maximum number of pods with an event: pods of one owner get the same message, and a node may have hundreds.
const TOLD: usize = 3;

/// Counts the failure against the class, publishes it for claim, pool and pods, and deletes the claim.
pub(super) fn verdict(seen: &Seen<'_>, now: Timestamp) -> Step {
    let is_on_its_way = is_true(seen.claim, nodeclaim::LAUNCHED) && !is_true(seen.claim, nodeclaim::INITIALIZED);
    let fatal = condition(seen.claim, nodeclaim::NODE_VERDICT).filter(|one| one.status == Status::False.name());
    let Some(fatal) = fatal.filter(|_| is_on_its_way) else { return Step::rest() };
    let (code, message) =
        (fatal.reason.as_str(), format!("the node's agent reports {}: {}", fatal.reason, fatal.message));
    let mut writes: Vec<Write> = breaker::count(seen, code, &message, now).into_iter().collect();
    writes.push(seen.event(EventType::Warning, events::NODE_VERDICT, &message));
    writes.extend(of_pool(seen, &message));
    writes.extend(of_pods(seen, &message));
    let stage = if is_true(seen.claim, nodeclaim::REGISTERED) { nodeclaim::INITIALIZED } else { nodeclaim::REGISTERED };
    let mut draft = Draft::of(seen, now);
    draft.set(stage, Status::False, code, &message);
    writes.extend(draft.write());
    writes.push(seen.delete(DeletionCause::NodeVerdict));
    Step::act(writes)
}

/// Returns an event about the pool, which still exists when the claim is gone.
fn of_pool(seen: &Seen<'_>, message: &str) -> Option<Write> {
    let meta = &seen.pool?.metadata;
    let (name, uid) = (meta.name.clone()?, meta.uid.clone().unwrap_or_default());
    let about = Subject { kind: "NodePool".to_owned(), namespace: None, name, uid };
    let message = format!("NodeClaim `{}` failed: {message}", seen.name());
    Some(Write::Event(Event { about, kind: EventType::Warning, reason: events::NODE_VERDICT, message }))
}

/// Returns events about the pods, the first place to look for the reason why a pod is pending. A new leader may not
/// know the pods; the next round publishes its own events about them.
fn of_pods(seen: &Seen<'_>, message: &str) -> impl Iterator<Item = Write> {
    let message = format!("NodeClaim `{}`, on whose node it was to run, failed: {message}", seen.name());
    seen.expected.iter().take(TOLD).map(move |pod| {
        let (about, message) = (pod.clone(), message.clone());
        Write::Event(Event { about, kind: EventType::Warning, reason: events::NODE_VERDICT, message })
    })
}
