//! Exchange of places between similar pods: the place of a pod that was bound elsewhere goes to a pod planned where it
//! went.
//!
//! ```text
//!   planned     a ─► node 1 (zone 1)        b ─► node 2 (zone 2)
//!   bound       a ─► node 3 (zone 2)        node 1 was not open yet
//!   nominated                               b ─► node 1: zone 2 has its share, and node 1 has room
//! ```
//!
//! If a pod is not bound as planned, the plan stays valid when another pod takes its place: each zone gets as many pods
//! as planned, without another node. Otherwise the second pod is refused on its planned node, and by then other pods
//! have taken the room that the first one left, so that another node is launched.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::labels;
use muster_scheduling::model::{Problem, SpecId};

use super::plan::{ClaimAndNode, Placed, PlacementView, Plan, PodBindings};

/// Kind of pods that can exchange their places.
pub(super) type Equivalence = (Timestamp, SpecId);

/// A pod that was bound to another node than planned.
pub(super) struct Left {
    equivalence: Equivalence,
    /// Name of the NodeClaim where its place was.
    claim: String,
    /// Node to which it is bound.
    node: String,
}

impl Left {
    /// Returns the record for `pod`, which had a place on the node of `claim` and is not pending any more; `None` if it
    /// was bound there.
    pub(super) fn of(pod: &Placed, claim: &ClaimAndNode<'_>, bindings: &dyn PodBindings) -> Option<Self> {
        let equivalence = pod.equivalence?;
        let node = bindings.node_of(&pod.path, &pod.uid).filter(|node| claim.node_name() != Some(*node))?;
        Some(Self { equivalence, claim: claim.name().to_owned(), node: node.to_owned() })
    }
}

/// Returns true if the pod has rules that make the placement of similar pods depend on each other.
pub(super) fn has_equivalents(problem: &Problem, pod: usize) -> bool {
    let spec = &problem.specs[problem.pods[pod].spec];
    spec.spread.iter().any(|constraint| constraint.required) || !spec.anti_affinity.is_empty()
}

/// Reason why a pod gives up its own place, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// The other pod is on the node planned for it.
    Node,
    /// The other pod is in the zone planned for it.
    Zone,
}

impl Plan {
    /// Gives the places of pods that were bound elsewhere to similar pods.
    pub(super) fn hand_on(&mut self, left: &[Left], view: &PlacementView<'_>) {
        if left.is_empty() {
            return;
        }
        let claims: BTreeMap<&str, &ClaimAndNode<'_>> = view.claims.iter().map(|one| (one.name(), one)).collect();
        let by_node: BTreeMap<&str, &str> =
            view.claims.iter().filter_map(|one| Some((one.node_name()?, one.name()))).collect();
        for Left { equivalence, claim, node } in left {
            let Some(to) = by_node.get(node.as_str()).copied() else { continue };
            let zone = |claim: &str| claims.get(claim).and_then(|one| zone(one));
            let (from_zone, to_zone) = (zone(claim), zone(to));
            let heir = self.placed.iter().filter(|(holder, _)| *holder != claim).flat_map(|(holder, pods)| {
                let reason = if holder == to {
                    Some(Reason::Node)
                } else {
                    (from_zone != to_zone && zone(holder) == to_zone).then_some(Reason::Zone)
                };
                let alike = pods.iter().enumerate().filter(|(_, pod)| pod.equivalence == Some(*equivalence));
                alike.filter_map(move |(at, pod)| Some((reason?, holder, at, pod)))
            });
            let here = claims.get(claim.as_str()).and_then(|one| one.node_name());
            // Among several, prefer a pod that has already been nominated here, since a round that began earlier does
            // not know of it; then the last in the queue, which is nominated before it is tried.
            let heir = heir.filter_map(|(reason, holder, at, pod)| {
                let waits =
                    view.pending_pods.get(&pod.path).filter(|one| one.pod.uid == pod.uid && one.is_unbound())?;
                let is_told = self.nominations.get(&pod.uid).is_some_and(|hint| Some(&*hint.node) == here);
                Some(((reason, !is_told, Reverse(waits.queued)), holder.clone(), at))
            });
            let Some((_, holder, at)) = heir.min() else { continue };
            let Some(pods) = self.placed.get_mut(&holder) else { continue };
            let heir = pods.remove(at);
            if pods.is_empty() {
                self.placed.remove(&holder);
            }
            self.placed.entry(claim.clone()).or_default().push(heir);
        }
    }
}

fn zone<'a>(claimed: &ClaimAndNode<'a>) -> Option<&'a str> {
    claimed.claim.metadata.labels.as_ref()?.get(labels::ZONE).map(String::as_str)
}
