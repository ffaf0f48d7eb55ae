//! What becomes of a plan when kube-scheduler, and not the plan, places the pods.
//!
//! All planned nodes are up at once, and pods come in the order of the input, without hints. For each pod:
//!
//! 1. **Filters**: taints, node selector and affinity, volumes' zones, requests against what is left, host ports, attach
//!    limits, required anti-affinity (own and inverse), required affinity (with its first-pod exception), required spread
//!    (the minimum over the domains of the nodes that are up; of hostnames: zero).
//! 2. **Sample**: like kube-scheduler by default, scoring stops at `max(100, n · (50 − n/125) %)` feasible nodes (at least 5 %),
//!    and the next pod starts looking where this one stopped.
//! 3. **Scores**: NodeResourcesFit (LeastAllocated over cpu and memory, weight 1), NodeResourcesBalancedAllocation (weight 1; as
//!    of Kubernetes 1.36, whose points are for what the pod changes), both in whole points as kube-scheduler has them, and PodTopologySpread over the spreads that only ask (weight 2,
//!    normalised over the sample). The first of equal nodes wins.
//!
//! Compared with kube-scheduler 1.37 itself, pod by pod, in `tests/tests/run/scheduler.rs`: each pod is bound to a node that is
//! among the best here.
//!
//! Not modelled: preferred node and pod affinity, `PreferNoSchedule`, image locality (all nodes are new), preemption, and
//! nodes that become ready one after another. Pods that find no node go through a second solve, in which the planned nodes
//! exist. A planned node is paid for even if it stays empty.

mod books;
mod lines;
mod nominations;
mod scheduler;

use crate::model::{Options, Problem};
use crate::second_round;
use crate::solution::Solution;
pub use nominations::{Nominated, nominations_that_hold};
pub use scheduler::Waiting;

/// What a plan costs in the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// USD per hour of the planned nodes and of those that the second round adds.
    pub expected_price: f64,
    /// Pods of the plan that found no planned or existing node.
    pub left_over: usize,
    /// Nodes that the second round adds.
    pub second_nodes: usize,
    /// Pods that have no node after the second round either.
    pub unplaced: usize,
    /// Planned nodes that got no pod.
    pub empty_nodes: usize,
}

/// Replays `solution`.
pub fn replay(problem: &Problem, options: &Options, solution: &Solution) -> Replay {
    let planned: f64 = solution.new_nodes.iter().map(|node| node.price).sum();
    let nodes = second_round::nodes_when_up(problem, solution);
    let existing = nodes.len() - solution.new_nodes.len();
    let (places, left_over) = scheduler::place(problem, &nodes, solution);
    let mut used = vec![false; nodes.len()];
    for &(_, node) in &places {
        used[node] = true;
    }
    let mut replay = Replay {
        expected_price: planned,
        left_over: left_over.len(),
        second_nodes: 0,
        unplaced: 0,
        empty_nodes: used[existing..].iter().filter(|used| !**used).count(),
    };
    if !left_over.is_empty() {
        let again = second_round::problem(problem, solution, nodes, &places, &left_over, false);
        let second = crate::solve(&again, options);
        replay.expected_price += second.new_nodes.iter().map(|node| node.price).sum::<f64>();
        replay.second_nodes = second.new_nodes.len();
        replay.unplaced = second.unschedulable.len();
    }
    replay
}

/// Where kube-scheduler would bind the pods of `queue`, which it takes in that order: by place in the queue, an index of
/// [`Problem::nodes`].
///
/// The nodes are those of the problem as they are: nothing is about to come, taints repel that are there, and a node that
/// is being deleted takes what its taints let it. What a pod was promised by a hint is held for it, as kube-scheduler counts
/// nominated pods. Pods that can be placed nowhere whatever the nodes are stay without.
pub fn schedule(problem: &Problem, queue: &[Waiting]) -> Vec<Option<usize>> {
    let can_be_placed = |waiting: &&Waiting| problem.spec_of(waiting.pod).refusal.is_none();
    let able: Vec<Waiting> = queue.iter().filter(can_be_placed).copied().collect();
    let mut found = scheduler::place_queue(problem, &problem.nodes, &able).into_iter();
    let place = |waiting: &Waiting| if can_be_placed(&waiting) { found.next().flatten() } else { None };
    queue.iter().map(place).collect()
}
