//! Cases that once went wrong: plans that the validator refused, found on random clusters and reduced to a few objects.

use muster_scheduling::labels::{CAPACITY_RESERVATION_ID, CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use muster_scheduling::model::*;
use muster_scheduling::{Solution, solve, validate};

use crate::cases::one_of;
use crate::mutations::{kind, pool, problem, spread};

/// A pod of `cpu` millicores and `memory` bytes.
fn pod(problem: &mut Problem, cpu: i64, memory: i64) {
    let amounts = [(Resource::Cpu, cpu), (Resource::Memory, memory), (Resource::Pods, 1)];
    let requests = amounts.into_iter().filter(|(_, amount)| *amount > 0).collect();
    let spec = problem.intern(PodSpec::unconstrained("default", requests));
    let name = format!("default/p{}", problem.pods.len()).into();
    problem.pods.push(Pod { name, spec });
}

#[track_caller]
fn planned(problem: &Problem) -> Solution {
    let solution = solve(problem, &Options::default());
    assert_eq!(validate(problem, &Options::default(), &solution), []);
    solution
}

/// Adds a way to launch `one` from reservation `cr-1`, which has `left` instances as far as this type is told.
fn reserved(one: &mut InstanceType, left: u32) {
    let requirements = [
        (ZONE, one_of(["zone-a"])),
        (CAPACITY_TYPE, one_of(["reserved"])),
        (CAPACITY_RESERVATION_ID, one_of(["cr-1"])),
    ];
    let requirements = requirements.into_iter().collect();
    one.offerings.push(Offering { requirements, price: Some(0.001), available: true, reservation_capacity: left });
    one.requirements.add(CAPACITY_TYPE, one_of(["on-demand", "reserved"]));
}

/// How many nodes of a plan are reserved.
fn reserved_nodes(problem: &Problem, solution: &Solution) -> usize {
    let offering =
        |node: &muster_scheduling::NewNode| &problem.catalogues[0][node.instance_type].offerings[node.offering];
    solution.new_nodes.iter().filter(|node| offering(node).reserved()).count()
}

/// As with Karpenter, the least count holds for a reservation that types describe differently.
#[test]
fn types_of_one_reservation_share_the_least_count() {
    let mut problem = Problem::default();
    let (mut small, mut large) = (kind("small", 2000, 1.0), kind("large", 8000, 4.0));
    small.requirements =
        [(INSTANCE_TYPE, one_of(["small"])), (ZONE, one_of(["zone-a", "zone-b"]))].into_iter().collect();
    large.requirements =
        [(INSTANCE_TYPE, one_of(["large"])), (ZONE, one_of(["zone-a", "zone-b"]))].into_iter().collect();
    reserved(&mut small, 2);
    reserved(&mut large, 3);
    problem.catalogues.push([small, large].into_iter().collect());
    problem.pools.push(pool("only"));
    for cpu in [7000, 7000, 7000, 1500, 1500, 1500] {
        pod(&mut problem, cpu, 0);
    }
    let solution = planned(&problem);
    assert_eq!((solution.unschedulable.len(), reserved_nodes(&problem, &solution)), (0, 2));
}

/// What pods leave of a reservation is for the nodes that a static pool lacks; beyond it they are bought.
#[test]
fn static_pools_use_what_is_left_of_reservations() {
    let mut problem = Problem::default();
    let mut only = kind("only", 4000, 1.0);
    only.requirements = [(INSTANCE_TYPE, one_of(["only"])), (ZONE, one_of(["zone-a", "zone-b"]))].into_iter().collect();
    reserved(&mut only, 3);
    problem.catalogues.push([only].into_iter().collect());
    problem.pools.push(pool("on-demand"));
    problem.pools.push(NodePool { missing_replicas: Some(4), ..pool("static") });
    pod(&mut problem, 3000, 0);
    let solution = planned(&problem);
    assert_eq!((solution.new_nodes.len(), reserved_nodes(&problem, &solution)), (5, 3));
}

/// Two types hold the pods, but the type that is nearest to each of them does not: the heavier pool, which asks for two
/// types, is used nonetheless.
#[test]
fn flexible_pools_take_what_enough_types_hold() {
    let mut problem = Problem::default();
    let sized = |name: &str, cpu: i64, memory: i64, pods: i64, price: f64| InstanceType {
        capacity: [(Resource::Cpu, cpu), (Resource::Memory, memory), (Resource::Pods, pods)].into_iter().collect(),
        ..kind(name, cpu, price)
    };
    let types = [sized("r", 4000, 0, 29, 0.14), sized("m", 8000, 0, 58, 0.19), sized("l", 8000, 64 << 30, 29, 0.2)];
    problem.catalogues.push(types.into_iter().collect());
    let mut flexible = NodePool { weight: 12, ..pool("flexible") };
    flexible.requirements.add(INSTANCE_TYPE, Requirement::any().with_min_values(Some(2)));
    problem.pools.extend([pool("plain"), flexible]);
    for (cpu, memory) in [(0, 0), (7000, 0), (7000, 0), (100, 128 << 20)] {
        pod(&mut problem, cpu, memory);
    }
    let solution = planned(&problem);
    assert!(solution.unschedulable.is_empty());
    let large = |node: &&muster_scheduling::NewNode| node.pods.contains(&1) || node.pods.contains(&2);
    assert!(solution.new_nodes.iter().filter(large).all(|node| node.pool == 1), "{:?}", solution.new_nodes);
}

/// A spread over a label of pools sends pods to the lighter one, which the heavier one's weight does not forbid.
#[test]
fn spreads_over_a_label_of_pools_reach_lighter_ones() {
    let pod = PodSpec { spread: vec![spread("pool")], ..crate::mutations::pod() };
    let mut problem = problem(&[pod.clone(), pod]);
    let named = |name: &str, weight: i32| {
        let mut one = NodePool { weight, ..pool(name) };
        one.labels.set("pool", name);
        one.requirements.add("pool", one_of([name]));
        one
    };
    problem.pools = vec![named("heavy", 10), named("light", 0)];
    let mut pools: Vec<usize> = planned(&problem).new_nodes.iter().map(|node| node.pool).collect();
    pools.sort_unstable();
    assert_eq!(pools, [0, 1]);
}
