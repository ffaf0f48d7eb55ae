//! Cluster after the planned nodes are up, and the problem that remains: for pods that a plan left unplaced, and for
//! those that kube-scheduler binds to other nodes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::labels::HOSTNAME;
use crate::model::{BoundPod, Labels, Node, Pod, Problem, Resource, Resources, draw};
use crate::solution::{NewNode, Solution};

/// Returns the indices of the nodes that are not being deleted.
pub(crate) fn staying(problem: &Problem) -> Vec<usize> {
    (0..problem.nodes.len()).filter(|&node| !problem.nodes[node].deleting).collect()
}

/// Returns the nodes that are not being deleted, then the planned ones, all without the pods of the plan.
pub(crate) fn nodes_when_up(problem: &Problem, solution: &Solution) -> Vec<Node> {
    let there = staying(problem).into_iter().map(|node| problem.nodes[node].clone());
    type Up = (Labels, Resources, Vec<(Arc<str>, u32)>);
    // Nodes that share their launch differ only in name and pods.
    let mut launched: FxHashMap<(usize, usize, usize, usize), Up> = FxHashMap::default();
    let planned = solution.new_nodes.iter().enumerate().map(|(number, node)| {
        let launch = (node.pool, node.instance_type, node.offering, node.requirements.address());
        let (labels, allocatable, attach_limits) = launched.entry(launch).or_insert_with(|| {
            let kind = &problem.catalogues[problem.pools[node.pool].catalogue][node.instance_type];
            (labels_of(problem, node), kind.allocatable(), kind.capacity.attach_limits())
        });
        let name: Arc<str> = format!("planned-{number}").into();
        let mut labels = labels.clone();
        labels.set(HOSTNAME, Arc::clone(&name));
        Node {
            name,
            labels,
            taints: problem.pools[node.pool].taints.clone(),
            allocatable: allocatable.clone(),
            daemon_requests: daemons(problem, node),
            initialized: true,
            deleting: false,
            bound: Vec::new(),
            attach_limits: attach_limits.clone(),
            attached: Vec::new(),
        }
    });
    there.chain(planned).collect()
}

/// Returns a planned node as it is once it is up, named `name` and without the pods of the plan.
pub(crate) fn node_when_up(problem: &Problem, node: &NewNode, name: Arc<str>) -> Node {
    let kind = &problem.catalogues[problem.pools[node.pool].catalogue][node.instance_type];
    let mut labels = labels_of(problem, node);
    labels.set(HOSTNAME, Arc::clone(&name));
    Node {
        name,
        labels,
        taints: problem.pools[node.pool].taints.clone(),
        allocatable: kind.allocatable(),
        daemon_requests: daemons(problem, node),
        initialized: true,
        deleting: false,
        bound: Vec::new(),
        attach_limits: kind.capacity.attach_limits(),
        attached: Vec::new(),
    }
}

/// Returns the labels of a planned node, except its hostname.
fn labels_of(problem: &Problem, node: &NewNode) -> Labels {
    let pool = &problem.pools[node.pool];
    let kind = &problem.catalogues[pool.catalogue][node.instance_type];
    let offering = &kind.offerings[node.offering];
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
    labels
}

/// Returns the daemon requests that the plan assumed: the node's requests less those of its pods.
fn daemons(problem: &Problem, node: &NewNode) -> Resources {
    let mut requests = node.requests.clone();
    for &pod in &node.pods {
        requests.subtract(&problem.spec_of(pod).requests);
    }
    requests
}

/// Returns the problem of the pods `left_over`, with the pods of `places` bound to their nodes, and the new nodes
/// subtracted from limits, reservations and missing replicas. Set `planned` if the bound pods are not running there
/// yet.
pub(crate) fn problem(
    problem: &Problem,
    solution: &Solution,
    nodes: Vec<Node>,
    places: &[(usize, usize)],
    left_over: &[usize],
    planned: bool,
) -> Problem {
    let mut again = problem.clone();
    again.nodes = nodes;
    for &(pod, node) in places {
        let Pod { name, spec } = &problem.pods[pod];
        let bound = BoundPod { name: Arc::clone(name), spec: *spec, counts: true, planned, daemon: false };
        again.nodes[node].bound.push(bound);
    }
    again.pods = left_over.iter().map(|&pod| problem.pods[pod].clone()).collect();
    draw(&mut again, solution.new_nodes.iter().map(|node| (node.pool, node.instance_type, node.offering)));
    for node in &solution.new_nodes {
        let pool = &mut again.pools[node.pool];
        let types = &again.catalogues[pool.catalogue];
        pool.usage.add(&types[node.instance_type].capacity);
        pool.usage.add(&[(Resource::new("nodes"), 1)].into_iter().collect());
        pool.missing_replicas = pool.missing_replicas.map(|missing| missing.saturating_sub(1));
    }
    again
}
