//! Nodes that go before what replaces them is there: nothing can be launched beside them, because their static pool is
//! at its limit of nodes, or the capacity reservation that they run in is full.
//!
//! Their pods are pending until then. So it is done only behind the gates `TerminateFirstDrift` and
//! `TerminateFirstRepair`, and only where the room that a node leaves is enough for its pods.

use super::decision::Method;
use super::input::{Cause, ManagedNode};
use super::pass::Pass;
use super::world::{Trial, unplaced};
use crate::labels;
use crate::model::{Node, NodePool, PoolState, Resource, credit};
use crate::solution::Solution;

/// Capacity type of nodes in a capacity reservation.
const RESERVED: &str = "reserved";

impl Pass<'_> {
    /// Removes the node without a replacement, if the gate of `cause` is on and its pods fit once it has gone. Returns
    /// false if they would not.
    pub(super) fn terminate_first(&mut self, node: usize, cause: Cause) -> bool {
        let pool = self.input().managed_nodes[node].as_ref().and_then(|managed_node: &ManagedNode| managed_node.pool);
        let Some(pool) = pool.filter(|_| self.world.settings.terminate_first.covers(cause)) else { return false };
        let frees_room =
            if self.is_static(node) { is_at_limit(&self.world.problem.pools[pool]) } else { self.fits_once_gone(node) };
        if !frees_room {
            return false;
        }
        let pods = self.world.leavers(node);
        let unschedulable = (0..pods.len()).map(unplaced).collect();
        let solution = Solution { unschedulable, ..Solution::default() };
        self.accept((cause, Method::TerminateFirst), &Trial { nodes: vec![node], pods, solution }, Vec::new());
        true
    }

    /// Returns true if the node runs in a capacity reservation, and its pods fit once its instance is available again.
    /// While another node of its pool is starting, it may be the replacement of one that went before.
    fn fits_once_gone(&mut self, node: usize) -> bool {
        let nodes = &self.input().problem.nodes;
        let label = |key: &str| nodes[node].labels.get(key);
        let is_starting = |one: &Node| {
            !one.initialized && !one.deleting && one.labels.get(labels::NODE_POOL) == label(labels::NODE_POOL)
        };
        if nodes.iter().any(is_starting) {
            return false;
        }
        let id = label(labels::CAPACITY_RESERVATION_ID).cloned();
        let is_reserved = label(labels::CAPACITY_TYPE).is_some_and(|value| &**value == RESERVED);
        let Some(id) = id.filter(|_| is_reserved) else { return false };
        let before = self.world.problem.catalogues.clone();
        credit(&mut self.world.problem, &id);
        let trial = self.world.attempt(&[node]);
        self.world.problem.catalogues = before;
        self.world.places_real_pods(&trial)
    }
}

/// Returns true if the pool can launch, but has as many nodes as its limits allow.
fn is_at_limit(pool: &NodePool) -> bool {
    let nodes = Resource::new("nodes");
    let limit = pool.limits.as_ref().filter(|limits| limits.contains(&nodes)).map(|limits| limits.get(&nodes));
    pool.state == PoolState::Ready && limit.is_some_and(|limit| pool.usage.get(&nodes) >= limit)
}
