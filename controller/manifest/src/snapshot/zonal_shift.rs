//! Nodes in zones that traffic is shifted away from: they stay as they are, or leave if their NodePool asks for it.

use std::sync::Arc;

use muster_api::annotations::{ZONAL_SHIFT, ZONAL_SHIFT_DRAIN};
use muster_scheduling::labels::{ZONE, ZONE_ID};
use muster_scheduling::model::Problem;

use crate::{Manifests, Node, NodeClaim, NodePool};

/// Returns true if nodes of the pool are to leave such a zone.
pub(super) fn drains(pool: &NodePool) -> bool {
    pool.meta.annotations.get(ZONAL_SHIFT).is_some_and(|value| **value == *ZONAL_SHIFT_DRAIN)
}

/// Returns the reason why nothing is launched in the node's zone, as a sentence, if the zone is closed.
pub(super) fn of(manifests: &Manifests, problem: &Problem, node: &Node, claim: &NodeClaim) -> Option<String> {
    if problem.closed_zones.is_empty() {
        return None;
    }
    let label = |key: &str| claim.meta.labels.get(key).or_else(|| node.meta.labels.get(key));
    let id = label(ZONE_ID).cloned().or_else(|| of_class(manifests, claim, label(ZONE)?))?;
    let closed = problem.closed_zones.iter().find(|closed| closed.id == id)?;
    let name = label(ZONE).unwrap_or(&id);
    Some(format!("zone `{name}` ({id}) {}", closed.why))
}

/// Returns the ID of a zone by its name, as the subnets of the claim's class have it.
fn of_class(manifests: &Manifests, claim: &NodeClaim, zone: &Arc<str>) -> Option<Arc<str>> {
    let mut classes = manifests.node_classes.iter();
    let class = classes.find(|class| *class.kind == *claim.class.kind && class.name == claim.class.name)?;
    class.settings.zones.as_ref()?.get(zone).cloned().flatten()
}
