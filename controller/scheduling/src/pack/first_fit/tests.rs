//! First fit among pods that spreads of other pods count.

use super::{keeping_spreads, plan};
use crate::compile::Compiled;
use crate::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use crate::model::{
    InstanceType, LabelSelector, Labels, NodePool, Offering, Operator, Options, Pod, PodSpec, PoolState, Problem,
    Requirement, Requirements, Resource, Resources, SelectorOperator, SelectorTerm, SpreadConstraint,
};
use crate::solution::Solution;
use crate::validate::validate;

const ZONES: [&str; 3] = ["a", "b", "c"];

fn one_of<'v>(values: impl IntoIterator<Item = &'v str>) -> Requirement {
    Requirement::new(Operator::In, values)
}

fn amounts(millicores: i64, pods: i64) -> Resources {
    [(Resource::Cpu, millicores), (Resource::Pods, pods)].into_iter().collect()
}

/// One type of four cores in three zones, and pods labelled `app=web` of two workloads: two large ones that fill a node each, and three that
/// are spread over zones with all of the label.
fn problem() -> Problem {
    let offering = |zone: &str| Offering {
        requirements: [(ZONE, one_of([zone])), (CAPACITY_TYPE, one_of(["spot"]))].into_iter().collect(),
        price: Some(1.0),
        available: true,
        reservation_capacity: 0,
    };
    let instance_type = InstanceType {
        name: "large".into(),
        requirements: [(INSTANCE_TYPE, one_of(["large"])), (ZONE, one_of(ZONES)), (CAPACITY_TYPE, one_of(["spot"]))]
            .into_iter()
            .collect(),
        capacity: amounts(4_000, 110),
        overhead: Resources::new(),
        offerings: ZONES.map(offering).into(),
    };
    let labels: Labels = [(NODE_POOL, "general")].into_iter().collect();
    let mut problem = Problem::default();
    problem.catalogues.push(vec![instance_type].into());
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
    let web = |millicores: i64| PodSpec {
        labels: [("app", "web")].into_iter().collect(),
        ..PodSpec::unconstrained("default", amounts(millicores, 1))
    };
    let selected = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec!["web".into()] };
    let spread = SpreadConstraint {
        topology_key: ZONE.into(),
        max_skew: 1,
        min_domains: None,
        required: true,
        selector: LabelSelector::Terms(vec![selected]),
        honor_affinity: true,
        honor_taints: false,
    };
    for (spec, replicas) in [(web(3_800), 2), (PodSpec { spread: vec![spread], ..web(500) }, 3)] {
        let spec = problem.intern(spec);
        for _ in 0..replicas {
            problem.pods.push(Pod { name: format!("default/p{}", problem.pods.len()).into(), spec });
        }
    }
    problem
}

/// Number of pods placed on new nodes, and number of rules that they break.
fn placed_and_broken(problem: &Problem, solution: &Solution) -> (usize, usize) {
    let placed = solution.new_nodes.iter().map(|node| node.pods.len()).sum();
    (placed, validate(problem, &Options::default(), solution).len())
}

#[test]
fn pods_of_others_go_where_the_spread_that_counts_them_holds() {
    let (problem, options) = (problem(), Options::default());
    let compiled = Compiled::new(&problem, &options);
    let (placed, broken) = placed_and_broken(&problem, &plan(&compiled, usize::MAX).unwrap());
    assert!(placed == 5 && broken > 0, "both large pods are in one zone: {broken} rules are broken");
    let kept = keeping_spreads(&compiled, usize::MAX).unwrap();
    assert_eq!(placed_and_broken(&problem, &kept), (5, 0));
}

#[test]
fn without_spreads_that_count_other_pods_there_is_no_second_plan() {
    let (mut problem, options) = (problem(), Options::default());
    problem.pods.drain(..2);
    assert!(keeping_spreads(&Compiled::new(&problem, &options), usize::MAX).is_none());
}
