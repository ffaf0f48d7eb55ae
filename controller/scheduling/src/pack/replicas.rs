//! Missing nodes of static pools, which are launched without waiting for pods.

use std::sync::Arc;

use crate::model::{
    Catalogue, NodePool, Options, Pod, PodSpec, PoolState, Problem, Refusal, Reservation, Resource, Resources,
    Toleration, draw, reservations_left,
};
use crate::solution::NewNode;

/// Returns the nodes that static pools lack: the cheapest that the pool allows, as many as its limits allow.
/// Reservations that `planned` nodes do not use come first.
pub(crate) fn missing(problem: &Problem, options: &Options, planned: &[NewNode]) -> Vec<NewNode> {
    let mut nodes: Vec<NewNode> = Vec::new();
    let lacks =
        |pool: &NodePool| pool.state == PoolState::Ready && pool.missing_replicas.is_some_and(|count| count > 0);
    if !problem.pools.iter().any(lacks) {
        return nodes;
    }
    let mut rest = Problem::default();
    rest.pools.clone_from(&problem.pools);
    rest.catalogues.clone_from(&problem.catalogues);
    let launch = |node: &NewNode| (node.pool, node.instance_type, node.offering);
    draw(&mut rest, planned.iter().map(launch));
    for (number, pool) in problem.pools.iter().enumerate().filter(|(_, pool)| lacks(pool)) {
        let mut missing = i64::from(pool.missing_replicas.unwrap_or(0));
        let mut usage = pool.usage.clone();
        while missing > 0 {
            let Some(mut node) = cheapest(problem, &rest.catalogues, number, options) else { break };
            node.pool = number;
            let one = &rest.catalogues[pool.catalogue][node.instance_type];
            let place = (pool.catalogue, node.instance_type, node.offering);
            let offering = &one.offerings[node.offering];
            // A reservation is used up before the next type.
            let lasts = offering.reserved().then(|| reservations_left(&rest)[&Reservation::of(offering, place)]);
            let within = pool.limits.as_ref().map_or(i64::MAX, |limits| times(limits, &usage, &one.capacity));
            let count = missing.min(within).min(lasts.map_or(i64::MAX, i64::from));
            if count <= 0 {
                break;
            }
            let together = |(resource, each): (&Resource, i64)| (resource.clone(), each.saturating_mul(count));
            usage.add(&one.capacity.iter().map(together).collect());
            usage.add(&[(Resource::new("nodes"), count)].into_iter().collect());
            missing -= count;
            let from = nodes.len();
            nodes.extend((0..count).map(|_| node.clone()));
            draw(&mut rest, nodes[from..].iter().map(launch));
        }
    }
    nodes
}

/// Returns the number of nodes of `capacity` that fit between usage and limits.
fn times(limits: &Resources, usage: &Resources, capacity: &Resources) -> i64 {
    let bounded = limits.iter().map(|(resource, limit)| (resource, limit, capacity.against_limit(resource)));
    let bounded = bounded.filter(|&(_, _, each)| each > 0);
    let left = bounded.map(|(resource, limit, each)| limit.saturating_sub(usage.get(resource)) / each);
    left.min().unwrap_or(i64::MAX)
}

/// Returns the node that the pool would launch for a pod without requests that tolerates all taints, without that pod.
fn cheapest(problem: &Problem, catalogues: &[Catalogue], pool: usize, options: &Options) -> Option<NewNode> {
    let mut alone = Problem::default();
    alone.specs.clone_from(&problem.specs);
    alone.pools.push(problem.pools[pool].clone());
    alone.catalogues = catalogues.to_vec();
    alone.daemons.clone_from(&problem.daemons);
    alone.pools[0].missing_replicas = None;
    alone.pools[0].limits = None;
    let mut spec = PodSpec::unconstrained("", Resources::new());
    spec.tolerations.push(Toleration { key: None, value: None, effect: None });
    alone.specs.push(spec);
    // Only resources that some pending pod requests are counted.
    let mut pending: Vec<usize> = problem.pods.iter().map(|pod| pod.spec).collect();
    pending.sort_unstable();
    pending.dedup();
    for pod in pending {
        let mut refused = problem.specs[pod].clone();
        refused.refusal = Some(Refusal::MatchFields(String::new()));
        alone.specs.push(refused);
        alone.pods.push(Pod { name: Arc::from(""), spec: alone.specs.len() - 1 });
    }
    alone.pods.push(Pod { name: Arc::from(""), spec: problem.specs.len() });
    let mut found = super::plan(&alone, options).new_nodes.pop()?;
    found.pods.clear();
    Some(found)
}
