//! Shapes for construction: without dominated ones, ordered by price, with the limits of their pools.

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexSlice, IndexVec, index_vec};
use rustc_hash::FxHashMap;

use super::fill::Content;
use super::groups::Grouped;
pub(crate) use super::headroom::Headroom;
use super::item_blocks::Classes;
use super::remaining_demand::{KindId, RemainingDemand};
use crate::compile::{CellId, Compiled, SignatureId, fits};
use crate::pack::relaxation::fluid::{Demands, Source};

/// Maximum number of rows of the fluid program; beyond it the signatures with the fewest units are merged.
const MOST_ROWS: usize = 40;

/// Shapes that construction may open.
pub(crate) struct ShapeIndex<'a> {
    pub(crate) compiled: &'a Compiled<'a>,
    /// Shapes that no other dominates; indices into `compiled.shapes`.
    pub(crate) basic: &'a [usize],
    /// Shapes of `basic` on offer in each cell, by ascending price.
    pub(crate) by_price: &'a IndexSlice<CellId, [Vec<usize>]>,
    /// Group in the fluid program, by kind.
    pub(crate) group_of: IndexVec<KindId, usize>,
    pub(crate) groups: usize,
    /// Groups that each shape admits in some cell.
    pub(crate) groups_of_shape: Vec<FixedBitSet>,
    /// Position in `basic`, by shape; `u32::MAX` if it is not there.
    pub(crate) position: Vec<u32>,
    /// Weight of the heaviest pool that can hold a unit, by kind; `i32::MIN` if none can.
    pub(crate) tier_of_kind: IndexVec<KindId, i32>,
}

impl<'a> ShapeIndex<'a> {
    /// Ranks the shapes. With `weighted`, pods are priced by the pools that must be opened for them by weight; without
    /// it, by all pools that admit them, as a lower bound requires.
    pub(crate) fn new(
        compiled: &'a Compiled<'a>,
        grouped: &Grouped,
        unplaced: &RemainingDemand,
        weighted: bool,
    ) -> Self {
        let (basic, by_price) = compiled.ranked.get_or_init(|| {
            let basic = undominated(compiled);
            let by_price = by_price(compiled, &basic);
            (basic, by_price)
        });
        let mut position = vec![u32::MAX; compiled.shapes.len()];
        basic.iter().enumerate().for_each(|(at, &shape)| position[shape] = at as u32);
        let mut shape_index = Self {
            compiled,
            basic,
            position,
            by_price,
            group_of: IndexVec::new(),
            groups: 0,
            groups_of_shape: vec![FixedBitSet::new(); compiled.shapes.len()],
            tier_of_kind: IndexVec::new(),
        };
        shape_index.tier_of_kind = shape_index.tiers(grouped, unplaced, &Headroom::new(compiled));
        shape_index.group(grouped, unplaced, weighted);
        shape_index
    }

    /// Returns the price of the cheapest shape in a cell, in USD per hour; infinity if none is on offer.
    pub(crate) fn cheapest(&self, cell: CellId) -> f64 {
        self.by_price[cell].first().map_or(f64::INFINITY, |&shape| self.compiled.shapes[shape].price[cell])
    }

    /// Assigns kinds to groups of the fluid program: kinds that may use the same shapes share rows. If there are too
    /// many groups, those with the fewest units are merged, which only loosens the program.
    fn group(&mut self, grouped: &Grouped, unplaced: &RemainingDemand, weighted: bool) {
        let mut offered: FxHashMap<(SignatureId, i32), FixedBitSet> = FxHashMap::default();
        let mut ids: FxHashMap<FixedBitSet, usize> = FxHashMap::default();
        let mut sets: Vec<FixedBitSet> = Vec::new();
        let mut demand: Vec<usize> = Vec::new();
        let mut group_of = IndexVec::with_capacity(unplaced.kinds.len());
        for (kind, one) in unplaced.kinds.iter_enumerated() {
            let tier = if weighted { self.tier_of_kind[kind] } else { i32::MIN };
            let set = offered.entry((one.signature, tier)).or_insert_with(|| {
                let mut set = FixedBitSet::with_capacity(self.compiled.shapes.len());
                let offered = grouped.offered(self.compiled, one.signature).ones();
                set.extend(offered.filter(|&shape| self.weight_of(shape) >= tier));
                set
            });
            let group = match ids.get(set) {
                Some(&group) => group,
                None => {
                    ids.insert(set.clone(), sets.len());
                    sets.push(set.clone());
                    demand.push(0);
                    sets.len() - 1
                }
            };
            demand[group] += unplaced.left_of_kind[kind];
            group_of.push(group);
        }
        let most = (MOST_ROWS / self.compiled.columns.width()).max(2);
        if demand.len() > most {
            let mut order: Vec<usize> = (0..demand.len()).collect();
            order.sort_by_key(|&group| (std::cmp::Reverse(demand[group]), group));
            let mut merged = vec![most - 1; demand.len()];
            order.iter().take(most - 1).enumerate().for_each(|(rank, &group)| merged[group] = rank);
            group_of.iter_mut().for_each(|group| *group = merged[*group]);
            let mut joint = vec![FixedBitSet::with_capacity(self.compiled.shapes.len()); most];
            sets.iter().enumerate().for_each(|(group, set)| joint[merged[group]].union_with(set));
            sets = joint;
        }
        self.groups = sets.len();
        self.groups_of_shape = vec![FixedBitSet::with_capacity(self.groups); self.compiled.shapes.len()];
        for (group, set) in sets.iter().enumerate() {
            set.ones().for_each(|shape| self.groups_of_shape[shape].insert(group));
        }
        self.group_of = group_of;
    }

    /// Returns by kind the weight of the heaviest pool that can still open a node for it within the limits; `i32::MIN`
    /// if none can.
    pub(crate) fn tiers(
        &self,
        grouped: &Grouped,
        unplaced: &RemainingDemand,
        headroom: &Headroom,
    ) -> IndexVec<KindId, i32> {
        let weights: Vec<i32> = self.compiled.problem.pools.iter().map(|pool| pool.weight).collect();
        let single = weights.iter().all(|&weight| weight == weights[0]);
        unplaced
            .kinds
            .iter()
            .map(|kind| {
                let offered = grouped.offered(self.compiled, kind.signature);
                let mut tier = i32::MIN;
                for &shape in self.basic.iter().filter(|&&shape| offered.contains(shape)) {
                    let one = &self.compiled.shapes[shape];
                    let weight = weights[one.pool];
                    let is_open = weight > tier && kind.pools.contains(one.pool);
                    if is_open && fits(&kind.sizes, &one.room) && headroom.allows(self.compiled, shape) {
                        tier = weight;
                        if single {
                            break;
                        }
                    }
                }
                tier
            })
            .collect()
    }

    /// Returns kinds classified by all that construction distinguishes.
    pub(crate) fn classes(&self, unplaced: &RemainingDemand, tiers: &IndexSlice<KindId, [i32]>) -> Classes {
        Classes::new(unplaced, |kind| (self.group_of[kind], unplaced.kinds[kind].signature, tiers[kind]))
    }

    pub(crate) fn weight_of(&self, shape: usize) -> i32 {
        self.compiled.problem.pools[self.compiled.shapes[shape].pool].weight
    }

    /// Returns the cell in which a node of `shape` with this content costs least; `cell` must be one that is allowed.
    pub(crate) fn cheapest_cell(
        &self,
        grouped: &Grouped,
        unplaced: &RemainingDemand,
        (shape, cell): (usize, CellId),
        content: &Content,
    ) -> CellId {
        let one = &self.compiled.shapes[shape];
        let batches = || content.iter().map(|&(batch, _)| &unplaced.batches[batch]);
        let tightest = batches().map(|batch| &unplaced.cells_of[batch.mask]).min_by_key(|cells| cells.len());
        let Some(tightest) = tightest.filter(|_| one.cheapest < one.price[cell]) else { return cell };
        let goes = |cell: &CellId| {
            batches().all(|batch| {
                let signature = unplaced.kinds[batch.kind].signature;
                unplaced.masks[batch.mask].contains(cell.index()) && grouped.admits[signature][*cell].contains(shape)
            })
        };
        let cheaper = tightest.iter().copied().filter(|&other| one.price[other] < one.price[cell]);
        cheaper.filter(goes).min_by(|&a, &b| one.price[a].total_cmp(&one.price[b])).unwrap_or(cell)
    }

    /// Returns the demands of the remaining units.
    pub(crate) fn demands(&self, unplaced: &RemainingDemand, least_nodes: f64) -> Demands {
        let width = self.compiled.columns.width();
        let mut totals = vec![0.0; self.groups * width];
        for (kind, one) in unplaced.kinds.iter_enumerated() {
            let count = unplaced.left_of_kind[kind] as f64;
            if count > 0.0 && self.tier_of_kind[kind] != i32::MIN {
                let group = self.group_of[kind];
                for (column, &size) in one.sizes.iter().enumerate() {
                    totals[group * width + column] += count * f64::from(size);
                }
            }
        }
        Demands { totals, groups: self.groups, width, least_nodes }
    }

    /// Returns the shapes `among` as sources of the fluid program.
    pub(crate) fn sources(&self, among: &[usize]) -> Vec<Source<'_>> {
        among
            .iter()
            .map(|&shape| Source {
                room: &self.compiled.shapes[shape].room,
                price: self.compiled.shapes[shape].cheapest,
                groups: &self.groups_of_shape[shape],
            })
            .collect()
    }
}

/// Returns by cell the shapes of `among` on offer there, by ascending price.
fn by_price(compiled: &Compiled<'_>, among: &[usize]) -> IndexVec<CellId, Vec<usize>> {
    let price = |shape: usize, cell: CellId| compiled.shapes[shape].price[cell];
    let mut offered: IndexVec<CellId, Vec<usize>> = index_vec![Vec::new(); compiled.cells.len()];
    for &shape in among {
        let cells = compiled.offered_in()[shape].iter().copied();
        cells.filter(|&cell| price(shape, cell).is_finite()).for_each(|cell| offered[cell].push(shape));
    }
    for (cell, shapes) in offered.iter_mut_enumerated() {
        shapes.sort_by(|&a, &b| price(a, cell).total_cmp(&price(b, cell)).then(a.cmp(&b)));
    }
    offered
}

/// Returns the shapes that no other shape of the same pool dominates: with as much room, as cheap in every cell, and
/// admitting as much. Bundles are admitted where all their pods are, so only signatures of pods matter.
fn undominated(compiled: &Compiled<'_>) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..compiled.shapes.len()).filter(|&shape| compiled.shapes[shape].cheapest.is_finite()).collect();
    let key = |shape: usize| &compiled.shapes[shape];
    order.sort_by(|&a, &b| {
        let roomier = key(b).room.cmp(&key(a).room);
        key(a).cheapest.total_cmp(&key(b).cheapest).then(roomier).then(a.cmp(&b))
    });
    // One bit row per shape of the (signature, cell) pairs it serves; equal rows are compared once.
    let cells = compiled.cells.len();
    let mut served = vec![FixedBitSet::with_capacity(compiled.admits.len() * cells); compiled.shapes.len()];
    for (signature, by_cell) in compiled.admits.iter_enumerated() {
        for (cell, set) in by_cell.iter_enumerated() {
            set.ones().for_each(|shape| served[shape].insert(signature.index() * cells + cell.index()));
        }
    }
    order.retain(|&shape| !served[shape].is_clear());
    let mut rows: Vec<&FixedBitSet> = Vec::new();
    let mut row_ids: FxHashMap<&FixedBitSet, usize> = FxHashMap::default();
    let row_of: Vec<usize> = served
        .iter()
        .map(|row| {
            *row_ids.entry(row).or_insert_with(|| {
                rows.push(row);
                rows.len() - 1
            })
        })
        .collect();
    let mut inside: FxHashMap<(usize, usize), bool> = FxHashMap::default();
    let limited: Vec<bool> = compiled.problem.pools.iter().map(|pool| pool.limits.is_some()).collect();
    let flexible: Vec<bool> = compiled
        .problem
        .pools
        .iter()
        .map(|pool| pool.requirements.iter().any(|(_, one)| one.min_values.is_some()))
        .collect();
    let mut kept: Vec<usize> = Vec::new();
    let mut kept_of_pool: Vec<Vec<usize>> = vec![Vec::new(); compiled.problem.pools.len()];
    for &shape in &order {
        let one = key(shape);
        let beaten = !flexible[one.pool]
            && kept_of_pool[one.pool].iter().any(|&other| {
                let better = key(other);
                let (row, of_better) = (row_of[shape], row_of[other]);
                one.room.iter().zip(&better.room).all(|(less, more)| less <= more)
                    && (row == of_better
                        || *inside.entry((row, of_better)).or_insert_with(|| rows[row].is_subset(rows[of_better])))
                    && compiled.offered_in()[shape].iter().all(|&cell| better.price[cell] <= one.price[cell])
                    && (!limited[one.pool] || takes_no_less(compiled, shape, other))
            });
        if !beaten {
            kept.push(shape);
            kept_of_pool[one.pool].push(shape);
        }
    }
    kept.sort_unstable();
    kept
}

/// Returns true if a node of `shape` takes at least as much of each limit of its pool as one of `other`, a shape of the
/// same pool.
fn takes_no_less(compiled: &Compiled<'_>, shape: usize, other: usize) -> bool {
    let pool = &compiled.problem.pools[compiled.shapes[shape].pool];
    let capacity =
        |shape: usize| &compiled.problem.catalogues[pool.catalogue][compiled.shapes[shape].instance_type].capacity;
    let (one, other) = (capacity(shape), capacity(other));
    let mut limits = pool.limits.iter().flat_map(|limits| limits.iter());
    limits.all(|(resource, _)| one.against_limit(resource) >= other.against_limit(resource))
}
