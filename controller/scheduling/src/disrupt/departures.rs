//! Order in which nodes are likely to go next. Workloads that are scaled down give up the pods of these nodes first, so
//! that they become empty.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Settings;
use super::input::{Cause, DisruptionInput};
use super::pass::Pass;
use super::ranking::worst_first;

/// Nodes that go, and nodes that are to go next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Departures {
    /// Nodes that are being removed.
    pub going: Vec<usize>,
    /// Nodes that may be disrupted, in the order in which a pass takes them: drifted ones, then those that
    /// consolidation prefers to lose. Of each pool not more than its budgets allow.
    pub next: Vec<usize>,
}

/// Returns the order for `input` at `now`. `is_open` excludes nodes whose pods no workload gives up.
///
/// The waits of consolidation do not count: it is pods that come and go which this order is for.
#[must_use]
pub fn departures(
    input: &DisruptionInput,
    now: Timestamp,
    settings: &Settings,
    is_open: impl Fn(usize) -> bool,
) -> Departures {
    let mut pass = Pass::new(input, settings, now, false);
    let nodes = input.problem.nodes.iter().enumerate();
    let is_managed = |node: &usize| input.managed_nodes.get(*node).is_some_and(Option::is_some);
    let going: Vec<usize> = nodes.filter(|(_, it)| it.deleting).map(|(node, _)| node).filter(is_managed).collect();
    pass.settle(&going);
    let mut left: BTreeMap<(usize, Cause), u64> = BTreeMap::new();
    let mut next: Vec<usize> = Vec::new();
    for node in pass.drifted(false).into_iter().filter(|node| is_open(*node)) {
        next.extend(allowed(&pass, &mut left, node, Cause::Drifted));
    }
    let mut candidates: Vec<usize> = Vec::new();
    for (node, managed_node) in pass.managed_nodes() {
        let consolidates = managed_node.pool.is_some_and(|pool| input.policies[pool].consolidate_after.is_some());
        if consolidates
            && !pass.is_static(node)
            && !next.contains(&node)
            && is_open(node)
            && pass.world.price(node).is_some()
            && pass.node_is_free(node)
            && pass.pods_are_free(node)
        {
            candidates.push(node);
        }
    }
    for node in worst_first(&mut pass.world, &candidates) {
        next.extend(allowed(&pass, &mut left, node, Cause::Underutilized));
    }
    Departures { going, next }
}

/// Returns the node if the budgets of its pool allow one more for `cause`.
fn allowed(pass: &Pass<'_>, left: &mut BTreeMap<(usize, Cause), u64>, node: usize, cause: Cause) -> Option<usize> {
    let pool = pass.input().managed_nodes[node].as_ref()?.pool?;
    let left = left.entry((pool, cause)).or_insert_with(|| pass.ledger.left(pool, cause));
    *left = left.checked_sub(1)?;
    Some(node)
}
