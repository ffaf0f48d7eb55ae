//! Nodes that are opened together: those of one decision that pods are spread over.
//!
//! ```text
//!   node 1   ├── boots ──┤ ready ░░░░░░░░░│ open
//!   node 2   ├────── boots ──────┤ ready ░│ open       ░ held, ten seconds at most
//!   node 3   ├──────── boots ────────┤ ready, open
//! ```
//!
//! kube-scheduler tries the pods that wait in the order in which it took them, and begins anew with every node that takes
//! pods. Where nodes open one after the other, the first pods of a spread are tried before their zone is there, and are then
//! behind the last ones, which take their places: of a thousand pods half did not go where they were told, and a tenth more
//! nodes were bought for those that fitted nowhere any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::taints;
use muster_cloud::after;
use muster_scheduling::model::Problem;

use super::plan::{Claimed, Hold, Plan, Scene};
use crate::lifecycle::is_true;
use crate::node::Node;

/// How long a node that could take pods waits for others to become ready. Instances of one decision are ready within seconds
/// of each other; who needs longer has a trouble of its own, and nobody else pays for it.
const TOGETHER: Duration = Duration::from_secs(10);

/// How long a node may take to become ready until its pods are told anyway.
const READY: Duration = Duration::from_secs(15);

/// NodeClaims by the decision that they are of.
type Members = BTreeMap<Timestamp, BTreeSet<String>>;

/// Who of those that open together cannot do so yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Late {
    /// Their nodes are not there, or not ready.
    unready: Members,
    /// Pods that are meant for them do not know.
    untold: Members,
}

/// Whether the pod asks for a spread, and not only prefers one.
pub(super) fn is_spread(problem: &Problem, pod: usize) -> bool {
    problem.specs[problem.pods[pod].spec].spread.iter().any(|constraint| constraint.required)
}

impl Plan {
    /// Which nodes that others wait for cannot take pods yet.
    #[must_use]
    pub fn late(&self, scene: &Scene<'_>) -> Late {
        let mut late = Late::default();
        if self.companies.is_empty() {
            return late;
        }
        let add = |members: &mut Members, claim: &str| {
            if let Some(company) = self.companies.get(claim) {
                members.entry(*company).or_default().insert(claim.to_owned());
            }
        };
        for claimed in scene.claims {
            if claimed.is_leaving() || is_true(claimed.claim, nodeclaim::REGISTERED) {
                continue;
            }
            if claimed.node.and_then(ready_since).is_none() {
                add(&mut late.unready, claimed.name());
            } else if self.has_untold(claimed, scene) {
                add(&mut late.untold, claimed.name());
            }
        }
        self.coming.keys().for_each(|claim| add(&mut late.unready, claim));
        late
    }

    /// Until when the pods of a Node are told nothing, if it is too early. A pod that is tried in vain forgets what it was
    /// told, and every Node that appears is a reason to try all pods: they are told when the nodes are about to open.
    pub(super) fn is_too_early(&self, claimed: &Claimed<'_>, late: &Late, now: Timestamp) -> Option<Timestamp> {
        let node = claimed.node?;
        let latest = after(node.metadata.creation_timestamp.as_ref()?.0, READY);
        let until = match ready_since(node) {
            None => latest,
            Some(since) if self.has_others(claimed, &late.unready) => latest.min(after(since, TOGETHER)),
            Some(_) => return None,
        };
        (now < until).then_some(until)
    }

    /// Why the Node of a claim waits for others; `is_untold`: pods of its own do not know it, and `until` is when it is opened
    /// whatever its pods know.
    pub(super) fn waits_for_company(
        &self,
        claimed: &Claimed<'_>,
        late: &Late,
        is_untold: bool,
        until: Timestamp,
        now: Timestamp,
    ) -> Option<Hold> {
        // One word for its own pods and those of others: they alternate, and every change would be written.
        let untold = || Hold {
            why: "its pods are spread over it and other nodes, and some of them do not know theirs yet".to_owned(),
            until,
        };
        if is_untold {
            return Some(untold());
        }
        let ready_until = ready_since(claimed.node?).map_or(until, |since| until.min(after(since, TOGETHER)));
        if self.has_others(claimed, &late.unready) && now < ready_until {
            let why = "its pods are spread over it and nodes that are not ready yet".to_owned();
            return Some(Hold { why, until: ready_until });
        }
        (self.has_others(claimed, &late.untold) && now < until).then(untold)
    }

    fn has_others(&self, claimed: &Claimed<'_>, members: &Members) -> bool {
        let company = self.companies.get(claimed.name()).and_then(|company| members.get(company));
        company.into_iter().flatten().any(|claim| claim != claimed.name())
    }
}

/// When the Node became ready, if it could take pods but for what keeps it to us.
fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    let mut keys = node.spec.iter().flat_map(|spec| &spec.taints).flatten().map(|taint| taint.key.as_str());
    let is_closed = keys.any(|key| taints::is_ephemeral(key) && key != taints::UNREGISTERED);
    if is_closed { None } else { Some(ready.last_transition_time.as_ref()?.0) }
}
