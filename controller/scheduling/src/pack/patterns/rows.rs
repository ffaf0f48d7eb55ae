//! Rows and markets of the program: units with the same demand, and shapes in equivalent cells.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::compile::fits;
use crate::pack::groups::Grouped;
use crate::pack::remaining_demand::RemainingDemand;
use crate::pack::shape_index::{Headroom, ShapeIndex};

/// Maximum number of rows of the program and its dense inverse.
const MOST_ROWS: usize = 512;

/// Number of rows beyond which demand of different cells is merged; copies of a pattern are then opened where most
/// units wait.
const ROWS_BY_CELLS: usize = 192;

/// Maximum number of markets.
const MOST_MARKETS: usize = 128;

/// Minimum share of the nodes that replicas with anti-affinity need to be a row of their own: a node holds few of them,
/// which the program must know. Other replicas find nodes without it.
const APART: f64 = 0.1;

/// Key of a row: kind, mask of cells (0 if cells are merged), and the anti-affinity rule with its limit.
type Key = (u32, u32, Option<(u32, u32)>);

/// Units that patterns do not distinguish.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) kind: u32,
    /// Anti-affinity rule between the units, and the number of them that a node may hold.
    pub(super) apart: Option<(u32, u32)>,
    /// Batches, those with the fewest cells first, then those with the most rules.
    pub(super) batches: Vec<u32>,
    /// Number of units that a node may hold by the rules of each batch on itself.
    pub(super) most: u32,
}

impl Row {
    /// Returns the number of units left.
    pub(super) fn left(&self, unplaced: &RemainingDemand) -> usize {
        self.batches.iter().map(|&batch| unplaced.batches[batch as usize].left()).sum()
    }
}

/// Shape in a set of cells with the same price and the same rows.
#[derive(Debug, Clone)]
pub(super) struct Market {
    pub(super) shape: usize,
    pub(super) cells: Vec<usize>,
    /// USD per hour.
    pub(super) price: f64,
    pub(super) rows: FixedBitSet,
}

/// Returns the rows of `unplaced`, for which a plan of `nodes` nodes is known; `None` if there are too many.
pub(super) fn rows(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    nodes: usize,
) -> Option<Vec<Row>> {
    let by_cells = gathered(shape_index, grouped, unplaced, nodes, true);
    let rows =
        if by_cells.len() <= ROWS_BY_CELLS { by_cells } else { gathered(shape_index, grouped, unplaced, nodes, false) };
    (rows.len() <= MOST_ROWS).then_some(rows)
}

fn gathered(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    nodes: usize,
    by_cells: bool,
) -> Vec<Row> {
    let limit = |rule: u32| grouped.rules.host[rule as usize].limit.max(1) as u32;
    let weighs = |rule: u32| unplaced.apart_left(rule).div_ceil(limit(rule) as usize) as f64 >= APART * nodes as f64;
    let mut ids: FxHashMap<Key, usize> = FxHashMap::default();
    let mut rows: Vec<Row> = Vec::new();
    let waits = |batch: &u32| {
        let one = &unplaced.batches[*batch as usize];
        one.left() > 0 && shape_index.tier_of_kind[one.kind as usize] != i32::MIN
    };
    for batch in (0..unplaced.batches.len() as u32).filter(waits) {
        let one = &unplaced.batches[batch as usize];
        let own = unplaced.rules_on_itself(batch).map(|rule| (limit(rule), rule)).min();
        let apart = own.filter(|&(_, rule)| weighs(rule)).map(|(limit, rule)| (rule, limit));
        let key = (one.kind, if by_cells { one.mask } else { 0 }, apart);
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
            let one = &unplaced.batches[batch as usize];
            let rules = &unplaced.rulesets[one.ruleset as usize];
            let count = rules.owns.len() + rules.targets.len();
            (unplaced.cells_of[one.mask as usize].len(), std::cmp::Reverse(count), batch)
        });
    }
    rows
}

/// Returns the markets for `rows`; `None` if there are too many.
pub(super) fn markets(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    headroom: &Headroom,
    rows: &[Row],
) -> Option<Vec<Market>> {
    let compiled = shape_index.compiled;
    let mut markets: Vec<Market> = Vec::new();
    let shapes = shape_index.basic.iter().copied().filter(|&shape| headroom.allows(compiled, shape));
    for shape in shapes {
        let first = markets.len();
        let one = &compiled.shapes[shape];
        let holds = |row: &Row| {
            let kind = &unplaced.kinds[row.kind as usize];
            shape_index.tier_of_kind[row.kind as usize] <= shape_index.weight_of(shape) && fits(&kind.sizes, &one.room)
        };
        let held: Vec<usize> = (0..rows.len()).filter(|&row| holds(&rows[row])).collect();
        for (cell, &price) in one.price.iter().enumerate().filter(|(_, price)| price.is_finite()) {
            let goes = |row: &usize| {
                let row = &rows[*row];
                let signature = unplaced.kinds[row.kind as usize].signature as usize;
                let mut masks = row.batches.iter().map(|&batch| unplaced.batches[batch as usize].mask as usize);
                grouped.admits[signature][cell].contains(shape) && masks.any(|mask| unplaced.masks[mask].contains(cell))
            };
            let mut set = FixedBitSet::with_capacity(rows.len());
            set.extend(held.iter().copied().filter(goes));
            if set.is_clear() {
                continue;
            }
            let alike = |known: &&mut Market| known.price.total_cmp(&price).is_eq() && known.rows == set;
            match markets[first..].iter_mut().find(alike) {
                Some(known) => known.cells.push(cell),
                None => markets.push(Market { shape, cells: vec![cell], price, rows: set }),
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
