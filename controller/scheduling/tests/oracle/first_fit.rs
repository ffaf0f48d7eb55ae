//! What plans are compared with: pods by size, the first node that still takes one, prices last.

use muster_scheduling::labels::{CAPACITY_TYPE, NODE_POOL, ZONE};
use muster_scheduling::model::*;
use muster_scheduling::{Solution, solve, validate};

use crate::cases::one_of;
use crate::small_sets::{add, amounts, apart, market, random_set, spread};
use crate::{cases::plain, options, price};

fn first_fit() -> Options {
    Options { packing: Packing::FirstFit, ..options() }
}

/// Type and pods of each node, by name and in the order in which they were opened.
fn nodes(problem: &Problem, solution: &Solution) -> Vec<(String, Vec<usize>)> {
    let name = |node: usize| problem.catalogues[0][node].name.to_string();
    solution.new_nodes.iter().map(|node| (name(node.instance_type), node.pods.clone())).collect()
}

#[test]
fn a_node_grows_as_long_as_some_type_holds_its_pods() {
    let mut problem = market();
    add(&mut problem, plain(0, amounts(2_000, 1_024, 1)), 11);
    let solution = solve(&problem, &first_fit());
    assert_eq!(nodes(&problem, &solution), [("c6g.8xlarge".to_owned(), (0..11).collect())]);
    // Seven on a c6g.4xlarge, three on a c6g.2xlarge and one on a c6g.xlarge are cheaper, and nobody asked.
    assert!(price(&solve(&problem, &options())) < price(&solution));
}

#[test]
fn large_pods_come_first_and_each_goes_to_the_node_with_fewest() {
    let mut problem = market();
    let small = PodSpec { labels: Labels::default(), ..plain(0, amounts(500, 512, 1)) };
    add(&mut problem, small, 4);
    add(&mut problem, PodSpec { anti_affinity: vec![apart(1)], ..plain(1, amounts(1_000, 1_024, 1)) }, 2);
    let solution = solve(&problem, &first_fit());
    // Pods 4 and 5 open a node each; the small ones take turns.
    let pods: Vec<Vec<usize>> = nodes(&problem, &solution).into_iter().map(|(_, pods)| pods).collect();
    assert_eq!(pods, [vec![0, 2, 4], vec![1, 3, 5]]);
}

#[test]
fn a_spread_takes_the_emptiest_domain() {
    let mut problem = market();
    add(&mut problem, PodSpec { spread: vec![spread(0, None)], ..plain(0, amounts(500, 512, 1)) }, 6);
    let solution = solve(&problem, &first_fit());
    let mut zones: Vec<(String, usize)> = solution
        .new_nodes
        .iter()
        .map(|node| (node.requirements.single(ZONE).expect("decided").to_owned(), node.pods.len()))
        .collect();
    zones.sort();
    let two = |zone: &str| (zone.to_owned(), 2);
    assert_eq!(zones, [two("zone-a"), two("zone-b"), two("zone-c")]);
}

#[test]
fn the_heaviest_pool_wins_whatever_it_costs_and_then_the_last_name() {
    let mut problem = market();
    add(&mut problem, plain(0, amounts(2_000, 4_096, 1)), 1);
    let mut dear = problem.pools[0].clone();
    dear.name = "memory".into();
    dear.labels.set(NODE_POOL, "memory");
    dear.requirements = Requirements::from_labels(&dear.labels);
    dear.requirements.add(muster_scheduling::labels::INSTANCE_TYPE, one_of(["r6g.8xlarge"]));
    problem.pools.push(dear);
    // Of equals, the last by name.
    assert_eq!(solve(&problem, &first_fit()).new_nodes[0].pool, 1);
    problem.pools[0].weight = 10;
    assert_eq!(solve(&problem, &first_fit()).new_nodes[0].pool, 0);
    assert_eq!(solve(&problem, &options()).new_nodes[0].pool, 0);
}

#[test]
fn a_limit_is_counted_by_the_largest_type_that_a_node_may_become() {
    let mut problem = market();
    problem.pools[0].limits = Some([(Resource::Cpu, 40_000)].into_iter().collect());
    add(&mut problem, PodSpec { anti_affinity: vec![apart(0)], ..plain(0, amounts(1_000, 1_024, 1)) }, 6);
    // 32 of 40 cores are counted for the first, 8 for the second.
    let solution = solve(&problem, &first_fit());
    assert_eq!((solution.new_nodes.len(), solution.unschedulable.len()), (2, 4));
    assert!(solve(&problem, &options()).unschedulable.is_empty());
}

#[test]
fn existing_nodes_come_before_new_ones() {
    let mut problem = market();
    add(&mut problem, plain(0, amounts(1_000, 1_024, 1)), 2);
    let mut labels = Labels::default();
    labels.set(ZONE, "zone-a");
    labels.set(CAPACITY_TYPE, "on-demand");
    problem.nodes.push(Node {
        name: "node-0".into(),
        labels,
        taints: Vec::new(),
        allocatable: amounts(1_500, 8_192, 20),
        daemon_requests: Resources::new(),
        initialized: true,
        deleting: false,
        bound: Vec::new(),
        attach_limits: Vec::new(),
        attached: Vec::new(),
    });
    let solution = solve(&problem, &first_fit());
    assert_eq!(solution.existing, [(0, vec![0])]);
    assert_eq!(solution.new_nodes[0].pods, [1]);
}

#[test]
fn small_sets_are_packed_within_all_rules_and_cost_more() {
    let (mut paid, mut ours) = (0.0, 0.0);
    for seed in 0..100 {
        let mut problem = random_set(seed);
        problem.pools[0].limits = None;
        let solution = solve(&problem, &first_fit());
        let violations = validate(&problem, &first_fit(), &solution);
        assert!(violations.is_empty(), "set {seed}: {}", violations[0]);
        assert!(solution.unschedulable.is_empty(), "set {seed}");
        paid += price(&solution);
        ours += price(&solve(&problem, &options()));
    }
    println!("first fit costs {:.3} of priced packing", paid / ours);
    assert!(paid > 1.1 * ours, "{:.3}", paid / ours);
}
