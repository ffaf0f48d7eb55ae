//! A node whose agent says that it cannot become one is given up at once, and not when its time is over.
//!
//! The agent knows in seconds what the API server never shows: why there is no Node, or why it does not take pods. Its word counts
//! until the node is initialized. From then on the node has pods, and what becomes of it is for disruption to decide.

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::events;

use super::breaker;
use super::conditions::{Draft, Status, condition, is_true};
use super::seen::Seen;
use crate::step::{Event, EventType, Step, Subject, Write};

/// Pods that are told at most: those of one owner have the same story, and a node may have hundreds.
const TOLD: usize = 3;

/// Counts it against the class, says it of claim, pool and pods, and deletes the claim.
pub(super) fn verdict(seen: &Seen<'_>, now: Timestamp) -> Step {
    let is_on_its_way = is_true(seen.claim, nodeclaim::LAUNCHED) && !is_true(seen.claim, nodeclaim::INITIALIZED);
    let fatal = condition(seen.claim, nodeclaim::NODE_VERDICT).filter(|one| one.status == Status::False.name());
    let Some(fatal) = fatal.filter(|_| is_on_its_way) else { return Step::rest() };
    let (code, message) = (fatal.reason.as_str(), format!("the node's agent says {}: {}", fatal.reason, fatal.message));
    let mut writes: Vec<Write> = breaker::count(seen, code, &message, now).into_iter().collect();
    writes.push(seen.event(EventType::Warning, events::NODE_VERDICT, &message));
    writes.extend(of_pool(seen, &message));
    writes.extend(of_pods(seen, &message));
    let stage = if is_true(seen.claim, nodeclaim::REGISTERED) { nodeclaim::INITIALIZED } else { nodeclaim::REGISTERED };
    let mut draft = Draft::of(seen, now);
    draft.set(stage, Status::False, code, &message);
    writes.extend(draft.write());
    writes.push(seen.delete("node_verdict"));
    Step::act(writes)
}

/// The claim will be gone by the time that somebody looks; the pool stays.
fn of_pool(seen: &Seen<'_>, message: &str) -> Option<Write> {
    let meta = &seen.pool?.metadata;
    let (name, uid) = (meta.name.clone()?, meta.uid.clone().unwrap_or_default());
    let about = Subject { kind: "NodePool".to_owned(), namespace: None, name, uid };
    let message = format!("NodeClaim `{}` is given up: {message}", seen.name());
    Some(Write::Event(Event { about, kind: EventType::Warning, reason: events::NODE_VERDICT, message }))
}

/// Whoever asks why a pod is still pending looks there first. Where a leader has just begun nobody knows which they are, and the next
/// round tells them what else it has for them.
fn of_pods(seen: &Seen<'_>, message: &str) -> impl Iterator<Item = Write> {
    let message = format!("NodeClaim `{}`, on whose node it was to run, is given up: {message}", seen.name());
    seen.expected.iter().take(TOLD).map(move |pod| {
        let (about, message) = (pod.clone(), message.clone());
        Write::Event(Event { about, kind: EventType::Warning, reason: events::NODE_VERDICT, message })
    })
}
