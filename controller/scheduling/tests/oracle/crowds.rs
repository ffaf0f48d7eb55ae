//! Too many pods for brute force, so judged by what must hold of every plan.

use muster_scheduling::{lower_bound, solve, validate};

use crate::cases::crowd;
use crate::{options, price};

const CROWDS: u64 = 3_000;

#[test]
fn plans_of_crowds_keep_every_promise() {
    let mut failed = Vec::new();
    let (mut placed, mut left) = (0, 0);
    for seed in 0..CROWDS {
        let problem = crowd(seed);
        let solution = solve(&problem, &options());
        for violation in validate(&problem, &options(), &solution) {
            println!("crowd {seed}: {violation}");
            failed.push(seed);
        }
        let bound = lower_bound(&problem, &options(), &solution);
        if bound > price(&solution) + 1e-9 {
            println!("crowd {seed}: the bound {bound} is above the price {}", price(&solution));
            failed.push(seed);
        }
        left += solution.unschedulable.len();
        placed += problem.pods.len() - solution.unschedulable.len();
    }
    failed.dedup();
    println!("{placed} pods placed, {left} left over");
    assert!(failed.is_empty(), "{} crowds failed: {failed:?}", failed.len());
}
