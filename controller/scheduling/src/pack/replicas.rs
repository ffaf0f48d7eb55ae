//! Static pools: nodes that are missing are launched without waiting for pods.

use std::sync::Arc;

use crate::model::{Options, Pod, PodSpec, PoolState, Problem, Refusal, Resource, Resources, Toleration};
use crate::solution::NewNode;

/// The nodes that static pools lack: the cheapest that the pool allows, as many as its limits allow.
pub(crate) fn missing(problem: &Problem, options: &Options) -> Vec<NewNode> {
    let mut nodes = Vec::new();
    for (number, pool) in problem.pools.iter().enumerate() {
        let Some(missing) = pool.missing_replicas.filter(|&missing| missing > 0) else { continue };
        if pool.state != PoolState::Ready {
            continue;
        }
        let Some(mut node) = cheapest(problem, number, options) else { continue };
        node.pool = number;
        let capacity = &problem.catalogues[pool.catalogue][node.instance_type].capacity;
        let times = pool.limits.as_ref().map_or(i64::MAX, |limits| times(limits, &pool.usage, capacity));
        let count = i64::from(missing).min(times.max(0));
        nodes.extend((0..count).map(|_| node.clone()));
    }
    nodes
}

/// How many nodes of `capacity` fit between usage and limits.
fn times(limits: &Resources, usage: &Resources, capacity: &Resources) -> i64 {
    let each = |resource: &Resource| if resource.name() == "nodes" { 1 } else { capacity.get(resource) };
    let bounded = limits.iter().filter(|(resource, _)| each(resource) > 0);
    let left = bounded.map(|(resource, limit)| limit.saturating_sub(usage.get(resource)) / each(resource));
    left.min().unwrap_or(i64::MAX)
}

/// The node that the pool would launch for a pod that wants nothing and tolerates everything, without the pod.
fn cheapest(problem: &Problem, pool: usize, options: &Options) -> Option<NewNode> {
    let mut alone = Problem::default();
    alone.specs.clone_from(&problem.specs);
    alone.pools.push(problem.pools[pool].clone());
    alone.catalogues.clone_from(&problem.catalogues);
    alone.daemons.clone_from(&problem.daemons);
    alone.pools[0].missing_replicas = None;
    alone.pools[0].limits = None;
    let mut spec = PodSpec::unconstrained("", Resources::new());
    spec.tolerations.push(Toleration { key: None, value: None, effect: None });
    alone.specs.push(spec);
    // Resources are counted as far as some pending pod asks for them.
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
    // Which of many replicas a reservation is for, the launch decides.
    let options = Options { reserved_capacity: false, ..*options };
    let mut found = super::plan(&alone, &options).new_nodes.pop()?;
    found.pods.clear();
    Some(found)
}
