//! First fit as the measure of a small plan: what it places better or more cheaply is taken.
//!
//! The drafts of one reading are compared with first fit already, but not where limits or `minValues` bind, where
//! bundles do not fit, or where nodes that exist are filled in another order. A pod whose required affinity cannot be met
//! must not keep those pending that it would join: they are planned once more without such pods.

use fixedbitset::FixedBitSet;

use super::leftovers::left_by_priority;
use super::{Effort, FIRST_FIT_STEPS, SMALL, TELLING, first_fit, groups, hopeless};
use crate::compile::Compiled;
use crate::solution::Solution;
use crate::validate::validate;

/// Returns the best of `solution` and the other plans of a small problem; `plan` is what made `solution`.
pub(super) fn best(compiled: &Compiled<'_>, solution: Solution, plan: impl Fn(&Compiled<'_>) -> Solution) -> Solution {
    let solution = better(compiled, solution);
    match without_followers(compiled, &solution, plan) {
        Some(other) if wins(compiled, &other, &solution) => other,
        _ => solution,
    }
}

/// Returns a plan without the unplaced pods that have a required affinity; `None` if nothing else is unplaced.
fn without_followers(
    compiled: &Compiled<'_>,
    solution: &Solution,
    plan: impl Fn(&Compiled<'_>) -> Solution,
) -> Option<Solution> {
    let problem = compiled.problem;
    if problem.pods.len() > SMALL {
        return None;
    }
    let mut followers = FixedBitSet::with_capacity(problem.pods.len());
    let left = solution.unschedulable.iter().map(|one| one.pod);
    followers.extend(left.filter(|&pod| !problem.spec_of(pod).affinity.is_empty()));
    let is_alone = followers.count_ones(..) == solution.unschedulable.len();
    if followers.is_clear() || is_alone {
        return None;
    }
    let options = compiled.options;
    Some(hopeless::without(problem, &followers, |rest| plan(&Compiled::new(rest, options))))
}

/// Returns `solution`, or the plan of first fit if that leaves fewer of the most important pods, or as many at a lower
/// price.
fn better(compiled: &Compiled<'_>, solution: Solution) -> Solution {
    let pods = compiled.problem.pods.len();
    let tries = pods.saturating_mul(pods).saturating_mul(compiled.cells.len());
    let is_empty = solution.new_nodes.is_empty() && solution.unschedulable.is_empty();
    if pods > SMALL || tries > FIRST_FIT_STEPS || is_empty {
        return solution;
    }
    match first_fit::plan(compiled, Effort::FULL.first_fit()) {
        Some(other) if wins(compiled, &other, &solution) => other,
        _ => solution,
    }
}

fn wins(compiled: &Compiled<'_>, other: &Solution, known: &Solution) -> bool {
    let (left, least) = (left_by_priority(compiled, other), left_by_priority(compiled, known));
    // A plan that limits the replicas of a spread on a node may cost more.
    let share = if compiled.options.tells_nodes && groups::has_skews(compiled) { TELLING } else { 1.0 };
    let is_cheaper =
        || price(other) * share < price(known) - 1e-9 && weight(compiled, other) >= weight(compiled, known);
    (left < least || left == least && is_cheaper()) && validate(compiled.problem, compiled.options, other).is_empty()
}

/// Price of the new nodes, in USD per hour.
pub(super) fn price(solution: &Solution) -> f64 {
    solution.new_nodes.iter().map(|node| node.price).sum()
}

/// Sum over the pods on new nodes of the weight of their pool. Pools of higher weight are used first, even if they cost
/// more.
pub(super) fn weight(compiled: &Compiled<'_>, solution: &Solution) -> i64 {
    let nodes = solution.new_nodes.iter();
    nodes.map(|node| i64::from(compiled.problem.pools[node.pool].weight) * node.pods.len() as i64).sum()
}
