//! The linear program: the cheapest fractional choice of patterns that covers all rows.
//!
//! ```text
//!  proven values ──► box ──► program over the known patterns ──► values ──► contents worth more than their price
//!                     ▲                ▲                                        │                    │ none, or
//!                     │                └────────────────── more patterns ◄──────┘                    │ little gained
//!                     └───────────────────── a larger box around the new values ◄────────────────────┘
//! ```
//!
//! With few patterns the values of a program are far from those of its optimum, and what is found with them is of no
//! use. So each value may exceed the proven one by a small share only (a box, du Merle et al. 1999): a row may be
//! covered without a pattern at that price. The box grows until no row is.

use super::{Choice, Generation, WORTHWHILE};
use crate::pack::relaxation::columns::Columns;
use crate::pack::relaxation::simplex::Program;
use crate::pack::remaining_demand::RemainingDemand;

/// Maximum number of pivots of a program per row; eight are usual.
const PIVOTS: usize = 40;

/// Share by which the value of a unit may exceed the proven one at first.
const BOX: f64 = 0.03;

/// Saving by more patterns, as a share of the price, below which the values count as proven.
const PROGRESS: f64 = 0.0002;

/// Maximum number of searches for more patterns; twenty are usual if many shapes are on offer.
const MOST_SWEEPS: usize = 400;

/// Share of the price by which the proven values may be lower at the end.
const GAP: f64 = 0.0005;

/// Minimum price of a content, as a share of that of its node, however much its units with given values are worth.
const LEAST: f64 = 0.001;

/// Demand of the rows that have units left.
struct Demand {
    /// Number of units by row.
    left: Vec<f64>,
    /// Rows with units, as rows of the program.
    rows: Vec<usize>,
    /// Row of the program by row.
    position: Vec<usize>,
    /// Price of a unit on nodes of its own, twice over: no pattern is dearer.
    alone: Vec<f64>,
}

impl Demand {
    fn new(generation: &Generation<'_>, unplaced: &RemainingDemand) -> Option<Self> {
        let mut left: Vec<f64> = generation.rows.iter().map(|row| row.left(unplaced) as f64).collect();
        let (mut rows, mut alone) = (Vec::new(), Vec::new());
        for (row, left) in left.iter_mut().enumerate().take(generation.own).filter(|(_, left)| **left > 0.0) {
            // What no market takes is packed without patterns.
            let Some((market, count)) = generation.cheapest_alone(unplaced, row) else {
                *left = 0.0;
                continue;
            };
            let count = f64::from(count);
            rows.push(row);
            alone.push(2.0 * left.max(count) / *left * generation.markets[market].price / count);
        }
        let mut position = vec![usize::MAX; left.len()];
        rows.iter().enumerate().for_each(|(at, &row)| position[row] = at);
        (!rows.is_empty()).then_some(Self { left, rows, position, alone })
    }

    /// Returns the prices at which rows may be covered without patterns: `share` above the proven values, if there are.
    fn bounds(&self, proven: &[f64], share: f64) -> Vec<f64> {
        let bound = |(&row, &alone): (&usize, &f64)| {
            let proven = proven.get(row).copied().unwrap_or(0.0);
            let near = if proven > 0.0 { (1.0 + share) * proven } else { f64::INFINITY };
            self.left[row] * near.min(alone)
        };
        self.rows.iter().zip(&self.alone).map(bound).collect()
    }

    /// Adds the patterns that are not yet columns.
    fn extend(&self, columns: &mut Columns, generation: &Generation<'_>) {
        for pattern in &generation.patterns[columns.len()..] {
            let held = pattern.content.iter().map(|&(row, count)| (row as usize, f64::from(count)));
            let (held, given): (Vec<_>, Vec<_>) = held.partition(|&(row, _)| row < generation.own);
            let covers = held.into_iter().filter(|&(row, _)| self.left[row] > 0.0);
            let covers = covers.map(|(row, count)| (self.position[row], count / self.left[row]));
            let market = &generation.markets[pattern.market as usize];
            let price = market.price * f64::from(market.nodes());
            let given: f64 = given.into_iter().map(|(row, count)| generation.proven[row] * count).sum();
            columns.push(covers, (price - given).max(LEAST * price));
        }
    }

    /// Sets the values of a unit by row.
    fn value(&self, duals: impl Iterator<Item = f64>, values: &mut [f64], own: usize) {
        values[..own].fill(0.0);
        self.rows.iter().zip(duals).for_each(|(&row, dual)| values[row] = dual.max(0.0) / self.left[row]);
    }
}

impl Generation<'_> {
    /// Returns the cheapest fractional choice of patterns for `unplaced`, with new ones as far as the budget allows;
    /// `None` if nothing is left.
    pub(super) fn choose(&mut self, unplaced: &RemainingDemand) -> Option<Choice> {
        let demand = Demand::new(self, unplaced)?;
        let mut values = self.proven.clone();
        let mut columns = Columns::default();
        let mut pivots = PIVOTS * demand.rows.len();
        if self.is_rest {
            let mut program = Program::new(&demand.bounds(&[], 0.0));
            self.cover(&mut program, &mut columns, (&demand, &mut pivots), &mut values);
            return Some(Choice { price: program.duals().sum(), used: program.used(), values });
        }
        // Few shapes have no values to start from, and need all the patterns that can be found.
        let progress = if self.proven.iter().any(|&value| value > 0.0) { PROGRESS } else { 0.0 };
        let mut share = BOX;
        let mut program = Program::new(&demand.bounds(&self.proven, share));
        let own = self.own;
        let total =
            |values: &[f64]| values[..own].iter().zip(&demand.left).map(|(value, left)| value * left).sum::<f64>();
        // Beside units with given values, the values to start from are not proven.
        let mut proven = if own < self.rows.len() { 0.0 } else { total(&self.proven) };
        let mut before = f64::INFINITY;
        for _ in 0..MOST_SWEEPS {
            self.cover(&mut program, &mut columns, (&demand, &mut pivots), &mut values);
            let price = total(&values);
            let (is_new, most) = self.sweep(unplaced, &values, &demand.left);
            // Lowered by as much as the best content is worth too much, the values are proven.
            if price / most > proven {
                proven = price / most;
                self.proven[..own].iter_mut().zip(&values).for_each(|(proven, value)| *proven = value / most);
            }
            let is_covered = program.price_alone() <= GAP * price;
            if self.knapsack.steps > self.steps || pivots == 0 || is_covered && proven > (1.0 - GAP) * price {
                break;
            }
            if is_new && before - price >= progress * price {
                before = price;
                continue;
            }
            if is_covered {
                break;
            }
            share *= 2.0;
            before = f64::INFINITY;
            program.reprice(&demand.bounds(&values, share));
        }
        program.reprice(&demand.bounds(&[], 0.0));
        self.cover(&mut program, &mut columns, (&demand, &mut pivots), &mut values);
        Some(Choice { price: program.duals().sum(), used: program.used(), values })
    }

    /// Solves the program over the known patterns.
    fn cover(
        &self,
        program: &mut Program,
        columns: &mut Columns,
        (demand, pivots): (&Demand, &mut usize),
        values: &mut [f64],
    ) {
        demand.extend(columns, self);
        *pivots -= program.optimise(columns, WORTHWHILE, *pivots);
        demand.value(program.duals(), values, self.own);
    }

    /// Returns the market in which units of a row alone cost least, and the number of them per node.
    pub(super) fn cheapest_alone(&self, unplaced: &RemainingDemand, row: usize) -> Option<(usize, u32)> {
        let one = &self.rows[row];
        let sizes = &unplaced.kinds[one.kind].sizes;
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
}
