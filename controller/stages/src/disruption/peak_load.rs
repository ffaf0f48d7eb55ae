//! Highest observed load of each node. A node whose load has fallen since its launch may be consolidated at any time; a
//! recently launched one that is as full as ever must first pay back its launch.
//!
//! ```text
//!   Input ───► observe: load of each node, and the highest so far ──► fell? ── yes ──► Member::keeps_until: none
//!                                                                          └───── no ───► launch + payback
//! ```
//!
//! This makes consolidation terminate: a command removes at least one node that may be consolidated, and launches only
//! nodes that may not. The number of the former decreases with every command, and increases only when load falls or a
//! node has paid back.
//!
//! Pods that were planned for a node and bound elsewhere were never its load, so their absence is not a fall. The load
//! for which a node was launched counts only after a pod was observed to leave it: a node may be full for less time
//! than passes between two observations.
//!
//! The loads are kept in memory only: a controller that has just started has observed no fall, and keeps nodes until
//! they have paid back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_scheduling::disrupt::DisruptionInput;
use muster_scheduling::model::{Node, Problem, Resource};

/// Fraction of a node by which its load must have fallen: less may be a pod or two that come and go.
const FALL: f64 = 0.1;

/// Highest load of each node so far, by Node name.
#[derive(Debug, Clone, Default)]
pub(super) struct PeakLoads(BTreeMap<Arc<str>, Peak>);

#[derive(Debug, Clone, Copy, Default)]
struct Peak {
    /// Highest load so far.
    load: f64,
    /// True if a pod has left it.
    was_left: bool,
}

// === impl PeakLoads ===

impl PeakLoads {
    /// Records the load of every managed node, and the nodes that a pod has `left` since the last call. Sets the time
    /// until which consolidation must keep each of them.
    pub(super) fn observe(&mut self, input: &mut DisruptionInput, left: &BTreeSet<Arc<str>>, payback: SignedDuration) {
        let before = std::mem::take(&mut self.0);
        let DisruptionInput { problem, managed_nodes, .. } = input;
        for (node, managed_node) in problem.nodes.iter().zip(managed_nodes) {
            let Some(managed_node) = managed_node else { continue };
            let load = load(problem, node);
            let known = before.get(&node.name).copied().unwrap_or_default();
            let was_left = known.was_left || left.contains(&node.name);
            let peak = Peak { load: known.load.max(load), was_left };
            self.0.insert(Arc::clone(&node.name), peak);
            let highest = if was_left { peak.load.max(managed_node.launched_for) } else { peak.load };
            let is_as_full_as_ever = load + FALL > highest;
            managed_node.keeps_until =
                managed_node.created.filter(|_| is_as_full_as_ever).and_then(|at| end(at, payback));
        }
    }
}

fn end(launched: Timestamp, payback: SignedDuration) -> Option<Timestamp> {
    launched.checked_add(payback).ok().filter(|end| *end > launched)
}

/// Returns the fraction of the node that its pods and DaemonSets request, of CPU or memory, whichever is larger.
fn load(problem: &Problem, node: &Node) -> f64 {
    let mut used = node.daemon_requests.clone();
    for bound in node.bound.iter().filter(|bound| bound.counts) {
        used.add(&problem.specs[bound.spec].requests);
    }
    let share = |resource: &Resource| used.get(resource) as f64 / node.allocatable.get(resource).max(1) as f64;
    share(&Resource::Cpu).max(share(&Resource::Memory))
}

#[cfg(test)]
mod tests {
    use muster_scheduling::disrupt::ManagedNode;
    use muster_scheduling::model::{BoundPod, Labels, PodSpec, Resources};

    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns a node with 10 CPUs, launched at 100 s for this fraction of it, with this number of pods of one CPU.
    fn input(pods: usize, launched_for: f64) -> DisruptionInput {
        let amounts = |cpu: i64| -> Resources { [(Resource::Cpu, cpu)].into_iter().collect() };
        let mut problem = Problem::default();
        let spec = problem.intern(PodSpec::unconstrained("shop", amounts(1000)));
        let bound = |number| BoundPod {
            name: format!("shop/{number}").into(),
            spec,
            counts: true,
            planned: false,
            daemon: false,
        };
        problem.nodes.push(Node {
            name: "a".into(),
            labels: Labels::default(),
            taints: Vec::new(),
            allocatable: amounts(10_000),
            daemon_requests: Resources::new(),
            initialized: true,
            deleting: false,
            bound: (0..pods).map(bound).collect(),
            attach_limits: Vec::new(),
            attached: Vec::new(),
        });
        let managed_node = ManagedNode {
            pool_name: "general".into(),
            pool: Some(0),
            ready: true,
            created: Some(at(100)),
            initialized: Some(at(130)),
            launched_for,
            ..ManagedNode::default()
        };
        DisruptionInput { problem, managed_nodes: vec![Some(managed_node)], ..DisruptionInput::default() }
    }

    /// Returns the time until which the node is kept after observations with these numbers of pods. `has_left` is true
    /// if a pod has left it before the last one.
    fn kept(seen: &[usize], launched_for: f64, has_left: bool) -> Option<Timestamp> {
        let mut loads = PeakLoads::default();
        let mut kept = None;
        for (number, pods) in seen.iter().enumerate() {
            let mut input = input(*pods, launched_for);
            let is_last = number + 1 == seen.len();
            let left: BTreeSet<Arc<str>> = (is_last && has_left).then(|| "a".into()).into_iter().collect();
            loads.observe(&mut input, &left, HOUR);
            kept = input.managed_nodes[0].as_ref().unwrap().keeps_until;
        }
        kept
    }

    #[test]
    fn launch_is_kept_until_it_has_paid_back() {
        assert_eq!(kept(&[9], 0.9, false), Some(at(3700)));
        assert_eq!(kept(&[5, 9, 9], 0.9, false), Some(at(3700)));
    }

    #[test]
    fn node_that_was_fuller_is_not_kept() {
        assert_eq!(kept(&[9, 7], 0.9, false), None);
        assert_eq!(kept(&[3], 0.9, true), None, "it was full between two looks");
    }

    #[test]
    fn node_whose_pods_never_came_is_kept() {
        assert_eq!(kept(&[3, 3], 0.9, false), Some(at(3700)));
    }
}
