//! Requirements and instance types of launches. Nodes whose pods constrain the launch equally share the requirements;
//! those whose pods fit on the same types share the list of types.

use std::rc::Rc;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::compile::{CellId, Compiled, FREE, SignatureId};
use crate::labels;
use crate::model::{Operator, PreferencePolicy, Requirement, Requirements, WeightedNodeTerm};
use crate::pack::construct::OpenedNode;
use crate::pack::groups::Grouped;

/// Maximum number of types that one launch may name, the limit of EC2 and Karpenter.
const MOST_ALTERNATIVES: usize = 600;

/// Statement id of specs that do not constrain the launch.
const SILENT: u32 = u32::MAX;
/// Statement id of specs that are not resolved yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// Constraints of a spec on the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Statement<'a> {
    node_selector: &'a Requirements,
    node_terms: &'a [Requirements],
    volume_terms: &'a [Requirements],
    preferred: &'a [WeightedNodeTerm],
    /// Dimensions constrained by the domain rules of the spec.
    pinned: &'a FixedBitSet,
    signature: SignatureId,
}

/// Key of the requirements of a launch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Terms {
    pool: usize,
    /// Cell, set if a pod constrains it.
    cell: Option<CellId>,
    /// Planned type, set if pods have node affinity terms: of several terms, one that this type meets is used.
    instance_type: Option<usize>,
    /// Distinct statements of its pods, in the order of their specs.
    statements: SmallVec<[u32; 8]>,
    /// Shape and offering of a reservation.
    reserved: Option<(usize, usize)>,
}

/// Key of the types of a launch, apart from sizes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Scope {
    pool: usize,
    /// Cells in which the requirements hold.
    cells: Vec<CellId>,
    signatures: SmallVec<[SignatureId; 8]>,
    /// Requirements, set if a signature has several terms: the signature admits more than the term that was chosen.
    narrowed: Option<Requirements>,
    reserved: Option<(usize, usize)>,
}

/// Launches with the same requirements.
struct Pattern {
    requirements: Arc<Requirements>,
    range: usize,
}

/// The types of a scope, cheapest first.
struct Range {
    /// Type, offering, price.
    types: Vec<(usize, usize, f64)>,
    /// Allocatable amounts by column, then by type.
    room: Vec<i32>,
    /// Launches by the set of types that hold the pods, one byte per type (1 if it does). Bytes, since those are hashed
    /// eight at a time.
    launches: FxHashMap<Box<[u8]>, Rc<Launch>>,
}

/// Instance types that a node may be launched as.
pub(super) struct Launch {
    /// Types, cheapest first.
    pub(super) alternatives: Arc<[usize]>,
    /// Type, offering and price of the cheapest.
    pub(super) first: Option<(usize, usize, f64)>,
}

/// The launches of a plan.
pub(super) struct Launches<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    statements: Vec<Statement<'a>>,
    statement_ids: FxHashMap<Statement<'a>, u32>,
    /// Statement id by spec.
    said: Vec<u32>,
    patterns: Vec<Pattern>,
    pattern_ids: FxHashMap<Terms, usize>,
    ranges: Vec<Range>,
    range_ids: FxHashMap<Scope, usize>,
    fitting: Vec<u8>,
}

impl<'a> Launches<'a> {
    pub(super) fn new(compiled: &'a Compiled<'a>, grouped: &'a Grouped) -> Self {
        Self {
            compiled,
            grouped,
            statements: Vec::new(),
            statement_ids: FxHashMap::default(),
            said: vec![UNKNOWN; compiled.problem.specs.len()],
            patterns: Vec::new(),
            pattern_ids: FxHashMap::default(),
            ranges: Vec::new(),
            range_ids: FxHashMap::default(),
            fitting: Vec::new(),
        }
    }

    /// Returns the index of the pattern of a node with pods of `specs`, which must be sorted.
    pub(super) fn pattern(&mut self, opened: &OpenedNode, specs: &[u32]) -> usize {
        let shape = &self.compiled.shapes[opened.shape];
        let mut statements: SmallVec<[u32; 8]> = SmallVec::new();
        let (mut chooses, mut asks) = (false, false);
        for &spec in specs {
            let statement = self.statement(spec as usize);
            if statement != SILENT && !statements.contains(&statement) {
                statements.push(statement);
                let said = self.statements[statement as usize];
                let terms = !(said.node_terms.is_empty() && said.volume_terms.is_empty());
                chooses |= terms;
                asks |= terms || !said.pinned.is_clear();
            }
        }
        let terms = Terms {
            pool: shape.pool,
            cell: asks.then_some(opened.cell),
            instance_type: chooses.then_some(shape.instance_type),
            statements,
            reserved: opened.reserved.map(|offering| (opened.shape, offering)),
        };
        if let Some(&id) = self.pattern_ids.get(&terms) {
            return id;
        }
        let mut requirements = self.requirements(&terms, opened);
        if let Some((shape, offering)) = terms.reserved {
            let one = &self.compiled.shapes[shape];
            let types = &self.compiled.problem.catalogues[self.compiled.problem.pools[terms.pool].catalogue];
            let name = Arc::clone(&types[one.instance_type].name);
            requirements.add_all(&types[one.instance_type].offerings[offering].requirements);
            requirements.add(labels::INSTANCE_TYPE, Requirement::new(Operator::In, [name]));
        }
        let mut range = self.range(&terms, &requirements);
        if terms.reserved.is_none() {
            range = self.prefer(&terms, &mut requirements, range);
        }
        let id = self.patterns.len();
        self.patterns.push(Pattern { requirements: Arc::new(requirements), range });
        self.pattern_ids.insert(terms, id);
        id
    }

    /// Returns the requirements of launches of a pattern.
    pub(super) fn requirements_of(&self, pattern: usize) -> &Arc<Requirements> {
        &self.patterns[pattern].requirements
    }

    /// Returns the launch of a node of `pattern` whose pods request `sizes` in total.
    pub(super) fn launch(&mut self, pattern: usize, sizes: &[i32]) -> Rc<Launch> {
        let range = &mut self.ranges[self.patterns[pattern].range];
        let count = range.types.len();
        self.fitting.clear();
        self.fitting.resize(count, 1);
        for (column, &wanted) in sizes.iter().enumerate().filter(|&(_, &wanted)| wanted != 0) {
            let room = &range.room[column * count..(column + 1) * count];
            self.fitting.iter_mut().zip(room).for_each(|(fits, &room)| *fits &= u8::from(wanted <= room));
        }
        if let Some(known) = range.launches.get(&*self.fitting) {
            return Rc::clone(known);
        }
        let fitting = range.types.iter().zip(&self.fitting).filter(|&(_, &fits)| fits == 1).map(|(one, _)| *one);
        let types: Vec<usize> = fitting.clone().take(MOST_ALTERNATIVES).map(|(one, ..)| one).collect();
        let launch = Rc::new(Launch { alternatives: types.into(), first: fitting.clone().next() });
        range.launches.insert(self.fitting.as_slice().into(), Rc::clone(&launch));
        launch
    }

    /// Adds preferred node affinity terms about cell labels (zones, for example) that cost nothing, that is, keep every
    /// type at its price. Terms of higher weight come first. Returns the range of the resulting requirements.
    fn prefer(&mut self, terms: &Terms, requirements: &mut Requirements, mut range: usize) -> usize {
        let said = terms.statements.iter().flat_map(|&statement| self.statements[statement as usize].preferred);
        let mut preferred: Vec<&WeightedNodeTerm> = said.collect();
        preferred.sort_by_key(|one| std::cmp::Reverse(one.weight));
        for WeightedNodeTerm { term, .. } in preferred {
            let decided_by_cell = term.iter().all(|(key, _)| self.compiled.cells.dimension(key).is_some());
            if term.is_empty() || !decided_by_cell || requirements.first_disjoint(term).is_some() {
                continue;
            }
            let mut narrowed = requirements.clone();
            narrowed.add_all(term);
            let other = self.range(terms, &narrowed);
            let (kept, all) = (&self.ranges[other].types, &self.ranges[range].types);
            let alike = kept.len() == all.len() && kept.iter().zip(all).all(|(a, b)| a.0 == b.0 && a.2 == b.2);
            if alike {
                (*requirements, range) = (narrowed, other);
            }
        }
        range
    }

    fn statement(&mut self, spec: usize) -> u32 {
        if self.said[spec] == UNKNOWN {
            let one = &self.compiled.problem.specs[spec];
            let pinned = &self.grouped.pinned_of_spec[spec];
            let respects = self.compiled.options.preferences == PreferencePolicy::Respect;
            let preferred = if respects { &one.preferred_node_terms[..] } else { &[] };
            let silent = one.node_selector.is_empty()
                && one.node_terms.is_empty()
                && one.volume_terms.is_empty()
                && one.host_ports.is_empty()
                && preferred.is_empty()
                && pinned.is_clear();
            self.said[spec] = if silent {
                SILENT
            } else {
                let statement = Statement {
                    node_selector: &one.node_selector,
                    node_terms: &one.node_terms,
                    volume_terms: &one.volume_terms,
                    preferred,
                    pinned,
                    signature: self.compiled.classes[self.compiled.class_of_spec[spec] as usize].signature,
                };
                *self.statement_ids.entry(statement).or_insert_with(|| {
                    self.statements.push(statement);
                    self.statements.len() as u32 - 1
                })
            };
        }
        self.said[spec]
    }

    /// Returns the requirements of the pool and its pods, with one value of each label that a rule between pods is
    /// about.
    fn requirements(&self, terms: &Terms, opened: &OpenedNode) -> Requirements {
        let compiled = self.compiled;
        let of_pool = &compiled.pools[terms.pool].requirements;
        let mut requirements = of_pool.clone();
        let catalogue = compiled.problem.pools[terms.pool].catalogue;
        let planned = compiled.shapes[opened.shape].instance_type;
        let own = &compiled.problem.catalogues[catalogue][planned].requirements;
        // The launch must keep the values of these dimensions.
        let mut all_pinned = FixedBitSet::with_capacity(compiled.cells.dimensions.len());
        for &statement in &terms.statements {
            let said = self.statements[statement as usize];
            all_pinned.union_with(said.pinned);
            requirements.add_all(said.node_selector);
            for choices in [said.node_terms, said.volume_terms] {
                // Of several terms, use one that holds here and is compatible with the requirements so far.
                let holds = |term: &&Requirements| {
                    self.holds_in(term, opened.cell, compiled.shapes[opened.shape].pool)
                        && term.iter().all(|(key, wanted)| {
                            wanted.allows_absence()
                                || of_pool.get(key).is_some()
                                || own.get(key).is_some()
                                || compiled.cells.offering_keys().contains(key)
                        })
                        && own.first_disjoint(term).is_none()
                        && requirements.first_disjoint(term).is_none()
                };
                if let Some(term) = choices.iter().find(holds) {
                    requirements.add_all(term);
                }
            }
        }
        for dimension in all_pinned.ones() {
            if let Some(value) = compiled.cells.value(opened.cell, dimension) {
                let key = Arc::clone(&compiled.cells.dimensions[dimension].key);
                requirements.add(key, Requirement::new(Operator::In, [value]));
            }
        }
        requirements
    }

    /// Returns true if nodes of `pool` in a cell can meet `term`.
    fn holds_in(&self, term: &Requirements, cell: CellId, pool: usize) -> bool {
        let cells = &self.compiled.cells;
        let of_pool = &self.compiled.pools[pool].requirements;
        cells.dimensions.iter().enumerate().all(|(at, dimension)| {
            term.get(&dimension.key).is_none_or(|wanted| match cells.value(cell, at) {
                Some(value) => wanted.has(value),
                // The cell has no value that any term names: a value that the pool leaves open is enough.
                None => {
                    let both = of_pool.get(&dimension.key).map(|of_pool| of_pool.intersection(wanted));
                    wanted.allows_absence() || both.is_some_and(|both| both.allows_beyond(&dimension.values))
                }
            })
        })
    }

    /// Returns true if nodes in `cell` have a label that a rule between pods is about and that the planned node lacks:
    /// in its domain, the pods could violate a rule.
    fn adds_domain(&self, terms: &Terms, cell: CellId) -> bool {
        let Some(planned) = terms.cell else { return false };
        let cells = &self.compiled.cells;
        let has = |cell: CellId, dimension: usize| cells.value_index(cell, dimension).is_some();
        let mut pinned = terms.statements.iter().flat_map(|&one| self.statements[one as usize].pinned.ones());
        pinned.any(|dimension| has(cell, dimension) && !has(planned, dimension))
    }

    /// Returns the index of the range of types with an offering that the requirements allow, regardless of size.
    fn range(&mut self, terms: &Terms, requirements: &Requirements) -> usize {
        let compiled = self.compiled;
        let mut signatures: SmallVec<[SignatureId; 8]> =
            terms.statements.iter().map(|&statement| self.statements[statement as usize].signature).collect();
        signatures.sort_unstable();
        signatures.dedup();
        let several = signatures.iter().any(|&one| compiled.signatures[one].alternatives.len() > 1);
        let holds = |&cell: &CellId| self.holds_in(requirements, cell, terms.pool) && !self.adds_domain(terms, cell);
        let scope = Scope {
            pool: terms.pool,
            cells: compiled.cells.indices().filter(holds).collect(),
            signatures,
            narrowed: several.then(|| requirements.clone()),
            reserved: terms.reserved,
        };
        if let Some(&id) = self.range_ids.get(&scope) {
            return id;
        }
        let id = self.ranges.len();
        self.ranges.push(Range::new(compiled, &scope));
        self.range_ids.insert(scope, id);
        id
    }
}

impl Range {
    fn new(compiled: &Compiled<'_>, scope: &Scope) -> Self {
        let types = &compiled.problem.catalogues[compiled.problem.pools[scope.pool].catalogue];
        let mut found: Vec<(usize, usize, f64)> = Vec::new();
        for (shape, one) in compiled.shapes.iter().enumerate() {
            // Twins have the same type, which a launch names once.
            if one.pool != scope.pool || one.twin_of.is_some() && scope.reserved.is_none() {
                continue;
            }
            if scope.narrowed.as_ref().is_some_and(|all| !all.intersects(&types[one.instance_type].requirements)) {
                continue;
            }
            if let Some((own, number)) = scope.reserved {
                // A reservation has one type, the only one the launch names.
                let reserved = one.reserved.iter().find(|reserved| own == shape && reserved.offering == number);
                found.extend(reserved.map(|reserved| (shape, number, reserved.price)));
                continue;
            }
            let admitted = |cell: CellId| {
                scope.signatures.iter().all(|&signature| compiled.admits[signature][cell].contains(shape))
            };
            let offered = |cell: CellId| types[one.instance_type].offerings.get(one.offering[cell] as usize);
            // The price as offered: while packing, free offerings have a minimum price.
            let price = |cell: CellId| match one.price[cell] {
                packed if packed > FREE => packed,
                packed => offered(cell).and_then(|offering| offering.price).unwrap_or(packed),
            };
            let mut cheapest: Option<CellId> = None;
            for &cell in &scope.cells {
                // At equal price spot goes first.
                let spot =
                    |cell: CellId| offered(cell).is_some_and(|offering| offering.capacity_type() == Some("spot"));
                let better = cheapest.is_none_or(|best| {
                    price(cell) < price(best) || price(cell) == price(best) && spot(cell) && !spot(best)
                });
                if one.price[cell].is_finite() && better && admitted(cell) {
                    cheapest = Some(cell);
                }
            }
            found.extend(cheapest.map(|cell| (shape, one.offering[cell] as usize, price(cell))));
        }
        let least = |shape: usize| compiled.shapes[shape].cheapest;
        found.sort_unstable_by(|a, b| {
            a.2.total_cmp(&b.2).then_with(|| least(a.0).total_cmp(&least(b.0))).then(a.0.cmp(&b.0))
        });
        let width = compiled.columns.width();
        let mut room = vec![0; width * found.len()];
        for (at, &(shape, ..)) in found.iter().enumerate() {
            for (column, &amount) in compiled.shapes[shape].holds().iter().enumerate() {
                room[column * found.len() + at] = amount;
            }
        }
        for one in &mut found {
            one.0 = compiled.shapes[one.0].instance_type;
        }
        Self { types: found, room, launches: FxHashMap::default() }
    }
}
