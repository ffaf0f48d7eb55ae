//! Opening nodes until nothing is left that fits one.
//!
//! Each round prices what is left (fluid duals), fills a few shapes that promise most per dollar, and keeps the node whose
//! content is worth most per dollar; the same pattern is repeated while its lots last. A node's score is one minus its
//! waste against a valid price system, so the price of the plan is the bound divided by the mean score.

use super::exact;
use super::fill::{Content, Filler, Site};
use super::ground::{Ground, Headroom};
use super::groups::Grouped;
use super::stock::Stock;
use crate::bound::fluid::{self, Duals};
use crate::compile::{HostRule, fits};

/// A node that was opened.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    /// Index in `compiled.shapes`.
    pub(crate) shape: usize,
    pub(crate) cell: usize,
    pub(crate) price: f64,
    pub(crate) units: Vec<u32>,
    /// Bought from this reserved offering.
    pub(crate) reserved: Option<usize>,
}

/// One way to run a construction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Shapes filled per round.
    pub(crate) candidates: usize,
    /// Least weight of a column while filling.
    pub(crate) floor: f32,
}

/// With so few nodes to go, every shape is tried.
const LAST_NODES: f64 = 3.0;

/// Fall of the value of what is left after which it is priced anew.
const REFRESH: f64 = 0.9;

struct Round {
    duals: Duals,
    /// Value of one unit, by kind.
    values: Vec<f64>,
    /// Value of everything left when this was priced.
    total: f64,
    /// Fractional nodes of the optimum.
    nodes: f64,
    weights: Vec<f32>,
    kinds: Vec<u32>,
    critical: Vec<u32>,
    /// Value per cell of lots that cannot go everywhere.
    pinned: Vec<f64>,
    /// Candidates, by cell, best first.
    candidates: Vec<Option<Vec<usize>>>,
    /// Nothing more fits where pods are pinned.
    given_up: bool,
}

/// Nodes that rules enforce: owners that are targets of the same rule, at most `limit` a node.
pub(crate) fn least_nodes(rules: &[HostRule], stock: &Stock) -> f64 {
    let mut self_targets = vec![0_usize; rules.len()];
    for lot in &stock.lots {
        let ruleset = &stock.rulesets[lot.ruleset as usize];
        for &rule in &ruleset.owns {
            if ruleset.targets.iter().any(|&(target, _)| target == rule) {
                self_targets[rule as usize] += lot.left();
            }
        }
    }
    let nodes = rules.iter().zip(&self_targets).map(|(rule, &count)| count.div_ceil(rule.limit.max(1) as usize));
    nodes.max().unwrap_or(0) as f64
}

/// Opens nodes for all of `stock` that fits one.
pub(crate) fn construct(
    ground: &Ground<'_>,
    grouped: &Grouped,
    stock: &mut Stock,
    headroom: &mut Headroom,
    settings: Settings,
) -> Vec<Opened> {
    let rules = &grouped.rules.host;
    let mut opened = Vec::new();
    let mut filler = Filler::new(rules, stock, ground.compiled.columns.width());
    let mut tiers = ground.tier_of_kind.clone();
    let mut round: Option<Round> = None;
    let mut left_value = 0.0;
    loop {
        if stock.left == 0 {
            break;
        }
        if round.as_ref().is_none_or(|round| left_value < REFRESH * round.total) {
            stock.compact();
            if headroom.binds() {
                tiers = ground.tiers(grouped, stock, headroom);
            }
            let Some(fresh) = price_rest(ground, grouped, stock, &tiers) else { break };
            left_value = fresh.total;
            round = Some(fresh);
            if exact::applies(ground, stock, headroom) {
                opened.extend(exact::pack(ground, grouped, stock));
                continue;
            }
        }
        let Some(current) = &mut round else { break };
        let mut node = best_node(ground, grouped, stock, headroom, settings, current, &tiers, &mut filler);
        if node.is_none() {
            // Nothing fits any candidate: look once more with every shape, in every cell, then give up.
            current.candidates.iter_mut().for_each(|shapes| *shapes = None);
            let all = Settings { candidates: usize::MAX, ..settings };
            node = best_node(ground, grouped, stock, headroom, all, current, &tiers, &mut filler);
            current.candidates.iter_mut().for_each(|shapes| *shapes = None);
        }
        match node {
            Some((shape, cell, content)) => {
                left_value -= commit(ground, stock, headroom, &mut opened, (shape, cell, &content), current);
            }
            None => {
                // What is pinned to this cell fits nowhere in it; other cells may still have work.
                let Some(stuck) = choose_cell(current) else { break };
                current.pinned[stuck] = 0.0;
                if current.pinned.iter().all(|&value| value <= 0.0) && current.given_up {
                    break;
                }
                current.given_up = current.pinned.iter().all(|&value| value <= 0.0);
            }
        }
    }
    opened
}

fn price_rest(ground: &Ground<'_>, grouped: &Grouped, stock: &Stock, tiers: &[i32]) -> Option<Round> {
    let kinds: Vec<u32> = (0..stock.kinds.len() as u32)
        .filter(|&kind| stock.left_of_kind[kind as usize] > 0 && tiers[kind as usize] != i32::MIN)
        .collect();
    if kinds.is_empty() {
        return None;
    }
    let least = least_nodes(&grouped.rules.host, stock);
    let width = ground.compiled.columns.width();
    let demands = ground.demands(stock, least);
    let sources = ground.sources(&ground.basic);
    let duals = fluid::solve(&sources, &demands);
    let values: Vec<f64> = stock
        .kinds
        .iter()
        .enumerate()
        .map(|(kind, one)| duals.value(ground.group_of[kind], width, &one.sizes))
        .collect();
    let nodes: f64 = duals.used.iter().map(|&(_, copies)| copies).sum();
    let total: f64 = kinds.iter().map(|&kind| values[kind as usize] * stock.left_of_kind[kind as usize] as f64).sum();
    let mut by_column = vec![0.0; width];
    for group in 0..ground.groups {
        for (column, sum) in by_column.iter_mut().enumerate() {
            *sum += duals.unit[group * width + column] * demands.totals[group * width + column];
        }
    }
    let all: f64 = by_column.iter().sum();
    let weights = by_column.iter().map(|&value| if all > 0.0 { (value / all) as f32 } else { 1.0 }).collect();
    let at_least = 0.97 * nodes.max(least);
    let critical = grouped
        .rules
        .host
        .iter()
        .enumerate()
        .filter(|&(rule, one)| {
            let left = stock.owners_left[rule];
            left > 0 && left.div_ceil(one.limit.max(1) as usize) as f64 >= at_least
        })
        .map(|(rule, _)| rule as u32)
        .collect();
    let cells = ground.compiled.cells.len();
    let mut pinned = vec![0.0; cells];
    for lot in stock.lots.iter().filter(|lot| lot.left() > 0) {
        let mask = &stock.masks[lot.mask as usize];
        let count = mask.count_ones(..);
        if count < cells {
            let value = (values[lot.kind as usize] + 1e-12) * lot.left() as f64 / count as f64;
            mask.ones().for_each(|cell| pinned[cell] += value);
        }
    }
    Some(Round {
        duals,
        values,
        total,
        nodes,
        weights,
        kinds,
        critical,
        pinned,
        candidates: vec![None; cells],
        given_up: false,
    })
}

/// The cell to work on: the one with the most value that can go nowhere else; `None` where all is free.
fn choose_cell(round: &Round) -> Option<usize> {
    let most = (0..round.pinned.len()).max_by(|&a, &b| round.pinned[a].total_cmp(&round.pinned[b]).then(b.cmp(&a)))?;
    (round.pinned[most] > 1e-9 * round.total.max(1e-9)).then_some(most)
}

#[expect(clippy::too_many_arguments, reason = "the state of one construction, borrowed piece by piece")]
fn best_node(
    ground: &Ground<'_>,
    grouped: &Grouped,
    stock: &Stock,
    headroom: &Headroom,
    settings: Settings,
    round: &mut Round,
    tiers: &[i32],
    filler: &mut Filler<'_>,
) -> Option<(usize, usize, Content)> {
    let cells = match choose_cell(round) {
        Some(cell) => cell..cell + 1,
        None => 0..ground.compiled.cells.len(),
    };
    for cell in cells.clone() {
        if round.candidates[cell].is_none() {
            round.candidates[cell] = Some(rank(ground, stock, headroom, settings, round, cell));
        }
    }
    let promise = |cell: usize| {
        let first = round.candidates[cell].as_deref().and_then(|shapes| shapes.first());
        first.map_or(f64::NEG_INFINITY, |&shape| merit(ground, round, shape, cell))
    };
    // Where all is free, one cell is as good as another but for prices.
    let cell = cells.reduce(|best, cell| if promise(cell) > promise(best) { cell } else { best })?;
    let candidates = round.candidates[cell].clone().unwrap_or_default();
    let weights: Vec<f32> = round.weights.iter().map(|weight| weight.max(settings.floor)).collect();
    let mut best: Option<(f64, usize, Content)> = None;
    for shape in candidates {
        if !headroom.allows(ground.compiled, shape) {
            continue;
        }
        let one = &ground.compiled.shapes[shape];
        let weight = ground.weight_of(shape);
        let admitted = |kind: u32| grouped.admits[stock.kinds[kind as usize].signature as usize][cell].contains(shape);
        let openers = |kind: u32| tiers[kind as usize] <= weight;
        let mixed = round.kinds.iter().any(|&kind| !openers(kind));
        let site = Site {
            room: &one.room,
            weights: &weights,
            cell,
            admitted: &admitted,
            openers: mixed.then_some(&openers as &dyn Fn(u32) -> bool),
            critical: &round.critical,
            values: &round.values,
        };
        let content = filler.fill(stock, &site, &round.kinds);
        if content.is_empty() {
            continue;
        }
        let opens = content.iter().any(|&(lot, _)| openers(stock.lots[lot as usize].kind));
        if !opens {
            continue;
        }
        let shape = downsize(ground, grouped, stock, headroom, (shape, cell), &content);
        let worth: f64 = content
            .iter()
            .map(|&(lot, count)| round.values[stock.lots[lot as usize].kind as usize] * f64::from(count))
            .sum::<f64>()
            + round.duals.node;
        let score = worth / ground.compiled.shapes[shape].price[cell];
        if best.as_ref().is_none_or(|(most, ..)| score > *most) {
            best = Some((score, shape, content));
        }
    }
    best.map(|(_, shape, content)| (shape, cell, content))
}

/// What a shape promises per dollar; shapes near the mean price of a node first where all promise the same.
fn merit(ground: &Ground<'_>, round: &Round, shape: usize, cell: usize) -> f64 {
    let one = &ground.compiled.shapes[shape];
    let width = one.room.len();
    let mut worth = round.duals.node;
    for (column, &room) in one.room.iter().enumerate() {
        let groups = ground.groups_of_shape[shape].ones();
        let dearest = groups.map(|group| round.duals.unit[group * width + column]).fold(0.0, f64::max);
        worth += dearest * f64::from(room.max(0));
    }
    let price = one.price[cell];
    let mean = if round.nodes > 0.0 { round.total / round.nodes } else { price };
    let distance = if mean > 0.0 { (price / mean).ln().abs() } else { 0.0 };
    let basic = round.duals.used.iter().any(|&(source, _)| ground.basic[source] == shape);
    worth / price - 0.04 * distance + if basic { 0.05 } else { 0.0 }
}

fn rank(
    ground: &Ground<'_>,
    stock: &Stock,
    headroom: &Headroom,
    settings: Settings,
    round: &Round,
    cell: usize,
) -> Vec<usize> {
    let mut ranked: Vec<(f64, usize)> = ground.by_price[cell]
        .iter()
        .copied()
        .filter(|&shape| headroom.allows(ground.compiled, shape))
        .map(|shape| (merit(ground, round, shape, cell), shape))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    if round.nodes <= LAST_NODES || settings.candidates == usize::MAX {
        return ranked.into_iter().map(|(_, shape)| shape).collect();
    }
    // Every kind must find its shape among the candidates: the dearest uncovered one adds the best that holds it.
    let mut chosen: Vec<usize> = ranked.iter().take(settings.candidates).map(|&(_, shape)| shape).collect();
    let holds = |shape: usize, kind: u32| fits(&stock.kinds[kind as usize].sizes, &ground.compiled.shapes[shape].room);
    let present = round.kinds.iter().filter(|&&kind| !stock.lots_at[cell][kind as usize].is_empty());
    for &kind in present {
        let group = ground.group_of[kind as usize];
        let covers = |shape: usize| ground.groups_of_shape[shape].contains(group) && holds(shape, kind);
        if !chosen.iter().any(|&shape| covers(shape)) {
            chosen.extend(ranked.iter().map(|&(_, shape)| shape).find(|&shape| covers(shape)));
        }
    }
    chosen
}

/// The cheapest shape of the same weight that still holds the content.
fn downsize(
    ground: &Ground<'_>,
    grouped: &Grouped,
    stock: &Stock,
    headroom: &Headroom,
    at: (usize, usize),
    content: &Content,
) -> usize {
    let (shape, cell) = at;
    let width = ground.compiled.columns.width();
    let mut sizes = vec![0_i32; width];
    let mut signatures: Vec<u32> = Vec::new();
    for &(lot, count) in content {
        let kind = &stock.kinds[stock.lots[lot as usize].kind as usize];
        sizes.iter_mut().zip(&*kind.sizes).for_each(|(sum, &size)| *sum += size * count as i32);
        if !signatures.contains(&kind.signature) {
            signatures.push(kind.signature);
        }
    }
    let weight = ground.weight_of(shape);
    let current = ground.compiled.shapes[shape].price[cell];
    for &other in &ground.by_price[cell] {
        let one = &ground.compiled.shapes[other];
        if one.price[cell] >= current {
            break;
        }
        let admitted = || signatures.iter().all(|&signature| grouped.admits[signature as usize][cell].contains(other));
        if ground.weight_of(other) == weight
            && fits(&sizes, &one.room)
            && admitted()
            && headroom.allows(ground.compiled, other)
        {
            return other;
        }
    }
    shape
}

/// Opens the node as often as its lots last; returns the value placed.
fn commit(
    ground: &Ground<'_>,
    stock: &mut Stock,
    headroom: &mut Headroom,
    opened: &mut Vec<Opened>,
    node: (usize, usize, &Content),
    round: &mut Round,
) -> f64 {
    let (shape, cell, content) = node;
    let lasts = content.iter().map(|&(lot, count)| stock.lots[lot as usize].left() / count as usize).min().unwrap_or(0);
    let times = lasts.min(headroom.times(ground.compiled, shape)).max(1);
    let price = ground.compiled.shapes[shape].price[cell];
    let mut value = 0.0;
    for _ in 0..times {
        let mut units = Vec::new();
        for &(lot, count) in content {
            units.extend_from_slice(stock.take(lot, count as usize));
        }
        opened.push(Opened { shape, cell, price, units, reserved: None });
    }
    for &(lot, count) in content {
        let one = &stock.lots[lot as usize];
        let placed = round.values[one.kind as usize] * f64::from(count) * times as f64;
        value += placed;
        let mask = &stock.masks[one.mask as usize];
        let width = mask.count_ones(..);
        if width < round.pinned.len() {
            let share = (placed + 1e-12 * f64::from(count) * times as f64) / width as f64;
            mask.ones().for_each(|cell| round.pinned[cell] -= share);
        }
    }
    headroom.spend(ground.compiled, shape, times);
    round.kinds.retain(|&kind| stock.left_of_kind[kind as usize] > 0);
    value.max(1e-12)
}
