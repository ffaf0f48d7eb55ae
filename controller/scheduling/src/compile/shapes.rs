//! Shapes: the nodes that one pool can launch, as capacities and prices per cell.

use std::ops::Range;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec, index_vec};
use smallvec::SmallVec;

use super::cells::{CellId, Cells};
use super::columns::Columns;
use super::prices::Pricing;
use super::signatures::{Signature, SignatureId, allows, lifecycle_labels};
use crate::labels;
use crate::model::{
    Catalogue, NodePool, Operator, Options, PoolState, Problem, Requirement, Requirements, Reservation, SetId,
    reservations_left,
};

/// Price of a free node in packing, USD per hour: the value of its pods is divided by its price, and one free node is
/// better than two.
pub(crate) const FREE: f64 = 1e-6;

/// One pool's use of one instance type.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) pool: usize,
    /// Index in the pool's catalogue.
    pub(crate) instance_type: usize,
    /// Allocatable minus the daemons of this pool and type, in column order.
    pub(crate) room: Vec<i32>,
    /// The room before `minValues` lowered it.
    pub(crate) whole: Option<Box<[i32]>>,
    /// The shape of the same pool and type from which it differs only in the room that `minValues` allows.
    pub(crate) twin_of: Option<usize>,
    /// Daemons that run on its nodes.
    pub(crate) daemons: SmallVec<[u32; 4]>,
    /// USD per hour of the cheapest offering, at least [`FREE`], by cell; infinite if there is none.
    pub(crate) price: IndexVec<CellId, f64>,
    /// Index of that offering, by cell; spot is preferred at equal price.
    pub(crate) offering: IndexVec<CellId, u32>,
    /// The minimum of `price`.
    pub(crate) cheapest: f64,
    /// Reserved offerings that have instances left.
    pub(crate) reserved: Vec<Reserved>,
}

impl Shape {
    /// Returns the room of its nodes before `minValues` lowered it.
    pub(crate) fn holds(&self) -> &[i32] {
        self.whole.as_deref().unwrap_or(&self.room)
    }

    /// Returns true if it can be bought in `cell`, or is reserved there.
    pub(crate) fn offered(&self, cell: CellId) -> bool {
        self.price[cell].is_finite() || self.reserved.iter().any(|reserved| reserved.cell == cell)
    }
}

/// Reserved capacity, which is already paid for.
#[derive(Debug, Clone)]
pub(crate) struct Reserved {
    pub(crate) cell: CellId,
    pub(crate) price: f64,
    pub(crate) count: u32,
    pub(crate) offering: usize,
}

/// A pool, as packing needs it.
#[derive(Debug, Clone)]
pub(crate) struct PoolUse {
    /// True if it is ready and not static.
    pub(crate) open: bool,
    pub(crate) requirements: Requirements,
    /// True if the pool may use the offering set, by offering set of its catalogue.
    pub(crate) allows: IndexVec<SetId, bool>,
}

impl PoolUse {
    pub(crate) fn new(pool: &NodePool, types: Option<&Catalogue>) -> Self {
        let mut requirements = pool.requirements.clone();
        requirements.add(labels::NODE_POOL, Requirement::new(Operator::In, [Arc::clone(&pool.name)]));
        requirements.add_all(&Requirements::from_labels(&pool.labels));
        let open = pool.state == PoolState::Ready && pool.missing_replicas.is_none();
        let sets = types.into_iter().flat_map(Catalogue::sets);
        let allows = sets.map(|set| requirements.intersects(&set.requirements)).collect();
        Self { open, requirements, allows }
    }
}

/// Returns true if a label that the pool and the type constrain can satisfy `wanted`.
fn meets(wanted: &Requirement, pool: Option<&Requirement>, own: Option<&Requirement>) -> bool {
    match (pool, own) {
        (None, None) => wanted.allows_absence(),
        (Some(one), None) | (None, Some(one)) => one.meets(wanted),
        (Some(pool), Some(own)) => pool.intersection(own).meets(wanted),
    }
}

/// Returns the types that meet the requirements of `pool`, except those on labels of offerings.
fn types_of_pool(pool: &PoolUse, types: &Catalogue, offering_keys: &[Arc<str>]) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(types.len());
    set.insert_range(..);
    for (key, wanted) in pool.requirements.iter() {
        if offering_keys.contains(key) {
            continue;
        }
        types.retain(key, &mut set, |own| own.is_none_or(|own| meets(wanted, None, Some(own))));
    }
    set
}

/// Returns the types of `pool` on which `alternative` of a signature can hold. A label that neither pool, type nor
/// offering defines is absent on the node. With `cells_decide`, labels that offerings decide are left to the cells.
fn types_for(
    alternative: &Requirements,
    pool: &PoolUse,
    types: &Catalogue,
    offering_keys: &[Arc<str>],
    known: &Requirements,
    cells_decide: bool,
) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(types.len());
    set.insert_range(..);
    for (key, wanted) in alternative.iter() {
        if &**key == labels::HOSTNAME {
            if !wanted.allows_unheard() {
                set.clear();
            }
            continue;
        }
        if cells_decide && offering_keys.contains(key) {
            continue;
        }
        let of_pool = pool.requirements.get(key).or_else(|| known.get(key));
        types.retain(key, &mut set, |own| meets(wanted, of_pool, own));
    }
    set
}

/// Builds the shapes: the pools' types, their offerings by cell, and the daemons that run on them.
pub(crate) fn build(
    problem: &Problem,
    options: &Options,
    columns: &Columns,
    cells: &Cells,
    pools: &[PoolUse],
    daemons: &[Signature],
) -> Vec<Shape> {
    let offering_keys = cells.offering_keys();
    let lifecycle = lifecycle_labels();
    let mut shapes = Vec::new();
    for (number, (pool, used)) in problem.pools.iter().zip(pools).enumerate() {
        if !used.open {
            continue;
        }
        let types = &problem.catalogues[pool.catalogue];
        let mut pricing = Pricing::new(cells, types, pool.catalogue, used, options.reserved_capacity);
        let capacity = columns.of_resources(types.resources());
        let carried: Vec<(FixedBitSet, Vec<i64>)> = problem
            .daemons
            .iter()
            .zip(daemons)
            .map(|(daemon, signature)| {
                let mut set = FixedBitSet::with_capacity(types.len());
                if signature.tolerates(&pool.taints) {
                    for alternative in &signature.alternatives {
                        set.union_with(&types_for(alternative, used, types, offering_keys, &lifecycle, false));
                    }
                }
                (set, columns.amounts(&problem.specs[daemon.spec].requests))
            })
            .collect();
        for type_index in types_of_pool(used, types, offering_keys).ones() {
            let Some(mut priced) = pricing.of_type(type_index) else { continue };
            priced.price.iter_mut().for_each(|price| *price = price.max(FREE));
            let mut left = capacity.pick(types.allocatable(type_index));
            let mut on_board = SmallVec::new();
            for (number, (set, amounts)) in carried.iter().enumerate() {
                if set.contains(type_index) {
                    on_board.push(number as u32);
                    left.iter_mut().zip(amounts).for_each(|(left, &amount)| *left = left.saturating_sub(amount));
                }
            }
            shapes.push(Shape {
                pool: number,
                instance_type: type_index,
                room: columns.empty_room(&left),
                whole: None,
                twin_of: None,
                daemons: on_board,
                cheapest: priced.price.iter().copied().fold(f64::INFINITY, f64::min),
                price: priced.price,
                offering: priced.offering,
                reserved: priced.reserved,
            });
        }
    }
    count_reservations(problem, &mut shapes);
    shapes
}

/// Limits the count of every reserved offering to the instances that its reservation has left.
fn count_reservations(problem: &Problem, shapes: &mut [Shape]) {
    if shapes.iter().all(|shape| shape.reserved.is_empty()) {
        return;
    }
    let left = reservations_left(problem);
    for shape in shapes {
        let catalogue = problem.pools[shape.pool].catalogue;
        let offerings = &problem.catalogues[catalogue][shape.instance_type].offerings;
        for reserved in &mut shape.reserved {
            let place = (catalogue, shape.instance_type, reserved.offering);
            let count = left.get(&Reservation::of(&offerings[reserved.offering], place));
            reserved.count = count.copied().unwrap_or(0).min(reserved.count);
        }
        shape.reserved.retain(|reserved| reserved.count > 0);
    }
}

/// Returns the shapes on which pods may run, by signature and cell.
pub(crate) fn admissions(
    problem: &Problem,
    cells: &Cells,
    pools: &[PoolUse],
    shapes: &[Shape],
    signatures: &IndexSlice<SignatureId, [Signature]>,
    daemons: &[Signature],
) -> IndexVec<SignatureId, IndexVec<CellId, FixedBitSet>> {
    let offering_keys = cells.offering_keys();
    let nothing = Requirements::new();
    let of_pool = |pool: usize| {
        let from = shapes.partition_point(|shape| shape.pool < pool);
        from..from + shapes[from..].partition_point(|shape| shape.pool == pool)
    };
    let of_pool: Vec<Range<usize>> = (0..pools.len()).map(of_pool).collect();
    signatures
        .iter()
        .map(|signature| {
            let mut by_cell: IndexVec<CellId, FixedBitSet> =
                index_vec![FixedBitSet::with_capacity(shapes.len()); cells.len()];
            for ((pool, used), range) in problem.pools.iter().zip(pools).zip(&of_pool) {
                if range.is_empty() || !signature.tolerates(&pool.taints) {
                    continue;
                }
                for alternative in &signature.alternatives {
                    let types = types_for(
                        alternative,
                        used,
                        &problem.catalogues[pool.catalogue],
                        offering_keys,
                        &nothing,
                        true,
                    );
                    let mut admitted = FixedBitSet::with_capacity(shapes.len());
                    admitted.extend(range.clone().filter(|&shape| types.contains(shapes[shape].instance_type)));
                    for (cell, set) in by_cell.iter_mut_enumerated() {
                        let holds = cells.dimensions.iter().enumerate().all(|(at, dimension)| {
                            let of_pool = used.requirements.get(&dimension.key);
                            alternative.get(&dimension.key).is_none_or(|wanted| {
                                let value = cells.value(cell, at);
                                allows(wanted, value)
                                    || value.is_none() && is_met_by_any(wanted, of_pool, &dimension.values)
                            })
                        });
                        if holds {
                            set.union_with(&admitted);
                        }
                    }
                }
            }
            if !signature.host_ports.is_empty() {
                let taken = taken_by_daemons(problem, pools, shapes, signature, daemons, offering_keys);
                by_cell.iter_mut().for_each(|set| set.difference_with(&taken));
            }
            by_cell
        })
        .collect()
}

/// Returns true if a pool gives its nodes the label, and every value that it can have, other than `known` ones, meets
/// `wanted`. Bounds are left out: of two pods with different ones, no value may meet both.
fn is_met_by_any(wanted: &Requirement, of_pool: Option<&Requirement>, known: &[Arc<str>]) -> bool {
    wanted.bounds() == (None, None)
        && of_pool.is_some_and(|of_pool| !of_pool.allows_absence() && of_pool.intersection(wanted).allows_beyond(known))
}

/// Returns the shapes on which a daemon uses one of the signature's ports.
fn taken_by_daemons(
    problem: &Problem,
    pools: &[PoolUse],
    shapes: &[Shape],
    signature: &Signature,
    daemons: &[Signature],
    offering_keys: &[Arc<str>],
) -> FixedBitSet {
    let lifecycle = lifecycle_labels();
    let mut taken = FixedBitSet::with_capacity(shapes.len());
    for daemon in daemons {
        let clash = daemon.host_ports.iter().any(|port| signature.host_ports.iter().any(|own| own.conflicts(port)));
        if !clash {
            continue;
        }
        for (number, (pool, used)) in problem.pools.iter().zip(pools).enumerate() {
            if !daemon.tolerates(&pool.taints) {
                continue;
            }
            let catalogue = &problem.catalogues[pool.catalogue];
            for alternative in &daemon.alternatives {
                let types = types_for(alternative, used, catalogue, offering_keys, &lifecycle, false);
                let is_taken = |shape: &Shape| shape.pool == number && types.contains(shape.instance_type);
                taken.extend((0..shapes.len()).filter(|&shape| is_taken(&shapes[shape])));
            }
        }
    }
    taken
}
