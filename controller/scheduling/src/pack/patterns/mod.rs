//! Pattern packing: a linear program over whole contents of nodes, generated on demand (column generation, Gilmore and
//! Gomory 1961).
//!
//! If few types are on offer, replicas with anti-affinity need most of the nodes, or the cheapest nodes are small, no
//! price per core and gibibyte tells which pods fit well together: a node filled by its own value leaves a mix for the
//! others that wastes half of a resource.
//!
//! ```text
//!  known plan ──► patterns ──► program: cover every row at the least price ──► values ──► contents for each market
//!                    ▲                                                                        │
//!                    └────────────── contents with a value above their price ◄────────────────┘
//!  program ──► whole copies as bins ──► batches distributed under the rules ──► repeat for the rest ──► bins filled up
//! ```
//!
//! A row is demand that patterns do not distinguish, mostly a size; a market is a shape in equivalent cells. Slots of a
//! row are interchangeable, so rules between workloads cost almost nothing: the batches with the most constraints are
//! assigned first. The rest that no bin takes is packed like any other plan. All work is counted in cells of knapsacks,
//! pivots and patterns, so the same input always gives the same plan.
//!
//! With many types on offer only those are markets that may be worth their price, and zones with other offers have a
//! program of their own ([`scopes`]); rows of nearly the same size are merged, and large nodes are filled in fractions:
//! they hold any mix. The programs over such rows also propose the values of a bound ([`parts`]).

mod bins;
mod contents;
mod knapsack;
mod mend;
mod program;
mod rows;
mod scopes;

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec, index_vec};
use rustc_hash::{FxHashMap, FxHashSet};

use super::construct::{self, OpenedNode};
use super::groups::Grouped;
use super::remaining_demand::{BatchId, KindId, RemainingDemand};
use super::shape_index::{Headroom, ShapeIndex};

use bins::Bin;
pub(crate) use knapsack::EXACT;
use knapsack::Knapsack;
use rows::{Market, Row};
use scopes::{Scope, Whole};

/// Budget of knapsack cells per unit, about ten microseconds.
const STEPS_PER_UNIT: usize = 40_000;

/// Maximum number of patterns per row; twenty to forty are usual.
const PATTERNS_PER_ROW: usize = 64;

/// Part of the budget of all units that all scopes have in equal parts, as a divisor.
const EQUAL_PART: usize = 4;

/// Maximum budget of knapsack cells.
const MOST_STEPS: usize = 1_500_000_000;

/// Minimum value of a content above its price, as a share of the price, to become a column.
const WORTHWHILE: f64 = 0.0005;

/// Minimum saving over a known plan that the program must promise, as a share of its price.
pub(super) const SAVES: f64 = 0.001;

/// Maximum number of programs: the first for all units, the others for those that whole copies leave.
const ROUNDS: usize = 12;

/// The same if many shapes are on offer: the rest is packed nearly as well without patterns.
const ROUNDS_OF_MANY: usize = 3;

/// Minimum value of a pattern that is kept for the rest, as a share of its price.
const NEARLY: f64 = 0.995;

/// Content of a node in a market.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pattern {
    market: u32,
    /// Content as (row, number of units), rows ascending.
    content: Vec<(u32, u32)>,
}

/// State of the column generation.
struct Generation<'a> {
    shape_index: &'a ShapeIndex<'a>,
    grouped: &'a Grouped,
    rows: Vec<Row>,
    /// Row of each batch; `u32::MAX` if it is of none.
    row_of_batch: IndexVec<BatchId, u32>,
    /// Number of rows of the scope, to be covered; those after them are of other scopes, with values that are given.
    own: usize,
    markets: Vec<Market>,
    /// Cells of the scope.
    cells: FixedBitSet,
    seen: FxHashSet<Pattern>,
    patterns: Vec<Pattern>,
    knapsack: Knapsack,
    steps: usize,
    /// True if values for a bound are asked for: contents may hold more units than there are, as its proof assumes.
    is_bound: bool,
    /// True if no more patterns are searched for what whole copies leave.
    is_rest: bool,
    /// Value of a unit by row under which no content that was found is worth more than its price, nearly.
    proven: Vec<f64>,
}

/// Solution of a program.
struct Choice {
    /// USD per hour.
    price: f64,
    /// Patterns in use, with the fractional number of copies.
    used: Vec<(usize, f64)>,
    /// Value of a unit by row, in USD per hour.
    values: Vec<f64>,
}

/// Nodes opened by patterns.
pub(super) struct Opened {
    pub(super) nodes: Vec<OpenedNode>,
    /// Price of the programs for all units that their markets take, in USD per hour: about the least that these cost.
    pub(super) promised: f64,
    /// Batches with the cells that the program had for them, if it had not all cells for all.
    pub(super) cells: Vec<(Vec<BatchId>, FixedBitSet)>,
}

/// Opens nodes for most of `unplaced`, as an alternative to the plan `known`; the rest stays in `unplaced`. If many
/// shapes are on offer, `values` are split prices of a unit by kind. Returns `None` if patterns promise no saving or
/// would take too long.
pub(super) fn open(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &mut RemainingDemand,
    headroom: &mut Headroom,
    (known, values): (&[OpenedNode], Option<&IndexSlice<KindId, [f64]>>),
) -> Option<Opened> {
    let whole = Whole { shape_index, grouped, unplaced, headroom, known, is_bound: false };
    let scopes = whole.scopes(values)?;
    let mut generations = Vec::new();
    let mut promised = 0.0;
    for scope in &scopes {
        generations.push(Generation::new(&whole, scope, &[])?);
    }
    // Copies are opened of nodes that hold few units only.
    let opens = |generation: &Generation<'_>| generation.markets.iter().any(|market| !market.is_fluid);
    if !generations.iter().any(opens) {
        return None;
    }
    let mut chosen = Vec::new();
    for mut generation in generations {
        let Some(choice) = generation.choose(unplaced) else { continue };
        promised += choice.price;
        chosen.push((generation, choice));
    }
    if promised > (1.0 - SAVES) * construct::bought(known) {
        return None;
    }
    let dealt: Vec<(Generation<'_>, Vec<Bin>)> = chosen
        .into_iter()
        .map(|(mut generation, choice)| {
            let bins = generation.dealt(unplaced, headroom, choice);
            (generation, bins)
        })
        .collect();
    let mut opened = Opened { nodes: Vec::new(), promised, cells: Vec::new() };
    for (generation, mut bins) in dealt {
        generation.fill_up(unplaced, &mut bins);
        bins.iter_mut().for_each(|bin| generation.move_down(unplaced, headroom, bin));
        opened.nodes.extend(bins.into_iter().map(|bin| OpenedNode {
            shape: bin.shape,
            cell: bin.cell,
            price: bin.price,
            units: bin.units,
            reserved: None,
        }));
        if scopes.len() > 1 {
            opened.cells.push((generation.covered().collect(), generation.cells));
        }
    }
    Some(opened)
}

/// Batches that compete for the same cells, with the value of a unit of each.
pub(crate) struct Part {
    pub(crate) cells: FixedBitSet,
    pub(crate) values: Vec<(BatchId, f64)>,
}

/// Returns the values of programs over the patterns for `unplaced`, rules between pods left out, as a proposal for a
/// bound: hardly any content is worth more than its price. `values` are those of a unit by kind to start from.
pub(crate) fn parts(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    headroom: &Headroom,
    values: &IndexSlice<KindId, [f64]>,
) -> Option<Vec<Part>> {
    let whole = Whole { shape_index, grouped, unplaced, headroom, known: &[], is_bound: true };
    let mut parts: Vec<Part> = Vec::new();
    let mut given: Vec<(Row, f64)> = Vec::new();
    for scope in &whole.scopes(Some(values))? {
        // What may go elsewhere too fills gaps here, and is worth what it is worth there.
        let mut generation = Generation::new(&whole, scope, &given)?;
        generation.choose(unplaced);
        let own: Vec<(Row, f64)> = generation.rows.into_iter().zip(generation.proven).take(generation.own).collect();
        let batches = own.iter().flat_map(|(row, value)| row.batches.iter().map(|&batch| (batch, *value)));
        parts.push(Part { values: batches.collect(), cells: scope.cells.clone() });
        given.extend(own);
    }
    Some(parts)
}

impl<'a> Generation<'a> {
    /// Returns the start of a generation for a scope; `given` are rows of others, with the value of a unit.
    fn new(whole: &Whole<'a, '_>, scope: &Scope, given: &[(Row, f64)]) -> Option<Self> {
        let Whole { shape_index, grouped, unplaced, known, .. } = *whole;
        let mut rows = rows::rows(whole, scope)?;
        let own = rows.len();
        let units: usize = rows.iter().map(|row| row.left(unplaced)).sum();
        let steps = (STEPS_PER_UNIT * (units + unplaced.left / (EQUAL_PART * scope.count))).min(MOST_STEPS);
        let grid = |shape: usize| Knapsack::grid(&shape_index.compiled.shapes[shape].room);
        let (others, given): (Vec<Row>, Vec<f64>) =
            given.iter().filter_map(|(row, value)| Some((row.within(unplaced, &scope.cells)?, *value))).unzip();
        rows.extend(others);
        // About as many columns as rows are generated, each with at least one knapsack.
        let least = scope.shapes.iter().map(|&shape| grid(shape)).min()?;
        if scope.values.is_none() && rows.len() * rows.len() * least > steps {
            return None;
        }
        let markets = rows::markets(whole, scope, &rows)?;
        let filled = markets.iter().filter(|market| !market.is_fluid);
        let sweep: usize = filled.map(|market| grid(market.shape)).sum::<usize>() * rows.len();
        if scope.values.is_none() && sweep > steps {
            return None;
        }
        let value = |row: &Row| scope.values.as_ref().map_or(0.0, |values| values[row.kind]);
        let mut proven: Vec<f64> = rows.iter().map(value).collect();
        proven[own..].copy_from_slice(&given);
        let mut row_of_batch = index_vec![u32::MAX; unplaced.batches.len()];
        for (row, one) in (0..).zip(&rows) {
            one.batches.iter().for_each(|&batch| row_of_batch[batch] = row);
        }
        let mut generation = Self {
            row_of_batch,
            shape_index,
            grouped,
            rows,
            own,
            markets,
            cells: scope.cells.clone(),
            seen: FxHashSet::default(),
            patterns: Vec::new(),
            knapsack: Knapsack::default(),
            steps,
            is_bound: whole.is_bound,
            is_rest: false,
            proven,
        };
        generation.learn(unplaced, known);
        for row in 0..own {
            generation.learn_alone(unplaced, row);
        }
        Some(generation)
    }

    /// Returns the batches that some market takes.
    fn covered(&self) -> impl Iterator<Item = BatchId> {
        let is_taken = |row: &usize| self.markets.iter().any(|market| market.rows.contains(*row));
        (0..self.rows.len()).filter(is_taken).flat_map(|row| &self.rows[row].batches).copied()
    }

    /// Opens copies of patterns, of `choice` first, as long as the programs for the rest have whole copies.
    fn dealt(&mut self, unplaced: &mut RemainingDemand, headroom: &mut Headroom, mut choice: Choice) -> Vec<Bin> {
        let mut bins = Vec::new();
        let rounds = if self.markets.iter().any(|market| market.is_fluid) { ROUNDS_OF_MANY } else { ROUNDS };
        for _ in 0..rounds {
            let opened = bins.len();
            self.deal(unplaced, headroom, &choice, &mut bins);
            if bins.len() == opened || unplaced.left == 0 {
                break;
            }
            if !self.is_rest && self.markets.iter().any(|market| market.is_fluid) {
                self.is_rest = true;
                self.forget(&choice.values);
            }
            match self.choose(unplaced) {
                Some(next) => choice = next,
                None => break,
            }
        }
        bins
    }

    /// Keeps the patterns that are nearly worth their price: the rest is much like the whole, and needs no others.
    fn forget(&mut self, values: &[f64]) {
        let worth = |pattern: &Pattern| {
            let content = pattern.content.iter().map(|&(row, count)| values[row as usize] * f64::from(count));
            content.sum::<f64>()
        };
        let markets = &self.markets;
        self.patterns.retain(|pattern| {
            let market = &markets[pattern.market as usize];
            worth(pattern) > NEARLY * market.price * f64::from(market.nodes())
        });
    }

    /// Adds the contents of a plan as patterns.
    fn learn(&mut self, unplaced: &RemainingDemand, known: &[OpenedNode]) {
        let mut row_of: FxHashMap<u32, u32> = FxHashMap::default();
        for (row, one) in (0..).zip(&self.rows) {
            let batches = one.batches.iter().map(|&batch| &unplaced.batches[batch]);
            row_of.extend(batches.flat_map(|batch| &batch.units[batch.taken..]).map(|&unit| (unit, row)));
        }
        for node in known.iter().filter(|node| node.reserved.is_none()) {
            let is_here = |market: &Market| market.shape == node.shape && market.cells.contains(&node.cell);
            let Some(market) = self.markets.iter().position(is_here) else { continue };
            let rows = node.units.iter().map(|unit| row_of.get(unit).copied());
            let Some(mut rows) = rows.collect::<Option<Vec<u32>>>() else { continue };
            rows.sort_unstable();
            let content: Vec<(u32, u32)> =
                rows.chunk_by(|a, b| a == b).map(|some| (some[0], some.len() as u32)).collect();
            // The largest units of merged rows may not fit together.
            if self.holds(unplaced, market, &content) {
                self.note_of_node(market, content);
            }
        }
    }

    /// Returns true if a node of a market has room for a content.
    fn holds(&self, unplaced: &RemainingDemand, market: usize, content: &[(u32, u32)]) -> bool {
        let mut room = self.shape_index.compiled.shapes[self.markets[market].shape].room.clone();
        content.iter().all(|&(row, count)| {
            let sizes = &unplaced.kinds[self.rows[row as usize].kind].sizes;
            room.iter_mut().zip(&**sizes).for_each(|(room, &size)| *room -= size.saturating_mul(count as i32));
            room.iter().zip(&**sizes).all(|(&room, &size)| size == 0 || room >= 0)
        })
    }

    /// Adds a pattern with a single row, on the node on which its units cost least.
    fn learn_alone(&mut self, unplaced: &RemainingDemand, row: usize) {
        if let Some((market, count)) = self.cheapest_alone(unplaced, row) {
            self.note_of_node(market, vec![(row as u32, count)]);
        }
    }

    /// Adds the content of one node.
    fn note_of_node(&mut self, market: usize, mut content: Vec<(u32, u32)>) {
        let nodes = self.markets[market].nodes();
        content.iter_mut().for_each(|(_, count)| *count = count.saturating_mul(nodes));
        self.note(Pattern { market: market as u32, content });
    }

    /// Adds a pattern if it is new.
    fn note(&mut self, pattern: Pattern) {
        if self.patterns.len() < PATTERNS_PER_ROW * self.rows.len() && self.seen.insert(pattern.clone()) {
            self.patterns.push(pattern);
        }
    }
}
