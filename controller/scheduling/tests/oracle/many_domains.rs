//! Rules over a label with many values, such as the instance type: each value is a domain.

use muster_scheduling::model::*;
use muster_scheduling::{Solution, labels, lower_bound, solve, validate};

use crate::cases::one_of;
use crate::mutations;

const GI: i64 = 1 << 30;
const TYPES: i64 = 60;

fn amounts(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::from_iter([(Resource::Cpu, cpu), (Resource::Memory, memory), (Resource::Pods, pods)])
}

/// A type of `cpu` cores, in three zones. By name, the dearest comes first.
fn instance_type(cpu: i64) -> InstanceType {
    let name = format!("t{:02}", TYPES - cpu);
    let offering = |zone: &str| Offering {
        requirements: [(labels::ZONE, one_of([zone])), (labels::CAPACITY_TYPE, one_of(["on-demand"]))]
            .into_iter()
            .collect(),
        price: Some(0.05 * cpu as f64),
        available: true,
        reservation_capacity: 0,
    };
    InstanceType {
        requirements: [
            (labels::INSTANCE_TYPE, one_of([name.as_str()])),
            (labels::ZONE, one_of(["a", "b", "c"])),
            (labels::CAPACITY_TYPE, one_of(["on-demand"])),
        ]
        .into_iter()
        .collect(),
        name: name.into(),
        capacity: amounts(cpu * 1000, cpu * 4 * GI, 110),
        overhead: Resources::new(),
        offerings: ["a", "b", "c"].map(offering).into(),
    }
}

fn own() -> LabelSelector {
    LabelSelector::Terms(vec![SelectorTerm {
        key: "app".into(),
        operator: SelectorOperator::In,
        values: vec!["web".into()],
    }])
}

pub fn spread(key: &str, required: bool) -> SpreadConstraint {
    SpreadConstraint { selector: own(), required, ..mutations::spread(key) }
}

fn apart(key: &str) -> AffinityTerm {
    AffinityTerm { selector: own(), ..mutations::term(key) }
}

/// `replicas` pods of half a core, all of them as `shape` makes them.
pub fn workload(replicas: usize, shape: impl FnOnce(&mut PodSpec)) -> Problem {
    let mut problem = Problem::default();
    problem.catalogues.push((1..=TYPES).map(instance_type).collect());
    problem.pools.push(mutations::pool("general"));
    let mut spec = PodSpec::unconstrained("default", amounts(500, GI, 1));
    spec.labels = Labels::from_iter([("app", "web")]);
    shape(&mut spec);
    let spec = problem.intern(spec);
    problem.pods = (0..replicas).map(|pod| Pod { name: format!("default/web-{pod}").into(), spec }).collect();
    problem
}

/// The plan, which keeps its promises, and its price.
#[track_caller]
fn planned(problem: &Problem) -> (Solution, f64) {
    let solution = solve(problem, &Options::default());
    let violations = validate(problem, &Options::default(), &solution);
    assert!(violations.is_empty(), "{}", violations[0]);
    let price = solution.new_nodes.iter().map(|node| node.price).sum();
    assert!(lower_bound(problem, &Options::default(), &solution) <= price + 1e-9);
    assert_eq!(solution.unschedulable.len(), 0);
    (solution, price)
}

#[test]
fn a_preferred_spread_over_types_costs_nothing() {
    let zones = |spec: &mut PodSpec| spec.spread = vec![spread(labels::ZONE, true)];
    let both =
        |spec: &mut PodSpec| spec.spread = vec![spread(labels::ZONE, true), spread(labels::INSTANCE_TYPE, false)];
    let (without, price) = planned(&workload(20, zones));
    let (with, same) = planned(&workload(20, both));
    assert!((price - same).abs() < 1e-9, "{price} without, {same} with");
    assert_eq!(without.new_nodes.len(), with.new_nodes.len());
}

/// The sum of the `count` cheapest prices.
fn cheapest(count: i64) -> f64 {
    (1..=count).map(|cpu| 0.05 * cpu as f64).sum()
}

#[test]
fn replicas_on_types_of_their_own_take_the_cheapest_types() {
    let (spread, price) = planned(&workload(20, |spec| spec.spread = vec![spread(labels::INSTANCE_TYPE, true)]));
    assert!((price - cheapest(20)).abs() < 1e-9, "{price} on {} nodes", spread.new_nodes.len());
    let (_, price) = planned(&workload(20, |spec| spec.anti_affinity = vec![apart(labels::INSTANCE_TYPE)]));
    assert!((price - cheapest(20)).abs() < 1e-9, "{price}");
}

#[test]
fn replicas_of_one_type_take_one_that_suits_them_together() {
    let (_, price) = planned(&workload(20, |spec| spec.affinity = vec![apart(labels::INSTANCE_TYPE)]));
    assert!((price - 0.5).abs() < 1e-9, "{price}, and ten cores cost 0.5");
}

#[test]
fn a_type_is_chosen_that_is_on_offer_where_the_zone_must_be() {
    let both = |spec: &mut PodSpec| spec.spread = vec![spread(labels::INSTANCE_TYPE, true), spread(labels::ZONE, true)];
    let mut problem = workload(20, both);
    problem.catalogues[0].edit(|types| {
        types.iter_mut().filter(|one| one.capacity.get(&Resource::Cpu) < 15_000).for_each(|one| {
            one.offerings.truncate(2);
        });
    });
    planned(&problem);
}
