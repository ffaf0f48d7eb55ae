//! The cluster once the planned nodes are up, and the problem that is left then: for pods that a plan left over, and for
//! those that kube-scheduler puts elsewhere.

use std::sync::Arc;

use crate::labels::HOSTNAME;
use crate::model::{BoundPod, Labels, Node, Pod, Problem, Resource, Resources};
use crate::solution::{NewNode, Solution};

/// Nodes that are there (those being deleted left out) and then the planned ones, without the pods of the plan.
pub(crate) fn nodes_when_up(problem: &Problem, solution: &Solution) -> Vec<Node> {
    let there = problem.nodes.iter().filter(|node| !node.deleting).cloned();
    let planned = solution.new_nodes.iter().enumerate().map(|(number, node)| launched(problem, number, node));
    there.chain(planned).collect()
}

fn launched(problem: &Problem, number: usize, node: &NewNode) -> Node {
    let pool = &problem.pools[node.pool];
    let kind = &problem.catalogues[pool.catalogue][node.instance_type];
    let offering = &kind.offerings[node.offering];
    let name: Arc<str> = format!("planned-{number}").into();
    let mut labels = Labels::default();
    for (key, value) in pool.labels.iter() {
        labels.set(Arc::clone(key), Arc::clone(value));
    }
    // The narrowest comes last: the offering decides zone and capacity type.
    for requirements in [&kind.requirements, &node.requirements, &offering.requirements] {
        for (key, requirement) in requirements.iter() {
            if let Some(value) = requirement.single() {
                labels.set(Arc::clone(key), Arc::clone(value));
            }
        }
    }
    labels.set(HOSTNAME, Arc::clone(&name));
    Node {
        name,
        labels,
        taints: pool.taints.clone(),
        allocatable: kind.allocatable(),
        daemon_requests: daemons(problem, node),
        initialized: true,
        deleting: false,
        bound: Vec::new(),
        attach_limits: Vec::new(),
    }
}

/// What the plan counted for daemons: the node's requests less those of its pods.
fn daemons(problem: &Problem, node: &NewNode) -> Resources {
    let mut requests = node.requests.clone();
    for &pod in &node.pods {
        requests.subtract(&problem.spec_of(pod).requests);
    }
    requests
}

/// The problem of the pods that are left over.
pub(crate) fn problem(
    problem: &Problem,
    solution: &Solution,
    nodes: Vec<Node>,
    places: &[(usize, usize)],
    left_over: &[usize],
) -> Problem {
    let mut again = problem.clone();
    again.nodes = nodes;
    for &(pod, node) in places {
        let Pod { name, spec } = &problem.pods[pod];
        again.nodes[node].bound.push(BoundPod { name: Arc::clone(name), spec: *spec, counts: true });
    }
    again.pods = left_over.iter().map(|&pod| problem.pods[pod].clone()).collect();
    for node in &solution.new_nodes {
        let pool = &mut again.pools[node.pool];
        let types = &mut again.catalogues[pool.catalogue];
        pool.usage.add(&types[node.instance_type].capacity);
        pool.usage.add(&[(Resource::new("nodes"), 1)].into_iter().collect());
        pool.missing_replicas = pool.missing_replicas.map(|missing| missing.saturating_sub(1));
        if types[node.instance_type].offerings[node.offering].reservation_capacity > 0 {
            types.edit(|types| types[node.instance_type].offerings[node.offering].reservation_capacity -= 1);
        }
    }
    again
}
