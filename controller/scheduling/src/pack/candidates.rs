//! Selection of the shapes to fill: those with the most value per dollar, and one for every kind that none of them
//! holds.

use index_vec::{Idx, IndexVec, index_vec};
use smallvec::SmallVec;

use super::construct::Construction;
use super::fill::{Content, FIRST, LATER, NEVER, TOPS_UP};
use super::item_blocks::ItemBlocks;
use super::pricing::Round;
use super::remaining_demand::{BatchId, KindId};
use super::rulesets::RulesetId;
use crate::compile::{CellId, HostRuleId, fits};
use crate::logarithm::ln;

/// Number of remaining nodes up to which every shape is tried.
const LAST_NODES: f64 = 3.0;

/// Shape that may be opened next.
pub(crate) struct Candidate {
    pub(crate) shape: usize,
    /// Value per dollar of its last filling, or an upper bound on it.
    pub(crate) promise: f64,
    /// Cheapest shape that holds the content, and the content; `None` if it is not filled from the demand that is left.
    pub(crate) content: Option<(usize, Content)>,
    /// Stage at which kinds of each class are placed.
    pub(crate) stages: Vec<u8>,
    /// Weight of each column while filling.
    pub(crate) weights: Vec<f32>,
}

/// Candidates for opening nodes in one cell.
pub(crate) struct View {
    pub(crate) item_blocks: ItemBlocks,
    pub(crate) candidates: Vec<Candidate>,
    /// For each critical rule the batches of its owners, most valuable first.
    pub(crate) critical: Vec<Vec<(BatchId, u16)>>,
    /// True if every shape is a candidate.
    pub(crate) exhaustive: bool,
    /// True if built in an earlier round.
    pub(crate) stale: bool,
}

/// Share of the fractional optimum that the candidates cover under split prices.
const CARRYING: f64 = 0.99;

/// Weight of an owner's share of the remaining demand, summed over columns, relative to its value when owners of a
/// critical rule are ordered. Even if a column is free, large requests for it must not be left for the last nodes.
const BULK: f64 = 0.5;

/// Minimum share of a shape's highest worth that a group must pay to be placed there in the first stage.
const AT_HOME: f64 = 0.98;

/// Returns the expected value per dollar of a shape. Among equal values, shapes near the mean price of a node rank
/// first.
fn merit(construction: &Construction<'_>, round: &Round, shape: usize, cell: CellId) -> f64 {
    let position = construction.shape_index.position[shape] as usize;
    let price = construction.shape_index.compiled.shapes[shape].price[cell];
    let mean = if round.nodes > 0.0 { round.total / round.nodes } else { price };
    let distance = ln(price / mean).abs();
    match &round.split_prices {
        Some(split_prices) => split_prices.split.shares[position],
        None => round.worth[position] / price - 0.04 * distance + if round.used[position] { 0.05 } else { 0.0 },
    }
}

/// Returns all cells, ordered by the best merit of their shapes, highest first. Used if no units are pinned to cells.
pub(crate) fn cells_by_promise(construction: &Construction<'_>, round: &Round) -> Vec<CellId> {
    let promise = |cell: CellId| {
        let merits = construction.shape_index.by_price[cell].iter().map(|&shape| {
            let price = construction.shape_index.compiled.shapes[shape].price[cell];
            let position = construction.shape_index.position[shape] as usize;
            match &round.split_prices {
                Some(split_prices) => {
                    split_prices.split.shares[position] * construction.shape_index.compiled.shapes[shape].cheapest
                        / price
                }
                None => merit(construction, round, shape, cell),
            }
        });
        merits.fold(f64::NEG_INFINITY, f64::max)
    };
    let mut cells: Vec<(f64, CellId)> =
        construction.shape_index.compiled.cells.indices().map(|cell| (promise(cell), cell)).collect();
    cells.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    cells.into_iter().map(|(_, cell)| cell).collect()
}

/// Returns the candidates in a cell.
pub(crate) fn view(construction: &Construction<'_>, round: &Round, cell: CellId, exhaustive: bool) -> View {
    let width = construction.shape_index.compiled.columns.width();
    let exhaustive = exhaustive || round.nodes <= LAST_NODES;
    let item_blocks = ItemBlocks::new(construction.unplaced, &construction.classes, cell, width);
    let shapes = chosen(construction, round, cell, exhaustive);
    let candidates = shapes.into_iter().map(|shape| candidate(construction, round, shape, cell)).collect();
    let critical = critical(construction, round, cell);
    View { item_blocks, candidates, critical, exhaustive, stale: false }
}

/// Updates a view of an earlier round. The promises of its candidates stay valid because split prices do not change.
pub(crate) fn refreshed(construction: &Construction<'_>, round: &Round, cell: CellId, mut view: View) -> View {
    if !view.stale {
        return view;
    }
    if !construction.unlimited || (round.nodes <= LAST_NODES && !view.exhaustive) {
        return self::view(construction, round, cell, view.exhaustive);
    }
    view.item_blocks = ItemBlocks::new(
        construction.unplaced,
        &construction.classes,
        cell,
        construction.shape_index.compiled.columns.width(),
    );
    view.critical = critical(construction, round, cell);
    view.stale = false;
    view
}

/// Returns for each critical rule the batches of its owners in `cell`, most valuable first.
fn critical(construction: &Construction<'_>, round: &Round, cell: CellId) -> Vec<Vec<(BatchId, u16)>> {
    if round.critical.is_empty() {
        return Vec::new();
    }
    let unplaced = &*construction.unplaced;
    let mut of_ruleset: IndexVec<RulesetId, SmallVec<[BatchId; 2]>> =
        index_vec![SmallVec::new(); unplaced.rulesets.len()];
    for &batch in &unplaced.open {
        let one = &unplaced.batches[batch];
        if unplaced.masks[one.mask].contains(cell.index()) {
            of_ruleset[one.ruleset].push(batch);
        }
    }
    let batches =
        |rule: HostRuleId| unplaced.rulesets.owning(rule).flat_map(|ruleset| of_ruleset[ruleset].iter().copied());
    round.critical.iter().map(|&rule| dearest_first(construction, round, batches(rule).collect())).collect()
}

fn dearest_first(construction: &Construction<'_>, round: &Round, mut batches: Vec<BatchId>) -> Vec<(BatchId, u16)> {
    let unplaced = &*construction.unplaced;
    let value = |batch: BatchId| round.values[unplaced.batches[batch].kind];
    let bulk = |batch: BatchId| {
        let sizes = &construction.unplaced.kinds[unplaced.batches[batch].kind].sizes;
        sizes.iter().zip(&round.demand).map(|(&size, all)| f64::from(size) / all.max(1.0)).sum::<f64>()
    };
    let key = |batch: BatchId| value(batch) + BULK * round.total * bulk(batch);
    batches.sort_by(|&a, &b| {
        key(b).total_cmp(&key(a)).then_with(|| {
            let cells = |batch: BatchId| unplaced.cells_of[unplaced.batches[batch].mask].len();
            cells(a).cmp(&cells(b)).then(a.cmp(&b))
        })
    });
    batches.into_iter().map(|batch| (batch, construction.classes.of[unplaced.batches[batch].kind])).collect()
}

fn candidate(construction: &Construction<'_>, round: &Round, shape: usize, cell: CellId) -> Candidate {
    let shape_index = construction.shape_index;
    let position = shape_index.position[shape] as usize;
    let price = shape_index.compiled.shapes[shape].price[cell];
    let (promise, weights) = match &round.split_prices {
        // Split prices favour the resource that runs out first, which changes as a node is filled.
        Some(_) => (1.0_f64, vec![1.0; shape_index.compiled.columns.width()]),
        None => {
            let weights = round.weights.iter().map(|weight| weight.max(construction.settings.floor));
            (round.worth[position] / price, weights.collect())
        }
    };
    // Capped by the value of everything left.
    let promise = promise.min((round.total + round.node) / price);
    let promise = construction.settings.regard(promise, price, shape_index.cheapest(cell));
    let width = shape_index.compiled.columns.width();
    let stage = |&kind: &KindId| {
        let signature = construction.unplaced.kinds[kind].signature;
        if !construction.grouped.admits[signature][cell].contains(shape) {
            return NEVER;
        }
        if !construction.opens(shape, kind) {
            return TOPS_UP;
        }
        let Some(duals) = &round.duals else { return FIRST };
        let group = shape_index.group_of[kind];
        let room = &shape_index.compiled.shapes[shape].room;
        let pays: f64 = duals.value(group, width, room) + duals.node;
        if pays >= AT_HOME * round.worth[position] { FIRST } else { LATER }
    };
    Candidate {
        shape,
        promise: promise.max(1e-300),
        content: None,
        stages: construction.classes.example.iter().map(stage).collect(),
        weights,
    }
}

fn chosen(construction: &Construction<'_>, round: &Round, cell: CellId, exhaustive: bool) -> Vec<usize> {
    let shape_index = construction.shape_index;
    let offered = shape_index.by_price[cell].iter().copied();
    let offered =
        offered.filter(|&shape| construction.unlimited || construction.headroom.allows(shape_index.compiled, shape));
    let mut ranked: Vec<(f64, usize)> = offered.map(|shape| (merit(construction, round, shape, cell), shape)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    if exhaustive {
        return ranked.into_iter().map(|(_, shape)| shape).collect();
    }
    // Every kind needs a candidate that holds it: for an uncovered kind, add the best such shape.
    let mut chosen: Vec<usize> = match &round.split_prices {
        None => ranked.iter().take(construction.settings.candidates).map(|&(_, shape)| shape).collect(),
        Some(_) => {
            let mut sum = 0.0;
            let carrying = ranked.iter().take_while(|(share, _)| {
                let more = sum < CARRYING;
                sum += share;
                more
            });
            carrying.map(|&(_, shape)| shape).collect()
        }
    };
    let holds = |shape: usize, kind: KindId| {
        fits(&construction.unplaced.kinds[kind].sizes, &shape_index.compiled.shapes[shape].room)
    };
    for kind in construction.unplaced.kinds.indices() {
        if construction.unplaced.left_of_kind[kind] == 0 || construction.unplaced.batches_at(cell, kind).is_empty() {
            continue;
        }
        let group = shape_index.group_of[kind];
        let covers = |shape: usize| shape_index.groups_of_shape[shape].contains(group) && holds(shape, kind);
        if !chosen.iter().any(|&shape| covers(shape)) {
            chosen.extend(ranked.iter().map(|&(_, shape)| shape).find(|&shape| covers(shape)));
        }
    }
    chosen
}
