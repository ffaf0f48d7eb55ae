//! One pool of a few types in three zones, and workloads for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_scheduling::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use muster_scheduling::model::*;

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

pub fn amounts(millicores: i64, mebibytes: i64, pods: i64) -> Resources {
    [(Resource::Cpu, millicores), (Resource::Memory, mebibytes << 20), (Resource::Pods, pods)].into_iter().collect()
}

pub fn one_of<'v>(values: impl IntoIterator<Item = &'v str>) -> Requirement {
    Requirement::new(Operator::In, values)
}

/// A type that costs the same in every zone, on demand.
pub fn instance_type(name: &str, capacity: Resources, overhead: Resources, price: f64) -> InstanceType {
    let offering = |zone: &str| Offering {
        requirements: [(ZONE, one_of([zone])), (CAPACITY_TYPE, one_of(["on-demand"]))].into_iter().collect(),
        price: Some(price),
        available: true,
        reservation_capacity: 0,
    };
    let requirements = [(INSTANCE_TYPE, one_of([name])), (ZONE, one_of(ZONES)), (CAPACITY_TYPE, one_of(["on-demand"]))];
    InstanceType {
        name: name.into(),
        requirements: requirements.into_iter().collect(),
        capacity,
        overhead,
        offerings: ZONES.map(offering).into(),
    }
}

/// One pool of all of `types`.
pub fn market(types: Vec<InstanceType>) -> Problem {
    let mut problem = Problem::default();
    problem.catalogues.push(types.into_iter().collect());
    let mut labels = Labels::default();
    labels.set(NODE_POOL, "general");
    problem.pools.push(NodePool {
        name: "general".into(),
        weight: 0,
        requirements: Requirements::from_labels(&labels),
        labels,
        annotations: Labels::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: None,
        usage: Resources::new(),
        catalogue: 0,
        state: PoolState::Ready,
        missing_replicas: None,
    });
    problem
}

pub fn selector(name: &str) -> LabelSelector {
    one_of_apps(vec![name.into()])
}

/// Selects the pods of these workloads; `values` are sorted.
pub fn one_of_apps(values: Vec<Arc<str>>) -> LabelSelector {
    LabelSelector::Terms(vec![SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values }])
}

pub fn term(key: &str, name: &str) -> AffinityTerm {
    let namespaces = NamespaceScope::Only(BTreeSet::from(["default".into()]));
    AffinityTerm { topology_key: key.into(), selector: selector(name), namespaces }
}

pub fn spread(key: &str, name: &str) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew: 1,
        min_domains: None,
        required: true,
        selector: selector(name),
        honor_affinity: true,
        honor_taints: false,
    }
}

pub fn workload(name: &str, requests: Resources) -> PodSpec {
    PodSpec { labels: [("app", name)].into_iter().collect(), ..PodSpec::unconstrained("default", requests) }
}

pub fn add(problem: &mut Problem, spec: PodSpec, replicas: usize) {
    let spec = problem.intern(spec);
    for _ in 0..replicas {
        problem.pods.push(Pod { name: format!("default/p{}", problem.pods.len()).into(), spec });
    }
}
