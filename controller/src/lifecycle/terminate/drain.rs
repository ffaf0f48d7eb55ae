//! Pods leave in four tiers, each when the one before is empty: what a cluster can do without before what it cannot,
//! and daemons after those that may need them.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::events;
use muster_cloud::after;
use muster_scheduling::disrupt::Cause;

use crate::lifecycle::conditions::{Draft, Status};
use crate::lifecycle::register::name;
use crate::lifecycle::seen::{Eviction, Resident, Seen};
use crate::node::Node;
use crate::step::{Event, EventType, Step, Write};

use super::deadline;

/// How long a drain lasts at least, so that pods that are on their way to the node are seen. Karpenter's figure.
const SHORTEST_DRAIN: Duration = Duration::from_secs(5);
/// How long after its end a pod still counts. Karpenter's figure.
const STUCK: Duration = Duration::from_secs(60);
/// Shortest and longest wait before evictions are tried again. In between it is as long as the drain has lasted, so that
/// it doubles without anything to remember.
const WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How long pods with volumes have the start of others on a node that is consolidated, at most.
const VOLUMES_FIRST: Duration = Duration::from_secs(60);
/// Pods that a message names before it counts the rest.
const NAMED: usize = 3;

/// The next step of the drain; nothing when it is over. What it waits for is said in the draft.
pub(super) fn drain(seen: &Seen<'_>, node: &Node, draft: &mut Draft<'_>, now: Timestamp) -> Option<Step> {
    let node_name = name(node);
    let started = node.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    let residents: Vec<&Resident> = seen.residents.iter().filter(|one| one.node == node_name).collect();
    let forced = end_by_force(seen, &residents, now);
    if !forced.is_empty() {
        return Some(Step::act(forced));
    }
    let waiting: Vec<&Resident> = residents.into_iter().filter(|one| must_leave(one, now)).collect();
    let Some(tier) = waiting.iter().map(|one| tier(one)).min() else {
        let earliest = after(started, SHORTEST_DRAIN);
        if now >= earliest {
            return None;
        }
        draft.set(nodeclaim::DRAINED, Status::Unknown, reason::DRAINING, "Draining");
        return Some(Step::until(earliest));
    };
    let mut ours: Vec<&&Resident> = waiting.iter().filter(|one| self::tier(one) == tier).collect();
    let settled = volumes_first(seen, &mut ours, started, now);
    let evictions = &seen.answers.evictions;
    let is_free = |one: &&&Resident| one.deleted_at.is_none() && !one.hold.is_on(now);
    let unasked: Vec<Write> = ours
        .iter()
        .filter(|one| is_free(one) && !evictions.contains_key(&one.pod.uid))
        .map(|one| Write::Evict(one.pod.clone()))
        .collect();
    if !unasked.is_empty() {
        return Some(Step { writes: unasked, again: None });
    }
    let message = blocked(&ours, seen, now).map_or_else(|| "Draining".to_owned(), |why| format!("Draining: {why}"));
    let is_news = seen_message(seen) != Some(message.as_str()) && message != "Draining";
    draft.set(nodeclaim::DRAINED, Status::Unknown, reason::DRAINING, &message);
    let mut step = Step::until(next_look(&ours, seen, started, now)).or_sooner(settled);
    if is_news {
        step.writes.push(seen.event(EventType::Warning, events::FAILED_DRAINING, message));
    }
    Some(step)
}

/// Of a node that consolidation takes away, pods with volumes leave before others of their tier: their successors come back only when
/// they are gone, and would find the room that was planned for them taken by pods that fit elsewhere too. Returns until when the
/// others wait for that, if they do.
fn volumes_first(seen: &Seen<'_>, tier: &mut Vec<&&Resident>, started: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let end = after(started, VOLUMES_FIRST);
    let cause = crate::lifecycle::condition(seen.claim, nodeclaim::DISRUPTION_REASON);
    let is_consolidated = cause.is_some_and(|cause| cause.reason == Cause::Underutilized.name());
    if !is_consolidated || now >= end || tier.iter().all(|pod| pod.volumes.is_empty()) {
        return None;
    }
    tier.retain(|pod| !pod.volumes.is_empty());
    Some(end)
}

fn seen_message<'s>(seen: &'s Seen<'_>) -> Option<&'s str> {
    crate::lifecycle::condition(seen.claim, nodeclaim::DRAINED).map(|one| one.message.as_str())
}

/// Whether the node waits for the pod. Not for what the kubelet keeps, what has ended, what means to stay, and what should
/// have been gone for a minute: a kubelet that does not end it will not.
pub(super) fn must_leave(pod: &Resident, now: Timestamp) -> bool {
    let is_stuck = pod.deleted_at.is_some_and(|end| now >= after(end, STUCK));
    !pod.is_mirror && !pod.is_terminal && !pod.tolerates_disruption && !is_stuck
}

fn tier(pod: &Resident) -> u8 {
    u8::from(pod.is_critical) * 2 + u8::from(pod.is_daemon)
}

/// Pods that would not end before the claim's deadline if they were given all their time: they get what is left,
/// whatever budgets, tiers and annotations say.
fn end_by_force(seen: &Seen<'_>, residents: &[&Resident], now: Timestamp) -> Vec<Write> {
    let Some(deadline) = deadline(seen) else { return Vec::new() };
    let is_due = |pod: &&&Resident| {
        let ends_in_time = pod.deleted_at.is_some_and(|end| end <= after(deadline, Duration::from_secs(1)));
        !pod.is_mirror && !pod.is_terminal && !ends_in_time && after(now, pod.grace) >= deadline
    };
    let end = |pod: &&Resident| {
        let left = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
        let grace = left.max(Duration::from_secs(1));
        let message = format!("ended because the termination grace period of NodeClaim `{}` is over", seen.name());
        let event = Event { about: pod.pod.clone(), kind: EventType::Warning, reason: events::DISRUPTED, message };
        [Write::Event(event), Write::DeletePod { pod: pod.pod.clone(), grace }]
    };
    residents.iter().filter(is_due).flat_map(end).collect()
}

/// Why pods of the tier do not leave: budgets, annotations, errors.
fn blocked(tier: &[&&Resident], seen: &Seen<'_>, now: Timestamp) -> Option<String> {
    let why = |pod: &Resident| {
        if pod.deleted_at.is_some() {
            return None;
        }
        if pod.hold.is_on(now) {
            return Some("karpenter.sh/do-not-disrupt".to_owned());
        }
        match seen.answers.evictions.get(&pod.pod.uid)? {
            Eviction::Done => None,
            Eviction::Blocked(message) | Eviction::Ambiguous(message) | Eviction::Failed(message) => {
                Some(message.clone())
            }
        }
    };
    let all: Vec<String> = tier
        .iter()
        .filter_map(|pod| {
            let namespace = pod.pod.namespace.as_deref().unwrap_or_default();
            Some(format!("`{namespace}/{}`: {}", pod.pod.name, why(pod)?))
        })
        .collect();
    let more = all.len().saturating_sub(NAMED);
    let mut text = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    if more > 0 {
        text += &format!("; and {more} more");
    }
    (!all.is_empty()).then_some(text)
}

/// The next moment at which time alone changes something.
fn next_look(tier: &[&&Resident], seen: &Seen<'_>, started: Timestamp, now: Timestamp) -> Timestamp {
    let lasted = Duration::try_from(now.duration_since(started)).unwrap_or_default();
    let again = after(now, lasted.clamp(WAIT.0, WAIT.1));
    let is_refused = tier.iter().any(|pod| pod.deleted_at.is_none() && !pod.hold.is_on(now));
    let stuck = tier.iter().filter_map(|pod| pod.deleted_at.map(|end| after(end, STUCK)));
    let holds = tier.iter().filter_map(|pod| match pod.hold {
        crate::lifecycle::Hold::Until(end) if end > now => Some(end),
        _ => None,
    });
    let force = deadline(seen)
        .into_iter()
        .flat_map(|end| tier.iter().map(move |pod| end.checked_sub(pod.grace).unwrap_or(Timestamp::MIN)));
    let moments = stuck.chain(holds).chain(force).filter(|moment| *moment > now);
    moments.chain(is_refused.then_some(again)).min().unwrap_or_else(|| after(now, WAIT.1))
}
