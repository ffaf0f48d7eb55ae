//! Events about pods: the place of each pod, or the reason why it has none. Another place is published at once, another
//! reason when the NodePools have changed or after ten minutes, another difference that holds launches after two.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::reason;
use muster_api::events;
use muster_cloud::after;

use super::pending_pod::PendingPod;
use super::plan::{Failure, LastEvent, PlacementView, Plan};
use crate::step::{Event, EventType, Write};

/// Delay after which another failure of a pod is published, while its NodePools are what they were. What is left for a
/// pod changes with every other pod, and a crowd of pods that cannot be placed must not fill the cluster with events.
const REPEAT: Duration = Duration::from_secs(600);
/// Delay after which another difference that holds launches is published: it changes with the nodes of the pool, and
/// says what an operator has to mend.
const REPEAT_HELD: Duration = Duration::from_secs(120);

/// NodePools at the time of an event: name, generation, and true if it launches.
pub(super) type Offered = Vec<(Arc<str>, i64, bool)>;

/// Returns the events about pods that have a new place, or a new reason for having none. `failures` is keyed by
/// `namespace/name`.
pub(super) fn events(
    plan: &mut Plan,
    view: &PlacementView<'_>,
    failures: BTreeMap<&str, &Failure>,
    offered: Offered,
    now: Timestamp,
) -> Vec<Write> {
    if plan.offered.as_ref().is_none_or(|(before, _)| *before != offered) {
        plan.offered = Some((offered, now));
    }
    let offered_since = plan.offered.as_ref().map_or(now, |(_, since)| *since);
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
        if before.is_some_and(|before| before.is_no_news(&event, offered_since)) {
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
    /// Returns true if `now` need not be published after this event. `offered_since` is when the NodePools changed.
    fn is_no_news(&self, now: &Self, offered_since: Timestamp) -> bool {
        match (self, now) {
            (Self::Failure(before, then), Self::Failure(failure, now)) => {
                let is_held = |failure: &Failure| failure.reason == reason::LAUNCHES_HELD;
                let repeat = if is_held(failure) { REPEAT_HELD } else { REPEAT };
                before == failure
                    || is_held(before) == is_held(failure) && *then >= offered_since && *now < after(*then, repeat)
            }
            (before, now) => before == now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn failure(reason: &'static str, second: i64) -> LastEvent {
        LastEvent::Failure(Failure { reason, message: reason.to_owned() }, at(second))
    }

    #[test]
    fn other_reasons_are_published_when_the_pools_change_or_after_ten_minutes() {
        let first = failure("TooComplex", 100);
        let is_no_news = |second, offered_since| first.is_no_news(&failure("PodAffinity", second), at(offered_since));
        assert!(is_no_news(699, 100));
        assert!(!is_no_news(700, 100));
        assert!(!is_no_news(101, 101));
        assert!(first.is_no_news(&failure("TooComplex", 2000), at(1000)), "it is the same");
        assert!(!first.is_no_news(&failure(reason::LAUNCHES_HELD, 101), at(0)), "an operator looks for this one");
        assert!(!first.is_no_news(&LastEvent::Place("general-1".to_owned()), at(0)));
    }

    #[test]
    fn another_difference_is_published_after_two_minutes() {
        let held = |message: &str, second| {
            let failure = Failure { reason: reason::LAUNCHES_HELD, message: message.to_owned() };
            LastEvent::Failure(failure, at(second))
        };
        let first = held("the node is being deleted", 100);
        assert!(first.is_no_news(&held("the node is gone", 219), at(100)));
        assert!(!first.is_no_news(&held("the node is gone", 220), at(100)));
        assert!(first.is_no_news(&held("the node is being deleted", 2000), at(100)), "it is the same");
    }
}
