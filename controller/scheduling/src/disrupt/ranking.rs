//! Value of nodes per dollar, priced by the resources that the candidates' pods use; and the comparison of a command's
//! savings with the pods that it moves.

use rustc_hash::FxHashSet;

use super::input::{Consolidation, DisruptionInput};
use super::world::World;
use crate::compile::Compiled;
use crate::logarithm::ln;
use crate::model::Resource;
use crate::pack::groups::{Grouped, PreferenceMode};
use crate::pack::relaxation::fluid;
use crate::pack::remaining_demand::RemainingDemand;
use crate::pack::shape_index::ShapeIndex;

/// Relative difference in value per dollar below which nodes are compared by utilization.
const STEP: f64 = 0.005;

/// Karpenter's `k` of the policy Balanced: one percent of the pool's cost is worth this many percent of its disruption.
const BALANCED: f64 = 2.0;

/// Sorts `candidates` by value per dollar, then utilization, then moving cost, lowest first.
pub(super) fn worst_first(world: &mut World<'_>, candidates: &[usize]) -> Vec<usize> {
    let places: Vec<(usize, usize)> = candidates.iter().flat_map(|&node| world.leavers(node)).collect();
    world.problem.pods = places.iter().map(|&place| world.pod(place)).collect();
    let rows = rows(world, candidates);
    world.problem.pods.clear();
    let mut order: Vec<(i64, f64, usize)> = rows
        .into_iter()
        .zip(candidates)
        .map(|((room, used), &node)| {
            let price = world.price(node).unwrap_or(0.0).max(1e-9);
            let step = (ln((room / price).max(1e-12)) / STEP).floor() as i64;
            (step, if room > 0.0 { used / room } else { 0.0 }, node)
        })
        .collect();
    order.sort_by(|a, b| {
        a.0.cmp(&b.0)
            .then(a.1.total_cmp(&b.1))
            .then_with(|| moving_cost(world, a.2).total_cmp(&moving_cost(world, b.2)))
            .then_with(|| world.problem.nodes[a.2].name.cmp(&world.problem.nodes[b.2].name))
    });
    order.into_iter().map(|(_, _, node)| node).collect()
}

fn moving_cost(world: &World<'_>, node: usize) -> f64 {
    world.input.managed_nodes[node].as_ref().map_or(0.0, |managed_node| managed_node.moving_cost())
}

/// Returns the value of the room and of the moving pods, for each candidate.
fn rows(world: &World<'_>, candidates: &[usize]) -> Vec<(f64, f64)> {
    let problem = &world.problem;
    let compiled = Compiled::new(problem, &world.settings.options);
    let grouped = Grouped::new(&compiled, &PreferenceMode::PLAIN, false);
    let unplaced = RemainingDemand::of_groups(&compiled, &grouped);
    let shape_index = ShapeIndex::new(&compiled, &grouped, &unplaced, false);
    let width = compiled.columns.width();
    let demands = shape_index.demands(&unplaced, 0.0);
    let sources = shape_index.sources(shape_index.basic);
    // If several groups price a resource, the highest price counts, as a node may run any of them.
    let mut unit = vec![0.0_f64; width];
    if !sources.is_empty() && unplaced.left > 0 {
        let duals = fluid::solve(&sources, &demands);
        for group in 0..demands.groups {
            for (column, unit) in unit.iter_mut().enumerate() {
                *unit = unit.max(duals.unit[group * width + column]);
            }
        }
    }
    let priced = unit.iter().any(|&unit| unit > 0.0);
    let worth = |amounts: &[i32]| -> f64 {
        if priced { unit.iter().zip(amounts).map(|(unit, &amount)| unit * f64::from(amount.max(0))).sum() } else { 0.0 }
    };
    candidates
        .iter()
        .map(|&node| {
            let about = &problem.nodes[node];
            let mut room = about.allocatable.clone();
            room.subtract(&about.daemon_requests);
            let managed_node = world.input.managed_nodes[node].as_ref();
            let mut used = crate::model::Resources::new();
            for (bound, node_pod) in
                about.bound.iter().zip(managed_node.iter().flat_map(|managed_node| &managed_node.node_pods))
            {
                let requests = &problem.specs[bound.spec].requests;
                if node_pod.reschedulable { used.add(requests) } else { room.subtract(requests) }
            }
            if !priced {
                // Nothing can be launched: compare by cpu.
                return (room.get(&Resource::Cpu) as f64, used.get(&Resource::Cpu) as f64);
            }
            let attached = FxHashSet::default();
            (worth(&compiled.columns.room(&room, &[], &attached)), worth(&compiled.columns.room(&used, &[], &attached)))
        })
        .collect()
}

/// Checks that `savings` are worth disrupting `nodes` for all pools with the policy Balanced; otherwise returns the
/// reason.
pub(super) fn balanced(world: &World<'_>, nodes: &[usize], savings: f64) -> Result<(), String> {
    let input = world.input;
    let pool_of = |node: usize| input.managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool);
    let mut pools: Vec<usize> = nodes.iter().filter_map(|&node| pool_of(node)).collect();
    pools.sort_unstable();
    pools.dedup();
    let source = world.prices(nodes);
    for pool in pools.into_iter().filter(|&pool| input.policies[pool].consolidation == Consolidation::Balanced) {
        let of_pool: Vec<usize> = nodes.iter().copied().filter(|&node| pool_of(node) == Some(pool)).collect();
        let share = if source > 0.0 { world.prices(&of_pool) / source } else { 0.0 };
        let all: Vec<usize> = (0..input.problem.nodes.len())
            .filter(|&node| pool_of(node) == Some(pool) && !input.problem.nodes[node].deleting)
            .collect();
        let saved = savings * share / world.prices(&all).max(f64::MIN_POSITIVE);
        let moved = disruption(input, &of_pool) / disruption(input, &all).max(f64::MIN_POSITIVE);
        if savings <= 0.0 || moved > 0.0 && saved / moved < 1.0 / BALANCED {
            let name = &input.problem.pools[pool].name;
            return Err(format!(
                "NodePool `{name}` is Balanced: {:.1} % of its cost would be saved by moving {:.1} % of its pods by weight",
                100.0 * saved,
                100.0 * moved
            ));
        }
    }
    Ok(())
}

fn disruption(input: &DisruptionInput, nodes: &[usize]) -> f64 {
    nodes
        .iter()
        .filter_map(|&node| input.managed_nodes[node].as_ref())
        .map(|managed_node| managed_node.moving_cost())
        .sum()
}
