//! Split-price bound: every shape distributes its price over its resources, and a pod is valued at the lowest price
//! that any shape which can hold it charges.
//!
//! Shape `s` charges `λ_s ≥ 0` per unit of each resource, such that its whole room costs no more than the shape:
//! `λ_s·room_s ≤ price_s`. Kind `k` is valued `y_k = min λ_s·size_k` over the shapes `s` that admit and can hold it.
//! For any contents `a` of a node of shape `s`,
//!
//! ```text
//! Σ a_k y_k  ≤  Σ a_k λ_s·size_k  =  λ_s·Σ a_k size_k  ≤  λ_s·room_s  ≤  price_s
//! ```
//!
//! so `Σ y` over all pods is a lower bound for *any* λ: the bound holds even if the search for a good λ is crude. A
//! rule that lets at most `L` of some pods share a node is one more resource: each pod takes `1/L` of the one slot of a
//! node.
//!
//! It exceeds the fluid bound where prices do not follow resources, since cpu of one node cannot be combined with
//! memory of another, and a pod that is too large for a small cheap node is not priced by that node. λ is found by
//! mirror ascent: demand moves to the shapes that charge least for it, and each shape moves its price to the resources
//! that run out first.

use super::fluid::{Duals, Source};
use crate::compile::{HostRuleId, fits};
use crate::pack::remaining_demand::{KindId, RemainingDemand};

/// Pods that are priced alike.
#[derive(Debug, Clone)]
pub(crate) struct Item<'a> {
    pub(crate) group: usize,
    pub(crate) sizes: &'a [i32],
    pub(crate) count: f64,
    /// Share of a node's one slot that such a pod takes under the tightest host rule; 0 if the rule does not apply.
    pub(crate) slot: f64,
}

/// Returns the kinds of a demand as items; with `rule`, a host rule and its limit, the pods that it keeps apart are
/// separate items.
pub(crate) fn items<'a>(
    unplaced: &'a RemainingDemand,
    group_of: &index_vec::IndexSlice<KindId, [usize]>,
    rule: Option<(HostRuleId, i32)>,
) -> Vec<Item<'a>> {
    let apart = rule.map(|(rule, limit)| (unplaced.apart_of_kind(rule), 1.0 / f64::from(limit.max(1))));
    let mut items = Vec::with_capacity(unplaced.kinds.len());
    for (kind, one) in unplaced.kinds.iter_enumerated() {
        let held = apart.as_ref().map_or((0, 0.0), |(apart, slot)| (apart[kind], *slot));
        let item = |count: usize, slot| Item { group: group_of[kind], sizes: &one.sizes, count: count as f64, slot };
        // Kinds without pods left keep their place.
        items.push(item(unplaced.left_of_kind[kind] - held.0, 0.0));
        if held.0 > 0 {
            items.push(item(held.0, held.1));
        }
    }
    items
}

/// Distribution of the price of every source over its resources.
#[derive(Debug, Clone)]
pub(crate) struct Split {
    /// USD per unit of a column and, last, for the slot: `[source * (width + 1) + column]`.
    pub(crate) duals: Vec<f64>,
    /// Share of each source in the price of the fractional optimum.
    pub(crate) shares: Vec<f64>,
}

/// Number of ascent steps.
const STEPS: usize = 60;

/// Number of final steps that are enough when starting from a split of nearly the same items.
const LAST_STEPS: usize = 24;

/// Starting point of the ascent.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Fluid prices.
    Fluid(&'a Duals),
    /// A split over the same sources.
    Near(&'a Split),
}

impl Start<'_> {
    /// Returns the share of its price that a source charges for a column.
    fn share(self, source: &Source<'_>, index: usize, column: usize) -> f32 {
        let width = source.room.len();
        let room = source.room.get(column).map_or(1.0, |&room| f64::from(room.max(0)));
        let unit = match self {
            Self::Fluid(duals) if column == width => duals.node,
            Self::Fluid(duals) => {
                source.groups.ones().map(|group| duals.unit[group * width + column]).fold(0.0, f64::max)
            }
            Self::Near(split) => split.duals[index * (width + 1) + column],
        };
        (unit * room / source.price) as f32
    }

    fn first_step(self) -> usize {
        match self {
            Self::Fluid(_) => 0,
            Self::Near(_) => STEPS - LAST_STEPS,
        }
    }
}

/// Items merged for the ascent, by group, slot and size class.
struct Cluster {
    sizes: Vec<f32>,
    count: f32,
    /// By source: 0 if it can hold such pods, infinity if not.
    barrier: Vec<f32>,
}

/// Returns approximately `exp(x)` for `x ≤ 0`, and zero from −8 on; only multiplications, so the same on every machine.
fn decay(x: f32) -> f32 {
    let base = (1.0 + 0.125 * x).max(0.0);
    let square = base * base;
    let fourth = square * square;
    fourth * fourth
}

/// Searches for a split that values `items` highly.
pub(crate) fn solve(sources: &[Source<'_>], items: &[Item<'_>], start: Start<'_>, width: usize) -> Split {
    let columns = width + 1;
    let count = sources.len();
    let room = |source: usize, column: usize| {
        if column == width { 1.0 } else { sources[source].room[column].max(0) as f32 }
    };
    let clusters = clusters(sources, items, width);
    // Shares of the price, by column and source: those of the start, plus a little for every column.
    let mut shares = vec![0.0_f32; columns * count];
    for (index, source) in sources.iter().enumerate() {
        for column in (0..columns).filter(|&column| room(index, column) > 0.0) {
            shares[column * count + index] = start.share(source, index, column) + 0.02;
        }
    }
    let mut duals = vec![0.0_f32; columns * count];
    let mut best = (0.0_f32, Vec::new());
    let mut spent = vec![0.0_f64; count];
    let mut load = vec![0.0_f32; columns * count];
    let mut unit_prices = vec![0.0_f32; count];
    for step in start.first_step()..STEPS {
        let progress = step as f32 / (STEPS - 1) as f32;
        // From 0.15 down to 0.004, from 0.5 down to 0.1: geometric, by repeated factors.
        let temperature = 0.15 * between(0.004 / 0.15, progress);
        let rate = 0.5 * between(0.2, progress);
        for index in 0..count {
            let sum: f32 = (0..columns).map(|column| shares[column * count + index]).sum();
            for column in 0..columns {
                let share = &mut shares[column * count + index];
                *share = if sum > 0.0 { *share / sum } else { 0.0 };
                let room = room(index, column);
                duals[column * count + index] =
                    if room > 0.0 { *share * sources[index].price as f32 / room } else { 0.0 };
            }
        }
        load.fill(0.0);
        let mut value = 0.0;
        for cluster in &clusters {
            value += assign(cluster, &duals, temperature, &mut unit_prices, &mut load);
        }
        if value > best.0 {
            best = (value, duals.clone());
        }
        for source in 0..count {
            let mut fullest = 0.0_f32;
            for column in 0..columns {
                let room = room(source, column);
                let filled = if room > 0.0 { load[column * count + source] / room } else { 0.0 };
                load[column * count + source] = filled;
                fullest = fullest.max(filled);
            }
            if 4 * step >= 3 * STEPS {
                spent[source] += f64::from(fullest) * sources[source].price;
            }
            if fullest > 0.0 {
                for column in 0..columns {
                    let at = column * count + source;
                    shares[at] = (shares[at] * decay(rate * (load[at] / fullest - 1.0))).max(1e-9);
                }
            }
        }
    }
    let all: f64 = spent.iter().sum();
    let shares = spent.iter().map(|&spent| if all > 0.0 { spent / all } else { 0.0 }).collect();
    Split { duals: valid(sources, &best.1, width), shares }
}

/// Adds the load of a cluster's items to `load`: nearly all go to the sources whose `duals` make them cheapest. Returns
/// their price there.
fn assign(cluster: &Cluster, duals: &[f32], temperature: f32, unit_prices: &mut [f32], load: &mut [f32]) -> f32 {
    let count = unit_prices.len();
    unit_prices.copy_from_slice(&cluster.barrier);
    for (duals, &size) in duals.chunks_exact(count).zip(&cluster.sizes) {
        if size > 0.0 {
            unit_prices.iter_mut().zip(duals).for_each(|(unit_price, dual)| *unit_price += dual * size);
        }
    }
    let least = unit_prices.iter().copied().fold(f32::INFINITY, f32::min);
    if !least.is_finite() || least <= 0.0 {
        return 0.0;
    }
    let factor = 1.0 / (least * temperature);
    let mut sum = 0.0;
    for unit_price in unit_prices.iter_mut() {
        *unit_price = decay((least - *unit_price).max(-1e30) * factor);
        sum += *unit_price;
    }
    let each = cluster.count / sum;
    for (source, &weight) in unit_prices.iter().enumerate() {
        if weight > 0.0 {
            for (column, &size) in cluster.sizes.iter().enumerate() {
                load[column * count + source] += each * weight * size;
            }
        }
    }
    least * cluster.count
}

/// Returns approximately `end` to the power of `progress`: linear between 16 points of the geometric sequence.
fn between(end: f32, progress: f32) -> f32 {
    let root = end.sqrt().sqrt().sqrt().sqrt();
    let (mut value, mut left) = (1.0_f32, progress * 16.0);
    while left >= 1.0 {
        value *= root;
        left -= 1.0;
    }
    value * (1.0 + left * (root - 1.0))
}

/// Returns the prices by source and column, scaled such that no source charges more for its whole room than its price.
fn valid(sources: &[Source<'_>], duals: &[f32], width: usize) -> Vec<f64> {
    let columns = width + 1;
    let mut valid = vec![0.0; sources.len() * columns];
    if duals.is_empty() {
        return valid;
    }
    for (index, source) in sources.iter().enumerate() {
        let mut whole = 0.0;
        for column in 0..columns {
            let dual = f64::from(duals[column * sources.len() + index]).max(0.0);
            let room = if column == width { 1.0 } else { f64::from(source.room[column].max(0)) };
            if room > 0.0 {
                valid[index * columns + column] = dual;
                whole += dual * room;
            }
        }
        let scale = if whole > source.price { source.price / whole } else { 1.0 };
        valid[index * columns..][..columns].iter_mut().for_each(|dual| *dual *= scale * (1.0 - 1e-12));
    }
    valid
}

impl Split {
    /// Returns the value of each item: the lowest price of a source that admits and can hold it. 0 if no source can, or
    /// if the item has no pods.
    pub(crate) fn values(&self, sources: &[Source<'_>], items: &[Item<'_>], width: usize) -> Vec<f64> {
        let value = |item: &Item<'_>| {
            let mut least = f64::INFINITY;
            for (index, source) in sources.iter().enumerate() {
                let duals = &self.duals[index * (width + 1)..][..width + 1];
                let mut unit_price = duals[width] * item.slot;
                for (dual, &size) in duals.iter().zip(item.sizes) {
                    unit_price += dual * f64::from(size);
                }
                if unit_price < least && source.groups.contains(item.group) && fits(item.sizes, source.room) {
                    least = unit_price;
                }
            }
            if least.is_finite() { least } else { 0.0 }
        };
        items.iter().map(|item| if item.count > 0.0 { value(item) } else { 0.0 }).collect()
    }
}

fn clusters(sources: &[Source<'_>], items: &[Item<'_>], width: usize) -> Vec<Cluster> {
    // Size classes of a third of an octave.
    let step = |size: i32| {
        let size = size.max(0) as u128;
        size.pow(3).checked_ilog2().map_or(-1, |step| step as i32)
    };
    let key = |item: &Item<'_>| {
        let steps: Vec<i32> = item
            .sizes
            .iter()
            .enumerate()
            .map(|(column, &size)| match column {
                2 => i32::from(size > 0),
                _ => step(size),
            })
            .collect();
        (item.group, item.slot.to_bits(), steps)
    };
    let mut order: Vec<(_, usize)> = items.iter().enumerate().map(|(index, item)| (key(item), index)).collect();
    order.sort_unstable();
    let mut clusters: Vec<Cluster> = Vec::new();
    for members in order.chunk_by(|a, b| a.0 == b.0) {
        let mut sizes = vec![0.0; width + 1];
        let mut count = 0.0;
        for &(_, index) in members {
            let item = &items[index];
            count += item.count;
            for (sum, &size) in sizes.iter_mut().zip(item.sizes) {
                *sum += item.count * f64::from(size);
            }
            sizes[width] += item.count * item.slot;
        }
        if count <= 0.0 {
            continue;
        }
        let sizes: Vec<f32> = sizes.iter().map(|sum| (sum / count) as f32).collect();
        let holds = |source: &Source<'_>| {
            let room = source.room.iter().zip(&sizes);
            let mut room = room.map(|(&room, &size)| size <= 0.0 || size <= room as f32);
            members.first().is_some_and(|&(_, index)| source.groups.contains(items[index].group))
                && room.all(|fits| fits)
        };
        let barrier = sources.iter().map(|source| if holds(source) { 0.0 } else { f32::INFINITY }).collect();
        clusters.push(Cluster { sizes, count: count as f32, barrier });
    }
    clusters
}

#[cfg(test)]
mod tests {
    use fixedbitset::FixedBitSet;

    use super::*;
    use crate::pack::relaxation::fluid::Duals;

    /// Deterministic pseudo-random numbers.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    fn groups() -> FixedBitSet {
        let mut groups = FixedBitSet::with_capacity(1);
        groups.insert(0);
        groups
    }

    fn fluid() -> Duals {
        Duals { unit: vec![0.01, 0.002], node: 0.0, used: Vec::new() }
    }

    #[test]
    fn no_content_is_worth_more_than_its_node() {
        let state = &mut 7;
        let groups = groups();
        for _ in 0..50 {
            let rooms: Vec<Vec<i32>> =
                (0..6).map(|_| vec![draw(state, 40) as i32 + 1, draw(state, 90) as i32 + 1]).collect();
            let prices: Vec<f64> = (0..6).map(|_| draw(state, 100) as f64 / 50.0 + 0.02).collect();
            let sources: Vec<Source<'_>> =
                rooms.iter().zip(&prices).map(|(room, &price)| Source { room, price, groups: &groups }).collect();
            let sizes: Vec<[i32; 2]> = (0..12).map(|_| [draw(state, 9) as i32, draw(state, 30) as i32]).collect();
            let slots: Vec<f64> = (0..12).map(|_| [0.0, 0.5][draw(state, 2) as usize]).collect();
            let pods = sizes.iter().zip(&slots);
            let items: Vec<Item<'_>> =
                pods.map(|(sizes, &slot)| Item { group: 0, sizes, count: draw(state, 20) as f64, slot }).collect();
            let split = solve(&sources, &items, Start::Fluid(&fluid()), 2);
            let values = split.values(&sources, &items, 2);
            for source in &sources {
                // Fill a node at random, under the rule that allows two of some pods.
                let (mut room, mut slot, mut worth) = (source.room.to_vec(), 1.0, 0.0);
                for _ in 0..60 {
                    let item = draw(state, 12) as usize;
                    let one = &items[item];
                    if fits(one.sizes, &room) && one.slot <= slot {
                        room.iter_mut().zip(one.sizes).for_each(|(room, &size)| *room -= size);
                        slot -= one.slot;
                        worth += values[item];
                    }
                }
                assert!(worth <= source.price + 1e-9, "content worth {worth} on a node of {}", source.price);
            }
        }
    }

    #[test]
    fn cpu_of_one_node_does_not_meet_memory_of_another() {
        let groups = groups();
        let sources = [
            Source { room: &[10, 1], price: 1.0, groups: &groups },
            Source { room: &[1, 10], price: 1.0, groups: &groups },
        ];
        // A pod needs (1, 1): each node holds one, though the two nodes together have room for eleven.
        let items = [Item { group: 0, sizes: &[1, 1], count: 10.0, slot: 0.0 }];
        let split = solve(&sources, &items, Start::Fluid(&fluid()), 2);
        let bound = 10.0 * split.values(&sources, &items, 2)[0];
        assert!(bound > 9.0 && bound <= 10.0, "bound {bound}");
    }

    #[test]
    fn what_fits_no_source_is_worth_nothing() {
        let groups = groups();
        let sources = [Source { room: &[4, 4], price: 1.0, groups: &groups }];
        let items = [Item { group: 0, sizes: &[5, 1], count: 3.0, slot: 0.0 }];
        let split = solve(&sources, &items, Start::Fluid(&fluid()), 2);
        assert_eq!(split.values(&sources, &items, 2), [0.0]);
    }
}
