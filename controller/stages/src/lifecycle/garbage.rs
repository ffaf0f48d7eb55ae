//! Garbage collection of orphans: instances whose claim is gone, and Nodes without a claim and an instance.
//!
//! Claims whose instance is gone are handled by `vanish`.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, annotations, labels};
use muster_cloud::{Instance, after};

use super::demote::is_reserved;
use super::initialize::is_ready;
use super::register::{has_finalizer, name, uid};
use crate::node::Node;
use crate::step::{Call, MetaChange, NodeChange, Step, Write};

/// Age at which an instance without a claim is an orphan: Karpenter's value. It covers a claim that the watch cache
/// does not have yet.
pub const GRACE: Duration = Duration::from_secs(30);
/// Interval between collections: Karpenter's value.
pub const EVERY: Duration = Duration::from_secs(120);

/// Interval between collections while claims are in capacity reservations, whose instances may be billed on demand at
/// any time: Karpenter's value.
pub const EVERY_RESERVED: Duration = Duration::from_secs(60);

/// State of the cluster, all of it observed after `listed_at`.
#[derive(Debug, Clone)]
pub struct GarbageInput<'a> {
    /// Time at which the listing of instances was requested; claims and Nodes are at least as new.
    pub listed_at: Timestamp,
    /// All instances of the cluster.
    pub instances: &'a [Instance],
    /// All claims.
    pub claims: Vec<&'a NodeClaim>,
    /// All Nodes with the label of a NodePool.
    pub nodes: Vec<&'a Node>,
}

/// Terminates instances without a claim, and deletes Nodes without a claim and an instance.
#[must_use]
pub fn collect(input: &GarbageInput<'_>, now: Timestamp) -> Step {
    let owned: BTreeSet<&str> = input.claims.iter().filter_map(|claim| provider_id(claim)).collect();
    let launching: BTreeSet<&str> = input
        .claims
        .iter()
        .filter(|claim| provider_id(claim).is_none())
        .filter_map(|claim| claim.metadata.uid.as_deref())
        .collect();
    let is_nobodys = |instance: &&Instance| {
        let token = instance.token.as_ref();
        !owned.contains(instance.provider_id.as_str())
            && !token.is_some_and(|token| launching.contains(token.claim_uid.as_str()))
            && input.listed_at >= after(instance.launched_at, GRACE)
    };
    let mut writes = Vec::new();
    for instance in input.instances.iter().filter(is_nobodys).filter(|one| !one.state.is_ending()) {
        writes.push(Write::Cloud(Call::Terminate(instance.provider_id.clone())));
    }
    let existing: BTreeSet<&str> = input.instances.iter().map(|one| one.provider_id.as_str()).collect();
    for node in &input.nodes {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        // A Node without a provider ID, or a ready one, may have an instance that is not in the list.
        if !id.is_empty() && !owned.contains(id) && !existing.contains(id) && !is_ready(node) {
            writes.extend(bury(node, input.listed_at));
        }
    }
    Step { writes, again: Some(after(now, interval(input.claims.iter().copied()))) }
}

/// Returns the time until the next collection.
#[must_use]
pub fn interval<'c>(mut claims: impl Iterator<Item = &'c NodeClaim>) -> Duration {
    let is_any_reserved = claims.any(|claim| is_reserved(claim.metadata.labels.as_ref()));
    if is_any_reserved { EVERY_RESERVED } else { EVERY }
}

fn provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

/// Deletes a Node whose claim and instance are gone, unless it is too young or does not belong to a NodePool.
fn bury(node: &Node, listed_at: Timestamp) -> Vec<Write> {
    let meta = &node.metadata;
    let is_ours = meta.labels.as_ref().is_some_and(|all| all.contains_key(labels::NODEPOOL));
    let made_at = meta.creation_timestamp.as_ref().map_or(listed_at, |time| time.0);
    if !is_ours || listed_at < after(made_at, GRACE) {
        return Vec::new();
    }
    let mut writes = Vec::new();
    if meta.deletion_timestamp.is_none() {
        writes.push(Write::DeleteNode { name: name(node), uid: uid(node) });
    }
    if has_finalizer(node) {
        let mut all = meta.finalizers.clone().unwrap_or_default();
        all.retain(|one| one != annotations::TERMINATION_FINALIZER);
        let meta = MetaChange { finalizers: Some(all), ..MetaChange::default() };
        writes.push(Write::Node { name: name(node), change: NodeChange { meta, taints: None } });
    }
    writes
}
