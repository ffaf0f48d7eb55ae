//! Replay of a plan with kube-scheduler's placement of the pods in place of the planned one.
//!
//! All planned nodes are ready at once, and pods arrive in the order of the input, without nominations. For each pod:
//!
//! 1. **Filters**: taints, node selector and affinity, volumes' zones, requests against free resources, host ports,
//!    attach limits, required anti-affinity (own and inverse), required affinity (with its first-pod exception),
//!    required spread (the minimum over the domains of the existing nodes; for hostnames: zero).
//! 2. **Sample**: like kube-scheduler by default, scoring stops at `max(100, n · (50 − n/125) %)` feasible nodes (at
//!    least 5 %), and the search for the next pod starts where this one stopped.
//! 3. **Scores**: NodeResourcesFit (LeastAllocated over cpu and memory, weight 1), NodeResourcesBalancedAllocation
//!    (weight 1; as of Kubernetes 1.36, which scores the change by the pod), both in integers like kube-scheduler, and
//!    PodTopologySpread over the preferred spreads (weight 2, normalised over the sample). The first of equal nodes
//!    wins.
//!
//! `tests/tests/live/run/scheduler.rs` compares this with kube-scheduler 1.37, pod by pod: it binds each pod to a node
//! that is among the best here.
//!
//! Not modelled: preferred node and pod affinity, `PreferNoSchedule`, image locality (all nodes are new), preemption,
//! and nodes that become ready one after another. Room that virtual pods keep is free for kube-scheduler. Virtual pods
//! whose nodes take pods, and pods without a node, go through a second solve, in which the planned nodes exist. A
//! planned node is paid for even if it stays empty.

mod books;
mod lines;
mod nominations;
mod scheduler;

use crate::model::{BoundPod, Node, Options, Pod, Problem};
use crate::second_round;
use crate::solution::Solution;
pub use nominations::{Nominated, nominations_that_hold};
pub use scheduler::Waiting;

/// Cost of a plan after the replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// USD per hour of the planned nodes and of those that the second round adds.
    pub expected_price: f64,
    /// Number of pods of the plan without a planned or existing node.
    pub left_over: usize,
    /// Number of nodes that the second round adds.
    pub second_nodes: usize,
    /// Number of pods without a node after the second round, virtual ones included: their room is lost.
    pub unplaced: usize,
    /// Number of planned nodes without pods.
    pub empty_nodes: usize,
}

/// Replays `solution`. The [example of the crate](crate#example) calls it.
pub fn replay(problem: &Problem, options: &Options, solution: &Solution) -> Replay {
    let planned: f64 = solution.new_nodes.iter().map(|node| node.price).sum();
    let mut nodes = second_round::nodes_when_up(problem, solution);
    let unseen = set_aside(problem, &mut nodes);
    let existing = nodes.len() - solution.new_nodes.len();
    let (places, left_over) = scheduler::place_real_pods(problem, &nodes, solution);
    let mut used = vec![false; nodes.len()];
    for &(_, node) in &places {
        used[node] = true;
    }
    let planned_virtual = virtual_pods(problem, solution, existing);
    planned_virtual.iter().for_each(|&(node, _)| used[node] = true);
    let displaced = put_back(problem, &mut nodes, unseen, &planned_virtual, &places);
    let mut replay = Replay {
        expected_price: planned,
        left_over: left_over.len(),
        second_nodes: 0,
        unplaced: 0,
        empty_nodes: used[existing..].iter().filter(|used| !**used).count(),
    };
    if !left_over.is_empty() || !displaced.is_empty() {
        let mut again = second_round::problem(problem, solution, nodes, &places, &left_over, false);
        again.pods.extend(displaced);
        let second = crate::solve(&again, options);
        replay.expected_price += second.new_nodes.iter().map(|node| node.price).sum::<f64>();
        replay.second_nodes = second.new_nodes.len();
        replay.unplaced = second.unschedulable.len();
    }
    replay
}

/// Removes virtual pods from the nodes, and returns them with their nodes.
fn set_aside(problem: &Problem, nodes: &mut [Node]) -> Vec<(usize, BoundPod)> {
    let is_virtual = |pod: &mut BoundPod| problem.specs[pod.spec].is_virtual;
    let nodes = nodes.iter_mut().enumerate();
    nodes.flat_map(|(number, node)| node.bound.extract_if(.., is_virtual).map(move |pod| (number, pod))).collect()
}

/// Virtual pods of a plan, with the indices of their nodes among those that are up.
fn virtual_pods(problem: &Problem, solution: &Solution, existing: usize) -> Vec<(usize, usize)> {
    if !problem.specs.iter().any(|spec| spec.is_virtual) {
        return Vec::new();
    }
    let staying = second_round::staying(problem);
    let there = solution.existing.iter().filter_map(|(node, pods)| Some((staying.binary_search(node).ok()?, pods)));
    let new = solution.new_nodes.iter().enumerate().map(|(number, node)| (existing + number, &node.pods));
    let all = there.chain(new).flat_map(|(node, pods)| pods.iter().map(move |pod| (node, *pod)));
    all.filter(|(_, pod)| problem.spec_of(*pod).is_virtual).collect()
}

/// Returns virtual pods to their nodes: those that were bound there, and those of the plan. The result is those whose
/// nodes take pods of `places`, which may exclude them.
fn put_back(
    problem: &Problem,
    nodes: &mut [Node],
    unseen: Vec<(usize, BoundPod)>,
    planned: &[(usize, usize)],
    places: &[(usize, usize)],
) -> Vec<Pod> {
    let mut takes = vec![false; nodes.len()];
    places.iter().for_each(|(_, node)| takes[*node] = true);
    let planned = planned.iter().map(|&(node, pod)| {
        let Pod { name, spec } = problem.pods[pod].clone();
        (node, BoundPod { name, spec, counts: true, planned: true, daemon: false })
    });
    let mut displaced = Vec::new();
    for (node, pod) in unseen.into_iter().chain(planned) {
        if takes[node] {
            displaced.push(Pod { name: pod.name, spec: pod.spec });
        } else {
            nodes[node].bound.push(pod);
        }
    }
    displaced
}

/// Returns the node to which kube-scheduler would bind each pod of `queue`, which it takes in that order: an index of
/// [`Problem::nodes`] by position in the queue.
///
/// The nodes are used as they are in the problem: no node is added, all their taints repel, and a node that is being
/// deleted takes the pods that its taints allow. Room for a nominated pod is reserved on its node, as kube-scheduler
/// counts nominated pods. Pods that cannot be placed on any node ([`PodSpec::refusal`](crate::model::PodSpec::refusal))
/// get none.
///
/// ```
/// use muster_scheduling::model::{Labels, Node, Pod, PodSpec, Problem, Resource, Resources};
/// use muster_scheduling::{Waiting, schedule};
///
/// let amounts = |cpu: i64, pods: i64| Resources::from_iter([(Resource::Cpu, cpu), (Resource::Pods, pods)]);
/// let mut problem = Problem::default();
/// problem.nodes.push(Node {
///     name: "node-0".into(),
///     labels: Labels::default(),
///     taints: Vec::new(),
///     allocatable: amounts(1500, 10),
///     daemon_requests: Resources::new(),
///     initialized: true,
///     deleting: false,
///     bound: Vec::new(),
///     attach_limits: Vec::new(),
///     attached: Vec::new(),
/// });
/// let spec = problem.intern(PodSpec::unconstrained("shop", amounts(1000, 1)));
/// problem.pods.extend(["shop/web-0", "shop/web-1"].map(|name| Pod { name: name.into(), spec }));
///
/// let queue = [Waiting { pod: 1, hint: None }, Waiting { pod: 0, hint: None }];
/// assert_eq!(schedule(&problem, &queue), [Some(0), None], "the node has room for one of them");
/// ```
pub fn schedule(problem: &Problem, queue: &[Waiting]) -> Vec<Option<usize>> {
    let can_be_placed = |waiting: &&Waiting| problem.spec_of(waiting.pod).refusal.is_none();
    let able: Vec<Waiting> = queue.iter().filter(can_be_placed).copied().collect();
    let mut found = scheduler::place_queue(problem, &problem.nodes, &able).into_iter();
    let place = |waiting: &Waiting| if can_be_placed(&waiting) { found.next().flatten() } else { None };
    queue.iter().map(place).collect()
}
