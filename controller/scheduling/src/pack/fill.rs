//! Fills one node, repeatedly choosing the kind that keeps the remaining room balanced across resources.
//!
//! The gain of a pod is `Σ_r w_r (2·room_r·size_r − size_r²) / capacity_r²`, the decrease of the squared norm of the
//! room: large pods go first, and pods that need a scarce resource become expensive. Small pods go last and fill the
//! gaps.

use crate::compile::{HostRule, fits};

use super::item_blocks::{ItemBlocks, LANES};
use super::rulesets::Bars;
use super::stock::Stock;

/// Node to fill, and the constraints on its content.
pub(crate) struct Site<'a> {
    pub(crate) room: &'a [i32],
    /// Weight of each column.
    pub(crate) weights: &'a [f32],
    pub(crate) cell: usize,
    /// Stage of each class of kinds: one of [`FIRST`], [`LATER`], [`TOPS_UP`] and [`NEVER`].
    pub(crate) stages: &'a [u8],
    /// For each host rule of which an owner is placed first if one fits: its lots, most valuable first, with their
    /// classes.
    pub(crate) critical: &'a [Vec<(u32, u16)>],
}

/// Stage of kinds for which the node is opened.
pub(crate) const FIRST: u8 = 0;
/// Stage of kinds for which the node may be opened, but other nodes suit better.
pub(crate) const LATER: u8 = 1;
/// Stage of kinds for which the node must not be opened, but which may use its remaining room.
pub(crate) const TOPS_UP: u8 = 2;
/// Stage of kinds that are not allowed on the node.
pub(crate) const NEVER: u8 = u8::MAX;

/// Content of a node, as (lot, number of units).
pub(crate) type Content = Vec<(u32, u32)>;

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
    cursor: Vec<u32>,
    touched_kinds: Vec<u32>,
    used: Vec<u32>,
    used_lots: Vec<u32>,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(rules: &'a [HostRule], stock: &Stock) -> Self {
        Self {
            bars: Bars::new(rules, &stock.rulesets),
            room: Vec::new(),
            scale: Vec::new(),
            alive: Vec::new(),
            bounds: Vec::new(),
            cursor: vec![0; stock.kinds.len()],
            touched_kinds: Vec::new(),
            used: vec![0; stock.lots.len()],
            used_lots: Vec::new(),
        }
    }

    /// Counts a pod that is already on the node.
    pub(crate) fn preload(&mut self, owns: &[u32], targets: &[(u32, i32)]) {
        self.bars.add(owns, targets);
    }

    /// Returns content for `site` from `stock`, which is not changed. Kinds that are used up are removed from `shelf`.
    pub(crate) fn fill(&mut self, stock: &Stock, site: &Site<'_>, shelf: &mut ItemBlocks) -> Content {
        self.room.clear();
        self.room.extend_from_slice(site.room);
        self.scale.clear();
        self.scale.extend(site.room.iter().zip(site.weights).map(|(&room, weight)| {
            let room = room.max(1) as f32;
            weight / (room * room)
        }));
        self.alive.clone_from(&shelf.live);
        for lots in site.critical {
            self.place_owner(stock, site, lots);
        }
        for stage in [FIRST, LATER, TOPS_UP] {
            let tops_nothing_up = stage == TOPS_UP && self.used_lots.is_empty();
            if !tops_nothing_up && shelf.class.iter().any(|&class| site.stages[usize::from(class)] == stage) {
                self.place_stage(stock, site, shelf, stage);
            }
        }
        let content = self.used_lots.iter().map(|&lot| (lot, self.used[lot as usize])).collect();
        self.reset();
        content
    }

    /// Returns lots for the given number of units of each kind, together on one node in `cell`; `None` if there are not
    /// enough or rules forbid it. The caller checks the room.
    pub(crate) fn exactly(&mut self, stock: &Stock, cell: usize, kinds: &[(u32, u32)]) -> Option<Content> {
        self.room.clear();
        let mut wanted = kinds.iter().flat_map(|&(kind, count)| std::iter::repeat_n(kind, count as usize));
        let complete = wanted.all(|kind| {
            let lot = self.next_lot(stock, cell, kind);
            lot.map(|lot| self.place(stock, lot)).is_some()
        });
        let content = self.used_lots.iter().map(|&lot| (lot, self.used[lot as usize])).collect();
        self.reset();
        complete.then_some(content)
    }

    /// Returns as many units as rules allow on one node. Each entry of `wanted` is a list of lots and the maximum
    /// number of units to take from them. The caller checks the room.
    pub(crate) fn gather<'l>(&mut self, stock: &Stock, wanted: impl Iterator<Item = (&'l [u32], u32)>) -> Content {
        self.room.clear();
        for (lots, count) in wanted {
            let mut left = count;
            for &lot in lots {
                while left > 0 && self.available(stock, lot) {
                    self.place(stock, lot);
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
        }
        let content = self.used_lots.iter().map(|&lot| (lot, self.used[lot as usize])).collect();
        self.reset();
        content
    }

    fn reset(&mut self) {
        self.bars.reset();
        for lot in self.used_lots.drain(..) {
            self.used[lot as usize] = 0;
        }
        for kind in self.touched_kinds.drain(..) {
            self.cursor[kind as usize] = 0;
        }
    }

    /// Places a unit of the first lot that fits, of the owners of a critical rule.
    fn place_owner(&mut self, stock: &Stock, site: &Site<'_>, lots: &[(u32, u16)]) {
        let found = lots.iter().find(|&&(lot, class)| {
            let kind = stock.lots[lot as usize].kind as usize;
            site.stages[usize::from(class)] < TOPS_UP
                && fits(&stock.kinds[kind].sizes, &self.room)
                && self.available(stock, lot)
        });
        if let Some(&(lot, _)) = found {
            self.place(stock, lot);
        }
    }

    fn available(&self, stock: &Stock, lot: u32) -> bool {
        let one = &stock.lots[lot as usize];
        one.left() > self.used[lot as usize] as usize && !self.bars.bar(one.ruleset)
    }

    fn place(&mut self, stock: &Stock, lot: u32) {
        let one = &stock.lots[lot as usize];
        let kind = &stock.kinds[one.kind as usize];
        self.room.iter_mut().zip(&*kind.sizes).for_each(|(room, &size)| *room -= size);
        self.bars.place(one.ruleset);
        if self.used[lot as usize] == 0 {
            self.used_lots.push(lot);
        }
        self.used[lot as usize] += 1;
    }

    fn place_stage(&mut self, stock: &Stock, site: &Site<'_>, shelf: &mut ItemBlocks, stage: u8) {
        while let Some((block, lane)) = self.best(site, shelf, stage) {
            let kind = shelf.kinds[block][lane];
            match self.next_lot(stock, site.cell, kind) {
                Some(lot) => self.place(stock, lot),
                None => {
                    self.alive[block] &= !(1 << lane);
                    let none_left = |&lot: &u32| stock.lots[lot as usize].left() == 0;
                    if stock.lots_at(site.cell, kind).iter().all(none_left) {
                        shelf.live[block] &= !(1 << lane);
                    }
                }
            }
        }
    }

    /// Returns block and lane of the fitting kind with the largest gain, the first of equals.
    fn best(&mut self, site: &Site<'_>, shelf: &ItemBlocks, stage: u8) -> Option<(usize, usize)> {
        let blocks = shelf.blocks();
        self.bounds.clear();
        self.bounds.extend(shelf.class.iter().zip(&self.alive).map(|(&class, &alive)| {
            if site.stages[usize::from(class)] == stage && alive != 0 { 0.0 } else { f32::NEG_INFINITY }
        }));
        for (column, (&scale, &room)) in self.scale.iter().zip(&self.room).enumerate() {
            let room = room.max(0);
            let float = room as f32;
            let least = &shelf.least[column * blocks..][..blocks];
            let most = &shelf.most[column * blocks..][..blocks];
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
        let mut best = self.best_of(shelf, first);
        for block in 0..blocks {
            let bound = self.bounds[block];
            if block == first || bound == f32::NEG_INFINITY || best.is_some_and(|(gain, ..)| bound <= gain) {
                continue;
            }
            if let Some(found) = self.best_of(shelf, block)
                && best.is_none_or(|(gain, ..)| found.0 > gain)
            {
                best = Some(found);
            }
        }
        best.map(|(_, block, lane)| (block, lane))
    }

    fn best_of(&self, shelf: &ItemBlocks, block: usize) -> Option<(f32, usize, usize)> {
        let mut gains = [0.0_f32; LANES];
        let sizes = &shelf.sizes[block * shelf.width..][..shelf.width];
        let floats = &shelf.floats[block * shelf.width..][..shelf.width];
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

    /// Returns the next lot of `kind` that has units left and that no rule bars.
    fn next_lot(&mut self, stock: &Stock, cell: usize, kind: u32) -> Option<u32> {
        let lots = stock.lots_at(cell, kind);
        let mut cursor = self.cursor[kind as usize];
        if cursor == 0 {
            self.touched_kinds.push(kind);
        }
        let found = loop {
            match lots.get(cursor as usize) {
                Some(&lot) if self.available(stock, lot) => break Some(lot),
                Some(_) => cursor += 1,
                None => break None,
            }
        };
        self.cursor[kind as usize] = cursor;
        found
    }
}
