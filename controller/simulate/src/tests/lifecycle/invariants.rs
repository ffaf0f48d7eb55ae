//! Invariants of every moment of every life.

use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, labels, taints};
use muster_stages::disruption::{is_marked, mark_of};
use muster_stages::lifecycle::is_true;

use super::WriteLog;
use crate::api::Path;
use crate::world::World;

/// Checks Nodes and disruption commands. That a claim has no two instances is checked by [`crate::checks::Checks`].
pub(super) fn check(world: &World, log: &WriteLog) {
    for node in world.api.nodes.values() {
        let is_registered = node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::REGISTERED));
        let is_held = node.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        let is_leaving = node.metadata.deletion_timestamp.is_some();
        assert!(!is_registered || is_held || is_leaving, "registered without a finalizer\n{}", log.diary());
        let is_unregistered = taint_keys(node).any(|key| key == taints::UNREGISTERED);
        assert!(!(is_registered && is_unregistered), "registered in two writes\n{}", log.diary());
    }
    let claims = &world.api.claims;
    for claim in claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_some()) {
        let Some(mark) = mark_of(claim).filter(|mark| !mark.cause.forceful()) else { continue };
        for name in mark.replacements {
            let is_up = claims.get(&Path::bare(&*name)).is_some_and(|one| is_true(one, nodeclaim::INITIALIZED));
            assert!(is_up, "{:?} goes before {name} is up\n{}", claim.metadata.name, log.diary());
        }
    }
    for node in tainted(world) {
        let is_its =
            |claim: &&NodeClaim| claim.status.as_ref().is_some_and(|status| status.node_name.as_ref() == Some(&node));
        let explains = |claim: &NodeClaim| is_marked(claim) || claim.metadata.deletion_timestamp.is_some();
        let claim = claims.values().find(is_its);
        assert!(claim.is_some_and(explains), "nothing explains the taint of {node}\n{}", log.diary());
    }
}

/// Returns the Nodes that are tainted because they are to go.
pub(super) fn tainted(world: &World) -> Vec<String> {
    let nodes = world.api.nodes.values().filter(|node| taint_keys(node).any(|key| key == taints::DISRUPTED));
    nodes.filter_map(|node| node.metadata.name.clone()).collect()
}

/// Returns the keys of the taints of a Node.
pub(super) fn taint_keys(node: &k8s_openapi::api::core::v1::Node) -> impl Iterator<Item = &str> {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    all.iter().map(|taint| taint.key.as_str())
}
