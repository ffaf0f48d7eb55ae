//! Search for contents: those that are worth most under the values of a program, for every market.

use fixedbitset::FixedBitSet;

use super::knapsack::{Item, Knapsack};
use super::{Generation, Pattern, WORTHWHILE};
use crate::compile::{CPU, MEMORY};
use crate::pack::relaxation::envelope::{self, Envelope, Valued};
use crate::pack::remaining_demand::RemainingDemand;

impl Generation<'_> {
    /// Adds the most valuable content of every market that can have one worth more than its price. Returns true if
    /// one of them is new, and the highest value per dollar of any content, at least 1.
    pub(super) fn sweep(&mut self, unplaced: &RemainingDemand, values: &[f64], left: &[f64]) -> (bool, f64) {
        let known = self.patterns.len();
        let least: Vec<f64> = self.markets.iter().map(|market| (1.0 + WORTHWHILE) * market.price).collect();
        let envelopes: Vec<Envelope> =
            (0..self.markets.len()).map(|market| self.envelope(unplaced, market, values, left)).collect();
        let ratio = |market: usize| envelopes[market].most / least[market];
        let mut order: Vec<usize> = (0..self.markets.len()).filter(|&market| ratio(market) > 1.0).collect();
        order.sort_by(|&a, &b| ratio(b).total_cmp(&ratio(a)).then(a.cmp(&b)));
        let (fluid, order): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|&market| self.markets[market].is_fluid);
        // Searches that are not exact, or not made, may miss more than that.
        let mut most = 1.0_f64;
        for market in fluid {
            most = most.max(ratio(market) * (1.0 + WORTHWHILE));
            let mixes = self.mixes(unplaced, market, &envelopes[market], values, left);
            mixes.into_iter().for_each(|pattern| self.note(pattern));
        }
        // No content with another row is worth enough.
        let rows: Vec<FixedBitSet> = (0..self.markets.len())
            .map(|market| {
                let room = envelopes[market].most - least[market];
                let fits = |row: &usize| envelopes[market].loss(self.valued(unplaced, *row, values)) <= room;
                let mut rows = FixedBitSet::with_capacity(self.rows.len());
                let asked = self.markets[market].rows.ones().filter(|&row| values[row] > 1e-12 && left[row] > 0.0);
                rows.extend(asked.filter(fits));
                rows
            })
            .collect();
        let mut done = FixedBitSet::with_capacity(self.markets.len());
        for &market in &order {
            if done.contains(market) {
                continue;
            }
            if self.knapsack.steps > self.steps {
                most = most.max(ratio(market) * (1.0 + WORTHWHILE));
                continue;
            }
            let mut family = vec![market];
            for &other in order.iter().filter(|&&other| other != market && !done.contains(other)) {
                if family.iter().all(|&one| self.shares_grid(unplaced, one, other)) {
                    family.push(other);
                }
            }
            family.iter().for_each(|&other| done.insert(other));
            for (pattern, gain) in self.best_contents(unplaced, (&family, &rows), values, left) {
                most = most.max(gain);
                if gain > 1.0 + WORTHWHILE {
                    self.note(pattern);
                }
            }
        }
        (self.patterns.len() > known, most)
    }

    fn valued(&self, unplaced: &RemainingDemand, row: usize, values: &[f64]) -> Valued {
        envelope::valued(&unplaced.kinds[self.rows[row].kind].sizes, values[row])
    }

    /// Returns mixes of two rows for a fluid market that are worth more than its price.
    fn mixes(
        &self,
        unplaced: &RemainingDemand,
        market: usize,
        envelope: &Envelope,
        values: &[f64],
        left: &[f64],
    ) -> Vec<Pattern> {
        let one = &self.markets[market];
        let room = &self.shape_index.compiled.shapes[one.shape].room;
        let mixes = |row: &usize| values[*row] > 1e-12 && left[*row] > 0.0 && self.rows[*row].apart.is_none();
        let valued = one.rows.ones().filter(mixes).map(|row| (row, self.valued(unplaced, row, values)));
        // Nothing but their number bounds units without requests.
        let (rows, units): (Vec<usize>, Vec<Valued>) = valued.filter(|(_, unit)| unit.0 > 0.0 || unit.1 > 0.0).unzip();
        let nodes = f64::from(one.nodes());
        let least = nodes * (1.0 + WORTHWHILE) * one.price;
        let (cpu, memory) = (f64::from(room[CPU]), f64::from(room[MEMORY]));
        let whole = envelope.contents((cpu, memory), &units).map(|content| {
            let content = content.into_iter().map(|(at, count)| (at, (nodes * count) as u32));
            content.filter(|&(_, count)| count > 0).collect::<Vec<(usize, u32)>>()
        });
        let holds = |content: &[(usize, u32)]| {
            let sum = |size: fn(&Valued) -> f64| -> f64 {
                content.iter().map(|&(at, count)| size(&units[at]) * f64::from(count)).sum()
            };
            sum(|unit| unit.0) <= nodes * cpu && sum(|unit| unit.1) <= nodes * memory
        };
        let worth =
            |content: &[(usize, u32)]| content.iter().map(|&(at, count)| units[at].2 * f64::from(count)).sum::<f64>();
        let pattern = |content: Vec<(usize, u32)>| {
            let mut content: Vec<(u32, u32)> =
                content.into_iter().map(|(at, count)| (rows[at] as u32, count)).collect();
            content.sort_unstable();
            Pattern { market: market as u32, content }
        };
        whole.filter(|content| worth(content) > least && holds(content)).map(pattern).collect()
    }

    fn envelope(&self, unplaced: &RemainingDemand, market: usize, values: &[f64], left: &[f64]) -> Envelope {
        let one = &self.markets[market];
        let room = &self.shape_index.compiled.shapes[one.shape].room;
        let rows = one.rows.ones().filter(|&row| values[row] > 1e-12 && left[row] > 0.0);
        let units: Vec<Valued> = rows.map(|row| self.valued(unplaced, row, values)).collect();
        Envelope::of(room, &units)
    }

    /// Returns true if the contents of two markets can be found at once: their grids are exact, and a row that only one
    /// of them takes is too large for the other.
    fn shares_grid(&self, unplaced: &RemainingDemand, one: usize, other: usize) -> bool {
        let room = |market: usize| &self.shape_index.compiled.shapes[self.markets[market].shape].room;
        let takes = |market: usize| &self.markets[market].rows;
        let is_too_large = |row: usize, market: usize| {
            let sizes = &unplaced.kinds[self.rows[row].kind].sizes;
            sizes[CPU] > room(market)[CPU] || sizes[MEMORY] > room(market)[MEMORY]
        };
        Knapsack::is_exact(room(one))
            && Knapsack::is_exact(room(other))
            && takes(one).difference(takes(other)).all(|row| is_too_large(row, other))
            && takes(other).difference(takes(one)).all(|row| is_too_large(row, one))
    }

    /// Returns the most valuable contents of markets that share a grid, or of a single one, with their values per
    /// dollar.
    fn best_contents(
        &mut self,
        unplaced: &RemainingDemand,
        (markets, rows_of): (&[usize], &[FixedBitSet]),
        values: &[f64],
        left: &[f64],
    ) -> Vec<(Pattern, f64)> {
        let rooms: Vec<(&[i32], f64)> = markets
            .iter()
            .map(|&market| &self.markets[market])
            .map(|one| (&self.shape_index.compiled.shapes[one.shape].room[..], (1.0 + WORTHWHILE) * one.price))
            .collect();
        let mut rows = FixedBitSet::with_capacity(self.rows.len());
        markets.iter().for_each(|&market| rows.union_with(&rows_of[market]));
        let item = |row: usize| {
            let of = &self.rows[row];
            let most = if self.is_bound { of.most } else { of.most.min(left[row] as u32) };
            let sizes = &unplaced.kinds[of.kind].sizes;
            Item { row: row as u32, sizes, value: values[row], most, apart: of.apart }
        };
        // As in the proof of a bound, where nothing limits the number of units without requests.
        let counts = |item: &Item<'_>| !self.is_bound || item.sizes[CPU] > 0 || item.sizes[MEMORY] > 0;
        let items: Vec<Item<'_>> = rows.ones().map(item).filter(counts).collect();
        if items.is_empty() {
            return Vec::new();
        }
        let worth = |content: &[(usize, u32)], market: usize| {
            let value: f64 = content.iter().map(|&(item, count)| items[item].value * f64::from(count)).sum();
            value / self.markets[market].price
        };
        let contents = match rooms[..] {
            [(room, least)] if !Knapsack::is_exact(room) => {
                let contents = self.knapsack.fill(room, &items, false, least);
                if worth(&contents[0], markets[0]) > 1.0 + WORTHWHILE {
                    vec![contents]
                } else {
                    vec![self.knapsack.fill(room, &items, true, least)]
                }
            }
            _ => self.knapsack.fill_all(&rooms, &items),
        };
        let found = markets
            .iter()
            .zip(contents)
            .flat_map(|(&market, contents)| contents.into_iter().map(move |content| (market, content)));
        let found = found.map(|(market, content)| {
            let gain = worth(&content, market);
            let mut content: Vec<(u32, u32)> = content.iter().map(|&(item, count)| (items[item].row, count)).collect();
            content.sort_unstable();
            (Pattern { market: market as u32, content }, gain)
        });
        found.collect()
    }
}
