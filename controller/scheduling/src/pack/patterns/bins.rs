//! Copies of patterns as nodes: distributes batches to them under the rules, fills the remaining room, and moves each
//! to the cheapest shape for its content.

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexVec, index_vec};

use super::rows::Market;
use super::{Choice, Generation, Pattern};
use crate::compile::{CellId, fits};
use crate::pack::fill::{Content, FIRST, FillTarget, Filler, NEVER};
use crate::pack::item_blocks::{Classes, ItemBlocks};
use crate::pack::remaining_demand::{BatchId, KindId, RemainingDemand};
use crate::pack::shape_index::Headroom;

/// Minimum value of the content that the rules allow for a copy, as a share of its full value or its price, whichever
/// is lower, to be opened.
const COMPLETE: f64 = 0.97;

/// Opened node that may take more units.
pub(super) struct Bin {
    pub(super) shape: usize,
    pub(super) cell: CellId,
    pub(super) price: f64,
    content: Content,
    pub(super) units: Vec<u32>,
}

impl Generation<'_> {
    /// Opens whole copies of a choice, and if fractional copies prevail, those with the largest fractions.
    pub(super) fn deal(
        &self,
        unplaced: &mut RemainingDemand,
        headroom: &mut Headroom,
        choice: &Choice,
        bins: &mut Vec<Bin>,
    ) {
        let mut filler = Filler::new(&self.grouped.rules.host, unplaced);
        let is_dealt = |at: usize| !self.markets[self.patterns[at].market as usize].is_fluid;
        let mut used: Vec<(usize, f64)> = choice.used.iter().copied().filter(|&(at, _)| is_dealt(at)).collect();
        used.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let whole: f64 = used.iter().map(|(_, copies)| copies.floor()).sum();
        let parts: f64 = used.iter().map(|(_, copies)| copies.fract()).sum();
        for &(at, copies) in &used {
            self.open_copies(unplaced, headroom, &mut filler, (at, copies.floor() as usize, &choice.values), bins);
        }
        if whole > parts {
            return;
        }
        // Round up a third of the fractional copies, largest fractions first.
        used.sort_by(|a, b| b.1.fract().total_cmp(&a.1.fract()).then(a.0.cmp(&b.0)));
        let most = (parts / 3.0).ceil() as usize;
        for &(at, _) in used.iter().take(most) {
            self.open_copies(unplaced, headroom, &mut filler, (at, 1, &choice.values), bins);
        }
    }

    /// Opens copies of a pattern while the content that the rules allow is valuable enough.
    fn open_copies(
        &self,
        unplaced: &mut RemainingDemand,
        headroom: &mut Headroom,
        filler: &mut Filler<'_>,
        (at, times, values): (usize, usize, &[f64]),
        bins: &mut Vec<Bin>,
    ) {
        let pattern = &self.patterns[at];
        let market = &self.markets[pattern.market as usize];
        let compiled = self.shape_index.compiled;
        for _ in 0..times {
            if !headroom.allows(compiled, market.shape) {
                return;
            }
            let Some((cell, content)) = self.gather(unplaced, filler, pattern, market) else { return };
            let worth: f64 = pattern.content.iter().map(|&(row, count)| values[row as usize] * f64::from(count)).sum();
            if self.value_of(&content, pattern, values) < COMPLETE * worth.min(market.price) {
                return;
            }
            headroom.spend(compiled, market.shape, 1);
            let units = unplaced.take_all(&content);
            bins.push(Bin { shape: market.shape, cell, price: market.price, content, units });
        }
    }

    /// Returns the value of `content`, counting only batches of the rows of a pattern.
    fn value_of(&self, content: &Content, pattern: &Pattern, values: &[f64]) -> f64 {
        let value = |&(batch, count): &(BatchId, u32)| {
            let row = self.row_of_batch[batch];
            let is_held = pattern.content.iter().any(|&(held, _)| held == row);
            if is_held { values[row as usize] * f64::from(count) } else { 0.0 }
        };
        content.iter().map(value).sum()
    }

    /// Returns batches for a copy of a pattern, and their cell: the cell of its market with the most waiting units, or
    /// the next one if rules or other cells leave too few there.
    fn gather(
        &self,
        unplaced: &RemainingDemand,
        filler: &mut Filler<'_>,
        pattern: &Pattern,
        market: &Market,
    ) -> Option<(CellId, Content)> {
        let waiting = |cell: CellId| {
            let batches = pattern.content.iter().flat_map(|&(row, _)| &self.rows[row as usize].batches);
            let batches = batches.map(|&batch| &unplaced.batches[batch]);
            let here = batches.filter(|batch| unplaced.masks[batch.mask].contains(cell.index()));
            here.map(|batch| batch.left() as f64 / unplaced.cells_of[batch.mask].len() as f64).sum::<f64>()
        };
        let mut cells: Vec<(f64, CellId)> = match *market.cells {
            [cell] => vec![(0.0, cell)],
            _ => market.cells.iter().map(|&cell| (waiting(cell), cell)).collect(),
        };
        cells.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let wanted: u32 = pattern.content.iter().map(|&(_, count)| count).sum();
        let mut best: Option<(u32, CellId, Content)> = None;
        for (_, cell) in cells {
            let goes = |batch: &BatchId| {
                let one = &unplaced.batches[*batch];
                let signature = unplaced.kinds[one.kind].signature;
                let is_admitted = self.grouped.admits[signature][cell].contains(market.shape);
                one.left() > 0 && is_admitted && unplaced.masks[one.mask].contains(cell.index())
            };
            let of_row = |row: u32| self.rows[row as usize].batches.iter().copied().filter(goes);
            let batches: Vec<(Vec<BatchId>, u32)> =
                pattern.content.iter().map(|&(row, count)| (of_row(row).collect(), count)).collect();
            let content = filler.gather(unplaced, batches.iter().map(|(batches, count)| (&batches[..], *count)));
            let found: u32 = content.iter().map(|&(_, count)| count).sum();
            if best.as_ref().is_none_or(|(most, ..)| found > *most) {
                best = Some((found, cell, content));
            }
            if found == wanted {
                break;
            }
        }
        best.filter(|&(found, ..)| found > 0).map(|(_, cell, content)| (cell, content))
    }

    /// Fills the remaining room of the bins, one after the other.
    pub(super) fn fill_up(&self, unplaced: &mut RemainingDemand, bins: &mut [Bin]) {
        let compiled = self.shape_index.compiled;
        let width = compiled.columns.width();
        let weights = vec![1.0; width];
        let mut filler = Filler::new(&self.grouped.rules.host, unplaced);
        let classes = Classes::new(unplaced, |kind| unplaced.kinds[kind].signature);
        let mut blocks_of_cells: IndexVec<CellId, Option<ItemBlocks>> = index_vec![None; compiled.cells.len()];
        for bin in bins {
            if unplaced.left == 0 {
                break;
            }
            let mut room = compiled.shapes[bin.shape].room.clone();
            for &(batch, count) in &bin.content {
                let sizes = &unplaced.kinds[unplaced.batches[batch].kind].sizes;
                room.iter_mut().zip(&**sizes).for_each(|(room, &size)| *room -= size * count as i32);
            }
            let waits = |kind: &KindId| unplaced.left_of_kind[*kind] > 0 && fits(&unplaced.kinds[*kind].sizes, &room);
            if !unplaced.kinds.indices().any(|kind| waits(&kind)) {
                continue;
            }
            for &(batch, count) in &bin.content {
                let rules = &unplaced.rulesets[unplaced.batches[batch].ruleset];
                (0..count).for_each(|_| filler.preload(&rules.owns, &rules.targets));
            }
            let stage = |&kind: &KindId| {
                let signature = unplaced.kinds[kind].signature;
                let admitted: &FixedBitSet = &self.grouped.admits[signature][bin.cell];
                if admitted.contains(bin.shape) { FIRST } else { NEVER }
            };
            let stages: Vec<u8> = classes.example.iter().map(stage).collect();
            let target = FillTarget { room: &room, weights: &weights, cell: bin.cell, stages: &stages, critical: &[] };
            let item_blocks =
                blocks_of_cells[bin.cell].get_or_insert_with(|| ItemBlocks::new(unplaced, &classes, bin.cell, width));
            let content = filler.fill(unplaced, &target, item_blocks);
            bin.units.extend(unplaced.take_all(&content));
            bin.content.extend(content);
        }
    }

    /// Moves a bin to the cheapest market of the same pool weight that holds its content. Rows ignore most rules of
    /// their batches, so these may have excluded the very units that the shape and cell were chosen for.
    pub(super) fn move_down(&self, unplaced: &RemainingDemand, headroom: &mut Headroom, bin: &mut Bin) {
        let (shape_index, compiled) = (self.shape_index, self.shape_index.compiled);
        let mut sizes = vec![0_i32; compiled.columns.width()];
        for &(batch, count) in &bin.content {
            let kind = &unplaced.kinds[unplaced.batches[batch].kind];
            sizes.iter_mut().zip(&*kind.sizes).for_each(|(sum, &size)| *sum += size * count as i32);
        }
        let goes = |shape: usize, cell: CellId| {
            bin.content.iter().all(|&(batch, _)| {
                let one = &unplaced.batches[batch];
                let signature = unplaced.kinds[one.kind].signature;
                unplaced.masks[one.mask].contains(cell.index()) && self.grouped.admits[signature][cell].contains(shape)
            })
        };
        headroom.refund(compiled, bin.shape);
        let weight = shape_index.weight_of(bin.shape);
        let holds = |market: &&Market| {
            market.price < bin.price
                && shape_index.weight_of(market.shape) == weight
                && headroom.allows(compiled, market.shape)
                && fits(&sizes, &compiled.shapes[market.shape].room)
        };
        let cell_of = |market: &Market| market.cells.iter().copied().find(|&cell| goes(market.shape, cell));
        let found = self.markets.iter().filter(holds).filter_map(|market| Some((market, cell_of(market)?)));
        if let Some((market, cell)) = found.min_by(|a, b| a.0.price.total_cmp(&b.0.price)) {
            (bin.shape, bin.cell, bin.price) = (market.shape, cell, market.price);
        }
        headroom.spend(compiled, bin.shape, 1);
    }
}
