//! Nodes of one decision that are opened together because pods are spread over them.
//!
//! ```text
//!   node 1   ├── boots ──┤ ready ░░░░░░░░░│ open
//!   node 2   ├────── boots ──────┤ ready ░│ open       ░ held, ten seconds at most
//!   node 3   ├──────── boots ────────┤ ready, open
//! ```
//!
//! kube-scheduler tries pending pods in the order of its queue, and starts again with every node that becomes
//! schedulable. If nodes open one after the other, the first pods of a spread are tried before a node in their zone is
//! open, and are then behind the last ones, which take their places: of a thousand pods half were not bound as
//! nominated, and a tenth more nodes were launched for pods without a place.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::taints;
use muster_cloud::after;
use muster_scheduling::model::Problem;

use super::plan::{ClaimAndNode, NodeHold, PlacementView, Plan};
use crate::lifecycle::is_true;
use crate::node::Node;

/// Maximum time for which a ready node waits for others to become ready. Instances of one decision become ready within
/// seconds of each other; a longer delay has another cause and must not delay the other nodes.
const TOGETHER: Duration = Duration::from_secs(10);

/// Maximum time for which the pods of a node that is not ready are not nominated.
const READY: Duration = Duration::from_secs(15);

/// NodeClaims by the decision that they belong to.
type Members = BTreeMap<Timestamp, BTreeSet<String>>;

/// Nodes of groups opened together that cannot open yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Late {
    /// Claims whose nodes do not exist or are not ready.
    unready: Members,
    /// Claims with planned pods that have not been nominated.
    untold: Members,
}

/// Returns true if the pod has a required topology spread constraint.
pub(super) fn is_spread(problem: &Problem, pod: usize) -> bool {
    problem.specs[problem.pods[pod].spec].spread.iter().any(|constraint| constraint.required)
}

impl Plan {
    /// Returns the nodes that others wait for and that cannot open yet.
    #[must_use]
    pub fn late(&self, view: &PlacementView<'_>) -> Late {
        let mut late = Late::default();
        if self.gangs.is_empty() {
            return late;
        }
        let add = |members: &mut Members, claim: &str| {
            if let Some(gang) = self.gangs.get(claim) {
                members.entry(*gang).or_default().insert(claim.to_owned());
            }
        };
        for claimed in view.claims {
            if claimed.is_leaving() || is_true(claimed.claim, nodeclaim::REGISTERED) {
                continue;
            }
            if claimed.node.and_then(ready_since).is_none() {
                add(&mut late.unready, claimed.name());
            } else if self.has_untold(claimed, view) {
                add(&mut late.untold, claimed.name());
            }
        }
        self.coming.keys().for_each(|claim| add(&mut late.unready, claim));
        late
    }

    /// Returns the time until which the pods of a Node must not be nominated, if it is too early. A pod that is tried
    /// in vain loses its nomination, and every new Node causes a try of all pods, so pods are nominated shortly before
    /// the nodes open.
    pub(super) fn is_too_early(&self, claimed: &ClaimAndNode<'_>, late: &Late, now: Timestamp) -> Option<Timestamp> {
        let node = claimed.node?;
        let latest = after(node.metadata.creation_timestamp.as_ref()?.0, READY);
        let until = match ready_since(node) {
            None => latest,
            Some(since) if self.has_others(claimed, &late.unready) => latest.min(after(since, TOGETHER)),
            Some(_) => return None,
        };
        (now < until).then_some(until)
    }

    /// Returns the hold on the Node of a claim that waits for others. `is_untold` is true if its own pods have not been
    /// nominated; `until` is the time at which it opens in any case.
    pub(super) fn waits_for_gang(
        &self,
        claimed: &ClaimAndNode<'_>,
        late: &Late,
        is_untold: bool,
        until: Timestamp,
        now: Timestamp,
    ) -> Option<NodeHold> {
        // The same message for its own pods and those of others: they alternate, and every change would be written.
        let untold = || NodeHold {
            why: "its pods are spread over it and other nodes, and some of them are not nominated yet".to_owned(),
            until,
        };
        if is_untold {
            return Some(untold());
        }
        let ready_until = ready_since(claimed.node?).map_or(until, |since| until.min(after(since, TOGETHER)));
        if self.has_others(claimed, &late.unready) && now < ready_until {
            let why = "its pods are spread over it and nodes that are not ready yet".to_owned();
            return Some(NodeHold { why, until: ready_until });
        }
        (self.has_others(claimed, &late.untold) && now < until).then(untold)
    }

    fn has_others(&self, claimed: &ClaimAndNode<'_>, members: &Members) -> bool {
        let gang = self.gangs.get(claimed.name()).and_then(|gang| members.get(gang));
        gang.into_iter().flatten().any(|claim| claim != claimed.name())
    }
}

/// Returns the time at which the Node became ready, if no taint other than ours keeps pods away.
fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    let mut keys = node.spec.iter().flat_map(|spec| &spec.taints).flatten().map(|taint| taint.key.as_str());
    let is_closed = keys.any(|key| taints::is_ephemeral(key) && key != taints::UNREGISTERED);
    if is_closed { None } else { Some(ready.last_transition_time.as_ref()?.0) }
}
