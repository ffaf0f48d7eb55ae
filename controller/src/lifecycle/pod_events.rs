//! When pods last came to a node or left it, written down on its claim: `consolidateAfter` runs from then.
//!
//! ```text
//!   pods as they are seen ──► PodEvents: came, ended, left ──► names of Nodes ──► touch ──► status.lastPodEventTime
//! ```
//!
//! What counts is what Karpenter counts: a pod is bound, ends, or begins to leave. What happened while nobody looked is not
//! known, and counts as nothing: the first look at a pod is no event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::NodeClaim;
use muster_cloud::after;

use super::conditions::whole_seconds;
use crate::state::LivePod;
use crate::step::{Step, Write};

/// Events that are so close together are one. Karpenter's figure.
const DEDUPLICATED: Duration = Duration::from_secs(10);

/// Where pods are, and which Nodes have had an event since it was last asked.
#[derive(Debug, Clone, Default)]
pub struct PodEvents {
    /// By path of the pod: its UID, its Node, and whether it is there to stay.
    at: BTreeMap<String, (Box<str>, Arc<str>, bool)>,
    touched: BTreeSet<Arc<str>>,
}

// === impl PodEvents ===

impl PodEvents {
    /// Takes note of how a pod is now; none: it is gone. Daemons and mirror pods come and go with their node.
    pub fn see(&mut self, path: &str, pod: Option<&LivePod>) {
        let now = pod.filter(|pod| !pod.is_daemon && !pod.is_mirror).and_then(|pod| {
            let stays = !pod.pod.terminal && pod.deleted_at.is_none();
            Some((pod.uid.clone(), Arc::clone(pod.pod.node.as_ref()?), stays))
        });
        let before = match &now {
            Some(now) => self.at.insert(path.to_owned(), now.clone()),
            None => self.at.remove(path),
        };
        if now == before {
            return;
        }
        // Who has begun to leave before is no news when it is gone.
        let left = before.filter(|(_, _, stays)| *stays || now.is_some()).map(|(_, node, _)| node);
        self.touched.extend(left.into_iter().chain(now.map(|(_, node, _)| node)));
    }

    /// Names of the Nodes that have had an event since.
    pub fn take(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.touched)
    }
}

/// Writes down that something has happened on the node of `claim`.
#[must_use]
pub fn touch(claim: &NodeClaim, now: Timestamp) -> Step {
    let Some(status) = &claim.status else { return Step::rest() };
    let is_noted = status.last_pod_event_time.as_ref().is_some_and(|last| now < after(last.0, DEDUPLICATED));
    if is_noted || claim.metadata.deletion_timestamp.is_some() {
        return Step::rest();
    }
    let mut status = status.clone();
    status.last_pod_event_time = Some(Time(whole_seconds(now)));
    let name = claim.metadata.name.clone().unwrap_or_default();
    Step::act([Write::ClaimStatus { name, status: Box::new(status) }])
}

#[cfg(test)]
mod tests {
    use muster_api::nodeclaim::NodeClaimStatus;

    use super::*;
    use crate::state::{Cluster, Kind};

    fn see(events: &mut PodEvents, cluster: &mut Cluster, fields: &str) -> Vec<String> {
        let text =
            format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","namespace":"n","uid":"u"{fields}}}"#);
        cluster.apply(Kind::Pod, &text);
        events.see("n/a", cluster.pod("n/a"));
        events.take().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_that_comes_ends_or_leaves_is_an_event_once() {
        let (mut events, mut cluster) = (PodEvents::default(), Cluster::default());
        let bound = r#"},"spec":{"nodeName":"x","containers":[{"name":"c"}]}"#;
        assert!(see(&mut events, &mut cluster, r#"},"spec":{"containers":[{"name":"c"}]}"#).is_empty());
        assert_eq!(see(&mut events, &mut cluster, bound), ["x"]);
        assert!(see(&mut events, &mut cluster, bound).is_empty(), "nothing has changed");
        let leaving =
            r#","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"x","containers":[{"name":"c"}]}"#;
        assert_eq!(see(&mut events, &mut cluster, leaving), ["x"]);
        cluster.remove(Kind::Pod, "n/a");
        events.see("n/a", None);
        assert!(events.take().is_empty(), "it was known to leave");
    }

    #[test]
    fn events_that_are_close_together_are_one() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut claim = NodeClaim { status: Some(NodeClaimStatus::default()), ..NodeClaim::default() };
        let step = touch(&claim, at(100));
        let [Write::ClaimStatus { status, .. }] = step.writes.as_slice() else { panic!("{step:?}") };
        claim.status = Some((**status).clone());
        assert_eq!(touch(&claim, at(109)), Step::rest());
        assert_eq!(touch(&claim, at(110)).writes.len(), 1);
    }
}
