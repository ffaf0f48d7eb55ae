//! From a draft to a plan: requirements, launch alternatives, prices, reasons.

use std::rc::Rc;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::Draft;
use super::construct::Opened;
use super::groups::Grouped;
use crate::compile::{Compiled, fits};
use crate::labels;
use crate::model::{Operator, Requirement, Requirements};
use crate::solution::{NewNode, Reason, Solution, Unschedulable};

/// Types that one launch may name; EC2 and Karpenter take no more.
const MOST_ALTERNATIVES: usize = 600;

/// Writes the plan out.
pub(crate) fn write(compiled: &Compiled<'_>, grouped: &Grouped, draft: &Draft) -> Solution {
    let mut solution = Solution::default();
    let mut writer = Writer::new(compiled, grouped);
    solution.new_nodes.extend(draft.opened.iter().map(|opened| writer.node(opened)));
    keep_limits(compiled, &draft.opened, &mut solution.new_nodes);
    for (node, units) in &draft.existing {
        let mut pods: Vec<usize> = units.iter().flat_map(|unit| grouped.pods(unit)).map(|&pod| pod as usize).collect();
        pods.sort_unstable();
        solution.existing.push((*node, pods));
    }
    let mut left: Vec<(usize, Option<Reason>)> = Vec::new();
    for (unit, reason) in &draft.left {
        left.extend(grouped.pods(unit).iter().map(|&pod| (pod as usize, *reason)));
    }
    for (pod, one) in compiled.problem.pods.iter().enumerate() {
        if compiled.problem.specs[one.spec].refusal.is_some() {
            left.push((pod, None));
        }
    }
    left.sort_unstable_by_key(|&(pod, _)| pod);
    solution.unschedulable = left
        .into_iter()
        .map(|(pod, reason)| Unschedulable {
            pod,
            reason: reason.unwrap_or(Reason::Resources),
            message: String::new(),
            pools: Vec::new(),
        })
        .collect();
    solution
}

/// Drops the launch alternatives with which a pool would exceed its limits, all other nodes being as planned.
fn keep_limits(compiled: &Compiled<'_>, opened: &[Opened], nodes: &mut [NewNode]) {
    let problem = compiled.problem;
    for (pool, one) in problem.pools.iter().enumerate() {
        let Some(limits) = &one.limits else { continue };
        let types = &problem.catalogues[one.catalogue];
        let uses = |instance_type: usize| -> Vec<i64> {
            let capacity = &types[instance_type].capacity;
            limits
                .iter()
                .map(|(resource, _)| if resource.name() == "nodes" { 1 } else { capacity.get(resource) })
                .collect()
        };
        let mut left: Vec<i64> =
            limits.iter().map(|(resource, limit)| limit.saturating_sub(one.usage.get(resource))).collect();
        let own = || opened.iter().enumerate().filter(|(_, node)| compiled.shapes[node.shape].pool == pool);
        for (_, node) in own() {
            let planned = uses(compiled.shapes[node.shape].instance_type);
            left.iter_mut().zip(&planned).for_each(|(left, spent)| *left = left.saturating_sub(*spent));
        }
        for (number, node) in own() {
            let planned = uses(compiled.shapes[node.shape].instance_type);
            let new = &mut nodes[number];
            let within = |instance_type: &&usize| {
                let wanted = uses(**instance_type);
                wanted
                    .iter()
                    .zip(&planned)
                    .zip(&left)
                    .all(|((wanted, planned), left)| wanted - planned <= (*left).max(0))
            };
            let kept: Vec<usize> = new.alternatives.iter().filter(within).copied().collect();
            if kept.len() == new.alternatives.len() || kept.is_empty() {
                continue;
            }
            if kept[0] != new.instance_type {
                new.instance_type = kept[0];
                let requirements = &new.requirements;
                let cheapest = types[kept[0]].offerings.iter().enumerate().filter(|(_, offering)| {
                    offering.launchable()
                        && offering.capacity_type() != Some("reserved")
                        && requirements.intersects(&offering.requirements)
                });
                let price = |offering: &crate::model::Offering| offering.price.unwrap_or(f64::INFINITY);
                let spot_last = |offering: &crate::model::Offering| offering.capacity_type() != Some("spot");
                if let Some((offering, one)) =
                    cheapest.min_by(|a, b| price(a.1).total_cmp(&price(b.1)).then(spot_last(a.1).cmp(&spot_last(b.1))))
                {
                    new.offering = offering;
                    new.price = price(one);
                }
            }
            new.alternatives = kept.into();
            let chosen = uses(new.instance_type);
            left.iter_mut().zip(chosen.iter().zip(&planned)).for_each(|(left, (new, old))| *left -= new - old);
        }
    }
}

/// What the launch of a node depends on, apart from its name: nodes of one pattern share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Terms {
    pool: usize,
    cell: usize,
    /// The planned type: of several node affinity terms, one that it meets is written down.
    instance_type: usize,
    /// Specs of its pods, distinct.
    specs: Vec<u32>,
    sizes: Vec<i32>,
    /// Shape and offering of a reservation.
    reserved: Option<(usize, usize)>,
}

/// How a node may be launched.
struct Launch {
    requirements: Arc<Requirements>,
    alternatives: Arc<[usize]>,
    instance_type: usize,
    offering: usize,
    price: f64,
}

struct Writer<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    by_price: Vec<usize>,
    requirements: FxHashMap<(usize, usize, usize, Vec<u32>), Arc<Requirements>>,
    launches: FxHashMap<Terms, Rc<Launch>>,
}

impl<'a> Writer<'a> {
    fn new(compiled: &'a Compiled<'a>, grouped: &'a Grouped) -> Self {
        let mut by_price: Vec<usize> = (0..compiled.shapes.len()).collect();
        let price = |shape: usize| compiled.shapes[shape].cheapest;
        by_price.sort_by(|&a, &b| price(a).total_cmp(&price(b)).then(a.cmp(&b)));
        Self { compiled, grouped, by_price, requirements: FxHashMap::default(), launches: FxHashMap::default() }
    }

    fn node(&mut self, opened: &Opened) -> NewNode {
        let compiled = self.compiled;
        let width = compiled.columns.width();
        let shape = &compiled.shapes[opened.shape];
        let mut pods: Vec<usize> =
            opened.units.iter().flat_map(|unit| self.grouped.pods(unit)).map(|&pod| pod as usize).collect();
        pods.sort_unstable();
        let mut sizes = vec![0_i32; width];
        let mut amounts = compiled.daemon_amounts(opened.shape);
        let mut specs: Vec<u32> = Vec::with_capacity(pods.len());
        for &pod in &pods {
            let class = compiled.class_of(pod);
            sizes.iter_mut().zip(compiled.request(class)).for_each(|(sum, &size)| *sum += size);
            amounts
                .iter_mut()
                .zip(compiled.amounts(class))
                .for_each(|(sum, &amount)| *sum = sum.saturating_add(amount));
            specs.push(compiled.problem.pods[pod].spec as u32);
        }
        specs.sort_unstable();
        specs.dedup();
        // Specs that say nothing of nodes and take part in no domain rule leave the launch alone.
        specs.retain(|&spec| self.speaks(spec as usize));
        let terms = Terms {
            pool: shape.pool,
            cell: opened.cell,
            instance_type: shape.instance_type,
            specs,
            sizes,
            reserved: opened.reserved.map(|offering| (opened.shape, offering)),
        };
        let launch = match self.launches.get(&terms) {
            Some(launch) => Rc::clone(launch),
            None => {
                let launch = Rc::new(self.launch(&terms, opened));
                self.launches.insert(terms, Rc::clone(&launch));
                launch
            }
        };
        NewNode {
            pool: shape.pool,
            pods,
            instance_type: launch.instance_type,
            offering: launch.offering,
            price: launch.price,
            alternatives: Arc::clone(&launch.alternatives),
            requirements: Arc::clone(&launch.requirements),
            requests: compiled.columns.resources(&amounts),
            min_values_relaxed: None,
        }
    }

    fn speaks(&self, spec: usize) -> bool {
        let one = &self.compiled.problem.specs[spec];
        let silent = one.node_selector.is_empty()
            && one.node_terms.is_empty()
            && one.volume_terms.is_empty()
            && one.host_ports.is_empty()
            && self.grouped.pinned_of_spec[spec].is_clear();
        !silent
    }

    fn launch(&mut self, terms: &Terms, opened: &Opened) -> Launch {
        let key = (terms.pool, terms.cell, terms.instance_type, terms.specs.clone());
        let mut requirements = match self.requirements.get(&key) {
            Some(requirements) => Arc::clone(requirements),
            None => {
                let requirements = Arc::new(self.requirements(terms));
                self.requirements.insert(key, Arc::clone(&requirements));
                requirements
            }
        };
        if let Some((_, offering)) = terms.reserved {
            let one = &self.compiled.shapes[opened.shape];
            let types = &self.compiled.problem.catalogues[self.compiled.problem.pools[terms.pool].catalogue];
            let mut narrowed = (*requirements).clone();
            narrowed.add_all(&types[one.instance_type].offerings[offering].requirements);
            narrowed.add(
                labels::INSTANCE_TYPE,
                Requirement::new(Operator::In, [Arc::clone(&types[one.instance_type].name)]),
            );
            requirements = Arc::new(narrowed);
        }
        let found = self.alternatives(terms, &requirements);
        let own = &self.compiled.shapes[opened.shape];
        let offering = own.offering[opened.cell] as usize;
        let first = found.first().copied().unwrap_or((own.instance_type, offering, opened.price));
        Launch {
            requirements,
            alternatives: found.iter().map(|&(instance_type, ..)| instance_type).collect(),
            instance_type: first.0,
            offering: first.1,
            price: first.2,
        }
    }

    /// The pool's requirements and the pods', and one value of each label that a rule between pods is about.
    fn requirements(&self, terms: &Terms) -> Requirements {
        let compiled = self.compiled;
        let mut requirements = compiled.pools[terms.pool].requirements.clone();
        let catalogue = compiled.problem.pools[terms.pool].catalogue;
        let own = &compiled.problem.catalogues[catalogue][terms.instance_type].requirements;
        for &spec in &terms.specs {
            let one = &compiled.problem.specs[spec as usize];
            requirements.add_all(&one.node_selector);
            for choices in [&one.node_terms, &one.volume_terms] {
                // Of several terms, one that holds here and with what is required so far.
                let holds = |term: &&Requirements| {
                    self.holds_in(term, terms.cell)
                        && term.iter().all(|(key, wanted)| {
                            wanted.allows_absence()
                                || compiled.pools[terms.pool].requirements.get(key).is_some()
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
        for dimension in self.pinned(terms).ones() {
            if let Some(value) = compiled.cells.value(terms.cell, dimension) {
                let key = Arc::clone(&compiled.cells.dimensions[dimension].key);
                requirements.add(key, Requirement::new(Operator::In, [value]));
            }
        }
        requirements
    }

    fn holds_in(&self, term: &Requirements, cell: usize) -> bool {
        let cells = &self.compiled.cells;
        cells.dimensions.iter().enumerate().all(|(at, dimension)| {
            term.get(&dimension.key).is_none_or(|wanted| match cells.value(cell, at) {
                Some(value) => wanted.has(value),
                None => wanted.allows_absence(),
            })
        })
    }

    /// Dimensions that some domain rule of these pods is about: the launch must not decide them again.
    fn pinned(&self, terms: &Terms) -> FixedBitSet {
        let mut pinned = FixedBitSet::with_capacity(self.compiled.cells.dimensions.len());
        terms.specs.iter().for_each(|&spec| pinned.union_with(&self.grouped.pinned_of_spec[spec as usize]));
        pinned
    }

    /// Every type that holds the node and has an offering that its requirements allow, cheapest first: type, offering,
    /// price.
    fn alternatives(&self, terms: &Terms, requirements: &Requirements) -> Vec<(usize, usize, f64)> {
        let compiled = self.compiled;
        let types = &compiled.problem.catalogues[compiled.problem.pools[terms.pool].catalogue];
        let cells: Vec<usize> = (0..compiled.cells.len()).filter(|&cell| self.holds_in(requirements, cell)).collect();
        let mut signatures: Vec<u32> = terms
            .specs
            .iter()
            .map(|&spec| compiled.classes[compiled.class_of_spec[spec as usize] as usize].signature)
            .collect();
        signatures.sort_unstable();
        signatures.dedup();
        // A signature with several terms admits more than the one term that was written down.
        let several = signatures.iter().any(|&one| compiled.signatures[one as usize].alternatives.len() > 1);
        let mut found: Vec<(usize, usize, f64)> = Vec::new();
        for &shape in &self.by_price {
            let one = &compiled.shapes[shape];
            if one.pool != terms.pool || !fits(&terms.sizes, &one.room) {
                continue;
            }
            if several && !requirements.intersects(&types[one.instance_type].requirements) {
                continue;
            }
            let admitted = |cell: usize| {
                signatures.iter().all(|&signature| compiled.admits[signature as usize][cell].contains(shape))
            };
            if let Some((own, number)) = terms.reserved {
                // A reservation is of one type: the launch names no other.
                let reserved = one.reserved.iter().find(|reserved| own == shape && reserved.offering == number);
                found.extend(reserved.map(|reserved| (one.instance_type, number, reserved.price)));
                continue;
            }
            let mut cheapest: Option<usize> = None;
            for &cell in &cells {
                let better = cheapest.is_none_or(|best| one.price[cell] < one.price[best]);
                if one.price[cell].is_finite() && better && admitted(cell) {
                    cheapest = Some(cell);
                }
            }
            if let Some(cell) = cheapest {
                found.push((one.instance_type, one.offering[cell] as usize, one.price[cell]));
            }
        }
        found.sort_by(|a, b| a.2.total_cmp(&b.2));
        found.truncate(MOST_ALTERNATIVES);
        found
    }
}
