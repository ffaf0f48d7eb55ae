//! Large and mixed plans: few instance types, replicas on many hosts, and plain first fit as the measure.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test"
)]

#[path = "../oracle/random.rs"]
mod random;

mod few_types;
mod first_fit;
mod kwok;
mod small_plans;

use std::collections::BTreeSet;

use muster_scheduling::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use muster_scheduling::model::*;
use muster_scheduling::{Solution, lower_bound, solve, validate};

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

fn amounts(millicores: i64, mebibytes: i64, pods: i64) -> Resources {
    [(Resource::Cpu, millicores), (Resource::Memory, mebibytes << 20), (Resource::Pods, pods)].into_iter().collect()
}

fn one_of<'v>(values: impl IntoIterator<Item = &'v str>) -> Requirement {
    Requirement::new(Operator::In, values)
}

/// A type that costs the same in every zone, on demand.
fn instance_type(name: &str, capacity: Resources, overhead: Resources, price: f64) -> InstanceType {
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
fn market(types: Vec<InstanceType>) -> Problem {
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

fn selector(name: &str) -> LabelSelector {
    let values = vec![name.into()];
    LabelSelector::Terms(vec![SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values }])
}

fn term(key: &str, name: &str) -> AffinityTerm {
    let namespaces = NamespaceScope::Only(BTreeSet::from(["default".into()]));
    AffinityTerm { topology_key: key.into(), selector: selector(name), namespaces }
}

fn spread(key: &str, name: &str) -> SpreadConstraint {
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

fn workload(name: &str, requests: Resources) -> PodSpec {
    PodSpec { labels: [("app", name)].into_iter().collect(), ..PodSpec::unconstrained("default", requests) }
}

fn add(problem: &mut Problem, spec: PodSpec, replicas: usize) {
    let spec = problem.intern(spec);
    for _ in 0..replicas {
        problem.pods.push(Pod { name: format!("default/p{}", problem.pods.len()).into(), spec });
    }
}

fn price(solution: &Solution) -> f64 {
    solution.new_nodes.iter().map(|node| node.price).sum()
}

/// The plan and its price; it keeps its promises, leaves nothing, costs no less than its bound and is the same when made
/// again.
#[track_caller]
fn planned(problem: &Problem) -> (Solution, f64) {
    let options = Options::default();
    let solution = solve(problem, &options);
    let violations = validate(problem, &options, &solution);
    assert!(violations.is_empty(), "{}", violations[0]);
    assert_eq!(solution.unschedulable.len(), 0);
    let price = price(&solution);
    assert!(lower_bound(problem, &options, &solution) <= price + 1e-9);
    (solution, price)
}
