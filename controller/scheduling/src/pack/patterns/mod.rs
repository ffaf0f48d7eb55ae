//! Pattern packing: a linear program over whole contents of nodes, generated on demand (column generation, Gilmore and
//! Gomory 1961).
//!
//! If few types are on offer, or replicas with anti-affinity need most of the nodes, no price per core and gibibyte
//! tells which pods fit well together: a node filled by its own value leaves a mix for the others that wastes half of a
//! resource.
//!
//! ```text
//!  known plan ──► patterns ──► program: cover every row at the least price ──► duals ──► knapsack for each market
//!                    ▲                                                                        │
//!                    └──────────────── a content with a value above its price ◄───────────────┘
//!  program ──► whole copies as bins ──► batches distributed under the rules ──► repeat for the rest ──► bins filled up
//! ```
//!
//! A row is demand that patterns do not distinguish, mostly a size; a market is a shape in equivalent cells. Slots of a
//! row are interchangeable, so rules between workloads cost almost nothing: the batches with the most constraints are
//! assigned first. The rest that no bin takes is packed like any other plan. All work is counted in cells of knapsacks,
//! so the same input always gives the same plan.

mod bins;
mod knapsack;
mod rows;

use rustc_hash::{FxHashMap, FxHashSet};

use super::construct::OpenedNode;
use super::groups::Grouped;
use super::remaining_demand::RemainingDemand;
use super::shape_index::{Headroom, ShapeIndex};
use crate::pack::relaxation::simplex::{Column, Program};

use knapsack::{Item, Knapsack};
use rows::{Market, Row};

/// Budget of knapsack cells per unit, about ten microseconds.
const STEPS_PER_UNIT: usize = 40_000;

/// Maximum budget of knapsack cells.
const MOST_STEPS: usize = 1_500_000_000;

/// Maximum number of pivots of a program per row.
const PIVOTS: usize = 12;

/// Minimum value of a content above its price, as a share of the price, to become a column.
const WORTHWHILE: f64 = 0.0005;

/// Value of a known content above its price, as a share of the price, at which no better one is searched.
const GOOD: f64 = 0.02;

/// Minimum saving over a known plan that the program must promise, as a share of its price.
pub(super) const SAVES: f64 = 0.001;

/// Maximum number of programs: the first for all units, the others for those that whole copies leave.
const ROUNDS: usize = 12;

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
    markets: Vec<Market>,
    seen: FxHashSet<Pattern>,
    patterns: Vec<Pattern>,
    knapsack: Knapsack,
    /// Value per dollar of the content last found, by market.
    gains: Vec<f64>,
    steps: usize,
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

/// Opens nodes for most of `unplaced`, as an alternative to the plan `known`; the rest stays in `unplaced`. Returns
/// `None` if that promises no saving or would take too long.
pub(super) fn open(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &mut RemainingDemand,
    headroom: &mut Headroom,
    known: &[OpenedNode],
) -> Option<Vec<OpenedNode>> {
    let mut generation = Generation::new(shape_index, grouped, unplaced, headroom, known)?;
    let price: f64 = known.iter().filter(|node| node.reserved.is_none()).map(|node| node.price).sum();
    let mut choice = generation.choose(unplaced)?;
    if choice.price > (1.0 - SAVES) * price {
        return None;
    }
    let mut bins = Vec::new();
    for _ in 0..ROUNDS {
        let opened = bins.len();
        generation.deal(unplaced, headroom, &choice, &mut bins);
        if bins.len() == opened || unplaced.left == 0 {
            break;
        }
        match generation.choose(unplaced) {
            Some(next) => choice = next,
            None => break,
        }
    }
    generation.fill_up(unplaced, &mut bins);
    bins.iter_mut().for_each(|bin| generation.move_down(unplaced, headroom, bin));
    let opened = bins.into_iter().map(|bin| OpenedNode {
        shape: bin.shape,
        cell: bin.cell,
        price: bin.price,
        units: bin.units,
        reserved: None,
    });
    Some(opened.collect())
}

impl<'a> Generation<'a> {
    fn new(
        shape_index: &'a ShapeIndex<'a>,
        grouped: &'a Grouped,
        unplaced: &RemainingDemand,
        headroom: &Headroom,
        known: &[OpenedNode],
    ) -> Option<Self> {
        let rows = rows::rows(shape_index, grouped, unplaced, known.len())?;
        let steps = (STEPS_PER_UNIT * unplaced.left).min(MOST_STEPS);
        let grid = |shape: usize| Knapsack::grid(&shape_index.compiled.shapes[shape].room);
        // About as many columns as rows are generated, each with at least one knapsack.
        let least = shape_index.basic.iter().map(|&shape| grid(shape)).min()?;
        if rows.len() * rows.len() * least > steps {
            return None;
        }
        let markets = rows::markets(shape_index, grouped, unplaced, headroom, &rows)?;
        let sweep: usize = markets.iter().map(|market| grid(market.shape)).sum::<usize>() * rows.len();
        let is_held = |row: usize| markets.iter().any(|market| market.rows.contains(row));
        if sweep > steps || !(0..rows.len()).all(is_held) {
            return None;
        }
        let gains = vec![f64::INFINITY; markets.len()];
        let mut generation = Self {
            shape_index,
            grouped,
            rows,
            markets,
            seen: FxHashSet::default(),
            patterns: Vec::new(),
            knapsack: Knapsack::default(),
            gains,
            steps,
        };
        generation.learn(unplaced, known);
        for row in 0..generation.rows.len() {
            generation.learn_alone(unplaced, row);
        }
        Some(generation)
    }

    /// Adds the contents of a plan as patterns.
    fn learn(&mut self, unplaced: &RemainingDemand, known: &[OpenedNode]) {
        let mut row_of: FxHashMap<u32, u32> = FxHashMap::default();
        for (row, one) in (0..).zip(&self.rows) {
            let batches = one.batches.iter().map(|&batch| &unplaced.batches[batch as usize]);
            row_of.extend(batches.flat_map(|batch| &batch.units[batch.taken..]).map(|&unit| (unit, row)));
        }
        for node in known.iter().filter(|node| node.reserved.is_none()) {
            let is_here = |market: &Market| market.shape == node.shape && market.cells.contains(&node.cell);
            let Some(market) = self.markets.iter().position(is_here) else { continue };
            let rows = node.units.iter().map(|unit| row_of.get(unit).copied());
            let Some(mut rows) = rows.collect::<Option<Vec<u32>>>() else { continue };
            rows.sort_unstable();
            let content = rows.chunk_by(|a, b| a == b).map(|some| (some[0], some.len() as u32)).collect();
            self.note(Pattern { market: market as u32, content });
        }
    }

    /// Adds a pattern with a single row, on the node on which its units cost least.
    fn learn_alone(&mut self, unplaced: &RemainingDemand, row: usize) {
        if let Some((market, count)) = self.cheapest_alone(unplaced, row) {
            self.note(Pattern { market: market as u32, content: vec![(row as u32, count)] });
        }
    }

    /// Adds a pattern and returns its index; `None` if it is known.
    fn note(&mut self, pattern: Pattern) -> Option<usize> {
        let is_new = self.seen.insert(pattern.clone());
        is_new.then(|| {
            self.patterns.push(pattern);
            self.patterns.len() - 1
        })
    }

    /// Returns the cheapest fractional choice of patterns for `unplaced` that the budget allows; `None` if nothing is
    /// left.
    fn choose(&mut self, unplaced: &RemainingDemand) -> Option<Choice> {
        let left: Vec<f64> = self.rows.iter().map(|row| row.left(unplaced) as f64).collect();
        let demanded: Vec<usize> = (0..self.rows.len()).filter(|&row| left[row] > 0.0).collect();
        if demanded.is_empty() {
            return None;
        }
        let mut row_of = vec![usize::MAX; self.rows.len()];
        demanded.iter().enumerate().for_each(|(at, &row)| row_of[row] = at);
        // More expensive than the pattern of the row alone, so that the solution uses patterns only.
        let alone = |row: usize| {
            let (market, count) = self.cheapest_alone(unplaced, row)?;
            Some(2.0 * left[row].max(f64::from(count)) * self.markets[market].price / f64::from(count))
        };
        let alone: Vec<f64> = demanded.iter().map(|&row| alone(row)).collect::<Option<_>>()?;
        let mut program = Program::new(&alone);
        let mut values = vec![0.0; self.rows.len()];
        program.solve(PIVOTS * demanded.len(), |duals| {
            values.fill(0.0);
            for (&row, dual) in demanded.iter().zip(duals) {
                values[row] = dual.max(0.0) / left[row];
            }
            let at = self.price_out(unplaced, &values, &left)?;
            let pattern = &self.patterns[at];
            let demanded = pattern.content.iter().filter(|&&(row, _)| left[row as usize] > 0.0);
            let covers = demanded.map(|&(row, count)| (row_of[row as usize], f64::from(count) / left[row as usize]));
            let price = self.markets[pattern.market as usize].price;
            Some(Column { covers: covers.collect(), price, shape: at })
        });
        let price = program.duals().sum();
        Some(Choice { price, used: program.used(), values })
    }

    /// Returns the market in which units of a row alone cost least, and the number of them per node.
    fn cheapest_alone(&self, unplaced: &RemainingDemand, row: usize) -> Option<(usize, u32)> {
        let one = &self.rows[row];
        let sizes = &unplaced.kinds[one.kind as usize].sizes;
        let most = one.apart.map_or(one.most, |(_, limit)| limit.min(one.most)).max(1);
        let markets = self.markets.iter().enumerate().filter(|(_, market)| market.rows.contains(row));
        let counted = markets.map(|(number, market)| {
            let room = &self.shape_index.compiled.shapes[market.shape].room;
            let by_column = room.iter().zip(&**sizes).filter(|&(_, &size)| size > 0);
            let holds = by_column.map(|(&room, &size)| room / size).min().unwrap_or(i32::MAX);
            (number, (holds.max(1) as u32).min(most))
        });
        let each = |&(market, count): &(usize, u32)| self.markets[market].price / f64::from(count);
        counted.min_by(|a, b| each(a).total_cmp(&each(b)))
    }

    /// Returns a pattern with a value above its price, given the value of a unit of each row: the best known one, or
    /// the first that the knapsacks find.
    fn price_out(&mut self, unplaced: &RemainingDemand, values: &[f64], left: &[f64]) -> Option<usize> {
        let worth = |pattern: &Pattern| {
            let content = pattern.content.iter().map(|&(row, count)| values[row as usize] * f64::from(count));
            content.sum::<f64>()
        };
        let gains = self.patterns.iter().map(|pattern| worth(pattern) / self.markets[pattern.market as usize].price);
        let best = gains.enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let (mut best, mut most) = best.map_or((None, 0.0), |(at, gain)| (Some(at), gain));
        if most <= 1.0 + GOOD {
            let mut order: Vec<usize> = (0..self.markets.len()).collect();
            order.sort_by(|&a, &b| self.gains[b].total_cmp(&self.gains[a]).then(a.cmp(&b)));
            for market in order {
                if self.knapsack.steps > self.steps {
                    break;
                }
                let Some((pattern, gain)) = self.best_content(unplaced, market, values, left) else { continue };
                self.gains[market] = gain;
                if gain > most.max(1.0 + WORTHWHILE)
                    && let Some(at) = self.note(pattern)
                {
                    (best, most) = (Some(at), gain);
                    break;
                }
            }
        }
        best.filter(|_| most > 1.0 + WORTHWHILE)
    }

    /// Returns the most valuable content of a market, and its value per dollar.
    fn best_content(
        &mut self,
        unplaced: &RemainingDemand,
        market: usize,
        values: &[f64],
        left: &[f64],
    ) -> Option<(Pattern, f64)> {
        let one = &self.markets[market];
        let room = &self.shape_index.compiled.shapes[one.shape].room;
        let rows = one.rows.ones().filter(|&row| values[row] > 1e-12 && left[row] > 0.0);
        let item = |row: usize| {
            let of = &self.rows[row];
            let most = of.most.min(left[row] as u32);
            let sizes = &unplaced.kinds[of.kind as usize].sizes;
            Item { row: row as u32, sizes, value: values[row], most, apart: of.apart }
        };
        let items: Vec<Item<'_>> = rows.map(item).collect();
        if items.is_empty() {
            return None;
        }
        let worth = |content: &[(usize, u32)]| {
            content.iter().map(|&(item, count)| items[item].value * f64::from(count)).sum::<f64>() / one.price
        };
        let mut content = self.knapsack.fill(room, &items, false);
        if !Knapsack::is_exact(room) && worth(&content) <= 1.0 + WORTHWHILE {
            let other = self.knapsack.fill(room, &items, true);
            content = if worth(&other) > worth(&content) { other } else { content };
        }
        let gain = worth(&content);
        let mut content: Vec<(u32, u32)> = content.iter().map(|&(item, count)| (items[item].row, count)).collect();
        content.sort_unstable();
        Some((Pattern { market: market as u32, content }, gain))
    }
}
