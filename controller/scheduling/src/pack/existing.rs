//! Fills existing nodes in order, taking account of the rules of their bound pods.

use fixedbitset::FixedBitSet;

use super::fill::{FIRST, Filler, NEVER, Site};
use super::groups::Grouped;
use super::item_blocks::{Classes, ItemBlocks};
use super::stock::Stock;
use super::terrain::ExistingNode;
use crate::compile::Compiled;

/// Fills the existing nodes. Returns the units placed on each, by position in `standing`.
pub(crate) fn fill(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    stock: &mut Stock,
    standing: &mut [ExistingNode],
    standing_admits: &[FixedBitSet],
) -> Vec<Vec<u32>> {
    let mut placed: Vec<Vec<u32>> = vec![Vec::new(); standing.len()];
    let mut filler = Filler::new(&grouped.rules.host, stock);
    let width = compiled.columns.width();
    let weights = vec![1.0; width];
    let classes = Classes::new(stock, |kind| stock.kinds[kind as usize].signature);
    let mut shelves: Vec<Option<ItemBlocks>> = vec![None; compiled.cells.len()];
    for (position, one) in standing.iter_mut().enumerate() {
        if stock.left == 0 {
            break;
        }
        let node = &compiled.problem.nodes[one.node];
        for bound in &node.bound {
            let (owns, targets) = grouped.bound_on_host(bound);
            filler.preload(&owns, &targets);
        }
        let admitted = |&kind: &u32| {
            let signature = stock.kinds[kind as usize].signature;
            let parts = &grouped.signature_parts[signature as usize];
            let admitted = parts.iter().all(|&part| standing_admits[part as usize].contains(position));
            admitted && grouped.confines(signature, one.node)
        };
        let stages: Vec<u8> = classes.example.iter().map(|kind| if admitted(kind) { FIRST } else { NEVER }).collect();
        let site = Site { room: &one.room, weights: &weights, cell: one.cell, stages: &stages, critical: &[] };
        let shelf = shelves[one.cell].get_or_insert_with(|| ItemBlocks::new(stock, &classes, one.cell, width));
        let content = filler.fill(stock, &site, shelf);
        for (lot, count) in content {
            let kind = stock.lots[lot as usize].kind as usize;
            for (room, &size) in one.room.iter_mut().zip(&*stock.kinds[kind].sizes) {
                *room -= size * count as i32;
            }
            placed[position].extend_from_slice(stock.take(lot, count as usize));
        }
    }
    placed
}
