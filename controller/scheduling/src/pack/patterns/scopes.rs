//! Parts of a demand that are planned by programs of their own: zones with about the same offers, and what goes there.
//!
//! ```text
//!  cells ──► classes with the same offers ──► for a plan, joined where all units together would cost the same
//!        ──► the best class takes all that may go there, the next what is left ──► values, promising shapes of each
//! ```
//!
//! If few shapes are on offer there is one scope. If there are many, the promising ones are those whose room may be
//! worth its price; only they are markets. A program knows no cells: if one zone has a cheap shape that others lack, a
//! single program would use it for pods that must be elsewhere.

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexSlice, IndexVec, index_vec};

use super::rows::{self, MOST_TO_MERGE};
use crate::compile::{CellId, Compiled, cells_in, fits};
use crate::pack::construct::OpenedNode;
use crate::pack::groups::Grouped;
use crate::pack::relaxation::envelope::{self, Envelope, Valued};
use crate::pack::relaxation::fluid::{self, Demands};
use crate::pack::relaxation::split::{self, Item};
use crate::pack::remaining_demand::{BatchId, KindId, RemainingDemand};
use crate::pack::shape_index::{Headroom, ShapeIndex};

/// Maximum number of promising shapes.
const MOST_SHAPES: usize = 96;

/// Minimum of the highest possible value of a content per dollar, as a share of that of the best shape, of a promising
/// shape.
const PROMISING: f64 = 0.9;

/// Minimum of what a cell offers for a dollar, as a share of what another one does, to be as good.
const CLOSE: f64 = 0.98;

/// Maximum number of classes of cells; the last one takes all further cells, whose offers are worse.
const MOST_CLASSES: usize = 6;

/// Number of mean units from which a node can be filled with any.
const MANY_UNITS: f64 = 24.0;

/// Batches, and the shapes and cells for them.
pub(super) struct Scope {
    /// Value of a unit by kind under which no content is worth more than its price, if known.
    pub(super) values: Option<IndexVec<KindId, f64>>,
    /// Price of a node from which it holds so many units that it can be filled with any.
    pub(super) fluid_from: f64,
    /// Number of scopes of the demand.
    pub(super) count: usize,
    pub(super) batches: Vec<BatchId>,
    pub(super) shapes: Vec<usize>,
    pub(super) cells: FixedBitSet,
}

/// Demand to be divided.
pub(super) struct Whole<'a, 'd> {
    pub(super) shape_index: &'a ShapeIndex<'a>,
    pub(super) grouped: &'a Grouped,
    pub(super) unplaced: &'d RemainingDemand,
    pub(super) headroom: &'d Headroom,
    /// Nodes of the known plan.
    pub(super) known: &'d [OpenedNode],
    /// True if values for a bound are asked for: rules between pods are left out, and no content is rounded.
    pub(super) is_bound: bool,
}

impl Whole<'_, '_> {
    /// Returns the scopes; with `values`, those of a unit by kind, for many shapes. `None` if there are none.
    pub(super) fn scopes(&self, values: Option<&IndexSlice<KindId, [f64]>>) -> Option<Vec<Scope>> {
        let compiled = self.shape_index.compiled;
        let mut everywhere = FixedBitSet::with_capacity(compiled.cells.len());
        everywhere.insert_range(..);
        let batches = rows::waiting(self.shape_index, self.unplaced);
        let Some(values) = values else {
            return Some(vec![Scope {
                values: None,
                fluid_from: f64::INFINITY,
                count: 1,
                batches,
                shapes: self.shape_index.basic.to_vec(),
                cells: everywhere,
            }]);
        };
        let left = &self.unplaced.left_of_kind;
        if left.iter().filter(|&&left| left > 0).count() > MOST_TO_MERGE {
            return None;
        }
        let promising = self.promising(values, left, &everywhere);
        let mut classes = classes(compiled, &promising);
        if !self.is_bound {
            classes = self.joined(classes, values);
        }
        let parts = self.divided(batches, classes);
        let count = parts.len();
        let scope = |(batches, cells): (Vec<BatchId>, FixedBitSet)| {
            let left = self.left_of_kind(&batches);
            let (values, shapes) = if count > 1 {
                let values = self.values(&left, &cells);
                let shapes = self.promising(&values, &left, &cells);
                (values, shapes)
            } else {
                (values.to_vec(), promising.clone())
            };
            Scope {
                fluid_from: MANY_UNITS * total(&values, &left) / left.iter().sum::<usize>().max(1) as f64,
                shapes: shapes.into_iter().map(|(shape, _)| shape).collect(),
                values: Some(values),
                count,
                batches,
                cells,
            }
        };
        let mut scopes: Vec<Scope> = parts.into_iter().map(scope).collect();
        // What the headroom leaves may hold nothing of a part.
        scopes.retain(|scope| !scope.shapes.is_empty());
        // For a bound, units of the scopes before fill gaps here, on nodes that may be good for them alone.
        for at in (1..scopes.len()).filter(|_| self.is_bound) {
            let (before, here) = scopes.split_at_mut(at);
            let is_new = |shape: &&usize| !here[0].shapes.contains(shape);
            let others: Vec<usize> = before[at - 1].shapes.iter().filter(is_new).copied().collect();
            here[0].shapes.extend(others);
            here[0].shapes.truncate(MOST_SHAPES);
            here[0].shapes.sort_unstable();
        }
        (!scopes.is_empty()).then_some(scopes)
    }

    /// Returns the batches of each class, and its cells: the first class with a node for a batch takes it.
    fn divided(&self, mut batches: Vec<BatchId>, classes: Vec<FixedBitSet>) -> Vec<(Vec<BatchId>, FixedBitSet)> {
        let mut parts = Vec::new();
        for cells in classes {
            let (here, rest): (Vec<BatchId>, Vec<BatchId>) =
                batches.into_iter().partition(|&batch| self.goes(batch, &cells));
            batches = rest;
            if !here.is_empty() {
                parts.push((here, cells));
            }
        }
        parts
    }

    /// Returns true if a node for a batch is on offer in these cells.
    fn goes(&self, batch: BatchId, cells: &FixedBitSet) -> bool {
        let compiled = self.shape_index.compiled;
        let one = &self.unplaced.batches[batch];
        let kind = &self.unplaced.kinds[one.kind];
        let tier = self.shape_index.tier_of_kind[one.kind];
        let holds = |shape: &usize| {
            self.shape_index.weight_of(*shape) >= tier && fits(&kind.sizes, &compiled.shapes[*shape].room)
        };
        self.unplaced.masks[one.mask].intersection(cells).map(CellId::from_usize).any(|cell| {
            let admitted = &self.grouped.admits[kind.signature][cell];
            self.shape_index.by_price[cell].iter().rev().any(|shape| admitted.contains(*shape) && holds(shape))
        })
    }

    /// Returns the classes, those joined in which all units would cost nearly the same; `values` are those of a unit by
    /// kind in the best cells.
    fn joined(&self, classes: Vec<FixedBitSet>, values: &IndexSlice<KindId, [f64]>) -> Vec<FixedBitSet> {
        if classes.len() < 2 {
            return classes;
        }
        let left = &self.unplaced.left_of_kind;
        let mut joined: Vec<(f64, FixedBitSet)> = Vec::new();
        for class in classes {
            let here = self.values(left, &class);
            let lacks = values.iter().zip(&here).any(|(&value, &here)| value > 0.0 && here <= 0.0);
            let price = if lacks { f64::INFINITY } else { total(&here, left) };
            let is_close = |other: f64| price.is_finite() && other.min(price) >= CLOSE * other.max(price);
            match joined.iter_mut().find(|(other, _)| is_close(*other)) {
                Some((_, cells)) => cells.union_with(&class),
                None => joined.push((price, class)),
            }
        }
        joined.into_iter().map(|(_, cells)| cells).collect()
    }

    /// Returns the number of units left in `batches`, by kind.
    fn left_of_kind(&self, batches: &[BatchId]) -> IndexVec<KindId, usize> {
        let mut left = index_vec![0; self.unplaced.kinds.len()];
        for &batch in batches {
            let one = &self.unplaced.batches[batch];
            left[one.kind] += one.left();
        }
        left
    }

    /// Returns the value of a unit by kind if `left` of each are left and all must go to `cells`.
    fn values(&self, left: &IndexSlice<KindId, [usize]>, cells: &FixedBitSet) -> IndexVec<KindId, f64> {
        let compiled = self.shape_index.compiled;
        let width = compiled.columns.width();
        let mut sources = self.shape_index.sources(self.shape_index.basic);
        for (source, &shape) in sources.iter_mut().zip(self.shape_index.basic) {
            source.price = cells_in(cells).map(|cell| compiled.shapes[shape].price[cell]).fold(f64::INFINITY, f64::min);
        }
        sources.retain(|source| source.price.is_finite());
        let kinds = self.unplaced.kinds.iter().zip(left).zip(&self.shape_index.group_of);
        let items: Vec<Item<'_>> = kinds
            .map(|((kind, &left), &group)| Item { group, sizes: &kind.sizes, count: left as f64, slot: 0.0 })
            .collect();
        let groups = self.shape_index.groups;
        let mut demands = Demands { totals: vec![0.0; groups * width], groups, width, least_nodes: 0.0 };
        for item in &items {
            let totals = &mut demands.totals[item.group * width..][..width];
            totals.iter_mut().zip(item.sizes).for_each(|(total, &size)| *total += item.count * f64::from(size));
        }
        let duals = fluid::solve(&sources, &demands);
        let split = split::solve(&sources, &items, split::Start::Fluid(&duals), width);
        IndexVec::from_vec(split.values(&sources, &items, width))
    }

    /// Returns the promising shapes for `left` units of each kind in `cells`, ascending, with the highest possible
    /// value of a content.
    fn promising(
        &self,
        values: &IndexSlice<KindId, [f64]>,
        left: &IndexSlice<KindId, [usize]>,
        cells: &FixedBitSet,
    ) -> Vec<(usize, f64)> {
        let compiled = self.shape_index.compiled;
        let is_used =
            |shape: usize| self.known.iter().any(|node| node.shape == shape && cells.contains(node.cell.index()));
        let most = |shape: usize| {
            let room = &compiled.shapes[shape].room;
            let holds = |&kind: &KindId| {
                let one = &self.unplaced.kinds[kind];
                left[kind] > 0
                    && self.shape_index.tier_of_kind[kind] <= self.shape_index.weight_of(shape)
                    && fits(&one.sizes, room)
                    && self.grouped.offered(compiled, one.signature).contains(shape)
            };
            let units: Vec<Valued> = self
                .unplaced
                .kinds
                .indices()
                .filter(holds)
                .map(|kind| envelope::valued(&self.unplaced.kinds[kind].sizes, values[kind]))
                .collect();
            Envelope::of(room, &units).most
        };
        let is_open = |shape: &usize| {
            let price = &compiled.shapes[*shape].price;
            self.headroom.allows(compiled, *shape) && cells_in(cells).any(|cell| price[cell].is_finite())
        };
        let open = self.shape_index.basic.iter().copied().filter(is_open);
        let open: Vec<(usize, f64)> = open.map(|shape| (shape, most(shape))).collect();
        // Compared with the best in each cell: some cells have none of the cheapest shapes.
        let mut ratios = vec![0.0_f64; open.len()];
        for cell in cells_in(cells) {
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
}

/// Returns the value of all units.
fn total(values: &IndexSlice<KindId, [f64]>, left: &IndexSlice<KindId, [usize]>) -> f64 {
    values.iter().zip(left).map(|(value, &left)| value * left as f64).sum()
}

/// Returns the cells in classes with nearly the same offers of `shapes`, which are given with the highest value of a
/// content: classes with the best offers first, then those with the most of them.
fn classes(compiled: &Compiled<'_>, shapes: &[(usize, f64)]) -> Vec<FixedBitSet> {
    let offers = |cell: CellId| shapes.iter().map(move |&(shape, most)| most / compiled.shapes[shape].price[cell]);
    let best = |cell: CellId| offers(cell).fold(0.0, f64::max);
    let good = |cell: CellId| offers(cell).filter(|&offer| offer >= CLOSE * best(cell)).count();
    let mut cells: Vec<(f64, usize, CellId)> =
        compiled.cells.indices().map(|cell| (best(cell), good(cell), cell)).filter(|&(best, ..)| best > 0.0).collect();
    cells.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut classes: Vec<(Vec<f64>, FixedBitSet)> = Vec::new();
    for (.., cell) in cells {
        let here: Vec<f64> = offers(cell).collect();
        let alike = |class: &(Vec<f64>, FixedBitSet)| !lacks(&class.0, &here) && !lacks(&here, &class.0);
        let at = classes.iter().position(alike).unwrap_or_else(|| {
            classes.push((here, FixedBitSet::with_capacity(compiled.cells.len())));
            classes.len() - 1
        });
        classes[at].1.insert(cell.index());
    }
    // Classes of which neither offers all that the other does have one program, which may use either.
    let mut joined: Vec<(Vec<f64>, FixedBitSet)> = Vec::new();
    for (here, cells) in classes {
        let joins = |class: &(Vec<f64>, FixedBitSet)| {
            best_of(&here) >= CLOSE * best_of(&class.0) && lacks(&class.0, &here) && lacks(&here, &class.0)
        };
        let last = (joined.len() == MOST_CLASSES).then_some(MOST_CLASSES - 1);
        match joined.iter().position(joins).or(last) {
            Some(at) => {
                joined[at].0.iter_mut().zip(here).for_each(|(one, other)| *one = one.max(other));
                joined[at].1.union_with(&cells);
            }
            None => joined.push((here, cells)),
        }
    }
    joined.into_iter().map(|(_, cells)| cells).collect()
}

fn best_of(offers: &[f64]) -> f64 {
    offers.iter().copied().fold(0.0, f64::max)
}

/// Returns true if the second cell lacks a good offer of the first.
fn lacks(one: &[f64], other: &[f64]) -> bool {
    let good = CLOSE * best_of(one);
    one.iter().zip(other).any(|(&one, &other)| one >= good && other < CLOSE * one)
}
