//! Rows and markets of the program: units with the same demand, and shapes in equivalent cells.

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexSlice};
use rustc_hash::FxHashMap;

use super::knapsack::Knapsack;
use super::scopes::{Scope, Whole};
use crate::compile::{CellId, HostRuleId, cells_in, fits};
use crate::pack::groups::Grouped;
use crate::pack::remaining_demand::{BatchId, KindId, RemainingDemand};
use crate::pack::shape_index::ShapeIndex;
use crate::pack::zones::MaskId;

/// Maximum number of rows of the program and its dense inverse.
const MOST_ROWS: usize = 512;

/// Number of rows beyond which demand of different cells is merged; copies of a pattern are then opened where most
/// units wait.
const ROWS_BY_CELLS: usize = 192;

/// Number of rows beyond which rows of nearly the same size are merged if many shapes are on offer.
const MOST_MERGED: usize = 400;

/// Number of rows beyond which too much would be lost by merging them.
pub(super) const MOST_TO_MERGE: usize = 1200;

/// Share of the value that may be lost by merging rows however few there are.
const FREELY: f64 = 0.001;

/// The same for a bound, which is that much lower.
const FREELY_FOR_BOUND: f64 = 0.0003;

/// Maximum share of the value that may be lost by merging rows.
const AT_COST: f64 = 0.02;

/// Maximum number of markets.
const MOST_MARKETS: usize = 128;

/// Minimum share of the nodes that replicas with anti-affinity need to be a row of their own: a node holds few of them,
/// which the program must know. Other replicas find nodes without it.
const APART: f64 = 0.1;

/// Key of a row: kind, mask of cells (`None` if cells are merged), and the anti-affinity rule with its limit.
type Key = (KindId, Option<MaskId>, Option<(HostRuleId, u32)>);

/// Units that patterns do not distinguish.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Kind of the largest units, or of the smallest for a bound.
    pub(super) kind: KindId,
    /// Anti-affinity rule between the units, and the number of them that a node may hold.
    pub(super) apart: Option<(HostRuleId, u32)>,
    /// Batches, those with the fewest cells first, then those with the most rules.
    pub(super) batches: Vec<BatchId>,
    /// Number of units that a node may hold by the rules of each batch on itself; for a bound any number.
    pub(super) most: u32,
}

impl Row {
    /// Returns the number of units left.
    pub(super) fn left(&self, unplaced: &RemainingDemand) -> usize {
        self.batches.iter().map(|&batch| unplaced.batches[batch].left()).sum()
    }

    /// Returns the row without the batches that may go to none of these cells; `None` if no batch may.
    pub(super) fn within(&self, unplaced: &RemainingDemand, cells: &FixedBitSet) -> Option<Self> {
        let reaches = |batch: &BatchId| {
            let mask = unplaced.batches[*batch].mask;
            !unplaced.masks[mask].is_disjoint(cells)
        };
        let batches: Vec<BatchId> = self.batches.iter().copied().filter(reaches).collect();
        (!batches.is_empty()).then_some(Self { batches, ..*self })
    }
}

/// Shape in a set of cells with the same price and the same rows.
#[derive(Debug, Clone)]
pub(super) struct Market {
    pub(super) shape: usize,
    pub(super) cells: Vec<CellId>,
    /// USD per hour.
    pub(super) price: f64,
    pub(super) rows: FixedBitSet,
    /// True if a node holds so many units that it can be filled with any: its contents in the program are mixes of two
    /// rows, and no copies of them are opened.
    pub(super) is_fluid: bool,
}

/// Part of the units of a fluid node from which a node is fluid whose knapsack is not exact.
const ROUNDED_FROM: f64 = 4.0;

/// Number of nodes of a fluid market that share a content.
const FLUID_NODES: u32 = 1000;

impl Market {
    /// Number of nodes that hold a content of the market together.
    pub(super) fn nodes(&self) -> u32 {
        if self.is_fluid { FLUID_NODES } else { 1 }
    }
}

/// Returns the rows of a scope; `None` if there are too many.
pub(super) fn rows(whole: &Whole<'_, '_>, scope: &Scope) -> Option<Vec<Row>> {
    let Whole { shape_index, grouped, unplaced, known, is_bound, .. } = *whole;
    let (batches, nodes) = (&scope.batches, known.len());
    if let Some(values) = &scope.values {
        // A bound knows no rules between pods: as if they needed few of all nodes.
        let nodes = if is_bound { usize::MAX } else { nodes };
        let mut rows = gathered(grouped, unplaced, nodes, batches, false);
        if rows.len() > MOST_TO_MERGE {
            return None;
        }
        if is_bound {
            rows.iter_mut().for_each(|row| row.most = u32::MAX);
        }
        return merged(shape_index, &rows, unplaced, (values, is_bound));
    }
    let by_cells = gathered(grouped, unplaced, nodes, batches, true);
    let rows =
        if by_cells.len() <= ROWS_BY_CELLS { by_cells } else { gathered(grouped, unplaced, nodes, batches, false) };
    (rows.len() <= MOST_ROWS).then_some(rows)
}

/// Returns the batches with units that some node can hold.
pub(super) fn waiting(shape_index: &ShapeIndex<'_>, unplaced: &RemainingDemand) -> Vec<BatchId> {
    let waits = |batch: &BatchId| {
        let one = &unplaced.batches[*batch];
        one.left() > 0 && shape_index.tier_of_kind[one.kind] != i32::MIN
    };
    unplaced.batches.indices().filter(waits).collect()
}

fn gathered(
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    nodes: usize,
    batches: &[BatchId],
    by_cells: bool,
) -> Vec<Row> {
    let limit = |rule: HostRuleId| grouped.rules.host[rule].limit.max(1) as u32;
    let weighs =
        |rule: HostRuleId| unplaced.apart_left(rule).div_ceil(limit(rule) as usize) as f64 >= APART * nodes as f64;
    let mut ids: FxHashMap<Key, usize> = FxHashMap::default();
    let mut rows: Vec<Row> = Vec::new();
    for &batch in batches {
        let one = &unplaced.batches[batch];
        let own = unplaced.rules_on_itself(batch).map(|rule| (limit(rule), rule)).min();
        let apart = own.filter(|&(_, rule)| weighs(rule)).map(|(limit, rule)| (rule, limit));
        let key = (one.kind, by_cells.then_some(one.mask), apart);
        let id = *ids.entry(key).or_insert_with(|| {
            rows.push(Row { kind: one.kind, apart, batches: Vec::new(), most: 0 });
            rows.len() - 1
        });
        let most = own.map_or(u32::MAX, |(limit, _)| limit).min(one.left() as u32);
        rows[id].most = rows[id].most.saturating_add(most);
        rows[id].batches.push(batch);
    }
    for row in &mut rows {
        row.batches.sort_by_key(|&batch| {
            let one = &unplaced.batches[batch];
            let rules = &unplaced.rulesets[one.ruleset];
            let count = rules.owns.len() + rules.targets.len();
            (unplaced.cells_of[one.mask].len(), std::cmp::Reverse(count), batch)
        });
    }
    rows
}

/// Merges rows of nearly the same size until there are at most [`MOST_MERGED`]: each time the one whose units change
/// least in value by taking the room of the next larger ones, or for a bound of the next smaller ones.
fn merged(
    shape_index: &ShapeIndex<'_>,
    rows: &[Row],
    unplaced: &RemainingDemand,
    (values, is_bound): (&IndexSlice<KindId, [f64]>, bool),
) -> Option<Vec<Row>> {
    let mut left: Vec<f64> = rows.iter().map(|row| row.left(unplaced) as f64).collect();
    let kind = |row: usize| &unplaced.kinds[rows[row].kind];
    let value = |row: usize| values[rows[row].kind];
    let tier = |row: usize| shape_index.tier_of_kind[rows[row].kind];
    let takes = |into: usize, row: usize| {
        let (large, small) = if is_bound { (row, into) } else { (into, row) };
        let (one, other) = (kind(large), kind(small));
        into != row
            && value(large) >= value(small)
            && one.sizes.iter().zip(&*other.sizes).all(|(large, small)| large >= small)
            && (one.signature, tier(large), &one.pools) == (other.signature, tier(small), &other.pools)
    };
    let is_free = |row: usize| rows[row].apart.is_none();
    let mut open: Vec<usize> = (0..rows.len()).filter(|&row| is_free(row)).collect();
    let next = |open: &[usize], row: usize| {
        let change = |into: usize| (value(into) - value(row)).abs();
        let others = open.iter().copied().filter(|&into| takes(into, row));
        others.min_by(|&a, &b| change(a).total_cmp(&change(b)).then(a.cmp(&b)))
    };
    let mut into: Vec<Option<usize>> =
        (0..rows.len()).map(|row| is_free(row).then(|| next(&open, row)).flatten()).collect();
    let mut target: Vec<usize> = (0..rows.len()).collect();
    let mut count = rows.len();
    let whole: f64 = (0..rows.len()).map(|row| left[row] * value(row)).sum();
    let mut lost = 0.0;
    loop {
        let loss = |row: usize| into[row].map_or(f64::INFINITY, |into| left[row] * (value(into) - value(row)).abs());
        let Some(row) = open.iter().copied().min_by(|&a, &b| loss(a).total_cmp(&loss(b)).then(a.cmp(&b))) else {
            break;
        };
        let Some(taker) = into[row] else { break };
        let freely = if is_bound { FREELY_FOR_BOUND } else { FREELY };
        if count <= MOST_MERGED && lost + loss(row) > freely * whole {
            break;
        }
        lost += loss(row);
        if lost > AT_COST * whole {
            return None;
        }
        left[taker] += left[row];
        target[row] = taker;
        open.retain(|&other| other != row);
        let lost: Vec<usize> = open.iter().copied().filter(|&other| into[other] == Some(row)).collect();
        lost.into_iter().for_each(|other| into[other] = next(&open, other));
        count -= 1;
    }
    let mut kept: Vec<Option<Row>> = rows.iter().cloned().map(Some).collect();
    // Larger units first: the smaller ones find a place more easily.
    let mut order: Vec<usize> = (0..rows.len()).filter(|&row| target[row] != row).collect();
    order.sort_by(|&a, &b| value(b).total_cmp(&value(a)).then(a.cmp(&b)));
    for row in order {
        let mut at = target[row];
        while target[at] != at {
            at = target[at];
        }
        if let (Some(small), Some(large)) = (kept[row].take(), kept[at].as_mut()) {
            large.batches.extend(small.batches);
            large.most = large.most.saturating_add(small.most);
        }
    }
    (count <= MOST_MERGED).then(|| kept.into_iter().flatten().collect())
}

/// Returns the markets of a scope for these rows; `None` if there are too many.
pub(super) fn markets(whole: &Whole<'_, '_>, scope: &Scope, rows: &[Row]) -> Option<Vec<Market>> {
    let Whole { shape_index, grouped, unplaced, headroom, is_bound, .. } = *whole;
    let compiled = shape_index.compiled;
    let mut markets: Vec<Market> = Vec::new();
    let shapes = scope.shapes.iter().copied().filter(|&shape| headroom.allows(compiled, shape));
    for shape in shapes {
        let first = markets.len();
        let one = &compiled.shapes[shape];
        let holds = |row: &Row| {
            let kind = &unplaced.kinds[row.kind];
            shape_index.tier_of_kind[row.kind] <= shape_index.weight_of(shape) && fits(&kind.sizes, &one.room)
        };
        let held: Vec<usize> = (0..rows.len()).filter(|&row| holds(&rows[row])).collect();
        let cells = cells_in(&scope.cells).map(|cell| (cell, one.price[cell]));
        for (cell, price) in cells.filter(|(_, price)| price.is_finite()) {
            let goes = |row: &usize| {
                let row = &rows[*row];
                let signature = unplaced.kinds[row.kind].signature;
                let mut masks = row.batches.iter().map(|&batch| unplaced.batches[batch].mask);
                grouped.admits[signature][cell].contains(shape)
                    && masks.any(|mask| unplaced.masks[mask].contains(cell.index()))
            };
            let mut set = FixedBitSet::with_capacity(rows.len());
            set.extend(held.iter().copied().filter(goes));
            if set.is_clear() {
                continue;
            }
            // Rows of many shapes are merged over the cells of a scope, of which some lack some shapes.
            let merges = scope.values.is_some();
            let alike = |known: &&mut Market| known.price.total_cmp(&price).is_eq() && (merges || known.rows == set);
            match markets[first..].iter_mut().find(alike) {
                Some(known) => {
                    known.cells.push(cell);
                    known.rows.union_with(&set);
                }
                None => {
                    let is_exact = Knapsack::is_exact(&one.room);
                    let rounds = merges && !is_exact && (is_bound || price > scope.fluid_from / ROUNDED_FROM);
                    let is_fluid = price > scope.fluid_from || rounds;
                    markets.push(Market { shape, cells: vec![cell], price, rows: set, is_fluid });
                }
            }
        }
        let of_shape = markets.split_off(first);
        let beaten = |at: usize| {
            let one = &of_shape[at];
            of_shape.iter().enumerate().any(|(number, other)| {
                let no_worse = other.price <= one.price && one.rows.is_subset(&other.rows);
                number != at && no_worse && (other.price < one.price || one.rows != other.rows || number < at)
            })
        };
        let kept: Vec<Market> = (0..of_shape.len()).filter(|&at| !beaten(at)).map(|at| of_shape[at].clone()).collect();
        markets.extend(kept);
        if markets.len() > MOST_MARKETS {
            return None;
        }
    }
    Some(markets)
}
