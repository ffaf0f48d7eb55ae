//! Fills one node, repeatedly choosing the kind that keeps the remaining room balanced across resources.
//!
//! The gain of a pod is `Σ_r w_r (2·room_r·size_r − size_r²) / capacity_r²`, the decrease of the squared norm of the
//! room: large pods go first, and pods that need a scarce resource become expensive. Small pods go last and fill the
//! gaps.

use index_vec::{IndexSlice, IndexVec, index_vec};

use crate::compile::{CellId, HostRule, HostRuleId, fits};

use super::item_blocks::{ItemBlocks, LANES};
use super::remaining_demand::{BatchId, KindId, RemainingDemand};
use super::rulesets::Bars;

/// Node to fill, and the constraints on its content.
pub(crate) struct FillTarget<'a> {
    pub(crate) room: &'a [i32],
    /// Weight of each column.
    pub(crate) weights: &'a [f32],
    pub(crate) cell: CellId,
    /// Stage of each class of kinds: one of [`FIRST`], [`LATER`], [`TOPS_UP`] and [`NEVER`].
    pub(crate) stages: &'a [u8],
    /// For each host rule of which an owner is placed first if one fits: its batches, most valuable first, with their
    /// classes.
    pub(crate) critical: &'a [Vec<(BatchId, u16)>],
}

/// Stage of kinds for which the node is opened.
pub(crate) const FIRST: u8 = 0;
/// Stage of kinds for which the node may be opened, but other nodes suit better.
pub(crate) const LATER: u8 = 1;
/// Stage of kinds for which the node must not be opened, but which may use its remaining room.
pub(crate) const TOPS_UP: u8 = 2;
/// Stage of kinds that are not allowed on the node.
pub(crate) const NEVER: u8 = u8::MAX;

/// Content of a node, as (batch, number of units).
pub(crate) type Content = Vec<(BatchId, u32)>;

/// Fills nodes, reusing its buffers.
pub(crate) struct Filler<'a> {
    bars: Bars<'a>,
    room: Vec<i32>,
    /// Weight divided by squared capacity, by column.
    scale: Vec<f32>,
    /// Bit set, by block, of the lanes that may still be placed.
    alive: Vec<u16>,
    /// Upper bound on the gain of a kind, by block.
    bounds: Vec<f32>,
    cursor: IndexVec<KindId, u32>,
    touched_kinds: Vec<KindId>,
    used: IndexVec<BatchId, u32>,
    used_lots: Vec<BatchId>,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(rules: &'a IndexSlice<HostRuleId, [HostRule]>, unplaced: &RemainingDemand) -> Self {
        Self {
            bars: Bars::new(rules, &unplaced.rulesets),
            room: Vec::new(),
            scale: Vec::new(),
            alive: Vec::new(),
            bounds: Vec::new(),
            cursor: index_vec![0; unplaced.kinds.len()],
            touched_kinds: Vec::new(),
            used: index_vec![0; unplaced.batches.len()],
            used_lots: Vec::new(),
        }
    }

    /// Counts a pod that is already on the node.
    pub(crate) fn preload(&mut self, owns: &[HostRuleId], targets: &[(HostRuleId, i32)]) {
        self.bars.add(owns, targets);
    }

    /// Returns content for `target` from `unplaced`, which is not changed. Kinds that are used up are removed from
    /// `item_blocks`.
    pub(crate) fn fill(
        &mut self,
        unplaced: &RemainingDemand,
        target: &FillTarget<'_>,
        item_blocks: &mut ItemBlocks,
    ) -> Content {
        self.room.clear();
        self.room.extend_from_slice(target.room);
        self.scale.clear();
        self.scale.extend(target.room.iter().zip(target.weights).map(|(&room, weight)| {
            let room = room.max(1) as f32;
            weight / (room * room)
        }));
        self.alive.clone_from(&item_blocks.live);
        for batches in target.critical {
            self.place_owner(unplaced, target, batches);
        }
        for stage in [FIRST, LATER, TOPS_UP] {
            let tops_nothing_up = stage == TOPS_UP && self.used_lots.is_empty();
            if !tops_nothing_up && item_blocks.class.iter().any(|&class| target.stages[usize::from(class)] == stage) {
                self.place_stage(unplaced, target, item_blocks, stage);
            }
        }
        let content = self.used_lots.iter().map(|&batch| (batch, self.used[batch])).collect();
        self.reset();
        content
    }

    /// Returns batches for the given number of units of each kind, together on one node in `cell`; `None` if there are
    /// not enough or rules forbid it. The caller checks the room.
    pub(crate) fn exactly(
        &mut self,
        unplaced: &RemainingDemand,
        cell: CellId,
        kinds: &[(KindId, u32)],
    ) -> Option<Content> {
        self.room.clear();
        let mut wanted = kinds.iter().flat_map(|&(kind, count)| std::iter::repeat_n(kind, count as usize));
        let complete = wanted.all(|kind| {
            let batch = self.next_batch(unplaced, cell, kind);
            batch.map(|batch| self.place(unplaced, batch)).is_some()
        });
        let content = self.used_lots.iter().map(|&batch| (batch, self.used[batch])).collect();
        self.reset();
        complete.then_some(content)
    }

    /// Returns as many units as rules allow on one node. Each entry of `wanted` is a list of batches and the maximum
    /// number of units to take from them. The caller checks the room.
    pub(crate) fn gather<'l>(
        &mut self,
        unplaced: &RemainingDemand,
        wanted: impl Iterator<Item = (&'l [BatchId], u32)>,
    ) -> Content {
        self.room.clear();
        for (batches, count) in wanted {
            let mut left = count;
            for &batch in batches {
                while left > 0 && self.available(unplaced, batch) {
                    self.place(unplaced, batch);
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
        }
        let content = self.used_lots.iter().map(|&batch| (batch, self.used[batch])).collect();
        self.reset();
        content
    }

    fn reset(&mut self) {
        self.bars.reset();
        for batch in self.used_lots.drain(..) {
            self.used[batch] = 0;
        }
        for kind in self.touched_kinds.drain(..) {
            self.cursor[kind] = 0;
        }
    }

    /// Places a unit of the first batch that fits, of the owners of a critical rule.
    fn place_owner(&mut self, unplaced: &RemainingDemand, target: &FillTarget<'_>, batches: &[(BatchId, u16)]) {
        let found = batches.iter().find(|&&(batch, class)| {
            let kind = unplaced.batches[batch].kind;
            target.stages[usize::from(class)] < TOPS_UP
                && fits(&unplaced.kinds[kind].sizes, &self.room)
                && self.available(unplaced, batch)
        });
        if let Some(&(batch, _)) = found {
            self.place(unplaced, batch);
        }
    }

    fn available(&self, unplaced: &RemainingDemand, batch: BatchId) -> bool {
        let one = &unplaced.batches[batch];
        one.left() > self.used[batch] as usize && !self.bars.bar(one.ruleset)
    }

    fn place(&mut self, unplaced: &RemainingDemand, batch: BatchId) {
        let one = &unplaced.batches[batch];
        let kind = &unplaced.kinds[one.kind];
        self.room.iter_mut().zip(&*kind.sizes).for_each(|(room, &size)| *room -= size);
        self.bars.place(one.ruleset);
        if self.used[batch] == 0 {
            self.used_lots.push(batch);
        }
        self.used[batch] += 1;
    }

    fn place_stage(
        &mut self,
        unplaced: &RemainingDemand,
        target: &FillTarget<'_>,
        item_blocks: &mut ItemBlocks,
        stage: u8,
    ) {
        while let Some((block, lane)) = self.best(target, item_blocks, stage) {
            let kind = item_blocks.kinds[block][lane];
            match self.next_batch(unplaced, target.cell, kind) {
                Some(batch) => self.place(unplaced, batch),
                None => {
                    self.alive[block] &= !(1 << lane);
                    let none_left = |&batch: &BatchId| unplaced.batches[batch].left() == 0;
                    if unplaced.batches_at(target.cell, kind).iter().all(none_left) {
                        item_blocks.live[block] &= !(1 << lane);
                    }
                }
            }
        }
    }

    /// Returns block and lane of the fitting kind with the largest gain, the first of equals.
    fn best(&mut self, target: &FillTarget<'_>, item_blocks: &ItemBlocks, stage: u8) -> Option<(usize, usize)> {
        let blocks = item_blocks.blocks();
        self.bounds.clear();
        self.bounds.extend(item_blocks.class.iter().zip(&self.alive).map(|(&class, &alive)| {
            if target.stages[usize::from(class)] == stage && alive != 0 { 0.0 } else { f32::NEG_INFINITY }
        }));
        for (column, (&scale, &room)) in self.scale.iter().zip(&self.room).enumerate() {
            let room = room.max(0);
            let float = room as f32;
            let least = &item_blocks.least[column * blocks..][..blocks];
            let most = &item_blocks.most[column * blocks..][..blocks];
            for ((bound, &least), &most) in self.bounds.iter_mut().zip(least).zip(most) {
                let size = if most < float { most } else { float };
                let gain = *bound + scale * size * (2.0 * float - size);
                *bound = if least <= room { gain } else { f32::NEG_INFINITY };
            }
        }
        let mut first = None;
        let mut highest = f32::NEG_INFINITY;
        for (block, &bound) in self.bounds.iter().enumerate() {
            if bound > highest {
                highest = bound;
                first = Some(block);
            }
        }
        let first = first?;
        let mut best = self.best_of(item_blocks, first);
        for block in 0..blocks {
            let bound = self.bounds[block];
            if block == first || bound == f32::NEG_INFINITY || best.is_some_and(|(gain, ..)| bound <= gain) {
                continue;
            }
            if let Some(found) = self.best_of(item_blocks, block)
                && best.is_none_or(|(gain, ..)| found.0 > gain)
            {
                best = Some(found);
            }
        }
        best.map(|(_, block, lane)| (block, lane))
    }

    fn best_of(&self, item_blocks: &ItemBlocks, block: usize) -> Option<(f32, usize, usize)> {
        let mut gains = [0.0_f32; LANES];
        let sizes = &item_blocks.sizes[block * item_blocks.width..][..item_blocks.width];
        let floats = &item_blocks.floats[block * item_blocks.width..][..item_blocks.width];
        for ((sizes, floats), (&scale, &room)) in sizes.iter().zip(floats).zip(self.scale.iter().zip(&self.room)) {
            let room = room.max(0);
            let double = 2.0 * room as f32;
            for ((gain, &size), &float) in gains.iter_mut().zip(sizes).zip(floats) {
                let more = *gain + scale * float * (double - float);
                *gain = if size <= room { more } else { f32::NEG_INFINITY };
            }
        }
        let alive = self.alive[block];
        let mut best = None;
        let mut most = f32::NEG_INFINITY;
        for (lane, &gain) in gains.iter().enumerate() {
            if gain > most && alive >> lane & 1 == 1 {
                most = gain;
                best = Some((gain, block, lane));
            }
        }
        best
    }

    /// Returns the next batch of `kind` that has units left and that no rule bars.
    fn next_batch(&mut self, unplaced: &RemainingDemand, cell: CellId, kind: KindId) -> Option<BatchId> {
        let batches = unplaced.batches_at(cell, kind);
        let mut cursor = self.cursor[kind];
        if cursor == 0 {
            self.touched_kinds.push(kind);
        }
        let found = loop {
            match batches.get(cursor as usize) {
                Some(&batch) if self.available(unplaced, batch) => break Some(batch),
                Some(_) => cursor += 1,
                None => break None,
            }
        };
        self.cursor[kind] = cursor;
        found
    }
}
