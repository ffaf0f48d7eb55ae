//! Large and mixed plans: few instance types, replicas on many hosts, and plain first fit as the measure.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test"
)]

#[path = "../oracle/cases.rs"]
#[allow(dead_code, reason = "other suites draw smaller cases")]
mod cases;
#[path = "../oracle/random.rs"]
mod random;

mod all_rules;
mod drawn;
mod few_types;
mod first_fit;
mod first_fit_tests;
mod kwok;
mod market;
mod small_nodes;
mod small_plans;

use std::ops::Range;

use market::*;
use muster_scheduling::model::*;
use muster_scheduling::{Solution, lower_bound, solve, validate};

/// Seeds of random sets: as many as the environment variable `SETS` says, or else `otherwise`; from `FIRST_SET` on.
#[expect(clippy::disallowed_methods, reason = "a developer asks for more")]
fn sets(otherwise: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = number("FIRST_SET").unwrap_or(0);
    first..first + number("SETS").unwrap_or(otherwise)
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
