//! Rows and markets of the program: units with the same demand, and shapes in equivalent cells.

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::compile::fits;
use crate::pack::groups::Grouped;
use crate::pack::shape_index::{Headroom, ShapeIndex};
use crate::pack::stock::Stock;

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
    /// Lots, those with the fewest cells first, then those with the most rules.
    pub(super) lots: Vec<u32>,
    /// Number of units that a node may hold by the rules of each lot on itself.
    pub(super) most: u32,
}

impl Row {
    /// Returns the number of units left.
    pub(super) fn left(&self, stock: &Stock) -> usize {
        self.lots.iter().map(|&lot| stock.lots[lot as usize].left()).sum()
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

/// Returns the rows of `stock`, for which a plan of `nodes` nodes is known; `None` if there are too many.
pub(super) fn rows(shape_index: &ShapeIndex<'_>, grouped: &Grouped, stock: &Stock, nodes: usize) -> Option<Vec<Row>> {
    let by_cells = gathered(shape_index, grouped, stock, nodes, true);
    let rows =
        if by_cells.len() <= ROWS_BY_CELLS { by_cells } else { gathered(shape_index, grouped, stock, nodes, false) };
    (rows.len() <= MOST_ROWS).then_some(rows)
}

fn gathered(shape_index: &ShapeIndex<'_>, grouped: &Grouped, stock: &Stock, nodes: usize, by_cells: bool) -> Vec<Row> {
    let limit = |rule: u32| grouped.rules.host[rule as usize].limit.max(1) as u32;
    let weighs = |rule: u32| stock.apart_left(rule).div_ceil(limit(rule) as usize) as f64 >= APART * nodes as f64;
    let mut ids: FxHashMap<Key, usize> = FxHashMap::default();
    let mut rows: Vec<Row> = Vec::new();
    let waits = |lot: &u32| {
        let one = &stock.lots[*lot as usize];
        one.left() > 0 && shape_index.tier_of_kind[one.kind as usize] != i32::MIN
    };
    for lot in (0..stock.lots.len() as u32).filter(waits) {
        let one = &stock.lots[lot as usize];
        let own = stock.rules_on_itself(lot).map(|rule| (limit(rule), rule)).min();
        let apart = own.filter(|&(_, rule)| weighs(rule)).map(|(limit, rule)| (rule, limit));
        let key = (one.kind, if by_cells { one.mask } else { 0 }, apart);
        let id = *ids.entry(key).or_insert_with(|| {
            rows.push(Row { kind: one.kind, apart, lots: Vec::new(), most: 0 });
            rows.len() - 1
        });
        let most = own.map_or(u32::MAX, |(limit, _)| limit).min(one.left() as u32);
        rows[id].most = rows[id].most.saturating_add(most);
        rows[id].lots.push(lot);
    }
    for row in &mut rows {
        row.lots.sort_by_key(|&lot| {
            let one = &stock.lots[lot as usize];
            let rules = &stock.rulesets[one.ruleset as usize];
            let count = rules.owns.len() + rules.targets.len();
            (stock.cells_of[one.mask as usize].len(), std::cmp::Reverse(count), lot)
        });
    }
    rows
}

/// Returns the markets for `rows`; `None` if there are too many.
pub(super) fn markets(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    stock: &Stock,
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
            let kind = &stock.kinds[row.kind as usize];
            shape_index.tier_of_kind[row.kind as usize] <= shape_index.weight_of(shape) && fits(&kind.sizes, &one.room)
        };
        let held: Vec<usize> = (0..rows.len()).filter(|&row| holds(&rows[row])).collect();
        for (cell, &price) in one.price.iter().enumerate().filter(|(_, price)| price.is_finite()) {
            let goes = |row: &usize| {
                let row = &rows[*row];
                let signature = stock.kinds[row.kind as usize].signature as usize;
                let mut masks = row.lots.iter().map(|&lot| stock.lots[lot as usize].mask as usize);
                grouped.admits[signature][cell].contains(shape) && masks.any(|mask| stock.masks[mask].contains(cell))
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
