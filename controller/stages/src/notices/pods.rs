//! Meaning of do-not-disrupt annotations of pods.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::annotations::DO_NOT_DISRUPT;
use muster_api::{events, go_duration};
use muster_cloud::after;

use super::event;
use crate::lifecycle::DisruptionBlocker;
use crate::state::Cluster;
use crate::step::{Event, EventType};

/// Time after the end of a hold for which that is told: between two decisions about a node that nothing changes.
const LATELY: Duration = Duration::from_secs(60);

/// Returns the events of the pods that are on nodes of NodeClaims and have the annotation: its text has no meaning, or
/// it names a duration, which ends or has just ended.
#[must_use]
pub fn holds(cluster: &Cluster, now: Timestamp) -> Vec<Event> {
    let mut all = Vec::new();
    let nodes = cluster.claims().filter_map(|claim| cluster.node_of(claim)?.metadata.name.as_deref());
    for pod in nodes.flat_map(|node| cluster.pods_on(node)).filter(|pod| !pod.pod.terminal && !pod.pod.deleting) {
        let Some(text) = pod.pod.annotations.get(DO_NOT_DISRUPT).filter(|text| &***text != "true") else { continue };
        let started = pod.pod.started.as_deref().and_then(|text| text.parse().ok());
        let (kind, reason, message) = match DisruptionBlocker::read(text, started) {
            DisruptionBlocker::None if go_duration(text).is_err() => (
                EventType::Warning,
                events::INVALID_DO_NOT_DISRUPT_ANNOTATION,
                format!("`{DO_NOT_DISRUPT}` is neither `true` nor a duration such as `30m`: it is ignored"),
            ),
            DisruptionBlocker::Until(end) if now < end => (
                EventType::Normal,
                events::DO_NOT_DISRUPT_UNTIL,
                format!("Its node is not disrupted voluntarily until {}", crate::lifecycle::whole_seconds(end)),
            ),
            DisruptionBlocker::Until(end) if now < after(end, LATELY) => (
                EventType::Normal,
                events::DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED,
                "The duration for which its node was not disrupted has passed".to_owned(),
            ),
            _ => continue,
        };
        all.push(event(pod.subject(), kind, reason, message));
    }
    all
}
