//! Values of the remaining pods, by round.

use std::rc::Rc;

use index_vec::{Idx, IndexSlice, IndexVec, index_vec};

use super::candidates::View;
use super::construct::Construction;
use super::remaining_demand::{KindId, RemainingDemand};
use super::shape_index::ShapeIndex;
use crate::compile::{CellId, HostRule, HostRuleId};
use crate::pack::relaxation::fluid;
use crate::pack::relaxation::split::{self, Split, Start};

/// Price system that gives pods their values.
#[derive(Debug, Clone)]
pub(crate) enum PriceModel {
    /// Fluid prices, until a node shows that they mislead.
    Unknown,
    Fluid,
    /// Split prices, used if fluid prices promise far more value than any node can hold.
    Split(Rc<SplitPrices>),
}

/// Split prices, by kind and by shape.
#[derive(Debug)]
pub(crate) struct SplitPrices {
    values: IndexVec<KindId, f64>,
    /// Split of the prices of the shapes `shape_index.basic`.
    pub(crate) split: Split,
    /// Mean price of a node, in USD per hour.
    mean: f64,
    /// Value of all units left when the prices were computed.
    total: f64,
}

impl SplitPrices {
    /// Returns true if so little value is left that the prices must be computed again.
    pub(crate) fn outdated(&self, left_value: f64) -> bool {
        left_value < OUTDATED * self.total
    }
}

/// Minimum factor by which the split bound must exceed the fluid one for split prices to be used.
const SHARPER: f64 = 1.02;

/// Fraction of the last total value below which split prices are computed again.
const OUTDATED: f64 = 0.85;

impl PriceModel {
    /// Returns split prices if their bound for `unplaced` is sharper than the fluid one, else fluid prices.
    pub(crate) fn sharper(
        shape_index: &ShapeIndex<'_>,
        unplaced: &RemainingDemand,
        rules: &IndexSlice<HostRuleId, [HostRule]>,
    ) -> Self {
        let sources = shape_index.sources(shape_index.basic);
        let demands = shape_index.demands(unplaced, unplaced.least_nodes(rules));
        let duals = fluid::solve(&sources, &demands);
        match split_prices(shape_index, unplaced, Start::Fluid(&duals)) {
            Some(split_prices) if split_prices.total > SHARPER * fluid::value(&duals, &demands) => {
                Self::Split(Rc::new(split_prices))
            }
            _ => Self::Fluid,
        }
    }

    /// Returns split prices, however sharp the fluid bound is; `None` if the split has no nodes.
    pub(crate) fn split(
        shape_index: &ShapeIndex<'_>,
        unplaced: &RemainingDemand,
        rules: &IndexSlice<HostRuleId, [HostRule]>,
    ) -> Option<Self> {
        let demands = shape_index.demands(unplaced, unplaced.least_nodes(rules));
        let duals = fluid::solve(&shape_index.sources(shape_index.basic), &demands);
        split_prices(shape_index, unplaced, Start::Fluid(&duals)).map(|split_prices| Self::Split(Rc::new(split_prices)))
    }

    /// Returns the value of a unit by kind, if these are split prices.
    pub(crate) fn split_values(&self) -> Option<&IndexSlice<KindId, [f64]>> {
        match self {
            Self::Split(split_prices) => Some(&split_prices.values),
            Self::Unknown | Self::Fluid => None,
        }
    }

    /// Returns split prices of the remaining units, starting from the `known` ones of a larger demand.
    pub(crate) fn again(known: &SplitPrices, shape_index: &ShapeIndex<'_>, unplaced: &RemainingDemand) -> Option<Self> {
        split_prices(shape_index, unplaced, Start::Near(&known.split))
            .map(|split_prices| Self::Split(Rc::new(split_prices)))
    }
}

fn split_prices(shape_index: &ShapeIndex<'_>, unplaced: &RemainingDemand, start: Start<'_>) -> Option<SplitPrices> {
    let width = shape_index.compiled.columns.width();
    let sources = shape_index.sources(shape_index.basic);
    let items = split::items(unplaced, &shape_index.group_of, None);
    let split = split::solve(&sources, &items, start, width);
    let values = IndexVec::from_vec(split.values(&sources, &items, width));
    let nodes: f64 = split.shares.iter().zip(&sources).map(|(share, source)| share / source.price).sum();
    let total = items.iter().zip(&values).map(|(item, value)| item.count * value).sum();
    (nodes > 0.0).then(|| SplitPrices { values, split, mean: 1.0 / nodes, total })
}

/// Prices of the remaining units.
pub(crate) struct Round {
    /// Value of one unit, by kind.
    pub(crate) values: IndexVec<KindId, f64>,
    /// Value of a node itself, in addition to its content.
    pub(crate) node: f64,
    /// Value of all units left when the round was priced.
    pub(crate) total: f64,
    /// Number of nodes of the fractional optimum.
    pub(crate) nodes: f64,
    /// Share of each column in the value of all remaining units.
    pub(crate) weights: Vec<f32>,
    /// Maximum value of the room of a shape, by position in `shape_index.basic`.
    pub(crate) worth: Vec<f64>,
    /// True if the shape is in the fluid optimum, by position in `shape_index.basic`.
    pub(crate) used: Vec<bool>,
    /// Fluid prices, unless split prices hold.
    pub(crate) duals: Option<fluid::Duals>,
    pub(crate) split_prices: Option<Rc<SplitPrices>>,
    /// Host rules of which nearly every further node must hold an owner.
    pub(crate) critical: Vec<HostRuleId>,
    /// Total remaining requests, by column.
    pub(crate) demand: Vec<f64>,
    /// Value of batches that cannot go everywhere, by cell.
    pub(crate) pinned: IndexVec<CellId, f64>,
    /// Candidates by cell; computed on first use.
    pub(crate) views: IndexVec<CellId, Option<View>>,
}

impl Round {
    /// Prices the remaining units. Returns `None` if no node can be opened for any of them.
    pub(crate) fn new(
        construction: &Construction<'_>,
        price_model: &PriceModel,
        previous: Option<Self>,
    ) -> Option<Self> {
        let (shape_index, unplaced) = (construction.shape_index, &*construction.unplaced);
        let open = |kind: KindId| unplaced.left_of_kind[kind] > 0 && construction.tiers[kind] != i32::MIN;
        if !unplaced.kinds.indices().any(open) {
            return None;
        }
        let least = unplaced.least_nodes(&construction.grouped.rules.host);
        let cells = shape_index.compiled.cells.len();
        let mut round = Self {
            values: IndexVec::new(),
            node: 0.0,
            total: 0.0,
            nodes: 0.0,
            weights: Vec::new(),
            worth: Vec::new(),
            used: Vec::new(),
            duals: None,
            split_prices: None,
            critical: Vec::new(),
            demand: Vec::new(),
            pinned: index_vec![0.0; cells],
            views: IndexVec::new(),
        };
        round.views.resize_with(cells, || None);
        match price_model {
            PriceModel::Split(split_prices) => {
                round.values.clone_from(&split_prices.values);
                round.split_prices = Some(Rc::clone(split_prices));
            }
            PriceModel::Fluid | PriceModel::Unknown => round.price_as_fluid(construction, least),
        }
        let kinds = unplaced.kinds.indices().filter(|&kind| open(kind));
        round.total = kinds.map(|kind| round.values[kind] * unplaced.left_of_kind[kind] as f64).sum();
        if let PriceModel::Split(split_prices) = price_model {
            round.nodes = round.total / split_prices.mean;
            if let Some(previous) = previous {
                round.views = previous.views;
                round.views.iter_mut().flatten().for_each(|view| view.stale = true);
            }
        }
        round.demand = vec![0.0; shape_index.compiled.columns.width()];
        for (one, &left) in unplaced.kinds.iter().zip(&unplaced.left_of_kind).filter(|(_, left)| **left > 0) {
            round.demand.iter_mut().zip(&*one.sizes).for_each(|(sum, &size)| *sum += left as f64 * f64::from(size));
        }
        let best = round.best_offers(construction);
        let at_least = 0.97 * round.nodes.max(least);
        round.critical = construction
            .grouped
            .rules
            .host
            .indices()
            .filter(|&rule| {
                let left = unplaced.owners_left[rule];
                let limit = construction.grouped.rules.host[rule].limit.max(1) as usize;
                left > 0 && left.div_ceil(limit) as f64 >= at_least
            })
            .collect();
        for &batch in &unplaced.open {
            let batch = &unplaced.batches[batch];
            let at = &unplaced.cells_of[batch.mask];
            if at.len() < cells {
                let group = shape_index.group_of[batch.kind] * cells;
                let most = at.iter().map(|&cell| best[group + cell.index()]).fold(0.0, f64::max);
                let is_best = |cell: CellId| best[group + cell.index()] >= 0.98 * most;
                let count = at.iter().filter(|&&cell| is_best(cell)).count() as f64;
                let value = (round.values[batch.kind] + 1e-12) * batch.left() as f64 / count;
                at.iter().filter(|&&cell| is_best(cell)).for_each(|&cell| round.pinned[cell] += value);
            }
        }
        Some(round)
    }

    fn price_as_fluid(&mut self, construction: &Construction<'_>, least: f64) {
        let (shape_index, unplaced) = (construction.shape_index, &*construction.unplaced);
        let width = shape_index.compiled.columns.width();
        let demands = shape_index.demands(unplaced, least);
        let sources = shape_index.sources(shape_index.basic);
        let duals = fluid::solve(&sources, &demands);
        let kinds = unplaced.kinds.iter_enumerated();
        self.values = kinds.map(|(kind, one)| duals.value(shape_index.group_of[kind], width, &one.sizes)).collect();
        self.nodes = duals.used.iter().map(|&(_, copies)| copies).sum();
        self.node = duals.node;
        let mut by_column = vec![0.0; width];
        for group in 0..shape_index.groups {
            for (column, sum) in by_column.iter_mut().enumerate() {
                *sum += duals.unit[group * width + column] * demands.totals[group * width + column];
            }
        }
        let all: f64 = by_column.iter().sum();
        self.weights = by_column.iter().map(|&value| if all > 0.0 { (value / all) as f32 } else { 1.0 }).collect();
        self.worth = sources.iter().map(|source| duals.worth(source, width)).collect();
        self.used = vec![false; sources.len()];
        duals.used.iter().for_each(|&(source, _)| self.used[source] = true);
        self.duals = Some(duals);
    }

    /// Returns by group and cell the highest ratio of what the group pays to the price of a node: 1 where it belongs.
    fn best_offers(&self, construction: &Construction<'_>) -> Vec<f64> {
        let shape_index = construction.shape_index;
        let cells = shape_index.compiled.cells.len();
        let Some(duals) = &self.duals else { return vec![1.0; shape_index.groups * cells] };
        let width = shape_index.compiled.columns.width();
        let mut best_offers = vec![0.0_f64; shape_index.groups * cells];
        for &shape in shape_index.basic {
            let one = &shape_index.compiled.shapes[shape];
            for group in shape_index.groups_of_shape[shape].ones() {
                let pays = duals.value(group, width, &one.room) + duals.node;
                let offered = best_offers[group * cells..][..cells].iter_mut().zip(&one.price);
                // A shape that is not on offer has an infinite price, hence ratio 0.
                offered.for_each(|(best, price)| *best = best.max(pays / price));
            }
        }
        best_offers
    }

    /// Returns the cell with the most pinned value; `None` if no value is pinned.
    pub(crate) fn choose_cell(&self) -> Option<CellId> {
        let most = self.pinned.indices().max_by(|&a, &b| self.pinned[a].total_cmp(&self.pinned[b]).then(b.cmp(&a)))?;
        (self.pinned[most] > 1e-9 * self.total.max(1e-9)).then_some(most)
    }
}
