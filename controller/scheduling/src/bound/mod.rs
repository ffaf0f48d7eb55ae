//! Lower bounds: what no plan can undercut.
//!
//! A bound is a price per pod such that no node's content is priced above the node. Two ways to find one: [`fluid`]
//! treats resources as liquids and is sharp where prices follow resources; `split` shares each shape's price out over its
//! resources and is sharp where they do not (burstable and odd types). Both are proven by construction; the larger counts.

pub(crate) mod fluid;
pub(crate) mod simplex;
pub(crate) mod split;

use fixedbitset::FixedBitSet;

use crate::compile::{Compiled, FREE, fits};
use crate::model::{MinValuesPolicy, Options, Problem};
use crate::pack::ground::Ground;
use crate::pack::groups::{Group, Grouped, Reading};
use crate::pack::stock::Stock;
use crate::solution::Solution;

/// USD per hour below which no assignment of the pods on `solution`'s new nodes to the offerings of `problem` can cost.
/// All pools are allowed, weights and limits aside, and preferred terms are ignored.
pub fn lower_bound(problem: &Problem, options: &Options, solution: &Solution) -> f64 {
    lower_bound_of(problem, options, solution.new_nodes.iter().flat_map(|node| &node.pods).copied())
}

/// USD per hour below which no assignment of `pods`, by their index in the problem, to its offerings can cost.
pub fn lower_bound_of(problem: &Problem, options: &Options, pods: impl IntoIterator<Item = usize>) -> f64 {
    // Room held back for `minValues` is a choice of ours; the offerings have it.
    let options = &Options { min_values: MinValuesPolicy::BestEffort, ..*options };
    let compiled = Compiled::relaxed(problem, options);
    // Pods one by one: a plan may also part those that construction glues into one.
    let mut grouped = Grouped::new(&compiled, &Reading::PLAIN, false);
    let mut on_new = FixedBitSet::with_capacity(problem.pods.len());
    pods.into_iter().for_each(|pod| on_new.insert(pod));
    // A pod that fits nothing on sale is on no new node: rules about how many may share one say nothing of it.
    let fits_somewhere = |group: &Group| {
        let mut offered = grouped.offered(&compiled, group.signature).ones();
        offered.any(|shape| fits(&group.sizes, &compiled.shapes[shape].room))
    };
    let are_placed: Vec<bool> = grouped.groups.iter().map(fits_somewhere).collect();
    for (group, is_placed) in grouped.groups.iter_mut().zip(are_placed) {
        group.units.retain(|&pod| is_placed && on_new.contains(pod as usize));
    }
    let (stock, _) = Stock::of_groups(&grouped, compiled.cells.len());
    if stock.left == 0 {
        return 0.0;
    }
    let ground = Ground::new(&compiled, &grouped, &stock, false);
    let demands = ground.demands(&stock, stock.least_nodes(&grouped.rules.host));
    // Dominated shapes are worth no more than those that beat them, so the undominated ones prove the bound for all.
    let sources = ground.sources(ground.basic);
    let duals = fluid::solve(&sources, &demands);
    let scale = fluid::valid_scale(&duals, &sources, demands.width);
    let fluid = if scale.is_finite() { scale * fluid::value(&duals, &demands) } else { 0.0 };
    let fluid = (fluid - reservations_worth(&compiled, &ground, &duals, scale, demands.width)).max(0.0);
    let single = dearest_pod(&compiled, &grouped, &stock);
    // Free nodes were counted as nearly free ones, and there are at most as many as pods.
    let free = compiled.shapes.iter().any(|shape| shape.cheapest <= FREE);
    let spared = if free { FREE * stock.left as f64 } else { 0.0 };
    // What a reservation could hold is not known in split prices.
    if compiled.shapes.iter().any(|shape| !shape.reserved.is_empty()) {
        return (fluid.max(single) - spared).max(0.0);
    }
    let rules = &grouped.rules.host;
    let rule = stock.tightest(rules).map(|(rule, _)| (rule, rules[rule as usize].limit));
    let items = split::items(&stock, &ground.group_of, rule);
    let split = split::solve(&sources, &items, split::Start::Fluid(&duals), demands.width);
    let values = split.values(&sources, &items, demands.width);
    let total: f64 = items.iter().zip(&values).map(|(item, value)| item.count * value).sum();
    (fluid.max(total).max(single) - spared).max(0.0)
}

/// The cheapest node of the pod for which that is dearest: sharp for a pod or two.
fn dearest_pod(compiled: &Compiled<'_>, grouped: &Grouped, stock: &Stock) -> f64 {
    let kinds = stock.kinds.iter().zip(&stock.left_of_kind).filter(|&(_, &left)| left > 0);
    let cheapest = kinds.map(|(kind, _)| {
        let admits = &grouped.admits[kind.signature as usize];
        let shapes = compiled.shapes.iter().enumerate().filter(|(_, shape)| fits(&kind.sizes, &shape.room));
        let prices = shapes.flat_map(|(number, shape)| {
            let bought = shape.price.iter().copied().enumerate();
            let reserved = shape.reserved.iter().map(|one| (one.cell, one.price));
            bought.chain(reserved).filter(move |&(cell, _)| admits[cell].contains(number)).map(|(_, price)| price)
        });
        prices.fold(f64::INFINITY, f64::min)
    });
    // A pod that fits nowhere is on no new node.
    cheapest.filter(|price| price.is_finite()).fold(0.0, f64::max)
}

/// What nodes of reservations could hold at most beyond their price: so much less need be bought.
fn reservations_worth(
    compiled: &Compiled<'_>,
    ground: &Ground<'_>,
    duals: &fluid::Duals,
    scale: f64,
    width: usize,
) -> f64 {
    let everything = {
        let mut groups = FixedBitSet::with_capacity(ground.groups);
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
