//! Events about pods: the place of each pod, or the reason why it has none, published again on a change.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::reason;
use muster_api::events;
use muster_cloud::after;

use super::pending_pod::PendingPod;
use super::plan::{Failure, LastEvent, PlacementView, Plan};
use crate::step::{Event, EventType, Write};

/// Delay after which a failure with the same reason but another message (such as the remainder of a limit) is published
/// again: Karpenter's value for repeated events.
const REPEAT: Duration = Duration::from_secs(120);

/// Returns the events about pods that have a new place, or a new reason for having none. `failures` is keyed by
/// `namespace/name`.
pub(super) fn events(
    plan: &mut Plan,
    view: &PlacementView<'_>,
    failures: BTreeMap<&str, &Failure>,
    now: Timestamp,
) -> Vec<Write> {
    let nodes: BTreeMap<&str, &str> =
        view.claims.iter().filter_map(|one| Some((one.name(), one.node_name()?))).collect();
    let mut news: Vec<(&PendingPod, LastEvent)> = Vec::new();
    for (claim, pods) in &plan.placed {
        let pending_pods = pods.iter().filter_map(|pod| view.pending_pod(&pod.path));
        news.extend(pending_pods.map(|one| (one, LastEvent::Place(claim.clone()))));
    }
    for (path, failure) in failures {
        news.extend(view.pending_pod(path).map(|one| (one, LastEvent::Failure(failure.clone(), now))));
    }
    news.sort_by(|one, other| one.0.pod.cmp(&other.0.pod));
    let mut writes = Vec::new();
    for (pending_pod, event) in news {
        let before = plan.last_events.get(&pending_pod.pod.uid);
        if before.is_some_and(|before| before.is_no_news(&event)) {
            continue;
        }
        let (kind, reason, message) = match &event {
            LastEvent::Place(claim) => {
                let node = nodes.get(claim.as_str()).map_or_else(String::new, |node| format!(", node/{node}"));
                (EventType::Normal, events::NOMINATED, format!("Pod should schedule on: nodeclaim/{claim}{node}"))
            }
            LastEvent::Failure(Failure { reason: reason::LAUNCHES_HELD, message }, _) => {
                (EventType::Warning, events::LAUNCHES_HELD, message.clone())
            }
            LastEvent::Failure(Failure { message, .. }, _) => {
                (EventType::Warning, events::FAILED_SCHEDULING, format!("Failed to schedule pod, {message}"))
            }
        };
        writes.push(Write::Event(Event { about: pending_pod.pod.clone(), kind, reason, message }));
        plan.last_events.insert(pending_pod.pod.uid.clone(), event);
    }
    writes
}

// === impl LastEvent ===

impl LastEvent {
    /// Returns true if `now` need not be published after this event.
    fn is_no_news(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::Failure(before, then), Self::Failure(failure, now)) => {
                before == failure || before.reason == failure.reason && *now < after(*then, REPEAT)
            }
            (before, now) => before == now,
        }
    }
}
