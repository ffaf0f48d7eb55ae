//! Pods of one kind hand their places on: who was bound elsewhere leaves its place to one that stands where it went.
//!
//! ```text
//!   planned   a ─► node 1 (zone 1)        b ─► node 2 (zone 2)
//!   bound     a ─► node 3 (zone 2)        node 1 was not open yet
//!   told                                  b ─► node 1: zone 2 has its share, and whoever came next would take that room
//! ```
//!
//! A plan survives a pod that goes its own way if another one goes in its stead: each zone gets as many of them as was planned,
//! and no node more. Without that, the second one is refused where it was told to go, and by then others have the room that
//! the first one left: a node is bought for it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::labels;
use muster_scheduling::model::{Problem, SpecId};

use super::plan::{Claimed, Homes, Placed, Plan, Scene};

/// Whom a pod can exchange its place with.
pub(super) type Kin = (Timestamp, SpecId);

/// A pod that has gone from its place to a node.
pub(super) struct Left {
    kin: Kin,
    /// Name of the NodeClaim whose place it had.
    claim: String,
    /// The Node that it is on.
    node: String,
}

impl Left {
    /// `pod` had a place on the node of `claim`, and waits no more. Who is where it was told to go has left nothing.
    pub(super) fn of(pod: &Placed, claim: &Claimed<'_>, homes: &dyn Homes) -> Option<Self> {
        let kin = pod.kin?;
        let node = homes.home(&pod.path, &pod.uid).filter(|node| claim.node_name() != Some(*node))?;
        Some(Self { kin, claim: claim.name().to_owned(), node: node.to_owned() })
    }
}

/// Whether it matters which of several alike pods is where: rules look at them together.
pub(super) fn has_kin(problem: &Problem, pod: usize) -> bool {
    let spec = &problem.specs[problem.pods[pod].spec];
    spec.spread.iter().any(|constraint| constraint.required) || !spec.anti_affinity.is_empty()
}

/// How good it is that a pod gives its place up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// The other one is on the very node that was meant for it.
    Node,
    /// The other one is in its zone.
    Zone,
}

impl Plan {
    /// Gives the places of those who went elsewhere to others of their kind.
    pub(super) fn hand_on(&mut self, left: &[Left], scene: &Scene<'_>) {
        if left.is_empty() {
            return;
        }
        let claims: BTreeMap<&str, &Claimed<'_>> = scene.claims.iter().map(|one| (one.name(), one)).collect();
        let by_node: BTreeMap<&str, &str> =
            scene.claims.iter().filter_map(|one| Some((one.node_name()?, one.name()))).collect();
        for Left { kin, claim, node } in left {
            let Some(to) = by_node.get(node.as_str()).copied() else { continue };
            let zone = |claim: &str| claims.get(claim).and_then(|one| zone(one));
            let (from_zone, to_zone) = (zone(claim), zone(to));
            let heir = self.placed.iter().filter(|(holder, _)| *holder != claim).flat_map(|(holder, pods)| {
                let reason = if holder == to {
                    Some(Reason::Node)
                } else {
                    (from_zone != to_zone && zone(holder) == to_zone).then_some(Reason::Zone)
                };
                let alike = pods.iter().enumerate().filter(|(_, pod)| pod.kin == Some(*kin));
                alike.filter_map(move |(at, pod)| Some((reason?, holder, at, pod)))
            });
            let here = claims.get(claim.as_str()).and_then(|one| one.node_name());
            // Of several the last in the queue, which is told before it is tried; but first whoever has been told already: a
            // round that began before that knew nothing of it.
            let heir = heir.filter_map(|(reason, holder, at, pod)| {
                let waits = scene.applicants.get(&pod.path).filter(|one| one.pod.uid == pod.uid && one.is_unbound())?;
                let is_told = self.hinted.get(&pod.uid).is_some_and(|hint| Some(&*hint.node) == here);
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

fn zone<'a>(claimed: &Claimed<'a>) -> Option<&'a str> {
    claimed.claim.metadata.labels.as_ref()?.get(labels::ZONE).map(String::as_str)
}
