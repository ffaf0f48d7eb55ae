//! First fit as the measure of a small plan: what it places better or more cheaply is taken.
//!
//! The drafts of one reading are compared with first fit already, but not where limits or `minValues` bind, where
//! bundles do not fit, or where nodes that exist are filled in another order. Pods that stay pending have a part in
//! rules all the same: they must not keep those pending that they would join, nor have the others placed as if they
//! were there. So these are planned once more without such pods.
//!
//! ```text
//! plan ─► again: pods that nothing keeps in a lighter pool ─► first fit ─┬─► without unplaced pods that join others
//!                                                                        └─► without unplaced pods with any rule
//! ```

use fixedbitset::FixedBitSet;

use super::leftovers::left_by_priority;
use super::{Effort, FIRST_FIT_STEPS, SMALL, TELLING, first_fit, groups, hopeless, plan_at_once, shares};
use crate::compile::Compiled;
use crate::model::{PodSpec, Problem};
use crate::solution::Solution;
use crate::validate::{Place, Promise, validate};

/// Returns the best of `solution` and the other plans of a small problem; `plan` is what made `solution`.
pub(super) fn best(compiled: &Compiled<'_>, solution: Solution, plan: impl Fn(&Compiled<'_>) -> Solution) -> Solution {
    let mut best = better(compiled, reopened(compiled, solution));
    let (joining, ruled) = (unplaced(compiled, &best, joins_others), unplaced(compiled, &best, has_rules));
    // Without others that wait, nobody is kept waiting by those that would join them.
    let is_alone = joining.count_ones(..) == best.unschedulable.len();
    for left_out in [(!is_alone).then_some(&joining), (ruled != joining).then_some(&ruled)].into_iter().flatten() {
        if let Some(other) = without(compiled, left_out, &plan).filter(|other| wins(compiled, other, &best)) {
            best = other;
        }
    }
    best
}

/// Returns `solution` with pods planned again that none of the nodes' other pods keeps in a lighter pool: those that
/// did have been taken off because another rule was broken.
fn reopened(compiled: &Compiled<'_>, solution: Solution) -> Solution {
    let (problem, options) = (compiled.problem, compiled.options);
    // Large plans are looked at only if something was taken off.
    let is_whole = problem.pods.len() > SMALL && solution.unschedulable.is_empty();
    if is_whole || !has_weights(problem) {
        return solution;
    }
    let mut lighter = FixedBitSet::with_capacity(solution.new_nodes.len());
    let violations = validate(problem, options, &solution);
    lighter.extend(violations.iter().filter_map(|violation| match (violation.promise, violation.place) {
        (Promise::Weights, Place::New(node)) => Some(node),
        _ => None,
    }));
    if lighter.is_clear() {
        return solution;
    }
    let nodes = solution.new_nodes.iter().enumerate();
    let (again, stay): (Vec<_>, Vec<_>) = nodes.partition(|(number, _)| lighter.contains(*number));
    let mut pods: Vec<usize> = again.iter().flat_map(|(_, node)| node.pods.iter().copied()).collect();
    pods.sort_unstable();
    let rest = Solution { new_nodes: stay.into_iter().map(|(_, node)| node.clone()).collect(), ..solution.clone() };
    let found = shares::place_after(problem, &rest, &pods, |_| {}, |again| plan_at_once(again, options));
    let sorted = found.map(|mut found| {
        found.unschedulable.sort_unstable_by_key(|one| one.pod);
        found
    });
    sorted.filter(|found| validate(problem, options, found).is_empty()).unwrap_or(solution)
}

fn has_weights(problem: &Problem) -> bool {
    problem.pools.windows(2).any(|pair| pair[0].weight != pair[1].weight)
}

/// Returns the unplaced pods of which `is_it` is true.
fn unplaced(compiled: &Compiled<'_>, solution: &Solution, is_it: impl Fn(&PodSpec) -> bool) -> FixedBitSet {
    let problem = compiled.problem;
    let mut found = FixedBitSet::with_capacity(problem.pods.len());
    found.extend(solution.unschedulable.iter().map(|one| one.pod).filter(|&pod| is_it(problem.spec_of(pod))));
    found
}

fn joins_others(spec: &PodSpec) -> bool {
    !spec.affinity.is_empty()
}

/// Returns true if a pod has a required rule about other pods.
fn has_rules(spec: &PodSpec) -> bool {
    joins_others(spec) || !spec.anti_affinity.is_empty() || spec.spread.iter().any(|spread| spread.required)
}

/// Returns a plan without the pods `left_out`; `None` if there are none, or the problem is large.
fn without(
    compiled: &Compiled<'_>,
    left_out: &FixedBitSet,
    plan: impl Fn(&Compiled<'_>) -> Solution,
) -> Option<Solution> {
    let (problem, options) = (compiled.problem, compiled.options);
    if problem.pods.len() > SMALL || left_out.is_clear() {
        return None;
    }
    Some(hopeless::without(problem, left_out, |rest| plan(&Compiled::new(rest, options))))
}

/// Returns `solution`, or the plan of first fit if that leaves fewer of the most important pods, or as many at a lower
/// price.
pub(super) fn better(compiled: &Compiled<'_>, solution: Solution) -> Solution {
    let pods = compiled.problem.pods.len();
    let tries = pods.saturating_mul(pods).saturating_mul(compiled.cells.len());
    let is_empty = solution.new_nodes.is_empty() && solution.unschedulable.is_empty();
    if pods > SMALL || tries > FIRST_FIT_STEPS || is_empty {
        return solution;
    }
    // The others hold where the first breaks spreads by the pods that they count.
    let plans = [first_fit::plan, first_fit::counting_others, first_fit::keeping_spreads];
    let mut others = plans.into_iter().filter_map(|plan| plan(compiled, Effort::FULL.first_fit()));
    others.find(|other| wins(compiled, other, &solution)).unwrap_or(solution)
}

fn wins(compiled: &Compiled<'_>, other: &Solution, known: &Solution) -> bool {
    let (left, least) = (left_by_priority(compiled, other), left_by_priority(compiled, known));
    // A plan that limits the replicas of a spread on a node may cost more.
    let share = if compiled.options.tells_nodes && groups::has_skews(compiled) { TELLING } else { 1.0 };
    let is_cheaper =
        || price(other) * share < price(known) - 1e-9 && lightness(compiled, other) <= lightness(compiled, known);
    (left < least || left == least && is_cheaper()) && validate(compiled.problem, compiled.options, other).is_empty()
}

/// Price of the new nodes, in USD per hour.
pub(super) fn price(solution: &Solution) -> f64 {
    solution.new_nodes.iter().map(|node| node.price).sum()
}

/// Sum over the pods on new nodes of how much less than the heaviest pool's the weight of theirs is. Pools of higher
/// weight are used first, even if they cost more; existing nodes come before all of them.
pub(super) fn lightness(compiled: &Compiled<'_>, solution: &Solution) -> i64 {
    let pools = &compiled.problem.pools;
    let heaviest = pools.iter().map(|pool| pool.weight).max().unwrap_or_default();
    let of_pod = |pool: usize| i64::from(heaviest) - i64::from(pools[pool].weight);
    solution.new_nodes.iter().map(|node| of_pod(node.pool) * node.pods.len() as i64).sum()
}
