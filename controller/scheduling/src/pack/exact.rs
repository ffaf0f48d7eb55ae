//! Optimal packing of at most twelve pods, by dynamic programming over subsets.
//!
//! `price(S)` is the price of the cheapest shape that holds subset S; `best(S) = min over T ⊆ S with S's first pod of
//! price(T) + best(S∖T)`, 3ⁿ steps. Most batches in a running cluster are of this size.

use index_vec::Idx;

use super::construct::OpenedNode;
use super::groups::Grouped;
use super::remaining_demand::{BatchId, RemainingDemand};
use super::shape_index::{Headroom, ShapeIndex};
use crate::compile::CellId;

/// Maximum number of units: 3¹² steps take about a millisecond.
const MOST_UNITS: usize = 12;

/// Returns true if the remaining units are few enough, their pools have the same weight, and no pool has limits.
pub(crate) fn applies(shape_index: &ShapeIndex<'_>, unplaced: &RemainingDemand, headroom: &Headroom) -> bool {
    let mut tiers = unplaced
        .left_of_kind
        .iter()
        .zip(&shape_index.tier_of_kind)
        .filter(|&(&left, _)| left > 0)
        .map(|(_, &tier)| tier);
    let Some(first) = tiers.next() else { return false };
    unplaced.left <= MOST_UNITS && !headroom.binds() && first != i32::MIN && tiers.all(|tier| tier == first)
}

/// Shape and cell in which a node can be launched.
struct Entry {
    shape: usize,
    cell: CellId,
    price: f64,
    /// Bit set of the units that it admits.
    admits: u16,
}

/// Packs all remaining units. Among equal prices it prefers more, smaller nodes, since the loss of one affects fewer
/// pods. For a `remainder`, the rest of a plan that already has enough nodes to lose one, it prefers fewer nodes, since
/// every node adds load on the cluster.
pub(crate) fn pack(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &mut RemainingDemand,
    remainder: bool,
) -> Vec<OpenedNode> {
    let mut batches: Vec<BatchId> = Vec::new();
    for (batch, one) in unplaced.batches.iter_enumerated() {
        batches.extend(std::iter::repeat_n(batch, one.left()));
    }
    let count = batches.len();
    let entries = entries(shape_index, grouped, unplaced, &batches);
    let full = (1_usize << count) - 1;
    let width = shape_index.compiled.columns.width();
    let mut sums = vec![0_i32; (full + 1) * width];
    let mut cheapest: Vec<u32> = vec![0; full + 1];
    let none = entries.len() as u32;
    for set in 1..=full {
        let last = usize::BITS as usize - 1 - set.leading_zeros() as usize;
        let rest = set & !(1 << last);
        for column in 0..width {
            let size = unplaced.kinds[unplaced.batches[batches[last]].kind].sizes[column];
            sums[set * width + column] = sums[rest * width + column].saturating_add(size);
        }
        // An entry too small for a subset is too small for the set.
        let mut from = cheapest[rest].max(cheapest[1 << last]);
        if set.count_ones() > 1 && rest != 0 {
            let other = set & (set - 1);
            from = from.max(cheapest[other]);
        }
        if breaks_rules(grouped, unplaced, &batches, set) {
            from = none;
        }
        let sizes = &sums[set * width..][..width];
        let found = entries[(from as usize).min(entries.len())..].iter().position(|entry| {
            set & !usize::from(entry.admits) == 0
                && sizes
                    .iter()
                    .zip(&shape_index.compiled.shapes[entry.shape].room)
                    .all(|(&size, &room)| size <= room || size == 0)
        });
        cheapest[set] = found.map_or(none, |offset| from + offset as u32);
    }
    let price: Vec<f64> =
        cheapest.iter().map(|&entry| entries.get(entry as usize).map_or(f64::INFINITY, |entry| entry.price)).collect();
    // Skip units that fit nowhere.
    let target: usize = (0..count).filter(|&unit| price[1 << unit].is_finite()).map(|unit| 1 << unit).sum();
    let choice = best_parts(&price, target, remainder);
    let mut opened = Vec::new();
    let mut set = target;
    while set != 0 && choice[set] != 0 {
        let node = choice[set] as usize;
        let entry = &entries[cheapest[node] as usize];
        opened.push(open(unplaced, &batches, node, entry));
        set &= !node;
    }
    if target != full {
        // The remaining units must not be tried again here.
        unplaced.left = 0;
    }
    opened
}

/// Returns for every set that can remain of `target` the best subset for the node of its first unit. Among equal prices
/// it prefers fewer nodes if `fewer`, else more.
fn best_parts(price: &[f64], target: usize, fewer: bool) -> Vec<u32> {
    let mut best = vec![f64::INFINITY; target + 1];
    let mut choice = vec![0_u32; target + 1];
    let mut nodes = vec![0_u8; target + 1];
    best[0] = 0.0;
    // The first node takes the first unit, so of the sets that contain it only the whole is needed.
    let rest = target & target.wrapping_sub(1);
    let mut set = 0_usize;
    while set != target {
        set = if set == rest { target } else { (set | !rest).wrapping_add(1) & rest };
        let first = set & set.wrapping_neg();
        let others = set & !first;
        let (mut least, mut chosen, mut count) = (f64::INFINITY, 0, 0);
        let mut part = others;
        loop {
            let rest = others & !part;
            let sum = price[part | first] + best[rest];
            let preferred = if fewer { nodes[rest] + 1 < count } else { nodes[rest] + 1 > count };
            if sum < least - 1e-12 || sum <= least + 1e-12 && preferred && sum.is_finite() {
                (least, chosen, count) = (sum.min(least), part | first, nodes[rest] + 1);
            }
            if part == 0 {
                break;
            }
            part = (part - 1) & others;
        }
        best[set] = least;
        choice[set] = chosen as u32;
        nodes[set] = count;
    }
    choice
}

fn entries(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    batches: &[BatchId],
) -> Vec<Entry> {
    let same_mask = batches.iter().all(|&batch| unplaced.batches[batch].mask == unplaced.batches[batches[0]].mask);
    let mut entries = Vec::new();
    let tier = shape_index.tier_of_kind[unplaced.batches[batches[0]].kind];
    for &shape in shape_index.basic.iter().filter(|&&shape| shape_index.weight_of(shape) == tier) {
        let one = &shape_index.compiled.shapes[shape];
        let mut cheapest: Option<Entry> = None;
        for (cell, &price) in one.price.iter_enumerated().filter(|(_, price)| price.is_finite()) {
            let mut admits = 0_u16;
            for (unit, &batch) in batches.iter().enumerate() {
                let batch = &unplaced.batches[batch];
                let signature = unplaced.kinds[batch.kind].signature;
                if unplaced.masks[batch.mask].contains(cell.index()) && grouped.admits[signature][cell].contains(shape)
                {
                    admits |= 1 << unit;
                }
            }
            if admits == 0 {
                continue;
            }
            let entry = Entry { shape, cell, price, admits };
            if !same_mask {
                entries.push(entry);
            } else if cheapest.as_ref().is_none_or(|best| price < best.price) {
                cheapest = Some(entry);
            }
        }
        entries.extend(cheapest);
    }
    entries.sort_by(|a, b| a.price.total_cmp(&b.price).then(a.shape.cmp(&b.shape)).then(a.cell.cmp(&b.cell)));
    entries
}

fn breaks_rules(grouped: &Grouped, unplaced: &RemainingDemand, batches: &[BatchId], set: usize) -> bool {
    let members = || (0..batches.len()).filter(move |unit| set >> unit & 1 == 1).map(|unit| batches[unit]);
    let rules_of = |batch: BatchId| &unplaced.rulesets[unplaced.batches[batch].ruleset];
    members().any(|owner| {
        rules_of(owner).owns.iter().any(|&rule| {
            let targets: i32 = members()
                .flat_map(|batch| rules_of(batch).targets.iter())
                .filter(|&&(target, _)| target == rule)
                .map(|&(_, count)| count)
                .sum();
            targets > grouped.rules.host[rule].limit
        })
    })
}

fn open(unplaced: &mut RemainingDemand, batches: &[BatchId], node: usize, entry: &Entry) -> OpenedNode {
    let mut units = Vec::new();
    for (unit, &batch) in batches.iter().enumerate() {
        if node >> unit & 1 == 1 {
            units.extend_from_slice(unplaced.take(batch, 1));
        }
    }
    OpenedNode { shape: entry.shape, cell: entry.cell, price: entry.price, units, reserved: None }
}
