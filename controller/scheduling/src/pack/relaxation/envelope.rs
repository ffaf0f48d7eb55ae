//! Upper bound on the value of a node's content: resources are priced such that every unit pays at least its value.
//! Units without cpu and memory are not bounded by them: a caller that needs a proof leaves them out.

use crate::compile::{CPU, MEMORY};

/// Cpu, memory and value of a unit.
pub(crate) type Valued = (f64, f64, f64);

/// Returns a unit of these sizes with its value.
pub(crate) fn valued(sizes: &[i32], value: f64) -> Valued {
    (f64::from(sizes[CPU]), f64::from(sizes[MEMORY]), value)
}

/// Number of prices of cpu that are tried.
const TRIALS: usize = 24;

/// Maximum number of units for which contents are made: those that cost least more than their value.
const MOST_UNITS: usize = 64;

/// Prices of cpu and memory at which no unit costs less than its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope {
    /// Value that no content of the node exceeds: its room at these prices.
    pub(crate) most: f64,
    cpu: f64,
    memory: f64,
}

impl Envelope {
    /// Returns the envelope of a node with this room.
    pub(crate) fn of(room: &[i32], units: &[Valued]) -> Self {
        Self::new(f64::from(room[CPU]), f64::from(room[MEMORY]), units)
    }

    /// Returns the envelope of a node with this cpu and memory. Any prices prove a bound; those of the lowest are found
    /// by ternary search, since it is convex in the price of cpu.
    fn new(cpu: f64, memory: f64, units: &[Valued]) -> Self {
        // Units without memory must pay with their cpu alone.
        let each = |unit: &Valued| if unit.0 > 0.0 { unit.2 / unit.0 } else { 0.0 };
        let least = units.iter().filter(|unit| unit.1 <= 0.0).map(each).fold(0.0, f64::max);
        let at = |price: f64| {
            let rest = units.iter().filter(|unit| unit.1 > 0.0).map(|unit| (unit.2 - price * unit.0) / unit.1);
            let of_memory = rest.fold(0.0, f64::max);
            Self { most: price * cpu + memory * of_memory, cpu: price, memory: of_memory }
        };
        let lower = |one: Self, other: Self| if other.most < one.most { other } else { one };
        let (mut low, mut high) = (least, units.iter().map(each).fold(least, f64::max));
        let mut best = lower(at(low), at(high));
        for _ in 0..TRIALS {
            let third = (high - low) / 3.0;
            let (left, right) = (at(low + third), at(high - third));
            best = lower(best, lower(left, right));
            if left.most <= right.most { high -= third } else { low += third }
        }
        best
    }

    /// Returns contents of one node that come close to the bound, as positions in `units` with the number of each,
    /// which need not be whole: every unit alone, and with the other one that costs least more than its value, of those
    /// with more cpu for their memory than the node if it has less, and the other way round.
    pub(crate) fn contents<'u>(
        &'u self,
        (cpu, memory): (f64, f64),
        units: &'u [Valued],
    ) -> impl Iterator<Item = Vec<(usize, f64)>> + 'u {
        let dear = |at: usize| {
            let price = self.cpu * units[at].0 + self.memory * units[at].1;
            self.loss(units[at]) / price.max(f64::MIN_POSITIVE)
        };
        let has_more = move |at: usize| units[at].0 * memory >= units[at].1 * cpu;
        let least = |more: bool| {
            let among = (0..units.len()).filter(|&at| has_more(at) == more);
            among.min_by(|&a, &b| dear(a).total_cmp(&dear(b)).then(a.cmp(&b)))
        };
        let best = [least(false), least(true)];
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by(|&a, &b| dear(a).total_cmp(&dear(b)).then(a.cmp(&b)));
        order.truncate(MOST_UNITS);
        order.into_iter().flat_map(move |at| {
            let one = &units[at];
            let pair = best[usize::from(!has_more(at))].map(|partner| {
                let other = &units[partner];
                let both = one.0 * other.1 - other.0 * one.1;
                vec![(at, (cpu * other.1 - other.0 * memory) / both), (partner, (one.0 * memory - cpu * one.1) / both)]
            });
            [Some(vec![(at, (cpu / one.0).min(memory / one.1))]), pair].into_iter().flatten()
        })
    }

    /// Returns the amount by which a unit costs more than its value: a content with it is worth at most the bound less
    /// this amount.
    pub(crate) fn loss(&self, unit: Valued) -> f64 {
        self.cpu * unit.0 + self.memory * unit.1 - unit.2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_content_is_worth_more() {
        // Two large units and one small one fill the node: 2 × 5 + 1.
        let units = [(4.0, 4.0, 5.0), (1.0, 1.0, 1.0)];
        assert!((Envelope::new(9.0, 9.0, &units).most - 11.25).abs() < 1e-3);
        // Cpu of one kind and memory of the other do not compete.
        let units = [(1.0, 0.0, 1.0), (0.0, 1.0, 2.0)];
        assert!((Envelope::new(3.0, 5.0, &units).most - 13.0).abs() < 1e-3);
        assert_eq!(Envelope::new(3.0, 5.0, &[]).most, 0.0);
    }

    #[test]
    fn mixes_reach_the_bound() {
        // Three of the first and three of the second fill 9 and 9.
        let units = [(2.0, 1.0, 2.0), (1.0, 2.0, 1.5), (1.0, 1.0, 0.5)];
        let envelope = Envelope::new(9.0, 9.0, &units);
        let worth = |content: &Vec<(usize, f64)>| content.iter().map(|&(at, count)| units[at].2 * count).sum::<f64>();
        let contents: Vec<Vec<(usize, f64)>> = envelope.contents((9.0, 9.0), &units).collect();
        assert!((envelope.most - 10.5).abs() < 1e-3, "{envelope:?}");
        assert!((contents.iter().map(worth).fold(0.0, f64::max) - 10.5).abs() < 1e-3, "{contents:?}");
        assert!(contents.iter().all(|content| worth(content) <= envelope.most + 1e-9), "{contents:?}");
    }
}
