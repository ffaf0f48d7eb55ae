//! Parts of a demand that are planned by programs of their own: zones whose best offers are about as good.
//!
//! If few shapes are on offer there is one scope. If there are many, the promising ones are those whose room may be
//! worth its price under the values of the known plan; only they are markets.

use fixedbitset::FixedBitSet;

use super::rows::{self, MOST_TO_MERGE};
use crate::compile::fits;
use crate::pack::construct::OpenedNode;
use crate::pack::groups::Grouped;
use crate::pack::relaxation::envelope::{self, Envelope, Valued};
use crate::pack::remaining_demand::RemainingDemand;
use crate::pack::shape_index::{Headroom, ShapeIndex};

/// Maximum number of promising shapes.
const MOST_SHAPES: usize = 96;

/// Minimum of the highest possible value of a content per dollar, as a share of that of the best shape, of a promising
/// shape.
const PROMISING: f64 = 0.9;

/// Minimum of what the next cell of a scope offers, as a share of what the one before it offers.
const CLOSE: f64 = 0.98;

/// Number of mean units from which a node can be filled with any.
const MANY_UNITS: f64 = 24.0;

/// Batches, and the shapes and cells for them.
pub(super) struct Scope<'a> {
    /// Value of a unit by kind under which no content is worth more than its price, if known.
    pub(super) values: Option<&'a [f64]>,
    /// Factor at which the values are those of these cells.
    pub(super) scale: f64,
    /// Price of a node from which it holds so many units that it can be filled with any.
    pub(super) fluid_from: f64,
    /// True if the values are for a bound: rules between pods are left out, and no content is rounded.
    pub(super) is_bound: bool,
    /// Number of scopes of the demand.
    pub(super) count: usize,
    pub(super) batches: Vec<u32>,
    pub(super) shapes: Vec<usize>,
    pub(super) cells: FixedBitSet,
}

/// Returns the scopes of `unplaced`; `None` if there are none.
pub(super) fn scopes<'a>(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    headroom: &Headroom,
    known: &[OpenedNode],
    values: Option<&'a [f64]>,
) -> Option<Vec<Scope<'a>>> {
    let compiled = shape_index.compiled;
    let batches = rows::waiting(shape_index, unplaced);
    let Some(values) = values else {
        let mut cells = FixedBitSet::with_capacity(compiled.cells.len());
        cells.insert_range(..);
        return Some(vec![Scope {
            values: None,
            scale: 1.0,
            fluid_from: f64::INFINITY,
            is_bound: false,
            count: 1,
            batches,
            shapes: shape_index.basic.to_vec(),
            cells,
        }]);
    };
    if unplaced.left_of_kind.iter().filter(|&&left| left > 0).count() > MOST_TO_MERGE {
        return None;
    }
    let shapes = promising(shape_index, grouped, unplaced, headroom, known, values);
    // Cells by what the best of these shapes offers, the cheapest first.
    let best = |cell: usize| {
        let offers = shapes.iter().map(|&(shape, most)| most / compiled.shapes[shape].price[cell]);
        offers.fold(0.0, f64::max)
    };
    let mut cells: Vec<(f64, usize)> = (0..compiled.cells.len()).map(|cell| (best(cell), cell)).collect();
    cells.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let classes = cells.chunk_by(|one, other| other.0 >= CLOSE * one.0);
    let total: f64 = values.iter().zip(&unplaced.left_of_kind).map(|(value, &left)| value * left as f64).sum();
    let fluid_from = MANY_UNITS * total / unplaced.left.max(1) as f64;
    let mut left = batches;
    let mut scopes = Vec::new();
    for class in classes {
        let best = class[0].0;
        let reaches = |batch: &u32| {
            let mask = &unplaced.masks[unplaced.batches[*batch as usize].mask as usize];
            class.iter().any(|&(_, cell)| mask.contains(cell))
        };
        let (here, rest): (Vec<u32>, Vec<u32>) = left.into_iter().partition(reaches);
        left = rest;
        if here.is_empty() || best <= 0.0 {
            continue;
        }
        let mut set = FixedBitSet::with_capacity(compiled.cells.len());
        set.extend(class.iter().map(|&(_, cell)| cell));
        let shapes = shapes.iter().map(|&(shape, _)| shape).collect();
        scopes.push(Scope {
            values: Some(values),
            scale: 1.0 / best,
            fluid_from,
            is_bound: false,
            count: 1,
            batches: here,
            shapes,
            cells: set,
        });
    }
    let count = scopes.len();
    scopes.iter_mut().for_each(|scope| scope.count = count);
    (count > 0).then_some(scopes)
}

/// Returns the promising shapes, ascending, with the highest possible value of a content.
fn promising(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    headroom: &Headroom,
    known: &[OpenedNode],
    values: &[f64],
) -> Vec<(usize, f64)> {
    let compiled = shape_index.compiled;
    let is_used = |shape: usize| known.iter().any(|node| node.shape == shape);
    let most = |shape: usize| {
        let room = &compiled.shapes[shape].room;
        let holds = |&kind: &usize| {
            let one = &unplaced.kinds[kind];
            unplaced.left_of_kind[kind] > 0
                && shape_index.tier_of_kind[kind] <= shape_index.weight_of(shape)
                && fits(&one.sizes, room)
                && grouped.offered(compiled, one.signature).contains(shape)
        };
        let units: Vec<Valued> = (0..unplaced.kinds.len())
            .filter(holds)
            .map(|kind| envelope::valued(&unplaced.kinds[kind].sizes, values[kind]))
            .collect();
        Envelope::of(room, &units).most
    };
    let open = shape_index.basic.iter().copied().filter(|&shape| headroom.allows(compiled, shape));
    let open: Vec<(usize, f64)> = open.map(|shape| (shape, most(shape))).collect();
    // Compared with the best in each cell: some cells have none of the cheapest shapes.
    let mut ratios = vec![0.0_f64; open.len()];
    for cell in 0..compiled.cells.len() {
        let offer = |&(shape, most): &(usize, f64)| most / compiled.shapes[shape].price[cell];
        let best = open.iter().map(offer).fold(f64::MIN_POSITIVE, f64::max);
        ratios.iter_mut().zip(&open).for_each(|(ratio, one)| *ratio = ratio.max(offer(one) / best));
    }
    let ranked = open.into_iter().zip(ratios).map(|((shape, most), ratio)| (ratio, shape, most));
    let mut ranked: Vec<(f64, usize, f64)> =
        ranked.filter(|&(ratio, shape, _)| ratio >= PROMISING || is_used(shape)).collect();
    ranked.sort_by(|a, b| is_used(b.1).cmp(&is_used(a.1)).then(b.0.total_cmp(&a.0)).then(a.1.cmp(&b.1)));
    ranked.truncate(MOST_SHAPES);
    let mut found: Vec<(usize, f64)> = ranked.into_iter().map(|(_, shape, most)| (shape, most)).collect();
    found.sort_unstable_by_key(|&(shape, _)| shape);
    found
}
