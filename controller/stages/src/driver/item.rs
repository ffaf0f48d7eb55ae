//! Objects that are reconciled.

use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations, taints};

use crate::disruption::{is_marked, mark_of};
use crate::lifecycle::{condition, is_true};
use crate::state::{Cluster, Kind};

/// An object to be reconciled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// The NodeClaim of this name.
    Claim(String),
    /// The NodePool of this name.
    Pool(String),
    /// The NodeClass of this kind and name.
    Class(Kind, String),
    /// All NodeOverlays.
    Overlays,
    /// All CapacityBuffers.
    Buffers,
}

/// An object of disruption to be reconciled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandItem {
    /// The command of this name.
    Command(String),
    /// The claim of this name, which has the taint or condition of disruption but no mark.
    Stale(String),
}

// === impl CommandItem ===

impl CommandItem {
    /// Returns the items for which the claim must be reconciled.
    pub(super) fn of_claim(cluster: &Cluster, name: &str) -> Vec<Self> {
        let Some(claim) = cluster.claim(name) else { return Vec::new() };
        let mut items = Vec::new();
        let replaces = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotations::REPLACES));
        items.extend(replaces.cloned().map(Self::Command));
        if is_marked(claim) {
            // An unreadable mark is treated as a command named after the claim.
            items.push(Self::Command(mark_of(claim).map_or_else(|| name.to_owned(), |mark| mark.command)));
        } else if says_it_goes(cluster, claim) {
            items.push(Self::Stale(name.to_owned()));
        }
        items
    }
}

fn says_it_goes(cluster: &Cluster, claim: &NodeClaim) -> bool {
    let taint = taints::disrupted();
    let node = cluster.node_of(claim).and_then(|node| node.spec.as_ref());
    let mut taints = node.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    taints.any(|one| one.key == taint.key && one.effect == taint.effect)
        || condition(claim, nodeclaim::DISRUPTION_REASON).is_some() && !is_true(claim, nodeclaim::REBOOTING)
}
