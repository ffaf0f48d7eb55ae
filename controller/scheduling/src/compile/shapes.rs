//! Shapes: what one pool can launch, as capacities and prices per cell.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cells::{Cells, Dimension};
use super::columns::Columns;
use super::signatures::{Signature, allows, lifecycle_labels};
use crate::labels;
use crate::model::{InstanceType, NodePool, Operator, Options, PoolState, Problem, Requirement, Requirements};

/// One pool's use of one instance type.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) pool: usize,
    /// Index in the pool's catalogue.
    pub(crate) instance_type: usize,
    /// Allocatable less the daemons of this pool and type, in column order.
    pub(crate) room: Vec<i32>,
    /// Daemons that its nodes carry.
    pub(crate) daemons: SmallVec<[u32; 4]>,
    /// USD per hour of the cheapest offering, by cell; infinite where there is none.
    pub(crate) price: Vec<f64>,
    /// That offering, by cell; spot goes first at equal price.
    pub(crate) offering: Vec<u32>,
    /// The least of `price`.
    pub(crate) cheapest: f64,
    /// Reserved offerings: cell, price, instances left, offering.
    pub(crate) reserved: Vec<Reserved>,
}

impl Shape {
    /// Whether it can be bought in `cell`.
    pub(crate) fn offered(&self, cell: usize) -> bool {
        self.price[cell].is_finite() || self.reserved.iter().any(|reserved| reserved.cell == cell)
    }
}

/// Capacity that is paid for already.
#[derive(Debug, Clone)]
pub(crate) struct Reserved {
    pub(crate) cell: usize,
    pub(crate) price: f64,
    pub(crate) count: u32,
    pub(crate) offering: usize,
}

/// A pool as packing sees it.
#[derive(Debug)]
pub(crate) struct PoolUse {
    /// Ready, not static.
    pub(crate) open: bool,
    pub(crate) requirements: Requirements,
}

impl PoolUse {
    pub(crate) fn new(pool: &NodePool) -> Self {
        let mut requirements = pool.requirements.clone();
        requirements.add(labels::NODE_POOL, Requirement::new(Operator::In, [Arc::clone(&pool.name)]));
        requirements.add_all(&Requirements::from_labels(&pool.labels));
        Self { open: pool.state == PoolState::Ready && pool.missing_replicas.is_none(), requirements }
    }
}

/// One label of all types of a catalogue: the distinct requirements on it, and which type has which.
struct LabelColumn {
    distinct: Vec<Option<Requirement>>,
    of_type: Vec<u32>,
}

/// The types of one catalogue by label, built for the labels that are asked for.
pub(crate) struct LabelIndex<'a> {
    types: &'a [InstanceType],
    columns: FxHashMap<Arc<str>, LabelColumn>,
}

impl<'a> LabelIndex<'a> {
    pub(crate) fn new(types: &'a [InstanceType]) -> Self {
        Self { types, columns: FxHashMap::default() }
    }

    fn column(&mut self, key: &Arc<str>) -> &LabelColumn {
        let types = self.types;
        self.columns.entry(Arc::clone(key)).or_insert_with(|| {
            let mut ids: FxHashMap<Option<&Requirement>, u32> = FxHashMap::default();
            let mut distinct = Vec::new();
            let of_type = types
                .iter()
                .map(|instance_type| {
                    let requirement = instance_type.requirements.get(key);
                    *ids.entry(requirement).or_insert_with(|| {
                        distinct.push(requirement.cloned());
                        distinct.len() as u32 - 1
                    })
                })
                .collect();
            LabelColumn { distinct, of_type }
        })
    }

    /// Keeps in `set` the types whose own label `key` passes `test` (`None`: the type does not have it).
    pub(crate) fn retain(
        &mut self,
        key: &Arc<str>,
        set: &mut FixedBitSet,
        test: impl Fn(Option<&Requirement>) -> bool,
    ) {
        let column = self.column(key);
        let verdicts: Vec<bool> = column.distinct.iter().map(|requirement| test(requirement.as_ref())).collect();
        if verdicts.iter().all(|&verdict| verdict) {
            return;
        }
        for (index, &id) in column.of_type.iter().enumerate() {
            if !verdicts[id as usize] {
                set.set(index, false);
            }
        }
    }

    /// Whether some type leaves several values of `key` open.
    pub(crate) fn is_open(&mut self, key: &Arc<str>) -> bool {
        self.column(key).distinct.iter().flatten().any(|requirement| requirement.single().is_none())
    }
}

/// Whether what the pool and the type say of a label leaves room for `wanted`.
fn meets(wanted: &Requirement, pool: Option<&Requirement>, own: Option<&Requirement>) -> bool {
    let both = |there: &Requirement| wanted.overlaps(there) || (wanted.allows_absence() && there.allows_absence());
    match (pool, own) {
        (None, None) => wanted.allows_absence(),
        (Some(one), None) | (None, Some(one)) => both(one),
        (Some(pool), Some(own)) => both(&pool.intersection(own)),
    }
}

/// Types of `pool` that meet its own requirements, offerings aside.
pub(crate) fn types_of_pool(pool: &PoolUse, index: &mut LabelIndex<'_>, offering_keys: &[Arc<str>]) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(index.types.len());
    set.insert_range(..);
    for (key, wanted) in pool.requirements.iter() {
        if offering_keys.contains(key) {
            continue;
        }
        index.retain(key, &mut set, |own| own.is_none_or(|own| meets(wanted, None, Some(own))));
    }
    set
}

/// Types of `pool` on which `alternative` of a signature can hold, cells aside. A label that neither pool, type nor
/// offering defines is absent on the node.
pub(crate) fn types_for(
    alternative: &Requirements,
    pool: &PoolUse,
    index: &mut LabelIndex<'_>,
    offering_keys: &[Arc<str>],
    known: &Requirements,
) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(index.types.len());
    set.insert_range(..);
    for (key, wanted) in alternative.iter() {
        if &**key == labels::HOSTNAME {
            if !wanted.allows_absence() {
                set.clear();
            }
            continue;
        }
        if offering_keys.contains(key) {
            continue;
        }
        let of_pool = pool.requirements.get(key).or_else(|| known.get(key));
        index.retain(key, &mut set, |own| meets(wanted, of_pool, own));
    }
    set
}

/// Everything that opens shapes: the pools' types, their offerings by cell, the daemons they carry.
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
        let mut index = LabelIndex::new(types);
        let candidates = types_of_pool(used, &mut index, offering_keys);
        let carried: Vec<FixedBitSet> = daemons
            .iter()
            .map(|daemon| {
                let mut set = FixedBitSet::with_capacity(types.len());
                if daemon.tolerates(&pool.taints) {
                    for alternative in &daemon.alternatives {
                        set.union_with(&types_for(alternative, used, &mut index, offering_keys, &lifecycle));
                    }
                }
                set
            })
            .collect();
        for type_index in candidates.ones() {
            let instance_type = &types[type_index];
            let Some(priced) = cells.prices(instance_type, &used.requirements, options.reserved_capacity) else {
                continue;
            };
            let mut allocatable = instance_type.allocatable();
            let mut on_board = SmallVec::new();
            for (number, (daemon, set)) in problem.daemons.iter().zip(&carried).enumerate() {
                if set.contains(type_index) {
                    on_board.push(number as u32);
                    allocatable.subtract(&problem.specs[daemon.spec].requests);
                }
            }
            let room = columns.room(&allocatable, &[]);
            let cheapest = priced.price.iter().copied().fold(f64::INFINITY, f64::min);
            shapes.push(Shape {
                pool: number,
                instance_type: type_index,
                room,
                daemons: on_board,
                price: priced.price,
                offering: priced.offering,
                cheapest,
                reserved: priced.reserved,
            });
        }
    }
    shapes
}

/// For every signature and cell, the shapes on which its pods may run.
pub(crate) fn admissions(
    problem: &Problem,
    cells: &Cells,
    pools: &[PoolUse],
    shapes: &[Shape],
    signatures: &[Signature],
    daemons: &[Signature],
) -> Vec<Vec<FixedBitSet>> {
    let offering_keys = cells.offering_keys();
    let nothing = Requirements::new();
    let mut indexes: Vec<LabelIndex<'_>> = problem.catalogues.iter().map(|types| LabelIndex::new(types)).collect();
    signatures
        .iter()
        .map(|signature| {
            let mut by_cell = vec![FixedBitSet::with_capacity(shapes.len()); cells.len()];
            for (number, (pool, used)) in problem.pools.iter().zip(pools).enumerate() {
                if !used.open || !signature.tolerates(&pool.taints) {
                    continue;
                }
                let index = &mut indexes[pool.catalogue];
                for alternative in &signature.alternatives {
                    let types = types_for(alternative, used, index, offering_keys, &nothing);
                    let in_cell: Vec<usize> = (0..cells.len())
                        .filter(|&cell| {
                            cells.dimensions.iter().enumerate().all(|(at, dimension)| {
                                let key: &Dimension = dimension;
                                alternative.get(&key.key).is_none_or(|wanted| allows(wanted, cells.value(cell, at)))
                            })
                        })
                        .collect();
                    for (shape_index, shape) in shapes.iter().enumerate() {
                        if shape.pool == number && types.contains(shape.instance_type) {
                            for &cell in &in_cell {
                                by_cell[cell].insert(shape_index);
                            }
                        }
                    }
                }
            }
            if !signature.host_ports.is_empty() {
                block_daemon_ports(problem, pools, shapes, signature, daemons, offering_keys, &mut by_cell);
            }
            by_cell
        })
        .collect()
}

/// Takes away the shapes on which a daemon holds one of the signature's ports.
fn block_daemon_ports(
    problem: &Problem,
    pools: &[PoolUse],
    shapes: &[Shape],
    signature: &Signature,
    daemons: &[Signature],
    offering_keys: &[Arc<str>],
    by_cell: &mut [FixedBitSet],
) {
    let lifecycle = lifecycle_labels();
    for daemon in daemons {
        let clash = daemon.host_ports.iter().any(|port| signature.host_ports.iter().any(|own| own.conflicts(port)));
        if !clash {
            continue;
        }
        for (number, (pool, used)) in problem.pools.iter().zip(pools).enumerate() {
            if !daemon.tolerates(&pool.taints) {
                continue;
            }
            let mut index = LabelIndex::new(&problem.catalogues[pool.catalogue]);
            for alternative in &daemon.alternatives {
                let types = types_for(alternative, used, &mut index, offering_keys, &lifecycle);
                for (shape_index, shape) in shapes.iter().enumerate() {
                    if shape.pool == number && types.contains(shape.instance_type) {
                        by_cell.iter_mut().for_each(|set| set.set(shape_index, false));
                    }
                }
            }
        }
    }
}
