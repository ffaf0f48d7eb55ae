//! Lower bounds on the cost of any plan.
//!
//! A bound is a price per pod such that the pods on a node never cost more than the node. There are three ways to find
//! one: [`fluid`] treats resources as divisible and is tight where prices follow resources; `split` distributes each
//! shape's price over its resources and is tight where they do not (burstable and unusual types); `contents` computes
//! what small nodes can hold, and knows the zones into which spreads force pods. All are valid by construction; the
//! largest one is used.

mod contents;
mod pinned;

use fixedbitset::FixedBitSet;
use index_vec::IndexVec;

use crate::compile::{Compiled, FREE, fits};
use crate::model::{MinValuesPolicy, Options, Problem};
use crate::pack::groups::{Group, Grouped, PreferenceMode};
use crate::pack::relaxation::{fluid, split};
use crate::pack::remaining_demand::RemainingDemand;
use crate::pack::shape_index::ShapeIndex;
use crate::solution::Solution;

/// Returns a lower bound, in USD per hour, on the cost of placing the pods on `solution`'s new nodes on offerings of
/// `problem`. All pools are allowed, weights and limits are ignored, and so are preferred terms. The
/// [example of the crate](crate#example) calls it.
pub fn lower_bound(problem: &Problem, options: &Options, solution: &Solution) -> f64 {
    bound(problem, options, solution.new_nodes.iter().flat_map(|node| &node.pods).copied(), true)
}

/// Returns a lower bound, in USD per hour, on the cost of placing `pods`, by their index in the problem, on its
/// offerings. They need not have been placed together, so their spreads may not hold: those are left out.
pub fn lower_bound_of(problem: &Problem, options: &Options, pods: impl IntoIterator<Item = usize>) -> f64 {
    bound(problem, options, pods, false)
}

/// Returns the bound of [`lower_bound_of`]; with `spreads`, for pods whose spreads hold.
fn bound(problem: &Problem, options: &Options, pods: impl IntoIterator<Item = usize>, spreads: bool) -> f64 {
    // Room reserved for `minValues` is a choice of the packer; the offerings have that room.
    let options = &Options { min_values: MinValuesPolicy::BestEffort, ..*options };
    let compiled = Compiled::relaxed(problem, options);
    // Pods are taken one by one: a plan may also separate pods that construction treats as one unit.
    let mut grouped = Grouped::new(&compiled, &PreferenceMode::PLAIN, false);
    let mut on_new = FixedBitSet::with_capacity(problem.pods.len());
    pods.into_iter().for_each(|pod| on_new.insert(pod));
    // A pod that fits no offering is not on a new node: rules about how many may share a node do not count it.
    let fits_somewhere = |group: &Group| {
        let mut offered = grouped.offered(&compiled, group.signature).ones();
        offered.any(|shape| fits(&group.sizes, &compiled.shapes[shape].room))
    };
    let are_placed: Vec<bool> = grouped.groups.iter().map(fits_somewhere).collect();
    for (group, is_placed) in grouped.groups.iter_mut().zip(are_placed) {
        group.units.retain(|&pod| is_placed && on_new.contains(pod as usize));
    }
    let unplaced = RemainingDemand::of_groups(&compiled, &grouped);
    if unplaced.left == 0 {
        return 0.0;
    }
    let shape_index = ShapeIndex::new(&compiled, &grouped, &unplaced, false);
    let demands = shape_index.demands(&unplaced, unplaced.least_nodes(&grouped.rules.host));
    // Dominated shapes are worth no more than the shapes that dominate them, so the undominated ones prove the bound.
    let sources = shape_index.sources(shape_index.basic);
    let duals = fluid::solve(&sources, &demands);
    let scale = fluid::valid_scale(&duals, &sources, demands.width);
    let fluid = if scale.is_finite() { scale * fluid::value(&duals, &demands) } else { 0.0 };
    let fluid = (fluid - reservations_worth(&compiled, &shape_index, &duals, scale, demands.width)).max(0.0);
    let single = dearest_pod(&compiled, &grouped, &unplaced);
    // Free nodes were priced at `FREE`, and there are at most as many as pods.
    let free = compiled.shapes.iter().any(|shape| shape.cheapest <= FREE);
    let spared = if free { FREE * unplaced.left as f64 } else { 0.0 };
    // Split prices do not tell the value of the contents of a reservation.
    if compiled.shapes.iter().any(|shape| !shape.reserved.is_empty()) {
        return (fluid.max(single) - spared).max(0.0);
    }
    let rules = &grouped.rules.host;
    let rule = unplaced.tightest(rules).map(|(rule, _)| (rule, rules[rule].limit));
    let items = split::items(&unplaced, &shape_index.group_of, rule);
    let split = split::solve(&sources, &items, split::Start::Fluid(&duals), demands.width);
    let values = split.values(&sources, &items, demands.width);
    let total: f64 = items.iter().zip(&values).map(|(item, value)| item.count * value).sum();
    let whole = if total > LOOSE * fluid { by_contents(&compiled, &grouped, spreads) } else { 0.0 };
    (fluid.max(total).max(whole).max(single) - spared).max(0.0)
}

/// Factor by which split prices must prove more than fluid ones for contents to be computed: prices do not follow
/// resources, so small nodes are worth their price.
const LOOSE: f64 = 1.01;

/// Returns the bound by whole contents.
fn by_contents(compiled: &Compiled<'_>, grouped: &Grouped, spreads: bool) -> f64 {
    let unplaced = if spreads {
        RemainingDemand::new(compiled, grouped, &pinned::pinned(compiled, grouped))
    } else {
        RemainingDemand::of_groups(compiled, grouped)
    };
    let shape_index = ShapeIndex::new(compiled, grouped, &unplaced, false);
    let sources = shape_index.sources(shape_index.basic);
    let width = compiled.columns.width();
    let duals = fluid::solve(&sources, &shape_index.demands(&unplaced, 0.0));
    let items = split::items(&unplaced, &shape_index.group_of, None);
    let split = split::solve(&sources, &items, split::Start::Fluid(&duals), width);
    let values = IndexVec::from_vec(split.values(&sources, &items, width));
    contents::bound(&shape_index, grouped, &unplaced, &values)
}

/// Returns the highest, over all pods, of the price of the cheapest node for a pod: tight for one or two pods.
fn dearest_pod(compiled: &Compiled<'_>, grouped: &Grouped, unplaced: &RemainingDemand) -> f64 {
    let kinds = unplaced.kinds.iter().zip(&unplaced.left_of_kind).filter(|&(_, &left)| left > 0);
    let cheapest = kinds.map(|(kind, _)| {
        let admits = &grouped.admits[kind.signature];
        let shapes = compiled.shapes.iter().enumerate().filter(|(_, shape)| fits(&kind.sizes, &shape.room));
        let prices = shapes.flat_map(|(number, shape)| {
            let bought = shape.price.iter_enumerated().map(|(cell, &price)| (cell, price));
            let reserved = shape.reserved.iter().map(|one| (one.cell, one.price));
            bought.chain(reserved).filter(move |&(cell, _)| admits[cell].contains(number)).map(|(_, price)| price)
        });
        prices.fold(f64::INFINITY, f64::min)
    });
    // A pod that fits nowhere is not on a new node.
    cheapest.filter(|price| price.is_finite()).fold(0.0, f64::max)
}

/// Returns the maximum value of pods on reserved nodes in excess of their price; this much need not be bought.
fn reservations_worth(
    compiled: &Compiled<'_>,
    shape_index: &ShapeIndex<'_>,
    duals: &fluid::Duals,
    scale: f64,
    width: usize,
) -> f64 {
    let everything = {
        let mut groups = FixedBitSet::with_capacity(shape_index.groups);
        groups.insert_range(..);
        groups
    };
    let reserved = compiled.shapes.iter().filter(|shape| !shape.reserved.is_empty());
    reserved
        .map(|shape| {
            let source = fluid::Source { room: &shape.room, price: 0.0, groups: &everything };
            let worth = scale * duals.worth(&source, width);
            let each = shape.reserved.iter().map(|one| f64::from(one.count) * (worth - one.price).max(0.0));
            each.sum::<f64>()
        })
        .sum()
}
