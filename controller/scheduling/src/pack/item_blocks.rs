//! Kinds arranged for filling: in blocks of similar sizes, most of which a fill skips after checking only the block.
//!
//! The gain of a pod grows with each of its sizes as long as it fits, so the gain of a block's largest sizes, capped at
//! the remaining room, is an upper bound for every kind in it.

use index_vec::{IndexVec, index_vec};

use super::remaining_demand::{KindId, RemainingDemand};
use crate::compile::CellId;

/// Number of kinds in a block.
pub(crate) const LANES: usize = 16;

/// Order of the kinds of the blocks, and the class of each. Kinds of a class may use the same shapes and open nodes of
/// the same pools.
#[derive(Debug, Clone)]
pub(crate) struct Classes {
    /// Class by kind.
    pub(crate) of: IndexVec<KindId, u16>,
    /// Example kind of each class.
    pub(crate) example: Vec<KindId>,
    /// All kinds, ordered by class, those of similar size adjacent.
    pub(crate) order: Vec<KindId>,
}

impl Classes {
    /// Classifies the kinds of `unplaced` by `key`.
    pub(crate) fn new<K: Ord>(unplaced: &RemainingDemand, key: impl Fn(KindId) -> K) -> Self {
        let mut order: Vec<KindId> = unplaced.kinds.indices().collect();
        order.sort_by(|&a, &b| key(a).cmp(&key(b)).then(a.cmp(&b)));
        let mut of = index_vec![0; order.len()];
        let mut example: Vec<KindId> = Vec::new();
        let mut starts = Vec::new();
        for (at, &kind) in order.iter().enumerate() {
            let new = example.last().is_none_or(|&last| key(last) != key(kind));
            // More classes do not occur in practice; they would share the last number.
            if new && example.len() < usize::from(u16::MAX) {
                example.push(kind);
                starts.push(at);
            }
            of[kind] = (example.len() - 1) as u16;
        }
        starts.push(order.len());
        for range in starts.windows(2) {
            neighbours(unplaced, &mut order[range[0]..range[1]]);
        }
        Self { of, example, order }
    }
}

/// Orders kinds such that runs of [`LANES`] have similar sizes, by repeated halving along the column that varies most.
fn neighbours(unplaced: &RemainingDemand, kinds: &mut [KindId]) {
    if kinds.len() <= LANES {
        return;
    }
    let size = |kind: KindId, column: usize| unplaced.kinds[kind].sizes[column];
    let width = unplaced.kinds[kinds[0]].sizes.len();
    let spread = |column: usize| {
        let sizes = kinds.iter().map(|&kind| size(kind, column));
        let (least, most) = sizes.fold((i32::MAX, 0), |(least, most), size| (least.min(size), most.max(size)));
        f64::from(most) / f64::from(least.max(1))
    };
    let spreads: Vec<f64> = (0..width).map(spread).collect();
    let widest = (0..width).fold(0, |best, column| if spreads[column] > spreads[best] { column } else { best });
    let middle = (kinds.len() / 2).next_multiple_of(LANES).min(kinds.len() - 1);
    kinds.select_nth_unstable_by_key(middle, |&kind| (size(kind, widest), kind));
    let (small, large) = kinds.split_at_mut(middle);
    neighbours(unplaced, small);
    neighbours(unplaced, large);
}

/// Kinds with batches in one cell, arranged for filling.
#[derive(Debug, Clone)]
pub(crate) struct ItemBlocks {
    pub(crate) width: usize,
    pub(crate) kinds: Vec<[KindId; LANES]>,
    /// Sizes by block and column.
    pub(crate) sizes: Vec<[i32; LANES]>,
    pub(crate) floats: Vec<[f32; LANES]>,
    /// Smallest size by column and block; `most` is the largest.
    pub(crate) least: Vec<i32>,
    pub(crate) most: Vec<f32>,
    /// Class by block.
    pub(crate) class: Vec<u16>,
    /// Bit set, by block, of the lanes whose kinds may have units left.
    pub(crate) live: Vec<u16>,
}

impl ItemBlocks {
    /// Creates blocks of the kinds that have batches in `cell`.
    pub(crate) fn new(unplaced: &RemainingDemand, classes: &Classes, cell: CellId, width: usize) -> Self {
        let mut item_blocks = Self {
            width,
            kinds: Vec::new(),
            sizes: Vec::new(),
            floats: Vec::new(),
            least: Vec::new(),
            most: Vec::new(),
            class: Vec::new(),
            live: Vec::new(),
        };
        let mut lane = LANES;
        let present = |kind: KindId| unplaced.left_of_kind[kind] > 0 && !unplaced.batches_at(cell, kind).is_empty();
        for &kind in classes.order.iter().filter(|&&kind| present(kind)) {
            let class = classes.of[kind];
            if lane == LANES || item_blocks.class.last() != Some(&class) {
                lane = 0;
                item_blocks.kinds.push([kind; LANES]);
                item_blocks.sizes.resize(item_blocks.sizes.len() + width, [i32::MAX; LANES]);
                item_blocks.floats.resize(item_blocks.floats.len() + width, [0.0; LANES]);
                item_blocks.class.push(class);
                item_blocks.live.push(0);
            }
            let block = item_blocks.class.len() - 1;
            item_blocks.kinds[block][lane] = kind;
            item_blocks.live[block] |= 1 << lane;
            for (column, &size) in unplaced.kinds[kind].sizes.iter().enumerate() {
                item_blocks.sizes[block * width + column][lane] = size;
                item_blocks.floats[block * width + column][lane] = size as f32;
            }
            lane += 1;
        }
        for column in 0..width {
            for block in 0..item_blocks.class.len() {
                let lanes = item_blocks.live[block].count_ones() as usize;
                let sizes = &item_blocks.sizes[block * width + column][..lanes];
                item_blocks.least.push(sizes.iter().copied().min().unwrap_or(i32::MAX));
                item_blocks.most.push(sizes.iter().copied().max().unwrap_or(0) as f32);
            }
        }
        item_blocks
    }

    pub(crate) fn blocks(&self) -> usize {
        self.class.len()
    }
}
