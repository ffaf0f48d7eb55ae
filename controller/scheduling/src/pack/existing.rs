//! Fills existing nodes in order, taking account of the rules of their bound pods.

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec, index_vec};

use super::existing_nodes::ExistingNode;
use super::fill::{FIRST, FillTarget, Filler, NEVER};
use super::groups::Grouped;
use super::item_blocks::{Classes, ItemBlocks};
use super::remaining_demand::{KindId, RemainingDemand};
use crate::compile::{CellId, Compiled, SignatureId};

/// Fills the existing nodes. Returns the units placed on each, by position in `standing`.
pub(crate) fn fill(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    unplaced: &mut RemainingDemand,
    standing: &mut [ExistingNode],
    standing_admits: &IndexSlice<SignatureId, [FixedBitSet]>,
) -> Vec<Vec<u32>> {
    let mut placed: Vec<Vec<u32>> = vec![Vec::new(); standing.len()];
    let mut filler = Filler::new(&grouped.rules.host, unplaced);
    let width = compiled.columns.width();
    let weights = vec![1.0; width];
    let classes = Classes::new(unplaced, |kind| unplaced.kinds[kind].signature);
    let mut blocks_of_cells: IndexVec<CellId, Option<ItemBlocks>> = index_vec![None; compiled.cells.len()];
    for (position, one) in standing.iter_mut().enumerate() {
        if unplaced.left == 0 {
            break;
        }
        let node = &compiled.problem.nodes[one.node];
        for bound in &node.bound {
            let (owns, targets) = grouped.bound_on_host(bound);
            filler.preload(&owns, &targets);
        }
        let admitted = |&kind: &KindId| {
            let signature = unplaced.kinds[kind].signature;
            let parts = &grouped.signature_parts[signature];
            let admitted = parts.iter().all(|&part| standing_admits[part].contains(position));
            admitted && grouped.confines(signature, one.node)
        };
        let stages: Vec<u8> = classes.example.iter().map(|kind| if admitted(kind) { FIRST } else { NEVER }).collect();
        let target = FillTarget { room: &one.room, weights: &weights, cell: one.cell, stages: &stages, critical: &[] };
        let item_blocks =
            blocks_of_cells[one.cell].get_or_insert_with(|| ItemBlocks::new(unplaced, &classes, one.cell, width));
        let content = filler.fill(unplaced, &target, item_blocks);
        for (batch, count) in content {
            let kind = unplaced.batches[batch].kind;
            for (room, &size) in one.room.iter_mut().zip(&*unplaced.kinds[kind].sizes) {
                *room -= size * count as i32;
            }
            placed[position].extend_from_slice(unplaced.take(batch, count as usize));
        }
    }
    placed
}
