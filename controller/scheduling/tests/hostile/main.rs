//! Pods whose rules cost much, in one namespace: others get the nodes that they get alone, and the work is bounded.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod cases;
#[path = "../oracle/random.rs"]
mod random;

use cases::{Case, HOSTILE, add_hostile, add_selectors, ordinary};
use muster_scheduling::model::*;
use muster_scheduling::{NewNode, Solution, lower_bound, solve, validate};

/// Random cases in every run; `all_cases` has the rest.
const SOME: u64 = 12;
const ALL: u64 = 5_000;
const OTHERS: usize = 500;

/// Price of a plan of pods that share nodes, as a factor of the price of two plans, one for each side.
const TOGETHER: f64 = 1.005;

fn price(solution: &Solution) -> f64 {
    solution.new_nodes.iter().map(|node| node.price).sum()
}

fn is_of_others(problem: &Problem, node: &NewNode) -> bool {
    node.pods.iter().any(|&pod| &*problem.spec_of(pod).namespace != HOSTILE)
}

/// Returns true if the pods of a case, whose rules cost little, share a plan with the others that costs no more than the
/// plan `alone` of the others and one of their own.
fn is_worth_sharing(case: &Case, alone: &Solution, together: &Solution) -> bool {
    let mut problem = ordinary(0);
    add_hostile(&mut problem, case);
    let own = solve(&problem, &Options::default());
    let is_no_dearer = price(together) <= TOGETHER * (price(alone) + price(&own));
    is_no_dearer || own.unschedulable.len() != together.unschedulable.len()
}

/// Returns what is wrong with the plan of a case, beside the plan `alone` of the others.
fn faults(case: &Case, ordinary: &Problem, alone: &Solution) -> Vec<String> {
    let options = Options::default();
    let mut problem = ordinary.clone();
    add_hostile(&mut problem, case);
    let solution = solve(&problem, &options);
    let mut faults: Vec<String> = Vec::new();
    faults.extend(validate(&problem, &options, &solution).first().map(ToString::to_string));
    let price = price(&solution);
    let bound = lower_bound(&problem, &options, &solution);
    if bound > price + 1e-9 {
        faults.push(format!("the bound {bound} is above the price {price}"));
    }
    let others: Vec<&NewNode> = solution.new_nodes.iter().filter(|node| is_of_others(&problem, node)).collect();
    let is_as_alone = others == alone.new_nodes.iter().collect::<Vec<_>>();
    if !is_as_alone && !is_worth_sharing(case, alone, &solution) {
        faults.push(format!("{} nodes for the others, and {} alone", others.len(), alone.new_nodes.len()));
    }
    if let Some(left) = solution.unschedulable.iter().find(|one| one.pod < OTHERS) {
        faults.push(format!("{} is left: {}", problem.pods[left.pod].name, left.message));
    }
    faults
}

fn hold(seeds: std::ops::Range<u64>) {
    let ordinary = ordinary(OTHERS);
    let alone = solve(&ordinary, &Options::default());
    assert_eq!(alone.unschedulable, []);
    let mut failed = Vec::new();
    for seed in seeds {
        let case = Case::random(seed);
        for fault in faults(&case, &ordinary, &alone) {
            println!("{case:?}: {fault}");
            failed.push(seed);
        }
    }
    failed.dedup();
    assert!(failed.is_empty(), "{} cases failed: {failed:?}", failed.len());
}

#[test]
fn others_get_what_they_get_alone() {
    hold(0..SOME);
}

#[test]
#[ignore = "takes an hour: the release tier runs it"]
fn others_get_what_they_get_alone_in_all_cases() {
    hold(0..ALL);
}

#[test]
fn pods_with_a_selector_each_are_placed() {
    let options = Options::default();
    let mut problem = ordinary(OTHERS);
    add_selectors(&mut problem, 1_000);
    let solution = solve(&problem, &options);
    assert_eq!(validate(&problem, &options, &solution), []);
    assert_eq!(solution.unschedulable, []);
}

#[test]
fn pods_that_no_node_can_hold_change_nothing_for_others() {
    let options = Options::default();
    let mut problem = ordinary(OTHERS);
    let alone = solve(&problem, &options);
    for number in 0..300 {
        let requests = [(Resource::Cpu, 1_000_000 + number), (Resource::Pods, 1)].into_iter().collect();
        let spec = problem.intern(PodSpec::unconstrained("team-0", requests));
        problem.pods.push(Pod { name: format!("team-0/huge-{number}").into(), spec });
    }
    let solution = solve(&problem, &options);
    assert_eq!(solution.new_nodes, alone.new_nodes);
    let left: Vec<usize> = solution.unschedulable.iter().map(|one| one.pod).collect();
    assert_eq!(left, (OTHERS..OTHERS + 300).collect::<Vec<_>>());
}
