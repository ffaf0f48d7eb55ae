//! Bound by whole contents: values of pods such that no content of a node is worth more than the node.
//!
//! Resources that are treated as divisible prove little if nodes hold two or three pods. The values are those of the
//! programs over patterns, one for each part of the cells. They are proven here, for every shape: its content of most
//! value, by dynamic programming if its room has few units, else by prices at which no pod costs less than its value.

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, index_vec};

use crate::compile::{CPU, MEMORY, cells_in, fits};
use crate::pack::groups::Grouped;
use crate::pack::patterns::{self, EXACT, Part};
use crate::pack::relaxation::envelope::{self, Envelope, Valued};
use crate::pack::remaining_demand::{BatchId, KindId, RemainingDemand};
use crate::pack::shape_index::{Headroom, ShapeIndex};

/// Maximum number of cells of all dynamic programs; a shape beyond it is proven by prices.
const MOST_STEPS: usize = 600_000_000;

/// Returns the value of all units under `values`, by kind, once they are raised as far as contents allow and proven.
pub(super) fn bound(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    values: &IndexSlice<KindId, [f64]>,
) -> f64 {
    let headroom = Headroom::new(shape_index.compiled);
    let mut parts = patterns::parts(shape_index, grouped, unplaced, &headroom, values).unwrap_or_default();
    // Nothing but their number bounds pods without requests.
    let has_size = |&(batch, _): &(BatchId, f64)| {
        let sizes = &unplaced.kinds[unplaced.batches[batch].kind].sizes;
        sizes[CPU] > 0 || sizes[MEMORY] > 0
    };
    parts.iter_mut().for_each(|part| part.values.retain(has_size));
    let mut proof = Proof { shape_index, grouped, unplaced, steps: 0 };
    let mut rest = FixedBitSet::with_capacity(shape_index.compiled.cells.len());
    rest.insert_range(..);
    let mut most = 0.0_f64;
    for at in 0..parts.len() {
        let cells = parts[at].cells.clone();
        rest.difference_with(&cells);
        let mut here = proof.most(&parts, &cells);
        // Nodes here also hold pods of the parts before, whose values are given; what is worth too much with them is
        // lowered.
        for _ in 0..LOWERINGS {
            if at == 0 || here <= most.max(1.0) {
                break;
            }
            parts[at].values.iter_mut().for_each(|(_, value)| *value /= here);
            here = proof.most(&parts, &cells);
        }
        most = most.max(here);
    }
    most = most.max(proof.most(&parts, &rest));
    let worth = |&(batch, value): &(BatchId, f64)| value * unplaced.batches[batch].left() as f64;
    let total: f64 = parts.iter().flat_map(|part| &part.values).map(worth).sum();
    if most > 0.0 { total / most } else { 0.0 }
}

/// Maximum number of times that the values of a part are lowered.
const LOWERINGS: usize = 4;

struct Proof<'a> {
    shape_index: &'a ShapeIndex<'a>,
    grouped: &'a Grouped,
    unplaced: &'a RemainingDemand,
    steps: usize,
}

impl Proof<'_> {
    /// Returns a number that the value per dollar of no content exceeds in these cells.
    fn most(&mut self, parts: &[Part], cells: &FixedBitSet) -> f64 {
        let compiled = self.shape_index.compiled;
        let mut values = index_vec![0.0_f64; self.unplaced.kinds.len()];
        for &(batch, value) in parts.iter().flat_map(|part| &part.values) {
            let one = &self.unplaced.batches[batch];
            if !self.unplaced.masks[one.mask].is_disjoint(cells) {
                let known = &mut values[one.kind];
                *known = known.max(value);
            }
        }
        // Most value per dollar first: it spares the others most of their work.
        let mut most = 0.0_f64;
        let mut open: Vec<(f64, usize, f64)> = Vec::new();
        for &shape in self.shape_index.basic {
            let one = &compiled.shapes[shape];
            let price = cells_in(cells).map(|cell| one.price[cell]).fold(f64::INFINITY, f64::min);
            if price.is_finite() {
                let envelope = self.envelope(shape, &self.kinds(shape, &values), &values);
                open.push((envelope.most * (1.0 + 1e-12) / price, shape, price));
            }
        }
        open.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (ratio, shape, price) in open {
            if ratio <= most {
                break;
            }
            let kinds = self.kinds(shape, &values);
            most = most.max(self.content(shape, &kinds, &values, most.max(1.0) * price).min(ratio * price) / price);
        }
        most
    }

    /// Returns the kinds with a value that a shape can hold.
    fn kinds(&self, shape: usize, values: &IndexSlice<KindId, [f64]>) -> Vec<KindId> {
        values.indices().filter(|&kind| values[kind] > 0.0 && self.goes(kind, shape)).collect()
    }

    fn goes(&self, kind: KindId, shape: usize) -> bool {
        let one = &self.unplaced.kinds[kind];
        let compiled = self.shape_index.compiled;
        self.grouped.offered(compiled, one.signature).contains(shape) && fits(&one.sizes, &compiled.shapes[shape].room)
    }

    fn envelope(&self, shape: usize, kinds: &[KindId], values: &IndexSlice<KindId, [f64]>) -> Envelope {
        let room = &self.shape_index.compiled.shapes[shape].room;
        let units: Vec<Valued> = kinds.iter().map(|&kind| self.valued(kind, values)).collect();
        Envelope::of(room, &units)
    }

    fn valued(&self, kind: KindId, values: &IndexSlice<KindId, [f64]>) -> Valued {
        envelope::valued(&self.unplaced.kinds[kind].sizes, values[kind])
    }

    /// Returns `least` or, if that is more, a value that no content of a shape exceeds.
    fn content(&mut self, shape: usize, kinds: &[KindId], values: &IndexSlice<KindId, [f64]>, least: f64) -> f64 {
        let room = &self.shape_index.compiled.shapes[shape].room;
        let envelope = self.envelope(shape, kinds, values);
        // A content with another kind is worth less than `least`.
        let can_exceed = |kind: &KindId| envelope.loss(self.valued(*kind, values)) <= envelope.most - least;
        let kinds: Vec<KindId> = kinds.iter().copied().filter(can_exceed).collect();
        let (width, height) = (room[CPU].max(0) as usize + 1, room[MEMORY].max(0) as usize + 1);
        let steps = kinds.len() * width * height;
        if room[CPU] > EXACT || room[MEMORY] > EXACT || self.steps + steps > MOST_STEPS {
            return envelope.most.max(least);
        }
        self.steps += steps;
        let mut best = vec![0.0_f64; width * height];
        for kind in kinds {
            let sizes = &self.unplaced.kinds[kind].sizes;
            let (cpu, memory) = (sizes[CPU].max(0) as usize, sizes[MEMORY].max(0) as usize);
            take(&mut best, width, (cpu, memory), values[kind]);
        }
        // Sums of rounded numbers may be too low by their last digits.
        (best[width * height - 1] * (1.0 + 1e-12)).max(least)
    }
}

/// Tries any number of units of this size in all cells of a grid of cpu and memory.
fn take(best: &mut [f64], width: usize, (cpu, memory): (usize, usize), value: f64) {
    for row in memory..best.len() / width {
        let (below, from) = best.split_at_mut(row * width);
        if memory == 0 {
            for at in cpu..width {
                from[at] = from[at].max(from[at - cpu] + value);
            }
            continue;
        }
        let below = &below[(row - memory) * width..][..width - cpu];
        from[cpu..width].iter_mut().zip(below).for_each(|(best, below)| *best = best.max(below + value));
    }
}
