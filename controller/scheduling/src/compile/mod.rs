//! Compiles a snapshot to integers: columns, signatures, cells, shapes, rules and classes.
//!
//! ```text
//! specs ─► signatures ─┬─► cells ─► shapes ─► admissions   (may pods of signature g use shape s in cell c: one bit)
//!       ─► rules ──────┘
//!       ─► classes                                         (pods that only differ in name)
//! ```

mod cells;
mod columns;
pub(crate) mod flexible;
mod prices;
mod rules;
mod selection;
mod shapes;
mod signatures;
#[cfg(test)]
mod tests;
mod topology;
mod volumes;

use std::cell::OnceCell;
use std::rc::Rc;

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec, index_vec};

pub(crate) use cells::{CellId, Cells, cells_in};
pub(crate) use columns::{CPU, Columns, MEMORY, Rounding, Vectors, fits};
pub(crate) use rules::{
    Demand, DomainRule, DomainRuleId, Filter, HostRule, HostRuleId, Part, Rules, Softness, Subject,
};
pub(crate) use selection::Selection;
pub(crate) use shapes::{FREE, PoolUse, Shape};
pub(crate) use signatures::{Signature, SignatureId, Signatures};
pub(crate) use topology::{TopologyKeys, is_decided, is_wide, topology_values};

use crate::model::{Options, Problem, SpecId};

/// Weight of the highest price relative to a node that uses all that the limits leave.
const PRICE_BESIDE_LIMITS: f64 = 0.001;

/// Pods of one spec.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) spec: SpecId,
    pub(crate) signature: SignatureId,
    /// Id in [`Compiled::vectors`].
    pub(crate) request: u32,
    /// Pending pods, in the order of the input.
    pub(crate) pods: Vec<u32>,
}

/// Shapes worth opening, and these by ascending price for each cell.
type Ranked = (Vec<usize>, IndexVec<CellId, Vec<usize>>);

/// Shapes by cell, and cells by shape.
#[derive(Clone)]
struct Supply {
    /// Shapes that can be bought, by cell.
    bought: IndexVec<CellId, FixedBitSet>,
    /// Shapes that are offered, reservations included, by cell.
    offered: IndexVec<CellId, FixedBitSet>,
    /// Cells in which each shape is offered.
    offered_in: Vec<Vec<CellId>>,
}

/// A compiled problem. It does not depend on the treatment of preferred terms; rules are built per treatment.
#[derive(Clone)]
pub(crate) struct Compiled<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) options: &'a Options,
    pub(crate) columns: Columns,
    pub(crate) vectors: Vectors,
    pub(crate) classes: Vec<Class>,
    /// Class by spec; `u32::MAX` if no pending pod has the spec.
    pub(crate) class_of_spec: Vec<u32>,
    pub(crate) signatures: IndexVec<SignatureId, Signature>,
    pub(crate) topology_keys: TopologyKeys,
    pub(crate) cells: Cells,
    pub(crate) pools: Vec<PoolUse>,
    pub(crate) shapes: Vec<Shape>,
    /// Shapes by signature and cell: `admits[signature][cell]` contains shape.
    pub(crate) admits: IndexVec<SignatureId, Rc<IndexVec<CellId, FixedBitSet>>>,
    /// Computed on first use.
    pub(crate) ranked: OnceCell<Ranked>,
    /// Computed on first use.
    supply: OnceCell<Supply>,
    /// Exact requests, by class, in column order.
    amounts: Vec<i64>,
}

impl<'a> Compiled<'a> {
    /// Compiles `problem` for planning.
    pub(crate) fn new(problem: &'a Problem, options: &'a Options) -> Self {
        Self::rounded(problem, options, Rounding::Up)
    }

    /// Compiles `problem` for lower bounds.
    pub(crate) fn relaxed(problem: &'a Problem, options: &'a Options) -> Self {
        Self::rounded(problem, options, Rounding::Down)
    }

    fn rounded(problem: &'a Problem, options: &'a Options, rounding: Rounding) -> Self {
        let mut signatures = Signatures::default();
        let mut class_of_spec = vec![u32::MAX; problem.specs.len()];
        let mut used_specs: Vec<SpecId> = Vec::new();
        let mut classes: Vec<Class> = Vec::new();
        for (pod, one) in problem.pods.iter().enumerate() {
            let slot = &mut class_of_spec[one.spec];
            if *slot == u32::MAX {
                *slot = classes.len() as u32;
                used_specs.push(one.spec);
                let signature = signatures.intern(&problem.specs[one.spec]);
                classes.push(Class { spec: one.spec, signature, request: 0, pods: Vec::new() });
            }
            classes[*slot as usize].pods.push(pod as u32);
        }
        let used = classes.iter().map(|class| (&problem.specs[class.spec], class.pods.len()));
        let columns = Columns::new(problem, used, rounding);
        let mut vectors = Vectors::default();
        for class in &mut classes {
            class.request = vectors.intern(columns.sizes(&problem.specs[class.spec], rounding));
        }
        let signatures = signatures.all;
        let amounts = classes.iter().flat_map(|class| columns.amounts(&problem.specs[class.spec].requests)).collect();
        let mut daemon_signatures = Signatures::default();
        let daemons: Vec<Signature> = problem
            .daemons
            .iter()
            .map(|daemon| {
                let id = daemon_signatures.intern(&problem.specs[daemon.spec]);
                daemon_signatures.all[id].clone()
            })
            .collect();
        let pools: Vec<PoolUse> =
            problem.pools.iter().map(|pool| PoolUse::new(pool, problem.catalogues.get(pool.catalogue))).collect();
        let mut topology_keys = TopologyKeys::new(problem, &pools, &used_specs);
        if rounding == Rounding::Down {
            topology_keys = topology_keys.narrow(problem, &pools);
        }
        let cells = Cells::new(problem, &pools, &signatures.raw, &topology_keys.all());
        let mut shapes = shapes::build(problem, options, &columns, &cells, &pools, &daemons);
        let mut admits = shapes::admissions(problem, &cells, &pools, &shapes, &signatures, &daemons);
        let width = columns.width();
        let mut kinds: Vec<(SignatureId, u32)> = classes.iter().map(|class| (class.signature, class.request)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let kinds: Vec<(SignatureId, &[i32])> =
            kinds.iter().map(|&(signature, request)| (signature, vectors.get(request, width))).collect();
        flexible::hold_back(problem, options, &kinds, &mut shapes, &mut admits);
        Self {
            problem,
            options,
            columns,
            vectors,
            classes,
            class_of_spec,
            signatures,
            topology_keys,
            cells,
            pools,
            shapes,
            admits: admits.into_iter().map(Rc::new).collect(),
            ranked: OnceCell::new(),
            supply: OnceCell::new(),
            amounts,
        }
    }

    /// Returns a copy in which a node of a pool with limits costs the share of the limits that it uses, so that as many
    /// pods as possible are placed before the limits are reached. Among equals, and without limits, the price decides.
    pub(crate) fn priced_by_limits(&self) -> Self {
        // The previous ranking was by price.
        let mut other = Self { ranked: OnceCell::new(), ..self.clone() };
        let dearest =
            self.shapes.iter().map(|shape| shape.cheapest).filter(|price| price.is_finite()).fold(FREE, f64::max);
        for shape in &mut other.shapes {
            let pool = &self.problem.pools[shape.pool];
            let capacity = &self.problem.catalogues[pool.catalogue][shape.instance_type].capacity;
            let limits = pool.limits.iter().flat_map(|limits| limits.iter());
            let shares = limits.map(|(name, limit)| {
                let left = limit.saturating_sub(pool.usage.get(name)).max(1);
                capacity.against_limit(name) as f64 / left as f64
            });
            let share: f64 = shares.sum();
            let cost = |price: f64| share + PRICE_BESIDE_LIMITS * price / dearest;
            shape.price.iter_mut().for_each(|price| *price = cost(*price).max(FREE));
            shape.cheapest = cost(shape.cheapest).max(FREE);
        }
        other
    }

    /// Returns the shapes that can be bought in each cell.
    pub(crate) fn bought(&self) -> &IndexSlice<CellId, [FixedBitSet]> {
        &self.supply().bought
    }

    /// Returns the shapes that are offered in each cell, reservations included.
    pub(crate) fn offered(&self) -> &IndexSlice<CellId, [FixedBitSet]> {
        &self.supply().offered
    }

    /// Returns the cells in which each shape is offered, reservations included.
    pub(crate) fn offered_in(&self) -> &[Vec<CellId>] {
        &self.supply().offered_in
    }

    fn supply(&self) -> &Supply {
        self.supply.get_or_init(|| {
            let mut bought: IndexVec<CellId, FixedBitSet> =
                index_vec![FixedBitSet::with_capacity(self.shapes.len()); self.cells.len()];
            for (number, shape) in self.shapes.iter().enumerate() {
                let prices = bought.iter_mut().zip(&shape.price);
                prices.filter(|(_, price)| price.is_finite()).for_each(|(set, _)| set.insert(number));
            }
            let mut offered = bought.clone();
            for (number, shape) in self.shapes.iter().enumerate() {
                shape.reserved.iter().for_each(|reserved| offered[reserved.cell].insert(number));
            }
            let mut offered_in = vec![Vec::new(); self.shapes.len()];
            for (cell, set) in offered.iter_enumerated() {
                set.ones().for_each(|shape| offered_in[shape].push(cell));
            }
            Supply { bought, offered, offered_in }
        })
    }

    /// Returns the class of a pending pod.
    pub(crate) fn class_of(&self, pod: usize) -> usize {
        self.class_of_spec[self.problem.pods[pod].spec] as usize
    }

    /// Returns the requests of a pod of a class: millicores or base units, by column.
    pub(crate) fn amounts(&self, class: usize) -> &[i64] {
        let width = self.columns.width();
        &self.amounts[class * width..][..width]
    }

    /// Returns the requests of the daemons of a shape: millicores or base units, by column.
    pub(crate) fn daemon_amounts(&self, shape: usize) -> Vec<i64> {
        let mut amounts = vec![0; self.columns.width()];
        for &daemon in &self.shapes[shape].daemons {
            let requests = &self.problem.specs[self.problem.daemons[daemon as usize].spec].requests;
            let own = self.columns.amounts(requests);
            amounts.iter_mut().zip(own).for_each(|(sum, amount): (&mut i64, i64)| *sum = sum.saturating_add(amount));
        }
        amounts
    }

    /// Returns the request vector of a class.
    pub(crate) fn request(&self, class: usize) -> &[i32] {
        self.vectors.get(self.classes[class].request, self.columns.width())
    }
}
