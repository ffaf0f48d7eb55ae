//! Alternative plans if limits of pools with `minValues` leave pods unplaced.
//!
//! A node of such a pool must stay within the limits as whichever of its types it is launched, and so large nodes use
//! the limits of several small ones. A plan that does not know this from the start opens nodes that are left too few
//! types. So plans are made with types of at most a half, a quarter, an eighth … of what the limits leave, of which any
//! can be launched that many times; and one without the pools, for lighter ones.

use std::sync::Arc;

use super::{leftovers, rival};
use crate::compile::{Compiled, flexible};
use crate::labels::INSTANCE_TYPE;
use crate::model::{
    Catalogue, MinValuesPolicy, NodePool, Operator, PoolState, Problem, Requirement, Resource, Resources,
};
use crate::solution::Solution;
use crate::validate::validate;

/// Numbers of nodes of the largest type that the limits must allow.
const NODES: [i64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Maximum number of pairs of cell and shape for which alternatives are tried, as in [`super::scarce`].
const MOST_OPENINGS: usize = 200_000;

/// Returns the plan that leaves the fewest pods unplaced, `solution` or one made by `plan` of a changed problem.
pub(super) fn place(compiled: &Compiled<'_>, solution: Solution, plan: impl Fn(&Compiled<'_>) -> Solution) -> Solution {
    let problem = compiled.problem;
    let strict = compiled.options.min_values == MinValuesPolicy::Strict;
    let pools: Vec<usize> = (0..problem.pools.len()).filter(|&pool| is_choosy(&problem.pools[pool])).collect();
    let few = compiled.cells.len().saturating_mul(compiled.shapes.len()) <= MOST_OPENINGS;
    if !strict || !few || pools.is_empty() || leftovers::could_be_held(compiled, &solution).is_empty() {
        return solution;
    }
    let mut best = solution;
    for changed in
        NODES.iter().filter_map(|&nodes| with_small_types(problem, &pools, nodes)).chain([without(problem, &pools)])
    {
        let found = plan(&Compiled::new(&changed, compiled.options));
        if is_better(compiled, &found, &best) && validate(problem, compiled.options, &found).is_empty() {
            best = found;
        }
    }
    best
}

fn is_choosy(pool: &NodePool) -> bool {
    pool.limits.is_some() && pool.missing_replicas.is_none() && !flexible::asked(pool).is_empty()
}

fn is_better(compiled: &Compiled<'_>, one: &Solution, other: &Solution) -> bool {
    let left = |solution: &Solution| leftovers::left_by_priority(compiled, solution);
    let (one_left, other_left) = (left(one), left(other));
    let (one_lightness, other_lightness) = (rival::lightness(compiled, one), rival::lightness(compiled, other));
    one_left < other_left
        || one_left == other_left
            && (one_lightness < other_lightness
                || one_lightness == other_lightness && rival::price(one) < rival::price(other) - 1e-9)
}

/// Returns `problem` with `pools` limited to types of which `nodes` stay within the limits. `None` if no pool has
/// enough types of that size.
fn with_small_types(problem: &Problem, pools: &[usize], nodes: i64) -> Option<Problem> {
    let mut changed = problem.clone();
    let mut any = false;
    for &pool in pools {
        let about = &problem.pools[pool];
        let types = &problem.catalogues[about.catalogue];
        let left = left_of(about);
        let is_small = |capacity: &Resources| {
            left.iter().all(|(resource, left)| capacity.against_limit(resource).saturating_mul(nodes) <= *left)
        };
        let suiting = types.suiting(&about.requirements);
        let small: Vec<usize> = suiting.ones().filter(|&one| is_small(&types[one].capacity)).collect();
        let missed = flexible::first_miss(&flexible::asked(about), small.iter().map(|&one| &types[one]));
        let here = &mut changed.pools[pool];
        if missed.is_some() || small.is_empty() {
            here.state = PoolState::NotReady("its limits leave too few types".to_owned());
            continue;
        }
        any = true;
        let names = small.iter().map(|&one| Arc::clone(&types[one].name));
        here.requirements.add(INSTANCE_TYPE, Requirement::new(Operator::In, names));
        here.limits = Some([(Resource::new("nodes"), most_nodes(&left, types, &small))].into_iter().collect());
        here.usage = Resources::new();
    }
    any.then_some(changed)
}

/// Returns `problem` with nothing launched in `pools`.
fn without(problem: &Problem, pools: &[usize]) -> Problem {
    let mut changed = problem.clone();
    for &pool in pools {
        changed.pools[pool].state = PoolState::NotReady("its limits leave too few types".to_owned());
    }
    changed
}

/// Returns what the limits of a pool leave, by resource.
fn left_of(pool: &NodePool) -> Vec<(Resource, i64)> {
    let limits = pool.limits.iter().flat_map(|limits| limits.iter());
    limits.map(|(resource, limit)| (resource.clone(), limit.saturating_sub(pool.usage.get(resource)))).collect()
}

/// Returns the number of nodes that stay within what the limits leave, whichever of `among` each is launched as.
fn most_nodes(left: &[(Resource, i64)], types: &Catalogue, among: &[usize]) -> i64 {
    let times = left.iter().filter_map(|(resource, left)| {
        let most = among.iter().map(|&one| types[one].capacity.against_limit(resource)).max().unwrap_or(0);
        (most > 0).then(|| (left / most).max(0))
    });
    times.min().unwrap_or(i64::MAX)
}
