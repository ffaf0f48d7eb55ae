//! A plan does not depend on the order of the pods, as far as its price goes.

use muster_scheduling::model::{Options, Problem};
use muster_scheduling::{Solution, solve, validate};

use crate::cases::case;
use crate::random::Random;

fn price(solution: &Solution) -> f64 {
    solution.new_nodes.iter().map(|node| node.price).sum()
}

fn shuffled(problem: &Problem, random: &mut Random) -> Problem {
    let mut problem = problem.clone();
    for at in (1..problem.pods.len()).rev() {
        problem.pods.swap(at, random.below(at + 1));
    }
    problem
}

#[test]
fn shuffled_pods_give_plans_of_equal_price() {
    let mut sums = (0.0, 0.0);
    let mut failed = Vec::new();
    for seed in 0..3_000 {
        let problem = case(seed);
        let again = shuffled(&problem, &mut Random::new(seed));
        let (plan, other) = (solve(&problem, &Options::default()), solve(&again, &Options::default()));
        let legal = validate(&again, &Options::default(), &other).is_empty();
        if !legal || plan.unschedulable.len() != other.unschedulable.len() {
            failed.push(seed);
            continue;
        }
        sums = (sums.0 + price(&plan), sums.1 + price(&other));
    }
    assert!(failed.is_empty(), "{} cases failed: {failed:?}", failed.len());
    let ratio: f64 = sums.1 / sums.0;
    println!("shuffled plans cost {ratio:.5} of the others");
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}
