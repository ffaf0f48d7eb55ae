//! What the pods that are left are worth, round by round.

use std::rc::Rc;

use super::candidates::View;
use super::construct::Yard;
use super::ground::Ground;
use super::stock::Stock;
use crate::bound::fluid;
use crate::bound::split::{self, Split, Start};
use crate::compile::HostRule;

/// Where the values of pods come from.
#[derive(Debug, Clone)]
pub(crate) enum Regime {
    /// Fluid prices, until a first node shows how much they mislead.
    Unknown,
    Fluid,
    /// Each shape splits its price; fluid prices promise far more than any node holds.
    Split(Rc<Asks>),
}

/// Split prices, by kind and by shape.
#[derive(Debug)]
pub(crate) struct Asks {
    values: Vec<f64>,
    /// Of the shapes of `ground.basic`.
    pub(crate) split: Split,
    /// Mean price of a node, USD/hour.
    mean: f64,
    /// Value of all that was left.
    total: f64,
}

impl Asks {
    /// Whether what is left has changed so much that its prices have too.
    pub(crate) fn outdated(&self, left_value: f64) -> bool {
        left_value < OUTDATED * self.total
    }
}

/// The split bound must exceed the fluid one by this much for its prices to be used.
const SHARPER: f64 = 1.02;

/// Fall of the value of what is left after which split prices are found anew.
const OUTDATED: f64 = 0.85;

impl Regime {
    /// Split prices, if they tell more of `stock` than fluid ones.
    pub(crate) fn sharper(ground: &Ground<'_>, stock: &Stock, rules: &[HostRule]) -> Self {
        let sources = ground.sources(ground.basic);
        let demands = ground.demands(stock, stock.least_nodes(rules));
        let duals = fluid::solve(&sources, &demands);
        match asks(ground, stock, Start::Fluid(&duals)) {
            Some(asks) if asks.total > SHARPER * fluid::value(&duals, &demands) => Self::Split(Rc::new(asks)),
            _ => Self::Fluid,
        }
    }

    /// Split prices, whatever fluid ones tell.
    pub(crate) fn split(ground: &Ground<'_>, stock: &Stock, rules: &[HostRule]) -> Option<Self> {
        let demands = ground.demands(stock, stock.least_nodes(rules));
        let duals = fluid::solve(&ground.sources(ground.basic), &demands);
        asks(ground, stock, Start::Fluid(&duals)).map(|asks| Self::Split(Rc::new(asks)))
    }

    /// Split prices of what is left, close to `known` ones of more.
    pub(crate) fn again(known: &Asks, ground: &Ground<'_>, stock: &Stock) -> Option<Self> {
        asks(ground, stock, Start::Near(&known.split)).map(|asks| Self::Split(Rc::new(asks)))
    }
}

fn asks(ground: &Ground<'_>, stock: &Stock, start: Start<'_>) -> Option<Asks> {
    let width = ground.compiled.columns.width();
    let sources = ground.sources(ground.basic);
    let items = split::items(stock, &ground.group_of, None);
    let split = split::solve(&sources, &items, start, width);
    let values = split.values(&sources, &items, width);
    let nodes: f64 = split.shares.iter().zip(&sources).map(|(share, source)| share / source.price).sum();
    let total = items.iter().zip(&values).map(|(item, value)| item.count * value).sum();
    (nodes > 0.0).then(|| Asks { values, split, mean: 1.0 / nodes, total })
}

/// Prices of what is left.
pub(crate) struct Round {
    /// Value of one unit, by kind.
    pub(crate) values: Vec<f64>,
    /// Value of a node as such.
    pub(crate) node: f64,
    /// Value of everything left when this was priced.
    pub(crate) total: f64,
    /// Fractional nodes of the optimum.
    pub(crate) nodes: f64,
    /// Share of each column in the value of all that is left.
    pub(crate) weights: Vec<f32>,
    /// What the room of a shape is worth at most, by position in `ground.basic`.
    pub(crate) worth: Vec<f64>,
    /// Whether the shape is in the fluid optimum, likewise.
    pub(crate) used: Vec<bool>,
    /// Fluid prices, unless split prices hold.
    pub(crate) duals: Option<fluid::Duals>,
    pub(crate) asks: Option<Rc<Asks>>,
    /// Host rules of which every node from now on must hold an owner.
    pub(crate) critical: Vec<u32>,
    /// All that is left, by column.
    pub(crate) demand: Vec<f64>,
    /// Value per cell of lots that cannot go everywhere.
    pub(crate) pinned: Vec<f64>,
    /// What may be opened, by cell, once that is asked.
    pub(crate) views: Vec<Option<View>>,
}

impl Round {
    /// Prices what is left; `None` if nothing of it can be opened for.
    pub(crate) fn new(yard: &Yard<'_>, regime: &Regime, previous: Option<Self>) -> Option<Self> {
        let (ground, stock) = (yard.ground, &*yard.stock);
        let open = |kind: usize| stock.left_of_kind[kind] > 0 && yard.tiers[kind] != i32::MIN;
        if !(0..stock.kinds.len()).any(open) {
            return None;
        }
        let least = stock.least_nodes(&yard.grouped.rules.host);
        let cells = ground.compiled.cells.len();
        let mut round = Self {
            values: Vec::new(),
            node: 0.0,
            total: 0.0,
            nodes: 0.0,
            weights: Vec::new(),
            worth: Vec::new(),
            used: Vec::new(),
            duals: None,
            asks: None,
            critical: Vec::new(),
            demand: Vec::new(),
            pinned: vec![0.0; cells],
            views: Vec::new(),
        };
        round.views.resize_with(cells, || None);
        match regime {
            Regime::Split(asks) => {
                round.values.clone_from(&asks.values);
                round.asks = Some(Rc::clone(asks));
            }
            Regime::Fluid | Regime::Unknown => round.price_as_fluid(yard, least),
        }
        let kinds = (0..stock.kinds.len()).filter(|&kind| open(kind));
        round.total = kinds.map(|kind| round.values[kind] * stock.left_of_kind[kind] as f64).sum();
        if let Regime::Split(asks) = regime {
            round.nodes = round.total / asks.mean;
            if let Some(previous) = previous {
                round.views = previous.views;
                round.views.iter_mut().flatten().for_each(|view| view.stale = true);
            }
        }
        round.demand = vec![0.0; ground.compiled.columns.width()];
        for (one, &left) in stock.kinds.iter().zip(&stock.left_of_kind).filter(|(_, left)| **left > 0) {
            round.demand.iter_mut().zip(&*one.sizes).for_each(|(sum, &size)| *sum += left as f64 * f64::from(size));
        }
        let home = round.homes(yard);
        let at_least = 0.97 * round.nodes.max(least);
        round.critical = (0..yard.grouped.rules.host.len())
            .filter(|&rule| {
                let left = stock.owners_left[rule];
                let limit = yard.grouped.rules.host[rule].limit.max(1) as usize;
                left > 0 && left.div_ceil(limit) as f64 >= at_least
            })
            .map(|rule| rule as u32)
            .collect();
        for &lot in &stock.open {
            let lot = &stock.lots[lot as usize];
            let at = &stock.cells_of[lot.mask as usize];
            if at.len() < cells {
                let group = ground.group_of[lot.kind as usize] * cells;
                let most = at.iter().map(|&cell| home[group + cell as usize]).fold(0.0, f64::max);
                let is_home = |cell: u32| home[group + cell as usize] >= 0.98 * most;
                let count = at.iter().filter(|&&cell| is_home(cell)).count() as f64;
                let value = (round.values[lot.kind as usize] + 1e-12) * lot.left() as f64 / count;
                at.iter().filter(|&&cell| is_home(cell)).for_each(|&cell| round.pinned[cell as usize] += value);
            }
        }
        Some(round)
    }

    fn price_as_fluid(&mut self, yard: &Yard<'_>, least: f64) {
        let (ground, stock) = (yard.ground, &*yard.stock);
        let width = ground.compiled.columns.width();
        let demands = ground.demands(stock, least);
        let sources = ground.sources(ground.basic);
        let duals = fluid::solve(&sources, &demands);
        let kinds = stock.kinds.iter().enumerate();
        self.values = kinds.map(|(kind, one)| duals.value(ground.group_of[kind], width, &one.sizes)).collect();
        self.nodes = duals.used.iter().map(|&(_, copies)| copies).sum();
        self.node = duals.node;
        let mut by_column = vec![0.0; width];
        for group in 0..ground.groups {
            for (column, sum) in by_column.iter_mut().enumerate() {
                *sum += duals.unit[group * width + column] * demands.totals[group * width + column];
            }
        }
        let all: f64 = by_column.iter().sum();
        self.weights = by_column.iter().map(|&value| if all > 0.0 { (value / all) as f32 } else { 1.0 }).collect();
        self.worth = sources.iter().map(|source| duals.worth(source, width)).collect();
        self.used = vec![false; sources.len()];
        duals.used.iter().for_each(|&(source, _)| self.used[source] = true);
        self.duals = Some(duals);
    }

    /// How close what a group pays comes to the price of some node in a cell, by group and cell: 1 where it belongs.
    fn homes(&self, yard: &Yard<'_>) -> Vec<f64> {
        let ground = yard.ground;
        let cells = ground.compiled.cells.len();
        let Some(duals) = &self.duals else { return vec![1.0; ground.groups * cells] };
        let width = ground.compiled.columns.width();
        let mut homes = vec![0.0_f64; ground.groups * cells];
        for &shape in ground.basic {
            let one = &ground.compiled.shapes[shape];
            for group in ground.groups_of_shape[shape].ones() {
                let pays = duals.value(group, width, &one.room) + duals.node;
                let offered = homes[group * cells..][..cells].iter_mut().zip(&one.price);
                // Nothing is paid where it is not on offer: there the price is infinite.
                offered.for_each(|(home, price)| *home = home.max(pays / price));
            }
        }
        homes
    }

    /// The cell to work on: the one with the most value that can go nowhere else; `None` where all is free.
    pub(crate) fn choose_cell(&self) -> Option<usize> {
        let most = (0..self.pinned.len()).max_by(|&a, &b| self.pinned[a].total_cmp(&self.pinned[b]).then(b.cmp(&a)))?;
        (self.pinned[most] > 1e-9 * self.total.max(1e-9)).then_some(most)
    }
}
