//! What pods and daemons ask of one node.

use muster_scheduling::labels::WELL_KNOWN;
use muster_scheduling::model::*;

pub fn pods_of(problem: &Problem, mask: usize) -> Vec<&PodSpec> {
    (0..problem.pods.len()).filter(|pod| mask >> pod & 1 == 1).map(|pod| problem.spec_of(pod)).collect()
}

pub fn total(specs: &[&PodSpec]) -> Resources {
    let mut total = Resources::new();
    specs.iter().for_each(|spec| total.add(&spec.requests));
    total
}

pub fn tolerates(spec: &PodSpec, taints: &[Taint]) -> bool {
    taints.iter().filter(|taint| taint.repels()).all(|taint| spec.tolerations.iter().any(|it| it.tolerates(taint)))
}

pub fn ports_free(pods: &[&PodSpec], others: &[&PodSpec]) -> bool {
    pods.iter().enumerate().all(|(at, pod)| {
        let rest = pods[..at].iter().chain(others).flat_map(|spec| &spec.host_ports);
        rest.into_iter().all(|taken| pod.host_ports.iter().all(|port| !port.conflicts(taken)))
    })
}

pub fn daemons_of<'p>(problem: &'p Problem, pool: &NodePool, kind: &InstanceType) -> Vec<&'p PodSpec> {
    let mut template = pool.requirements.clone();
    template.add_all(&kind.requirements);
    let defined = |key: &str| WELL_KNOWN.contains(&key) || kind.requirements.get(key).is_some();
    let specs = problem.daemons.iter().map(|daemon| &problem.specs[daemon.spec]);
    specs
        .filter(|spec| tolerates(spec, &pool.taints) && template.first_conflict(&spec.node_selector, defined).is_none())
        .collect()
}
