//! The validator finds each kind of fault: good plans are spoiled in one way at a time. Here are the plans.

mod launches;
mod places;
mod rules;

use std::sync::Arc;

use muster_scheduling::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use muster_scheduling::model::*;
use muster_scheduling::{Promise, Solution, validate};

use crate::brute_force::cheapest;
use crate::cases::{one_of, plain};

pub fn amounts(cpu: i64, pods: i64) -> Resources {
    [(Resource::Cpu, cpu), (Resource::Memory, cpu << 20), (Resource::Pods, pods)].into_iter().collect()
}

pub fn kind(name: &str, cpu: i64, price: f64) -> InstanceType {
    let offering = |zone: &str| Offering {
        requirements: [(ZONE, one_of([zone])), (CAPACITY_TYPE, one_of(["on-demand"]))].into_iter().collect(),
        price: Some(price),
        available: true,
        reservation_capacity: 0,
    };
    let requirements =
        [(INSTANCE_TYPE, one_of([name])), (ZONE, one_of(["zone-a", "zone-b"])), (CAPACITY_TYPE, one_of(["on-demand"]))];
    InstanceType {
        name: name.into(),
        requirements: requirements.into_iter().collect(),
        capacity: amounts(cpu, 10),
        overhead: Resources::new(),
        offerings: vec![offering("zone-a"), offering("zone-b")],
    }
}

pub fn pool(name: &str) -> NodePool {
    let labels: Labels = [(NODE_POOL, name)].into_iter().collect();
    NodePool {
        name: name.into(),
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
    }
}

pub fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        labels: [(HOSTNAME, name), (ZONE, "zone-a")].into_iter().collect(),
        taints: Vec::new(),
        allocatable: amounts(2000, 5),
        daemon_requests: Resources::new(),
        initialized: true,
        deleting: false,
        bound: Vec::new(),
        attach_limits: Vec::new(),
        attached: Vec::new(),
    }
}

/// Pods that each ask for one core, on types of two and four cores.
pub fn problem(pods: &[PodSpec]) -> Problem {
    let mut problem = Problem::default();
    problem.catalogues.push(Catalogue::new(vec![kind("small", 2000, 0.1), kind("large", 4000, 0.2)]));
    problem.pools.push(pool("general"));
    for (number, spec) in pods.iter().enumerate() {
        let spec = problem.intern(spec.clone());
        problem.pods.push(Pod { name: format!("default/p{number}").into(), spec });
    }
    problem
}

pub fn pod() -> PodSpec {
    plain(0, amounts(1000, 1))
}

pub fn term(key: &str) -> AffinityTerm {
    let app = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec!["w0".into()] };
    AffinityTerm {
        topology_key: key.into(),
        selector: LabelSelector::Terms(vec![app]),
        namespaces: NamespaceScope::All,
    }
}

pub fn spread(key: &str) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew: 1,
        min_domains: None,
        selector: term(key).selector,
        required: true,
        honor_affinity: true,
        honor_taints: false,
    }
}

/// The best plan, which breaks nothing.
pub fn plan(problem: &Problem) -> Solution {
    let (_, plan) = cheapest(problem).expect("there is a plan");
    assert_eq!(validate(problem, &Options::default(), &plan), [], "{plan:?}");
    plan
}

#[track_caller]
pub fn breaks(problem: &Problem, plan: &Solution, promise: Promise) {
    breaks_with(problem, &Options::default(), plan, promise);
}

#[track_caller]
pub fn breaks_with(problem: &Problem, options: &Options, plan: &Solution, promise: Promise) {
    let found = validate(problem, options, plan);
    assert!(found.iter().any(|violation| violation.promise == promise), "{promise:?} is not among {found:?}");
    assert!(found.iter().all(|violation| !violation.to_string().is_empty()));
}
