//! Drain of a Node in four tiers, each after the previous one is empty: non-critical before critical pods, and in each
//! of them DaemonSet pods last, since other pods may need them.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::events;
use muster_cloud::after;
use muster_scheduling::disrupt::Cause;

use crate::lifecycle::register::name;
use crate::lifecycle::seen::{Eviction, Resident, Seen};
use crate::node::Node;
use crate::step::{Event, EventType, Step, Write};

/// Minimum duration of a drain, so that pods being bound to the node are observed: Karpenter's value.
const SHORTEST_DRAIN: Duration = Duration::from_secs(5);
/// Time after the end of its grace period for which a pod still counts: Karpenter's value.
const STUCK: Duration = Duration::from_secs(60);
/// Shortest and longest wait before evictions are retried. In between it equals the duration of the drain so far, so
/// that it doubles without stored state.
const WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Longest head start of pods with volumes on a consolidated node.
const VOLUMES_FIRST: Duration = Duration::from_secs(60);
/// Number of pods named in a message before the rest is counted.
const NAMED: usize = 3;

/// Message of a drain that nothing blocks.
pub(in crate::lifecycle) const UNDER_WAY: &str = "Draining";

/// Beginning of a drain, and its end if it is bounded.
#[derive(Debug, Clone, Copy)]
pub(in crate::lifecycle) struct Bounds {
    pub(in crate::lifecycle) started: Timestamp,
    pub(in crate::lifecycle) deadline: Option<Timestamp>,
}

/// A drain that is not complete.
#[derive(Debug, Clone)]
pub(in crate::lifecycle) struct Drain {
    pub(in crate::lifecycle) step: Step,
    /// Reason for waiting, or [`UNDER_WAY`]; `None` while calls are made.
    pub(in crate::lifecycle) message: Option<String>,
}

impl Drain {
    fn act(writes: Vec<Write>) -> Self {
        Self { step: Step::act(writes), message: None }
    }
}

/// Returns the next step of the drain, or `None` when it is complete.
pub(in crate::lifecycle) fn drain(seen: &Seen<'_>, node: &Node, bounds: Bounds, now: Timestamp) -> Option<Drain> {
    let node_name = name(node);
    let started = bounds.started;
    let residents: Vec<&Resident> = seen.residents.iter().filter(|one| one.node == node_name).collect();
    let waiting: Vec<&Resident> = residents.iter().copied().filter(|one| must_leave(one, now)).collect();
    let Some(tier) = waiting.iter().map(|one| tier(one)).min() else {
        let earliest = after(started, SHORTEST_DRAIN);
        if now >= earliest {
            return None;
        }
        return Some(Drain { step: Step::until(earliest), message: Some(UNDER_WAY.to_owned()) });
    };
    let mut ours: Vec<&&Resident> = waiting.iter().filter(|one| self::tier(one) == tier).collect();
    let settled = volumes_first(seen, &mut ours, started, now);
    let evictions = &seen.answers.evictions;
    let is_free = |one: &&&Resident| one.deleted_at.is_none() && !one.hold.is_on(now);
    // Both are in one step, since a forced deletion may be refused for ever.
    let is_unasked = |one: &Resident| !evictions.contains_key(&one.pod.uid);
    let late = residents.iter().filter(|one| is_unasked(one) && is_due(one, bounds, now));
    let mut writes: Vec<Write> = late.map(|one| end_by_force(one, bounds, now)).collect();
    let unasked = ours.iter().filter(|one| is_free(one) && !is_due(one, bounds, now) && is_unasked(one));
    writes.extend(unasked.map(|one| Write::Evict(one.pod.clone())));
    if !writes.is_empty() {
        return Some(Drain::act(writes));
    }
    let message = blocked(&ours, seen, now).map_or_else(|| UNDER_WAY.to_owned(), |why| format!("{UNDER_WAY}: {why}"));
    let mut step = Step::until(next_look(&ours, &residents, bounds, now)).or_sooner(settled);
    step.writes.extend(residents.iter().filter_map(|one| match evictions.get(&one.pod.uid)? {
        Eviction::Done => Some(evicted(seen, one)),
        Eviction::Forced => Some(ended(seen, one)),
        Eviction::Blocked(_) | Eviction::Ambiguous(_) | Eviction::Failed(_) => None,
    }));
    Some(Drain { step, message: Some(message) })
}

/// On a node that is consolidated, restricts the tier to pods with volumes, which are evicted before the others: their
/// successors start only after they are gone, and the planned room could be taken by pods that fit elsewhere too.
/// Returns the time until which the others wait, if they do.
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

/// Returns the event of an evicted pod, with the reason for which its node goes.
fn evicted(seen: &Seen<'_>, pod: &Resident) -> Write {
    let cause = crate::lifecycle::condition(seen.claim, nodeclaim::DISRUPTION_REASON);
    let why = cause.map_or("the node is being terminated", |cause| cause.reason.as_str());
    let message = format!("Evicted pod: {why}");
    Write::Event(Event { about: pod.pod.clone(), kind: EventType::Normal, reason: events::EVICTED, message })
}

/// Returns true if the drain waits for the pod. It does not wait for mirror pods, finished pods, pods that tolerate the
/// taint, and pods that should have terminated a minute ago, since the kubelet probably never will.
pub(super) fn must_leave(pod: &Resident, now: Timestamp) -> bool {
    let is_stuck = pod.deleted_at.is_some_and(|end| now >= after(end, STUCK));
    !pod.is_mirror && !pod.is_terminal && !pod.tolerates_disruption && !is_stuck
}

fn tier(pod: &Resident) -> u8 {
    u8::from(pod.is_critical) * 2 + u8::from(pod.is_daemon)
}

/// Returns the event of a pod that was deleted by force.
fn ended(seen: &Seen<'_>, pod: &Resident) -> Write {
    let message = format!("ended because the termination grace period of NodeClaim `{}` is over", seen.name());
    Write::Event(Event { about: pod.pod.clone(), kind: EventType::Warning, reason: events::DISRUPTED, message })
}

/// Returns the forced deletion of a pod, which gets the time that is left.
fn end_by_force(pod: &Resident, bounds: Bounds, now: Timestamp) -> Write {
    let left = bounds.deadline.and_then(|deadline| Duration::try_from(deadline.duration_since(now)).ok());
    Write::DeletePod { pod: pod.pod.clone(), grace: left.unwrap_or_default().max(Duration::from_secs(1)) }
}

/// Returns true if it is time to delete the pod by force: its grace period would end after the deadline. Budgets, tiers
/// and annotations do not hold it back.
fn is_due(pod: &Resident, bounds: Bounds, now: Timestamp) -> bool {
    bounds.deadline.is_some_and(|end| ends_late(pod, end, now) && after(now, pod.grace) >= end)
}

/// Returns true if the drain waits for the pod, and it will be on the node after the deadline unless it is deleted by
/// force.
fn ends_late(pod: &Resident, deadline: Timestamp, now: Timestamp) -> bool {
    // After the deadline a forced deletion still leaves a second: another one would not end the pod any sooner.
    let earliest = after(deadline.max(now), Duration::from_secs(1));
    let ends_in_time = pod.deleted_at.is_some_and(|end| end <= earliest);
    must_leave(pod, now) && !ends_in_time
}

/// Returns the reasons why pods of the tier stay: budgets, annotations, errors.
fn blocked(tier: &[&&Resident], seen: &Seen<'_>, now: Timestamp) -> Option<String> {
    let why = |pod: &Resident| {
        if pod.deleted_at.is_some() {
            return None;
        }
        match seen.answers.evictions.get(&pod.pod.uid) {
            Some(Eviction::Done | Eviction::Forced) => None,
            Some(Eviction::Blocked(message) | Eviction::Ambiguous(message) | Eviction::Failed(message)) => {
                Some(message.clone())
            }
            None => pod.hold.is_on(now).then(|| "karpenter.sh/do-not-disrupt".to_owned()),
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

/// Returns the next time at which the state changes without an event. Pods of all tiers may be deleted by force, those
/// with the longest grace periods first.
fn next_look(tier: &[&&Resident], residents: &[&Resident], bounds: Bounds, now: Timestamp) -> Timestamp {
    let lasted = Duration::try_from(now.duration_since(bounds.started)).unwrap_or_default();
    let again = after(now, lasted.clamp(WAIT.0, WAIT.1));
    let is_refused = tier.iter().any(|pod| pod.deleted_at.is_none() && !pod.hold.is_on(now));
    let stuck = tier.iter().filter_map(|pod| pod.deleted_at.map(|end| after(end, STUCK)));
    let holds = tier.iter().filter_map(|pod| match pod.hold {
        crate::lifecycle::DisruptionBlocker::Until(end) if end > now => Some(end),
        _ => None,
    });
    let force = bounds.deadline.into_iter().flat_map(|end| {
        let late = residents.iter().filter(move |pod| ends_late(pod, end, now));
        late.map(move |pod| end.checked_sub(pod.grace).unwrap_or(Timestamp::MIN))
    });
    let moments = stuck.chain(holds).chain(force).filter(|moment| *moment > now);
    moments.chain(is_refused.then_some(again)).min().unwrap_or_else(|| after(now, WAIT.1))
}
