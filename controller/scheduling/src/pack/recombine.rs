//! Chooses again among all contents that were considered: if small nodes hold two or three pods, no single node shows
//! whether its content leaves good partners for the others.
//!
//! Every content that construction considered is a pattern (kinds and the number of each, on a shape). A linear program
//! over all patterns covers all kinds at the least price. Whole copies of the chosen patterns are opened first, and
//! construction opens the rest. On an open catalogue of EC2 types this lowers the price of deployments by 1–4 %.
//!
//! ```text
//!  construct ──► patterns ──► linear program ──► copies ──► opened where their batches are ──► construct the rest
//!                   ▲                                                                             │
//!                   └───────────────────── contents considered for the rest ◄─────────────────────┘
//! ```

use index_vec::{IndexVec, index_vec};
use rustc_hash::FxHashSet;

use super::construct::OpenedNode;
use super::fill::{Content, Filler};
use super::groups::Grouped;
use super::remaining_demand::{KindId, RemainingDemand};
use super::shape_index::ShapeIndex;
use crate::compile::CellId;
use crate::pack::relaxation::simplex::{Column, Program};

/// Maximum number of kinds, which are rows of the linear program: its time grows with their square.
const MOST_KINDS: usize = 512;

/// Maximum number of pivots of a choice per kind; 1–2 are usual.
const PIVOTS: usize = 3;

/// Minimum value of a pattern above its price, as a share of the price, to be chosen: the last, longest part of the
/// program gains less.
const WORTHWHILE: f64 = 0.002;

/// Minimum fraction of a copy that is rounded up.
const LEAST_PART: f64 = 0.5;

/// Number of choices; each includes the contents considered for the rest of the one before.
pub(crate) const CHOICES: usize = 2;

/// Content of a node on a shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pattern {
    /// Index in `compiled.shapes`.
    shape: usize,
    /// Content as (kind, number of units), kinds ascending.
    content: Vec<(KindId, u32)>,
}

/// Contents that construction considered.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    known: FxHashSet<Pattern>,
    /// Patterns in order of discovery, with the price of their shape in the cell.
    all: Vec<(Pattern, f64)>,
}

impl Patterns {
    pub(crate) fn note(&mut self, unplaced: &RemainingDemand, shape: usize, price: f64, content: &Content) {
        let mut kinds: Vec<(KindId, u32)> =
            content.iter().map(|&(batch, count)| (unplaced.batches[batch].kind, count)).collect();
        kinds.sort_unstable();
        kinds.dedup_by(|other, first| {
            let same = other.0 == first.0;
            first.1 += if same { other.1 } else { 0 };
            same
        });
        let pattern = Pattern { shape, content: kinds };
        if self.known.insert(pattern.clone()) {
            self.all.push((pattern, price));
        }
    }
}

/// Solver for the cheapest fractional choice of patterns that covers a demand.
pub(crate) struct Choice<'a> {
    shape_index: &'a ShapeIndex<'a>,
    grouped: &'a Grouped,
    program: Program,
    /// Row of the program, by kind; `usize::MAX` if no unit is left.
    row_of: IndexVec<KindId, usize>,
    /// Number of units of each row.
    left: Vec<f64>,
    /// Rows of each pattern, with the fraction of each row that a copy covers.
    columns: Vec<Vec<(usize, f64)>>,
}

impl<'a> Choice<'a> {
    /// Creates a solver for `unplaced`. Returns `None` if there are too many kinds, or one that no node can hold.
    pub(crate) fn new(
        shape_index: &'a ShapeIndex<'a>,
        grouped: &'a Grouped,
        unplaced: &RemainingDemand,
    ) -> Option<Self> {
        if unplaced.kinds.len() > MOST_KINDS {
            return None;
        }
        let kinds: Vec<KindId> = unplaced.kinds.indices().filter(|&kind| unplaced.left_of_kind[kind] > 0).collect();
        let mut row_of = index_vec![usize::MAX; unplaced.kinds.len()];
        kinds.iter().enumerate().for_each(|(row, &kind)| row_of[kind] = row);
        let left: Vec<f64> = kinds.iter().map(|&kind| unplaced.left_of_kind[kind] as f64).collect();
        let alone: Vec<f64> =
            kinds.iter().zip(&left).map(|(&kind, left)| left * alone(shape_index, unplaced, kind)).collect();
        let possible = alone.iter().all(|price| price.is_finite());
        let program = Program::new(&alone);
        possible.then(|| Self { shape_index, grouped, program, row_of, left, columns: Vec::new() })
    }

    /// Returns the patterns in use, by position, with the number of copies.
    fn best(&mut self, patterns: &Patterns) -> Vec<(usize, f64)> {
        for (pattern, _) in &patterns.all[self.columns.len()..] {
            let rows = pattern.content.iter().map(|&(kind, count)| (self.row_of[kind], f64::from(count)));
            let rows = rows.filter(|(row, _)| *row != usize::MAX);
            self.columns.push(rows.map(|(row, count)| (row, count / self.left[row])).collect());
        }
        let columns = &self.columns;
        self.program.solve(PIVOTS * self.left.len(), |duals| {
            let worth = |column: &[(usize, f64)]| column.iter().map(|&(row, part)| duals[row] * part).sum::<f64>();
            let gains = columns.iter().zip(&patterns.all).map(|(column, (_, price))| worth(column) / price);
            let (at, gain) = gains.enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
            let column = || Column { covers: columns[at].clone(), price: patterns.all[at].1, shape: at };
            (gain > 1.0 + WORTHWHILE).then(column)
        });
        self.program.used()
    }

    /// Opens whole copies of the best choice among `patterns`; the remaining units stay in `unplaced`.
    pub(crate) fn open(&mut self, unplaced: &mut RemainingDemand, patterns: &Patterns) -> Vec<OpenedNode> {
        let mut opened = Vec::new();
        let mut filler = Filler::new(&self.grouped.rules.host, unplaced);
        let mut chosen = self.best(patterns);
        // Patterns with many copies come first; rounded-up copies are the least likely to find their units.
        chosen.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for rounded_up in [false, true] {
            for &(at, copies) in &chosen {
                let (pattern, price) = &patterns.all[at];
                let whole = copies.floor();
                let times = if rounded_up { usize::from(copies - whole >= LEAST_PART) } else { whole as usize };
                for _ in 0..times {
                    let Some((cell, content)) = self.place(unplaced, &mut filler, pattern, *price) else { break };
                    let cell = self.shape_index.cheapest_cell(self.grouped, unplaced, (pattern.shape, cell), &content);
                    let units = unplaced.take_all(&content);
                    let price = self.shape_index.compiled.shapes[pattern.shape].price[cell];
                    opened.push(OpenedNode { shape: pattern.shape, cell, price, units, reserved: None });
                }
            }
        }
        opened
    }

    /// Returns the cell for a copy of `pattern`, at a price of at most `price`, and the batches that it takes there.
    /// Cells are tried in descending order of the waiting units of its kinds, each batch counted in equal parts for all
    /// its cells.
    fn place(
        &self,
        unplaced: &RemainingDemand,
        filler: &mut Filler<'_>,
        pattern: &Pattern,
        price: f64,
    ) -> Option<(CellId, Content)> {
        let shape = &self.shape_index.compiled.shapes[pattern.shape];
        let admitted = |cell: CellId| {
            let mut kinds = pattern.content.iter().map(|&(kind, _)| unplaced.kinds[kind].signature);
            kinds.all(|signature| self.grouped.admits[signature][cell].contains(pattern.shape))
        };
        let waiting = |cell: CellId| {
            let batches = pattern.content.iter().flat_map(|&(kind, _)| unplaced.batches_at(cell, kind));
            let batches = batches.map(|&batch| &unplaced.batches[batch]);
            batches.map(|batch| batch.left() as f64 / unplaced.cells_of[batch.mask].len() as f64).sum::<f64>()
        };
        let cells = shape.price.indices().filter(|&cell| shape.price[cell] <= price && admitted(cell));
        let mut cells: Vec<(f64, CellId)> = cells.map(|cell| (waiting(cell), cell)).collect();
        cells.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        cells.into_iter().find_map(|(_, cell)| Some((cell, filler.exactly(unplaced, cell, &pattern.content)?)))
    }
}

/// Returns the lowest price of one unit of a kind on nodes that hold only this kind; infinity if no shape holds it.
fn alone(shape_index: &ShapeIndex<'_>, unplaced: &RemainingDemand, kind: KindId) -> f64 {
    let sizes = &unplaced.kinds[kind].sizes;
    let shapes = shape_index
        .basic
        .iter()
        .filter(|&&shape| shape_index.groups_of_shape[shape].contains(shape_index.group_of[kind]));
    let each = shapes.map(|&shape| {
        let one = &shape_index.compiled.shapes[shape];
        let by_column = one.room.iter().zip(&**sizes).filter(|&(_, &size)| size > 0);
        let most = by_column.map(|(&room, &size)| room / size).min().unwrap_or(i32::MAX);
        let most = f64::from(most.max(0)).min(unplaced.left_of_kind[kind] as f64);
        if most > 0.0 { one.cheapest / most } else { f64::INFINITY }
    });
    each.fold(f64::INFINITY, f64::min)
}
