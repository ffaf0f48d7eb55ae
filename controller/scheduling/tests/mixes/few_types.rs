//! Thousands of workloads of some hundred and fifty sizes on few instance types.

use muster_scheduling::model::*;

use crate::drawn::{Draw, ONE, drawn};
use crate::*;

/// The plan of a draw as a multiple of its bound; not dearer than plain first fit.
fn ratio(draw: Draw) -> f64 {
    let problem = drawn(draw);
    let (solution, price) = planned(&problem);
    let bound = lower_bound(&problem, &Options::default(), &solution);
    println!("{draw:?}: {:.4} of the bound", price / bound);
    if draw.zoned == 0 {
        let (first_fit, _) = first_fit::price(&problem);
        assert!(price <= first_fit, "{draw:?}: {price}, first fit {first_fit}");
    }
    price / bound
}

#[test]
fn plans_of_few_types_are_close_to_the_bound() {
    for types in [1, 3, 10] {
        for (seed, fine, most) in [(1, false, 1.005), (2, false, 1.005), (3, true, 1.01)] {
            let draw = Draw { types, pods: 10_000, fine, seed, ..ONE };
            let ratio = ratio(draw);
            assert!(ratio <= most, "{draw:?}: {ratio:.4}");
        }
    }
}

#[test]
fn rules_between_workloads_cost_almost_nothing() {
    for (zoned, most) in [(0, 1.005), (30, 1.015)] {
        let draw = Draw { pods: 10_000, pairs: 3_000, apart: 20, zoned, ..ONE };
        let ratio = ratio(draw);
        assert!(ratio <= most, "{draw:?}: {ratio:.4}");
    }
}

#[test]
fn limits_of_a_pool_hold() {
    let mut problem = drawn(Draw { pods: 2_000, ..ONE });
    let most = solve(&problem, &Options::default()).new_nodes.len() as i64 - 20;
    problem.pools[0].limits = Some([(Resource::Cpu, most * 64_000)].into_iter().collect());
    let solution = solve(&problem, &Options::default());
    assert!(validate(&problem, &Options::default(), &solution).is_empty());
    assert!(solution.new_nodes.len() as i64 <= most && !solution.unschedulable.is_empty());
}
