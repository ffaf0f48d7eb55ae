//! Reserved capacity, which is used before any other, with the exact instance counts of reservations.

use index_vec::{IndexSlice, IndexVec};
use rustc_hash::FxHashMap;

use super::construct::OpenedNode;
use super::fill::{FIRST, FillTarget, Filler, NEVER, TOPS_UP};
use super::groups::Grouped;
use super::item_blocks::{Classes, ItemBlocks};
use super::remaining_demand::{KindId, RemainingDemand};
use super::shape_index::{Headroom, ShapeIndex};
use crate::compile::{CellId, Compiled, fits, flexible};
use crate::model::{MinValuesPolicy, Reservation};

/// Reserved offering of a shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) shape: usize,
    pub(crate) cell: CellId,
    /// Index of the type's offering.
    pub(crate) offering: usize,
    /// USD per hour.
    pub(crate) price: f64,
    reservation: usize,
}

/// All reservations, with the number of instances left of each.
#[derive(Debug, Clone)]
pub(crate) struct Reservations {
    /// Reserved offerings, cheapest first.
    pub(crate) entries: Vec<Entry>,
    left: Vec<u32>,
}

impl Reservations {
    pub(crate) fn new(compiled: &Compiled<'_>) -> Self {
        let mut ids: FxHashMap<Reservation, usize> = FxHashMap::default();
        let (mut entries, mut left) = (Vec::new(), Vec::new());
        let strict = compiled.options.min_values == MinValuesPolicy::Strict;
        let asked: Vec<_> = compiled.problem.pools.iter().map(flexible::asked).collect();
        for (shape, one) in compiled.shapes.iter().enumerate().filter(|(_, one)| !one.reserved.is_empty()) {
            // A reservation has one type, which may not meet the `minValues` of a pool.
            let catalogue = compiled.problem.pools[one.pool].catalogue;
            let own = &compiled.problem.catalogues[catalogue][one.instance_type];
            if strict && flexible::first_miss(&asked[one.pool], std::iter::once(own)).is_some() {
                continue;
            }
            for reserved in &one.reserved {
                let place = (catalogue, one.instance_type, reserved.offering);
                let key = Reservation::of(&own.offerings[reserved.offering], place);
                let reservation = *ids.entry(key).or_insert_with(|| {
                    left.push(reserved.count);
                    left.len() - 1
                });
                let (cell, offering, price) = (reserved.cell, reserved.offering, reserved.price);
                entries.push(Entry { shape, cell, offering, price, reservation });
            }
        }
        let key = |entry: &Entry| (entry.shape, entry.cell, entry.offering);
        entries.sort_by(|a, b| a.price.total_cmp(&b.price).then(key(a).cmp(&key(b))));
        Self { entries, left }
    }

    /// Returns true if an instance is left for this entry.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.left[entry.reservation] > 0
    }

    pub(crate) fn take(&mut self, entry: &Entry) {
        self.left[entry.reservation] = self.left[entry.reservation].saturating_sub(1);
    }

    /// Fills reserved capacity before nodes are bought, by descending pool weight and then descending price of buying
    /// the type.
    pub(crate) fn fill(
        &mut self,
        shape_index: &ShapeIndex<'_>,
        grouped: &Grouped,
        unplaced: &mut RemainingDemand,
        headroom: &mut Headroom,
    ) -> Vec<OpenedNode> {
        let compiled = shape_index.compiled;
        let mut opened = Vec::new();
        if self.entries.is_empty() {
            return opened;
        }
        let tiers = reserved_tiers(compiled, grouped, unplaced, &shape_index.tier_of_kind);
        let mut order = self.entries.clone();
        let elsewhere = |entry: &Entry| compiled.shapes[entry.shape].cheapest;
        order.sort_by(|a, b| {
            shape_index
                .weight_of(b.shape)
                .cmp(&shape_index.weight_of(a.shape))
                .then(elsewhere(b).total_cmp(&elsewhere(a)))
        });
        let mut filler = Filler::new(&grouped.rules.host, unplaced);
        let width = compiled.columns.width();
        let weights = vec![1.0; width];
        let signature = |unplaced: &RemainingDemand, kind: KindId| unplaced.kinds[kind].signature;
        let classes = Classes::new(unplaced, |kind| (signature(unplaced, kind), tiers[kind]));
        for entry in order {
            let (shape, cell) = (entry.shape, entry.cell);
            let weight = shape_index.weight_of(shape);
            let stage = |&kind: &KindId| match tiers[kind] {
                _ if !grouped.admits[signature(unplaced, kind)][cell].contains(shape) => NEVER,
                tier if tier <= weight => FIRST,
                _ => TOPS_UP,
            };
            let stages: Vec<u8> = classes.example.iter().map(stage).collect();
            let mut item_blocks = ItemBlocks::new(unplaced, &classes, cell, width);
            let room = &compiled.shapes[shape].room;
            let target = FillTarget { room, weights: &weights, cell, stages: &stages, critical: &[] };
            while self.has(&entry) && headroom.allows(compiled, shape) && unplaced.left > 0 {
                let content = filler.fill(unplaced, &target, &mut item_blocks);
                if content.is_empty() {
                    break;
                }
                let units = unplaced.take_all(&content);
                self.take(&entry);
                headroom.spend(compiled, shape, 1);
                opened.push(OpenedNode { shape, cell, price: entry.price, units, reserved: Some(entry.offering) });
            }
        }
        opened
    }

    /// Moves bought nodes to reservations that other nodes no longer use.
    pub(crate) fn reclaim(compiled: &Compiled<'_>, grouped: &Grouped, opened: &mut [OpenedNode]) {
        let mut reservations = Self::new(compiled);
        for node in opened.iter() {
            let used = |entry: &&Entry| entry.shape == node.shape && Some(entry.offering) == node.reserved;
            if let Some(entry) = reservations.entries.iter().copied().find(|entry| used(&entry)) {
                reservations.take(&entry);
            }
        }
        reservations.claim(compiled, grouped, opened);
    }

    /// Moves bought nodes to remaining reserved offerings that hold their pods: the most expensive node first, to the
    /// cheapest such offering.
    pub(crate) fn claim(&mut self, compiled: &Compiled<'_>, grouped: &Grouped, opened: &mut [OpenedNode]) {
        if self.entries.is_empty() {
            return;
        }
        let mut order: Vec<usize> = (0..opened.len()).filter(|&node| opened[node].reserved.is_none()).collect();
        order.sort_by(|&a, &b| opened[b].price.total_cmp(&opened[a].price).then(a.cmp(&b)));
        let mut headroom = Headroom::new(compiled);
        opened.iter().for_each(|node| headroom.spend(compiled, node.shape, 1));
        for number in order {
            let node = &mut opened[number];
            headroom.refund(compiled, node.shape);
            let found = self.entries.iter().copied().find(|entry| {
                self.has(entry)
                    && entry.price <= node.price
                    && compiled.shapes[entry.shape].pool == compiled.shapes[node.shape].pool
                    && headroom.allows(compiled, entry.shape)
                    && holds(compiled, grouped, node, entry)
            });
            if let Some(entry) = found {
                self.take(&entry);
                (node.price, node.shape, node.cell) = (entry.price, entry.shape, entry.cell);
                node.reserved = Some(entry.offering);
            }
            headroom.spend(compiled, node.shape, 1);
        }
    }
}

/// Returns by kind the weight of the heaviest pool that can hold a unit, including reservations.
fn reserved_tiers(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    unplaced: &RemainingDemand,
    bought: &IndexSlice<KindId, [i32]>,
) -> IndexVec<KindId, i32> {
    let tier = |(kind, &tier): (KindId, &i32)| {
        let one = &unplaced.kinds[kind];
        let admits = &grouped.admits[one.signature];
        let reserved = compiled.shapes.iter().enumerate().filter(|&(number, shape)| {
            let mut cells = shape.reserved.iter().map(|reserved| reserved.cell);
            fits(&one.sizes, &shape.room) && cells.any(|cell| admits[cell].contains(number))
        });
        reserved.map(|(_, shape)| compiled.problem.pools[shape.pool].weight).max().map_or(tier, |most| most.max(tier))
    };
    bought.iter_enumerated().map(tier).collect()
}

/// Returns true if the pods of a node can run on `entry` instead.
fn holds(compiled: &Compiled<'_>, grouped: &Grouped, node: &OpenedNode, entry: &Entry) -> bool {
    let pods = || node.units.iter().flat_map(|unit| grouped.pods(unit)).map(|&pod| compiled.class_of(pod as usize));
    let mut sizes = vec![0_i32; compiled.columns.width()];
    for class in pods() {
        sizes.iter_mut().zip(compiled.request(class)).for_each(|(sum, &size)| *sum += size);
    }
    // Labels that rules between pods are about must keep their values.
    let pinned = || {
        let mut dimensions = pods().flat_map(|class| grouped.pinned_of_spec[compiled.classes[class].spec].ones());
        dimensions.all(|dimension| {
            compiled.cells.value_index(entry.cell, dimension) == compiled.cells.value_index(node.cell, dimension)
        })
    };
    let admits = |class: usize| &compiled.admits[compiled.classes[class].signature][entry.cell];
    fits(&sizes, &compiled.shapes[entry.shape].room)
        && pinned()
        && pods().all(|class| admits(class).contains(entry.shape))
}
