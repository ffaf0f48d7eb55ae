//! When it is asked again what is to go: while something changes, every ten seconds; else when time alone may have changed
//! the answer.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_cloud::after;

use crate::lifecycle::condition;
use crate::state::Cluster;

/// How long at most nothing is asked though nothing has changed: windows of budgets open and close.
const STILL: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Rhythm {
    at: Timestamp,
    /// Whether anything has changed since it was last asked.
    is_stirred: bool,
    rest_until: Timestamp,
}

// === impl Rhythm ===

impl Rhythm {
    /// The first question is asked at `moment`.
    #[must_use]
    pub const fn from(moment: Timestamp) -> Self {
        Self { at: moment, is_stirred: true, rest_until: moment }
    }

    /// Something has changed.
    pub const fn stir(&mut self) {
        self.is_stirred = true;
    }

    /// Whether it is to be asked now.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next()
    }

    /// When it is to be asked next, if nothing changes before.
    #[must_use]
    pub fn next(&self) -> Timestamp {
        if self.is_stirred { self.at } else { self.rest_until.max(self.at) }
    }

    /// It is being asked: what changes from here on is news.
    pub const fn ask(&mut self) {
        self.is_stirred = false;
    }

    /// It has been answered. It is asked again at `again` if anything has changed, or if the answer `is_open`; else when a
    /// node becomes quiet or old enough.
    pub fn answer(&mut self, again: Timestamp, is_open: bool, cluster: &Cluster, now: Timestamp) {
        self.at = again;
        self.is_stirred |= is_open;
        self.rest_until = after(now, STILL).min(next_quiet(cluster, now));
    }
}

/// When time alone makes a node quiet enough to be consolidated.
fn next_quiet(cluster: &Cluster, now: Timestamp) -> Timestamp {
    let moments = cluster.pools().filter_map(|pool| {
        let wait = pool.spec.disruption.consolidate_after.duration()?;
        let quiet = cluster.claims_of_pool(pool.metadata.name.as_deref()?).filter_map(move |claim| {
            let initialized = condition(claim, nodeclaim::INITIALIZED).filter(|one| one.status == "True");
            let last = claim.status.as_ref()?.last_pod_event_time.as_ref();
            let since = last.or(initialized.map(|one| &one.last_transition_time))?;
            Some(after(since.0, wait))
        });
        quiet.filter(|moment| *moment > now).min()
    });
    moments.min().unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::Kind;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn what_changes_is_a_reason_to_ask_and_what_rests_is_none() {
        let cluster = Cluster::default();
        let mut rhythm = Rhythm::from(at(100));
        assert!(!rhythm.is_due(at(99)) && rhythm.is_due(at(100)));
        rhythm.ask();
        rhythm.answer(at(110), false, &cluster, at(100));
        assert_eq!(rhythm.next(), at(400), "nothing has changed");
        rhythm.stir();
        assert_eq!(rhythm.next(), at(110));
        rhythm.ask();
        rhythm.stir();
        rhythm.answer(at(120), false, &cluster, at(111));
        assert_eq!(rhythm.next(), at(120), "something has changed while it was asked");
        rhythm.ask();
        rhythm.answer(at(130), true, &cluster, at(120));
        assert_eq!(rhythm.next(), at(130), "the answer is to be confirmed");
    }

    #[test]
    fn a_node_that_becomes_quiet_is_a_reason_to_ask() {
        let mut cluster = Cluster::default();
        let reference = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {
                "template": {"spec": {"nodeClassRef": reference, "requirements": []}},
                "disruption": {"consolidateAfter": "30s"},
            },
        });
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "general-a", "labels": {"karpenter.sh/nodepool": "general"}},
            "spec": {"nodeClassRef": reference, "requirements": [], "resources": {}},
            "status": {"lastPodEventTime": at(90).to_string()},
        });
        cluster.apply(Kind::NodePool, &pool.to_string());
        cluster.apply(Kind::NodeClaim, &claim.to_string());
        let mut rhythm = Rhythm::from(at(100));
        rhythm.ask();
        rhythm.answer(at(110), false, &cluster, at(100));
        assert_eq!(rhythm.next(), at(120));
    }
}
