//! Cells: the choices about a node's labels that a launch leaves open and that some pod constrains.
//!
//! A dimension is a label that some pod constrains or spreads over and that the instance type does not fix (a zone, a
//! capacity type, a label that a pool leaves open). A cell is one value for every dimension. Without such pods there is
//! one cell and no dimension, so that workloads without zones cost nothing.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexVec};
use rustc_hash::FxHashMap;

use super::shapes::PoolUse;
use super::signatures::Signature;
use crate::index::index_type;
use crate::labels;
use crate::model::{Catalogue, InstanceType, Labels, Problem, Requirement, Requirements};

index_type! {
    /// Position among the [`Cells`].
    pub(crate) struct CellId;
}

/// Returns the cells of a mask, ascending.
pub(crate) fn cells_in(mask: &FixedBitSet) -> impl Iterator<Item = CellId> {
    mask.ones().map(CellId::from_usize)
}

/// A label in which cells differ.
#[derive(Debug, Clone)]
pub(crate) struct Dimension {
    pub(crate) key: Arc<str>,
    /// Its values, sorted.
    pub(crate) values: Vec<Arc<str>>,
}

impl Dimension {
    /// Returns the values that some pod names.
    fn named(&self, signatures: &[Signature]) -> FixedBitSet {
        let mut named = FixedBitSet::with_capacity(self.values.len());
        let wanted = signatures.iter().flat_map(|signature| &signature.alternatives);
        for wanted in wanted.filter_map(|one| one.get(&self.key)).filter(|one| one.is_finite()) {
            named.extend(wanted.values().filter_map(|value| self.values.binary_search(value).ok()));
        }
        named
    }

    /// Returns the values that a pool and one of its types allow together.
    pub(crate) fn values_of(&self, pool: &PoolUse, types: &Catalogue) -> FixedBitSet {
        let mut values = FixedBitSet::with_capacity(self.values.len());
        let of_pool = pool.requirements.get(&self.key);
        let column = types.column(&self.key);
        let mut seen = vec![false; column.map_or(1, |column| column.distinct.len())];
        for number in types.suiting(&pool.requirements).ones() {
            // Types have few distinct requirements on a label: each is tested once.
            let id = column.map_or(0, |column| column.of_type[number] as usize);
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            let of_type = column.and_then(|column| column.distinct[id].as_ref());
            let Some(listed) = of_type.or(of_pool).filter(|listed| listed.is_finite()) else { continue };
            let inside = |value: &str| listed.has(value) && of_pool.is_none_or(|pool| pool.has(value));
            values.extend((0..self.values.len()).filter(|&number| inside(&self.values[number])));
        }
        values
    }
}

/// All cells.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    pub(crate) dimensions: Vec<Dimension>,
    /// Value of each dimension by cell; `None`: the label is absent, or has a value that occurs in no constraint.
    cells: IndexVec<CellId, Vec<Option<u32>>>,
    /// The same by dimension and cell; [`NO_VALUE`] for `None`.
    columns: Vec<IndexVec<CellId, u32>>,
    /// Maximum number of cells for one kind of type in one offering.
    each: usize,
    /// Values that some pod names, by dimension: they are kept if not all combinations are.
    named: Vec<FixedBitSet>,
    ids: FxHashMap<Vec<Option<u32>>, CellId>,
    offering_keys: Vec<Arc<str>>,
    /// By catalogue.
    openings: Vec<Openings>,
    /// Cells by dimension and value, computed on first use.
    by_value: OnceCell<Vec<Vec<FixedBitSet>>>,
}

/// Classes of the types of a catalogue that have equal requirements on all dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Openings {
    pub(crate) of_type: Vec<u32>,
    /// One type of each class.
    pub(crate) representative: Vec<usize>,
}

impl Openings {
    fn new(types: &Catalogue, dimensions: &[Dimension]) -> Self {
        let mut openings = Self { of_type: vec![0; types.len()], representative: vec![0] };
        for column in dimensions.iter().filter_map(|dimension| types.column(&dimension.key)) {
            let mut ids: FxHashMap<(u32, u32), u32> = FxHashMap::default();
            openings.representative.clear();
            for (number, (class, &own)) in openings.of_type.iter_mut().zip(&column.of_type).enumerate() {
                *class = *ids.entry((*class, own)).or_insert_with(|| {
                    openings.representative.push(number);
                    openings.representative.len() as u32 - 1
                });
            }
        }
        openings
    }

    /// Returns the number of pairs of a class and an offering set.
    pub(crate) fn pairs(&self, types: &Catalogue) -> usize {
        self.representative.len() * types.sets().len()
    }
}

/// Maximum number of cells for one kind of type in one offering: enough for every label that pools leave open in
/// practice.
const MOST_COMBINATIONS: usize = 4096;

/// Maximum number of cells that launches add, beyond one for each kind of type in each offering: enough for a thousand
/// types, each a domain of its own, by three zones by two capacity types.
const MOST_CELLS: usize = 8192;

/// No value, in a column.
const NO_VALUE: u32 = u32::MAX;

impl Cells {
    /// Enumerates the cells; `topology_keys` are the labels that rules spread over, without hostnames.
    pub(crate) fn new(
        problem: &Problem,
        pools: &[PoolUse],
        signatures: &[Signature],
        topology_keys: &BTreeSet<Arc<str>>,
    ) -> Self {
        let offering_keys = offering_keys(problem);
        let keys = dimension_keys(problem, pools, signatures, topology_keys, &offering_keys);
        let mentioned = mentioned_values(&keys, signatures);
        let mut cells = Self {
            dimensions: Vec::new(),
            cells: IndexVec::new(),
            columns: Vec::new(),
            each: MOST_COMBINATIONS,
            named: Vec::new(),
            ids: FxHashMap::default(),
            offering_keys,
            openings: Vec::new(),
            by_value: OnceCell::new(),
        };
        let mut values: Vec<BTreeSet<Arc<str>>> = keys.iter().map(|key| mentioned[key].clone()).collect();
        for node in &problem.nodes {
            for (at, key) in keys.iter().enumerate() {
                values[at].extend(node.labels.get(key).cloned());
            }
        }
        for types in &problem.catalogues {
            for (at, key) in keys.iter().enumerate() {
                let distinct = types.column(key).map_or(&[][..], |column| &column.distinct);
                let finite = distinct.iter().flatten().filter(|one| one.is_finite());
                values[at].extend(finite.flat_map(Requirement::values).cloned());
                let offered = types.sets().iter().filter_map(|set| set.requirements.get(key)?.single());
                values[at].extend(offered.cloned());
            }
        }
        for pool in pools {
            for (at, key) in keys.iter().enumerate() {
                let of_pool = pool.requirements.get(key).filter(|requirement| requirement.is_finite());
                values[at].extend(of_pool.into_iter().flat_map(Requirement::values).cloned());
            }
        }
        cells.dimensions = keys
            .into_iter()
            .zip(values)
            .map(|(key, values)| Dimension { key, values: values.into_iter().collect() })
            .collect();
        cells.named = cells.dimensions.iter().map(|dimension| dimension.named(signatures)).collect();
        cells.openings = problem.catalogues.iter().map(|types| Openings::new(types, &cells.dimensions)).collect();
        cells.enumerate(problem, pools);
        cells
    }

    fn enumerate(&mut self, problem: &Problem, pools: &[PoolUse]) {
        if self.dimensions.is_empty() {
            let cell = self.cells.push(Vec::new());
            self.ids.insert(Vec::new(), cell);
            return;
        }
        let mut found = BTreeSet::new();
        let mut kinds: BTreeSet<Vec<Vec<Option<u32>>>> = BTreeSet::new();
        for (pool, used) in problem.pools.iter().zip(pools).filter(|(_, used)| used.open) {
            // Each distinct set of choices is expanded once.
            let types = &problem.catalogues[pool.catalogue];
            let openings = &self.openings[pool.catalogue];
            let mut seen = vec![false; openings.pairs(types)];
            for (number, &class) in openings.of_type.iter().enumerate() {
                for offer in types.offers(number).iter().filter(|offer| used.allows[offer.set]) {
                    let pair = class as usize * types.sets().len() + offer.set.index();
                    if !std::mem::replace(&mut seen[pair], true) {
                        let offering = &types.sets()[offer.set].requirements;
                        kinds.insert(self.choices(&types[number], offering, &used.requirements));
                    }
                }
            }
        }
        let all = kinds
            .iter()
            .map(|choices| choices.iter().map(Vec::len).fold(1, usize::saturating_mul))
            .fold(0, usize::saturating_add);
        if all > MOST_CELLS {
            self.each = (MOST_CELLS / kinds.len().max(1)).clamp(1, MOST_COMBINATIONS);
        }
        found.extend(kinds.into_iter().flat_map(|choices| self.combinations(choices)));
        for node in &problem.nodes {
            found.insert(self.of_labels(&node.labels));
        }
        for cell in found {
            let id = self.cells.push(cell.clone());
            self.ids.insert(cell, id);
        }
        if self.cells.is_empty() {
            self.cells.push(vec![None; self.dimensions.len()]);
        }
        let values = |dimension: usize| self.cells.iter().map(move |cell| cell[dimension].unwrap_or(NO_VALUE));
        self.columns = (0..self.dimensions.len()).map(|dimension| values(dimension).collect()).collect();
    }

    /// Returns the cells in which `one` can be launched from an offering set, under the requirements of a pool.
    pub(crate) fn open_to(
        &self,
        one: &InstanceType,
        offering: &Requirements,
        pool: &Requirements,
    ) -> impl Iterator<Item = CellId> {
        self.combinations(self.choices(one, offering, pool)).into_iter().filter_map(|cell| self.ids.get(&cell).copied())
    }

    /// Returns the classes of the types of a catalogue.
    pub(crate) fn openings(&self, catalogue: usize) -> &Openings {
        &self.openings[catalogue]
    }

    /// Returns the cells of these choices, or as many as each kind of type may have.
    fn combinations(&self, mut choices: Vec<Vec<Option<u32>>>) -> Vec<Vec<Option<u32>>> {
        if self.each < MOST_COMBINATIONS {
            for (options, named) in choices.iter_mut().zip(&self.named) {
                options.sort_by_key(|option| !option.is_some_and(|value| named.contains(value as usize)));
            }
        }
        product(&choices, self.each)
    }

    /// Returns the values that a launch can choose, by dimension.
    fn choices(&self, one: &InstanceType, offering: &Requirements, pool: &Requirements) -> Vec<Vec<Option<u32>>> {
        self.dimensions
            .iter()
            .map(|dimension| {
                let mut merged: Option<Requirement> = None;
                let sides =
                    [offering.get(&dimension.key), one.requirements.get(&dimension.key), pool.get(&dimension.key)];
                for side in sides.into_iter().flatten() {
                    merged = Some(merged.map_or_else(|| side.clone(), |merged| merged.intersection(side)));
                }
                let Some(merged) = merged else { return vec![None] };
                let allowed = dimension.values.iter().enumerate().filter(|(_, value)| merged.has(value));
                let mut choices: Vec<Option<u32>> = allowed.map(|(number, _)| Some(number as u32)).collect();
                if !merged.is_finite() || choices.is_empty() {
                    choices.push(None);
                }
                choices
            })
            .collect()
    }

    fn of_labels(&self, labels: &Labels) -> Vec<Option<u32>> {
        self.dimensions
            .iter()
            .map(|dimension| {
                let value = labels.get(&dimension.key)?;
                dimension.values.binary_search(value).ok().map(|number| number as u32)
            })
            .collect()
    }

    /// Returns the cell of an existing node.
    pub(crate) fn of_node(&self, labels: &Labels) -> CellId {
        self.ids.get(&self.of_labels(labels)).copied().unwrap_or(CellId::from_usize(0))
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns all cells, ascending.
    pub(crate) fn indices(&self) -> impl Iterator<Item = CellId> {
        self.cells.indices()
    }

    /// Returns the labels that offerings decide.
    pub(crate) fn offering_keys(&self) -> &[Arc<str>] {
        &self.offering_keys
    }

    /// Returns the value of dimension number `dimension` in `cell`.
    pub(crate) fn value(&self, cell: CellId, dimension: usize) -> Option<&str> {
        self.cells[cell][dimension].map(|number| &*self.dimensions[dimension].values[number as usize])
    }

    /// Returns the index of the value of dimension number `dimension` in `cell`.
    pub(crate) fn value_index(&self, cell: CellId, dimension: usize) -> Option<usize> {
        self.cells[cell][dimension].map(|number| number as usize)
    }

    /// Returns the values of a dimension in the cells of `mask`, ascending, and true if one of the cells has none.
    pub(crate) fn values_in(&self, dimension: usize, mask: &FixedBitSet) -> (Vec<usize>, bool) {
        let column = &self.columns[dimension];
        let mut seen = FixedBitSet::with_capacity(self.dimensions[dimension].values.len());
        let mut lacks_value = false;
        for cell in cells_in(mask) {
            match column[cell] {
                NO_VALUE => lacks_value = true,
                value => seen.insert(value as usize),
            }
        }
        (seen.ones().collect(), lacks_value)
    }

    /// Returns the cells with each value of a dimension.
    pub(crate) fn by_value(&self, dimension: usize) -> &[FixedBitSet] {
        let sets = self.by_value.get_or_init(|| {
            let none = FixedBitSet::with_capacity(self.cells.len());
            let of = |dimension: &Dimension| vec![none.clone(); dimension.values.len()];
            let mut sets: Vec<Vec<FixedBitSet>> = self.dimensions.iter().map(of).collect();
            for (cell, values) in self.cells.iter_enumerated() {
                let known = sets.iter_mut().zip(values).filter_map(|(sets, value)| sets.get_mut((*value)? as usize));
                known.for_each(|set| set.insert(cell.index()));
            }
            sets
        });
        &sets[dimension]
    }

    /// Returns the cells without a value of each dimension.
    pub(crate) fn without_value(&self) -> Vec<FixedBitSet> {
        let mut sets = vec![FixedBitSet::with_capacity(self.cells.len()); self.dimensions.len()];
        for (cell, values) in self.cells.iter_enumerated() {
            sets.iter_mut()
                .zip(values)
                .filter(|(_, value)| value.is_none())
                .for_each(|(set, _)| set.insert(cell.index()));
        }
        sets
    }

    /// Returns the index of the dimension of `key`.
    pub(crate) fn dimension(&self, key: &str) -> Option<usize> {
        self.dimensions.iter().position(|dimension| &*dimension.key == key)
    }
}

/// Returns the labels that distinguish offerings.
fn offering_keys(problem: &Problem) -> Vec<Arc<str>> {
    let mut keys = BTreeSet::from([Arc::from(labels::ZONE), Arc::from(labels::CAPACITY_TYPE)]);
    keys.extend(problem.catalogues.iter().flat_map(Catalogue::offering_keys).cloned());
    keys.into_iter().collect()
}

fn dimension_keys(
    problem: &Problem,
    pools: &[PoolUse],
    signatures: &[Signature],
    topology_keys: &BTreeSet<Arc<str>>,
    offering_keys: &[Arc<str>],
) -> Vec<Arc<str>> {
    let mut keys: BTreeSet<Arc<str>> = topology_keys.clone();
    let mut asked: BTreeSet<&Arc<str>> = BTreeSet::new();
    for alternative in signatures.iter().flat_map(|signature| &signature.alternatives) {
        asked.extend(alternative.iter().map(|(key, _)| key));
    }
    for key in asked {
        let left_open = offering_keys.contains(key)
            || pools.iter().any(|pool| pool.requirements.get(key).is_some_and(|one| one.single().is_none()))
            || problem.catalogues.iter().any(|types| types.is_open(key));
        if left_open {
            keys.insert(Arc::clone(key));
        }
    }
    keys.remove(labels::HOSTNAME);
    keys.into_iter().collect()
}

/// Returns the values that signatures mention, by dimension: a label that a pool leaves open can have any of them.
fn mentioned_values(keys: &[Arc<str>], signatures: &[Signature]) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
    let mut mentioned: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> =
        keys.iter().map(|key| (Arc::clone(key), BTreeSet::new())).collect();
    for alternative in signatures.iter().flat_map(|signature| &signature.alternatives) {
        for (key, wanted) in alternative.iter() {
            if let Some(values) = mentioned.get_mut(key) {
                values.extend(wanted.values().cloned());
                // A bound does not list values: its edges represent the values inside and outside, and the first
                // allowed ones if the edges are excluded.
                let (gte, lte) = wanted.bounds();
                values.extend([gte, lte].into_iter().flatten().map(|edge| edge.to_string().into()));
                let excluded = i64::try_from(wanted.values().count()).unwrap_or(i64::MAX);
                let is_allowed = |edge: &i64| wanted.has(&edge.to_string());
                let lowest = gte.and_then(|gte| (gte..=gte.saturating_add(excluded)).find(is_allowed));
                let highest = lte.and_then(|lte| (lte.saturating_sub(excluded)..=lte).rev().find(is_allowed));
                values.extend([lowest, highest].into_iter().flatten().map(|edge| edge.to_string().into()));
            }
        }
    }
    mentioned
}

/// Returns at most `most` combinations of the choices, with the first values of each label.
fn product(choices: &[Vec<Option<u32>>], most: usize) -> Vec<Vec<Option<u32>>> {
    let mut cells = vec![Vec::new()];
    for options in choices {
        let kept = (most / cells.len()).clamp(1, options.len());
        cells = cells
            .iter()
            .flat_map(|cell| {
                options[..kept].iter().map(move |&option| {
                    let mut longer = cell.clone();
                    longer.push(option);
                    longer
                })
            })
            .collect();
    }
    cells
}
