//! The cluster after a decision was executed: the input of the next pass if nothing else happens meanwhile.

use std::sync::Arc;

use jiff::Timestamp;

use super::decision::Decision;
use super::input::{DisruptionInput, ManagedNode, NodePod};
use crate::labels::INSTANCE_TYPE;
use crate::model::{BoundPod, Pod, Resource, Resources, draw};
use crate::second_round::node_when_up;
use crate::solution::NewNode;

/// Returns `input` after all commands of `decision`: candidates removed, replacements initialized at `now`, pods moved
/// to their planned nodes. Pods without a place are pending. New nodes never expire, since their claims decide when.
pub fn carried_out(input: &DisruptionInput, decision: &Decision, now: Timestamp) -> DisruptionInput {
    let mut after = input.clone();
    let mut gone = vec![false; input.problem.nodes.len()];
    let mut launches: Vec<(&NewNode, Vec<(BoundPod, NodePod)>)> = Vec::new();
    for command in &decision.commands {
        let mut movers: Vec<(BoundPod, NodePod)> = Vec::new();
        for &node in &command.candidates {
            gone[node] = true;
            leave_pool(&mut after, node);
            let node_pods = input.managed_nodes[node].iter().flat_map(|managed_node| &managed_node.node_pods);
            let pods = input.problem.nodes[node].bound.iter().zip(node_pods);
            movers.extend(pods.filter(|(_, it)| it.reschedulable).map(|(pod, it)| (pod.clone(), it.clone())));
        }
        let take = |pods: &[usize]| -> Vec<(BoundPod, NodePod)> {
            let names = pods.iter().map(|&pod| &decision.pods[pod].name);
            let found = names.filter_map(|name| movers.iter().position(|(pod, _)| pod.name == *name));
            found.collect::<Vec<usize>>().into_iter().map(|at| movers[at].clone()).collect()
        };
        for (node, pods) in &command.existing {
            for (pod, node_pod) in take(pods) {
                after.problem.nodes[*node].bound.push(pod);
                if let Some(managed_node) = &mut after.managed_nodes[*node] {
                    managed_node.node_pods.push(node_pod);
                    managed_node.last_pod_event = Some(now);
                }
            }
        }
        launches.extend(command.replacements.iter().map(|node| (node, take(&node.pods))));
        let waiting = command.unplaced.iter().map(|&pod| &decision.pods[pod]);
        // Virtual pods are pending in any case.
        let waiting = waiting.filter(|pod| !input.problem.specs[pod.spec].is_virtual);
        after.problem.pods.extend(waiting.cloned().collect::<Vec<Pod>>());
    }
    draw(&mut after.problem, launches.iter().map(|(node, _)| (node.pool, node.instance_type, node.offering)));
    let named = input.problem.nodes.len();
    // The requests of a launch refer to its pods by their index in the decision.
    let pending = std::mem::replace(&mut after.problem.pods, decision.pods.clone());
    for (number, (node, pods)) in launches.into_iter().enumerate() {
        let name = format!("{}-{}-{number}", input.problem.pools[node.pool].name, now.as_second());
        join(&mut after, node, pods, name.into(), now);
    }
    after.problem.pods = pending;
    let mut number = 0..named;
    let mut stays = || number.next().is_none_or(|node| !gone[node]);
    after.problem.nodes.retain(|_| stays());
    let mut number = 0..named;
    let mut stays = || number.next().is_none_or(|node| !gone[node]);
    after.managed_nodes.retain(|_| stays());
    after
}

/// Adds a launched node, initialized at `now`, with its pods. The problem's pods are those that the launch refers to.
pub(crate) fn join(
    input: &mut DisruptionInput,
    node: &NewNode,
    pods: Vec<(BoundPod, NodePod)>,
    name: Arc<str>,
    now: Timestamp,
) {
    let problem = &mut input.problem;
    let mut up = node_when_up(problem, node, name);
    let (bound, node_pods): (Vec<BoundPod>, Vec<NodePod>) = pods.into_iter().unzip();
    up.bound = bound;
    let pool = &mut problem.pools[node.pool];
    pool.usage.add(&problem.catalogues[pool.catalogue][node.instance_type].capacity);
    pool.usage.add(&one_node());
    let managed_node = ManagedNode {
        pool_name: Arc::clone(&pool.name),
        pool: Some(node.pool),
        ready: true,
        created: Some(now),
        initialized: Some(now),
        last_pod_event: Some(now),
        is_replacement: true,
        node_pods,
        ..ManagedNode::default()
    };
    problem.nodes.push(up);
    input.managed_nodes.push(Some(managed_node));
}

/// Subtracts a node from the usage of its pool.
fn leave_pool(input: &mut DisruptionInput, node: usize) {
    let Some(pool) = input.managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool) else { return };
    let problem = &mut input.problem;
    let kind = problem.nodes[node].labels.get(INSTANCE_TYPE);
    let types = &problem.catalogues[problem.pools[pool].catalogue];
    if let Some(one) = types.iter().find(|one| kind.is_some_and(|kind| *kind == one.name)) {
        problem.pools[pool].usage.subtract(&one.capacity);
    }
    problem.pools[pool].usage.subtract(&one_node());
}

fn one_node() -> Resources {
    [(Resource::new("nodes"), 1)].into_iter().collect()
}

/// Returns a cluster in which `solution`, a plan for the input's pending pods, was executed; `node_pod` returns the
/// disruption properties of each pod.
pub fn populated(
    mut input: DisruptionInput,
    solution: &crate::Solution,
    now: Timestamp,
    mut node_pod: impl FnMut(usize) -> NodePod,
) -> DisruptionInput {
    let pending = input.problem.pods.clone();
    let mut settle = |pods: &[usize]| -> Vec<(BoundPod, NodePod)> {
        let bound = |pod: usize| {
            let Pod { name, spec } = &pending[pod];
            BoundPod { name: Arc::clone(name), spec: *spec, counts: true, planned: false, daemon: false }
        };
        pods.iter().map(|&pod| (bound(pod), node_pod(pod))).collect()
    };
    for (node, pods) in &solution.existing {
        for (pod, node_pod) in settle(pods) {
            input.problem.nodes[*node].bound.push(pod);
            if let Some(managed_node) = &mut input.managed_nodes[*node] {
                managed_node.node_pods.push(node_pod);
            }
        }
    }
    draw(&mut input.problem, solution.new_nodes.iter().map(|node| (node.pool, node.instance_type, node.offering)));
    for (number, node) in solution.new_nodes.iter().enumerate() {
        let name = format!("{}-{number}", input.problem.pools[node.pool].name).into();
        let pods = settle(&node.pods);
        join(&mut input, node, pods, name, now);
    }
    let left: Vec<usize> = solution.unschedulable.iter().map(|one| one.pod).collect();
    let mut number = 0..pending.len();
    input.problem.pods.retain(|_| number.next().is_some_and(|pod| left.contains(&pod)));
    input
}
