//! Opens nodes until no remaining unit fits one.
//!
//! Each round prices the remaining units, fills a few shapes with the most expected value per dollar, and keeps the
//! node whose content has the most value per dollar. The same content is repeated while its batches last. A node's
//! score is one minus its waste against a valid price system, so the price of the plan is the bound divided by the mean
//! score.
//!
//! A score is kept as a promise for later nodes, which have fewer units to choose from: only the candidate with the
//! best promise is filled again, until it remains the best.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use index_vec::IndexVec;

use super::candidates::{self, Candidate, View};
use super::exact;
use super::fill::{Content, FillTarget, Filler, TOPS_UP};
use super::groups::Grouped;
use super::item_blocks::{Classes, ItemBlocks};
use super::pricing::{PriceModel, Round};
use super::recombine::Patterns;
use super::remaining_demand::{BatchId, KindId, RemainingDemand};
use super::shape_index::{Headroom, ShapeIndex};
use crate::compile::{CellId, SignatureId, fits};

/// Node opened by the plan.
#[derive(Debug, Clone)]
pub(crate) struct OpenedNode {
    /// Index in `compiled.shapes`.
    pub(crate) shape: usize,
    pub(crate) cell: CellId,
    pub(crate) price: f64,
    pub(crate) units: Vec<u32>,
    /// Reserved offering that it uses, if any.
    pub(crate) reserved: Option<usize>,
}

/// Returns the price of the nodes that are not reserved, in USD per hour.
pub(super) fn bought(nodes: &[OpenedNode]) -> f64 {
    nodes.iter().filter(|node| node.reserved.is_none()).map(|node| node.price).sum()
}

/// Parameters of one construction pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Number of shapes filled per round.
    pub(crate) candidates: usize,
    /// Minimum weight of a column while filling.
    pub(crate) floor: f32,
    /// Fraction by which a node's promise falls with each doubling of its price over the cheapest.
    pub(crate) lean: f64,
}

impl Settings {
    /// Returns the promise per dollar, reduced by `lean` for the price.
    pub(crate) fn regard(&self, promise: f64, price: f64, cheapest: f64) -> f64 {
        let doublings = ((price / cheapest) as u64).checked_ilog2().unwrap_or(0);
        promise * (1.0 - self.lean * f64::from(doublings))
    }
}

/// Fraction of the last total value below which the remaining units are priced again.
const REFRESH: f64 = 0.9;

/// Waste of a node above which, while many units remain, pods may be priced wrongly.
const MISLED: f64 = 0.2;

/// Minimum share of the total value that must remain for [`MISLED`] to apply.
const WORTH_A_LOOK: f64 = 0.25;

/// Promise of a candidate. Ordered by value; of equals, the one with the lowest index is the greatest.
#[derive(Debug, Clone, Copy)]
struct Promise {
    value: f64,
    at: usize,
}

impl Promise {
    /// Returns `None` if `value` is negative infinity.
    fn of(value: f64, at: usize) -> Option<Self> {
        (value > f64::NEG_INFINITY).then_some(Self { value, at })
    }
}

impl Ord for Promise {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Promise {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Promise {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Promise {}

fn best_promise(candidates: &[Candidate]) -> Option<usize> {
    let promises = candidates.iter().enumerate().filter_map(|(at, candidate)| Promise::of(candidate.promise, at));
    promises.max().map(|promise| promise.at)
}

/// State of one construction pass.
pub(crate) struct Construction<'a> {
    pub(crate) shape_index: &'a ShapeIndex<'a>,
    pub(crate) grouped: &'a Grouped,
    pub(crate) unplaced: &'a mut RemainingDemand,
    pub(crate) headroom: &'a mut Headroom,
    pub(crate) settings: Settings,
    /// Minimum pool weight of the nodes that may be opened for each kind.
    pub(crate) tiers: IndexVec<KindId, i32>,
    pub(crate) classes: Classes,
    /// True if no limit can be reached.
    pub(crate) unlimited: bool,
    filler: Filler<'a>,
    opened: Vec<OpenedNode>,
    /// Record of the contents considered, if requested.
    seen: Option<&'a mut Patterns>,
}

/// Pods without a place, and what limits and reservations leave for them.
pub(crate) struct Remaining<'r> {
    pub(crate) unplaced: &'r mut RemainingDemand,
    pub(crate) headroom: &'r mut Headroom,
}

/// Opens nodes for all pods of `remaining` that fit one. Returns `None` if a node showed, while the price model was
/// unknown, that fluid prices mislead.
pub(crate) fn construct(
    shape_index: &ShapeIndex<'_>,
    grouped: &Grouped,
    remaining: Remaining<'_>,
    settings: Settings,
    price_model: PriceModel,
    seen: Option<&mut Patterns>,
) -> Option<Vec<OpenedNode>> {
    let Remaining { unplaced, headroom } = remaining;
    let unlimited = headroom.allows_any(shape_index.compiled, shape_index.basic, unplaced.left);
    let tiers = shape_index.tier_of_kind.clone();
    let mut construction = Construction {
        shape_index,
        grouped,
        headroom,
        settings,
        classes: shape_index.classes(unplaced, &tiers),
        tiers,
        unlimited,
        filler: Filler::new(&grouped.rules.host, unplaced),
        unplaced,
        opened: Vec::new(),
        seen,
    };
    construction.build(price_model).then_some(construction.opened)
}

impl Construction<'_> {
    /// Opens all nodes. Returns false if a node shows that fluid prices mislead.
    fn build(&mut self, mut price_model: PriceModel) -> bool {
        let mut round: Option<Round> = None;
        let mut left_value = 0.0;
        let mut whole: Option<f64> = None;
        let mut watching = matches!(price_model, PriceModel::Unknown);
        while self.unplaced.left > 0 {
            if round.as_ref().is_none_or(|round| left_value < REFRESH * round.total) {
                self.unplaced.compact();
                if !self.unlimited {
                    self.tiers = self.shape_index.tiers(self.grouped, self.unplaced, self.headroom);
                    self.classes = self.shape_index.classes(self.unplaced, &self.tiers);
                }
                if round.is_some()
                    && let PriceModel::Split(split_prices) = &price_model
                    && split_prices.outdated(left_value)
                    && let Some(again) = PriceModel::again(split_prices, self.shape_index, self.unplaced)
                {
                    price_model = again;
                    round = None;
                }
                let Some(fresh) = Round::new(self, &price_model, round.take()) else { break };
                left_value = fresh.total;
                watching = watching && left_value >= WORTH_A_LOOK * *whole.get_or_insert(left_value);
                round = Some(fresh);
                if exact::applies(self.shape_index, self.unplaced, self.headroom) {
                    let remainder = !self.opened.is_empty();
                    self.opened.extend(exact::pack(self.shape_index, self.grouped, self.unplaced, remainder));
                    continue;
                }
            }
            let Some(current) = &mut round else { break };
            let pinned = current.choose_cell();
            let found = match pinned {
                Some(cell) => self.node_at(current, cell),
                None => {
                    let cells = candidates::cells_by_promise(self, current);
                    cells.into_iter().find_map(|cell| self.node_at(current, cell))
                }
            };
            match (found, pinned) {
                (Some((score, cell, shape, content)), _) => {
                    if watching && score < 1.0 - MISLED {
                        return false;
                    }
                    left_value -= self.commit((shape, cell, &content), current);
                }
                // The units pinned to this cell do not fit there; other cells may still have units.
                (None, Some(cell)) => current.pinned[cell] = 0.0,
                // The limits of a heavier pool may have been used up since its pods were assigned to it.
                (None, None) if self.tiers_fell() => round = None,
                (None, None) => break,
            }
        }
        true
    }

    /// Returns the best node in a cell: score, cell, shape, content.
    fn node_at(&mut self, round: &mut Round, cell: CellId) -> Option<(f64, CellId, usize, Content)> {
        let mut view = match round.views[cell].take() {
            Some(view) => candidates::refreshed(self, round, cell, view),
            None => candidates::view(self, round, cell, false),
        };
        let mut found = self.best_of(round, &mut view, cell);
        if found.is_none() && !view.exhaustive {
            // No candidate holds anything: retry with every shape.
            view = candidates::view(self, round, cell, true);
            found = self.best_of(round, &mut view, cell);
        }
        round.views[cell] = Some(view);
        found
    }

    fn best_of(&mut self, round: &Round, view: &mut View, cell: CellId) -> Option<(f64, CellId, usize, Content)> {
        let mut best = best_promise(&view.candidates);
        // Promises fall with every filling, usually to nothing; the remaining candidates are kept in order.
        let mut others: Option<BinaryHeap<Promise>> = None;
        loop {
            let at = best?;
            let candidate = &mut view.candidates[at];
            if let Some((shape, content)) = candidate.content.take() {
                return Some((candidate.promise, cell, shape, content));
            }
            self.fill(round, &mut view.item_blocks, candidate, &view.critical, cell);
            let looked_at = candidate.promise;
            let others = others.get_or_insert_with(|| {
                let rest = view.candidates.iter().enumerate().filter(|&(other, _)| other != at);
                rest.filter_map(|(other, candidate)| Promise::of(candidate.promise, other)).collect()
            });
            others.extend(Promise::of(looked_at, at));
            best = others.pop().map(|promise| promise.at);
        }
    }

    fn fill(
        &mut self,
        round: &Round,
        item_blocks: &mut ItemBlocks,
        candidate: &mut Candidate,
        critical: &[Vec<(BatchId, u16)>],
        cell: CellId,
    ) {
        candidate.promise = f64::NEG_INFINITY;
        if !self.unlimited && !self.headroom.allows(self.shape_index.compiled, candidate.shape) {
            return;
        }
        let target = FillTarget {
            room: &self.shape_index.compiled.shapes[candidate.shape].room,
            weights: &candidate.weights,
            cell,
            stages: &candidate.stages,
            critical,
        };
        let content = self.filler.fill(self.unplaced, &target, item_blocks);
        let class_of = |batch: BatchId| usize::from(self.classes.of[self.unplaced.batches[batch].kind]);
        if !content.iter().any(|&(batch, _)| candidate.stages[class_of(batch)] < TOPS_UP) {
            return;
        }
        let shape = self.downsize((candidate.shape, cell), &content);
        let value =
            |&(batch, count): &(BatchId, u32)| round.values[self.unplaced.batches[batch].kind] * f64::from(count);
        let worth = content.iter().map(value).sum::<f64>() + round.node;
        let price = self.shape_index.compiled.shapes[shape].price[cell];
        candidate.promise = self.settings.regard(worth / price, price, self.shape_index.cheapest(cell));
        if let Some(seen) = &mut self.seen {
            seen.note(self.unplaced, shape, price, &content);
        }
        candidate.content = Some((shape, content));
    }

    /// Returns the cheapest shape of the same pool weight that holds the content.
    fn downsize(&self, at: (usize, CellId), content: &Content) -> usize {
        let (shape, cell) = at;
        let (shape_index, unplaced) = (self.shape_index, &*self.unplaced);
        let mut sizes = vec![0_i32; shape_index.compiled.columns.width()];
        let mut signatures: Vec<SignatureId> = Vec::new();
        for &(batch, count) in content {
            let kind = &unplaced.kinds[unplaced.batches[batch].kind];
            sizes.iter_mut().zip(&*kind.sizes).for_each(|(sum, &size)| *sum += size * count as i32);
            if !signatures.contains(&kind.signature) {
                signatures.push(kind.signature);
            }
        }
        let weight = shape_index.weight_of(shape);
        let current = shape_index.compiled.shapes[shape].price[cell];
        let cheaper = shape_index.by_price[cell]
            .iter()
            .take_while(|&&other| shape_index.compiled.shapes[other].price[cell] < current);
        let found = cheaper.copied().find(|&other| {
            fits(&sizes, &shape_index.compiled.shapes[other].room)
                && shape_index.weight_of(other) == weight
                && signatures.iter().all(|&one| self.grouped.admits[one][cell].contains(other))
                && (self.unlimited || self.headroom.allows(shape_index.compiled, other))
        });
        found.unwrap_or(shape)
    }

    /// Opens copies of the node while its batches and limits last. Returns the value placed.
    fn commit(&mut self, node: (usize, CellId, &Content), round: &mut Round) -> f64 {
        let (shape, cell, content) = node;
        let compiled = self.shape_index.compiled;
        let unplaced = &mut *self.unplaced;
        // The cell was chosen for all units waiting there; this content may cost less in another cell.
        let cell = self.shape_index.cheapest_cell(self.grouped, unplaced, (shape, cell), content);
        let lasts =
            content.iter().map(|&(batch, count)| unplaced.batches[batch].left() / count as usize).min().unwrap_or(0);
        let times = lasts.min(self.headroom.times(compiled, shape)).max(1);
        let price = compiled.shapes[shape].price[cell];
        for _ in 0..times {
            let units = unplaced.take_all(content);
            self.opened.push(OpenedNode { shape, cell, price, units, reserved: None });
        }
        let mut value = 0.0;
        for &(batch, count) in content {
            let one = &unplaced.batches[batch];
            let placed = round.values[one.kind] * f64::from(count) * times as f64;
            value += placed;
            let cells = &unplaced.cells_of[one.mask];
            if cells.len() < round.pinned.len() {
                let share = (placed + 1e-12 * f64::from(count) * times as f64) / cells.len() as f64;
                cells.iter().for_each(|&cell| round.pinned[cell] -= share);
            }
        }
        self.headroom.spend(compiled, shape, times);
        for view in round.views.iter_mut().flatten() {
            view.candidates.iter_mut().for_each(|candidate| candidate.content = None);
        }
        value.max(1e-12)
    }

    /// Returns true if the tier of some kind has changed since it was last computed.
    fn tiers_fell(&self) -> bool {
        !self.unlimited && self.shape_index.tiers(self.grouped, self.unplaced, self.headroom) != self.tiers
    }

    /// Returns true if nodes of `shape` may be opened for `kind`.
    pub(crate) fn opens(&self, shape: usize, kind: KindId) -> bool {
        self.tiers[kind] != i32::MIN && self.tiers[kind] <= self.shape_index.weight_of(shape)
    }
}
