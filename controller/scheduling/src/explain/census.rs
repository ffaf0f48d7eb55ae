//! Census: pods by place, and the types that each pool can still launch. Computed once, used for every pod.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::{existing, likeness};
use crate::labels;
use crate::model::{Catalogue, Options, PodSpec, Problem, Requirements, Resource, Resources, Taint};
use crate::solution::{NewNode, Solution};

/// A place of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Location {
    /// Index in `Problem::nodes`.
    Existing(usize),
    /// Index in `Solution::new_nodes`.
    New(usize),
}

/// The snapshot with the nodes already decided, indexed for queries.
#[derive(Debug)]
pub(super) struct Census<'a> {
    pub(super) problem: &'a Problem,
    pub(super) options: &'a Options,
    pub(super) solution: &'a Solution,
    /// Locations of the pods of each spec, with their number.
    tenants: Vec<Vec<(Location, u32)>>,
    topology_keys: BTreeSet<Arc<str>>,
    views: Vec<OnceLock<PoolView>>,
    /// Pods that the solution adds, by existing node.
    added: Vec<&'a [usize]>,
    free: Vec<OnceLock<Resources>>,
    /// Admitted types by pool and requirements: pods of many sizes share few of these.
    admitted: RefCell<FxHashMap<(usize, Requirements), Rc<Admitted>>>,
    /// Every value that a type, a pool or a node has, by label.
    values: RefCell<ValuesByKey>,
}

type ValuesByKey = FxHashMap<Arc<str>, Rc<BTreeSet<Arc<str>>>>;

/// Types of a pool under some requirements, as positions in [`PoolView::types`].
#[derive(Debug)]
pub(super) struct Admitted {
    /// Types that meet the requirements.
    pub(super) meeting: FixedBitSet,
    /// Types with an offering that meets them and can be bought.
    pub(super) bought: FixedBitSet,
}

/// Types that one pool can launch.
#[derive(Debug)]
pub(super) struct PoolView {
    /// Types that meet the pool's own requirements, in the catalogue's order.
    pub(super) types: Vec<TypeView>,
    /// Labels that a launch can define: the well-known ones and those of the catalogue.
    pub(super) defined: BTreeSet<Arc<str>>,
    /// Capacity of its nodes, the decided ones included; their number is the resource `nodes`.
    pub(super) used: Resources,
    domains: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// A type, with the daemons that run on its nodes.
#[derive(Debug)]
pub(super) struct TypeView {
    /// Index in the catalogue.
    pub(super) index: usize,
    /// Index in [`PoolView::types`].
    pub(super) position: usize,
    /// Allocatable minus the daemons.
    pub(super) room: Resources,
    /// Indices in `Problem::daemons`.
    pub(super) daemons: Vec<usize>,
}

/// `karpenter.sh/registered` and `karpenter.sh/initialized`: every node gets them, and daemons may select them.
const LIFECYCLE: [&str; 2] = ["karpenter.sh/registered", "karpenter.sh/initialized"];

impl<'a> Census<'a> {
    pub(super) fn new(problem: &'a Problem, options: &'a Options, solution: &'a Solution) -> Self {
        let mut tenants = vec![Vec::new(); problem.specs.len()];
        for (index, node) in problem.nodes.iter().enumerate().filter(|(_, node)| !node.deleting) {
            for pod in node.bound.iter().filter(|pod| pod.counts) {
                settle(&mut tenants, pod.spec, Location::Existing(index));
            }
        }
        let existing = solution.existing.iter().map(|(node, pods)| (Location::Existing(*node), pods));
        let new = solution.new_nodes.iter().enumerate().map(|(index, node)| (Location::New(index), &node.pods));
        for (location, pods) in existing.chain(new) {
            for spec in pods.iter().filter_map(|pod| problem.pods.get(*pod)).map(|pod| pod.spec) {
                settle(&mut tenants, spec, location);
            }
        }
        let terms = |spec: &'a PodSpec| spec.affinity.iter().chain(&spec.anti_affinity).map(|term| &term.topology_key);
        let spreads = |spec: &'a PodSpec| spec.spread.iter().map(|spread| &spread.topology_key);
        let keys = problem.specs.iter().flat_map(|spec| terms(spec).chain(spreads(spec)));
        let topology_keys = keys.map(|key| labels::stable_name(key).into()).collect();
        let views = problem.pools.iter().map(|_| OnceLock::new()).collect();
        let mut added = vec![&[][..]; problem.nodes.len()];
        for (node, pods) in &solution.existing {
            if let Some(added) = added.get_mut(*node) {
                *added = pods;
            }
        }
        let free = problem.nodes.iter().map(|_| OnceLock::new()).collect();
        let (admitted, values) = Default::default();
        Self { problem, options, solution, tenants, topology_keys, views, added, free, admitted, values }
    }

    /// Returns every value of the label `key` that a type or a node has, or that a pool sets on its nodes.
    pub(super) fn known_values(&self, key: &str) -> Rc<BTreeSet<Arc<str>>> {
        if let Some(known) = self.values.borrow().get(key) {
            return Rc::clone(known);
        }
        let mut values = self.sold_values(key);
        // A pool's requirement on a label that the catalogue has may contain a typo too.
        if values.is_empty() {
            values = likeness::values_of(key, self.problem.pools.iter().map(|pool| &pool.requirements));
        }
        values.extend(self.problem.nodes.iter().filter_map(|node| node.labels.get(key)).cloned());
        let values = Rc::new(values);
        self.values.borrow_mut().insert(key.into(), Rc::clone(&values));
        values
    }

    /// Returns every value of the label `key` that a type has.
    pub(super) fn sold_values(&self, key: &str) -> BTreeSet<Arc<str>> {
        let types = self.problem.catalogues.iter().flat_map(|catalogue| catalogue.iter());
        let offerings = types.clone().flat_map(|it| it.offerings.iter().map(|offering| &offering.requirements));
        likeness::values_of(key, types.map(|it| &it.requirements).chain(offerings))
    }

    /// Returns the labels that a launch of some pool can define, or that some pool sets on its nodes.
    pub(super) fn known_keys(&self) -> BTreeSet<Arc<str>> {
        let defined = (0..self.problem.pools.len()).flat_map(|pool| self.view(pool).defined.iter());
        let given = self.problem.pools.iter().flat_map(|pool| pool.requirements.iter()).map(|(key, _)| key);
        defined.chain(given).cloned().collect()
    }

    /// Returns the types that `required` admits, computed by `judge` the first time.
    pub(super) fn admitted(
        &self,
        pool: usize,
        required: &Requirements,
        judge: impl FnOnce() -> Admitted,
    ) -> Rc<Admitted> {
        let key = (pool, required.clone());
        if let Some(known) = self.admitted.borrow().get(&key) {
            return Rc::clone(known);
        }
        let admitted = Rc::new(judge());
        self.admitted.borrow_mut().insert(key, Rc::clone(&admitted));
        admitted
    }

    /// Returns the pods that the solution adds to an existing node.
    pub(super) fn added(&self, node: usize) -> &'a [usize] {
        self.added.get(node).copied().unwrap_or_default()
    }

    /// Returns the resources left on an existing node after its pods, the planned ones included, and its future
    /// daemons.
    pub(super) fn free(&self, index: usize) -> Option<&Resources> {
        let node = self.problem.nodes.get(index)?;
        let count = || {
            let mut free = node.allocatable.clone();
            free.subtract(&node.daemon_requests);
            existing::pods_on(self, index).for_each(|(_, spec)| free.subtract(&spec.requests));
            free
        };
        Some(self.free.get(index)?.get_or_init(count))
    }

    /// Returns the types that `pool` can launch.
    pub(super) fn view(&self, pool: usize) -> &PoolView {
        self.views[pool].get_or_init(|| self.open(pool))
    }

    fn open(&self, index: usize) -> PoolView {
        let pool = &self.problem.pools[index];
        let catalogue = self.problem.catalogues.get(pool.catalogue).map_or(&[][..], Catalogue::types);
        let mut defined: BTreeSet<Arc<str>> = labels::WELL_KNOWN.into_iter().map(Arc::from).collect();
        for (key, _) in catalogue.iter().flat_map(|instance_type| instance_type.requirements.iter()) {
            if !defined.contains(key) {
                defined.insert(Arc::clone(key));
            }
        }
        let daemons = self.daemons_of(index, &defined);
        let admitted =
            catalogue.iter().enumerate().filter(|(_, candidate)| pool.requirements.intersects(&candidate.requirements));
        let types: Vec<TypeView> = admitted
            .enumerate()
            .map(|(position, (index, candidate))| {
                let mut room = candidate.allocatable();
                let fits = |daemon: &&usize| {
                    let spec = &self.problem.specs[self.problem.daemons[**daemon].spec];
                    alternatives(spec).any(|wanted| candidate.requirements.intersects(&wanted))
                };
                let daemons: Vec<usize> = daemons.iter().filter(fits).copied().collect();
                for daemon in &daemons {
                    room.subtract(&self.problem.specs[self.problem.daemons[*daemon].spec].requests);
                }
                TypeView { index, position, room, daemons }
            })
            .collect();
        let mut used = pool.usage.clone();
        for node in self.solution.new_nodes.iter().filter(|node| node.pool == index) {
            if let Some(launched) = catalogue.get(node.instance_type) {
                used.add(&launched.capacity);
            }
            used.add(&Resources::from_iter([(Resource::new("nodes"), 1)]));
        }
        let domains = self.topology_keys.iter().map(|key| (Arc::clone(key), self.launched(index, &types, key)));
        PoolView { domains: domains.collect(), types, defined, used }
    }

    fn daemons_of(&self, pool: usize, defined: &BTreeSet<Arc<str>>) -> Vec<usize> {
        let pool = &self.problem.pools[pool];
        let suits = |spec: &PodSpec| {
            let known = |key: &str| defined.contains(key) || LIFECYCLE.contains(&key);
            untolerated(&pool.taints, spec).is_none()
                && alternatives(spec).any(|wanted| pool.requirements.first_conflict(&wanted, known).is_none())
        };
        let daemons = self.problem.daemons.iter().enumerate();
        daemons.filter(|(_, daemon)| suits(&self.problem.specs[daemon.spec])).map(|(index, _)| index).collect()
    }

    /// Returns the values of `key` that nodes of the pool can have.
    fn launched(&self, index: usize, types: &[TypeView], key: &Arc<str>) -> BTreeSet<Arc<str>> {
        let pool = &self.problem.pools[index];
        let wanted = pool.requirements.get(key);
        let mut values = BTreeSet::new();
        for candidate in types.iter().map(|candidate| &self.problem.catalogues[pool.catalogue][candidate.index]) {
            let offered = candidate.offerings.iter().filter(|offering| offering.launchable());
            let offered = offered.filter_map(|offering| offering.requirements.get(key));
            let sources = candidate.requirements.get(key).into_iter().chain(offered);
            for value in sources.filter(|source| source.is_finite()).flat_map(|source| source.values()) {
                if wanted.is_none_or(|wanted| wanted.has(value)) && !values.contains(value) {
                    values.insert(Arc::clone(value));
                }
            }
        }
        if values.is_empty() && !types.is_empty() {
            values.extend(wanted.filter(|wanted| wanted.is_finite()).into_iter().flat_map(|it| it.values()).cloned());
        }
        values
    }

    /// Returns the values of `key` that nodes of `pool` can have; `None` if no rule uses `key`. Hostnames are not known
    /// in advance.
    pub(super) fn pool_domains(&self, pool: usize, key: &str) -> Option<&BTreeSet<Arc<str>>> {
        self.view(pool).domains.get(key)
    }

    /// Returns the locations of pods whose spec satisfies `matches`, with their number.
    pub(super) fn tenants(&self, matches: impl Fn(&PodSpec) -> bool) -> impl Iterator<Item = (Location, u32)> {
        let specs = self.problem.specs.iter().zip(&self.tenants);
        specs.filter(move |(spec, places)| !places.is_empty() && matches(spec)).flat_map(|(_, places)| places).copied()
    }

    /// Returns the specs that have pods at some location, with the locations.
    pub(super) fn settled(&self) -> impl Iterator<Item = (&PodSpec, &[(Location, u32)])> {
        let specs = self.problem.specs.iter().zip(&self.tenants);
        specs.filter(|(_, places)| !places.is_empty()).map(|(spec, places)| (spec, places.as_slice()))
    }

    /// Returns the value of the label `key` at `location`, if it is certain.
    pub(super) fn domain(&self, location: Location, key: &str) -> Option<Arc<str>> {
        match location {
            Location::Existing(index) => self.problem.nodes.get(index)?.labels.get(key).cloned(),
            Location::New(index) if key == labels::HOSTNAME => Some(format!("new node {index}").into()),
            Location::New(index) => self.new_domain(self.solution.new_nodes.get(index)?, key),
        }
    }

    fn new_domain(&self, node: &NewNode, key: &str) -> Option<Arc<str>> {
        let pool = self.problem.pools.get(node.pool)?;
        let launched = self.problem.catalogues.get(pool.catalogue)?.get(node.instance_type)?;
        let offered = launched.offerings.get(node.offering).map(|offering| &offering.requirements);
        let known = [Some(&*node.requirements), offered, Some(&launched.requirements)];
        let single = |requirements: &Requirements| requirements.single(key).map(Arc::from);
        known.into_iter().flatten().find_map(single).or_else(|| pool.labels.get(key).cloned())
    }
}

fn settle(tenants: &mut [Vec<(Location, u32)>], spec: usize, location: Location) {
    let Some(places) = tenants.get_mut(spec) else { return };
    match places.last_mut() {
        Some((last, count)) if *last == location => *count += 1,
        _ => places.push((location, 1)),
    }
}

/// Returns the first taint that keeps the pod off.
pub(super) fn untolerated<'t>(taints: &'t [Taint], spec: &PodSpec) -> Option<&'t Taint> {
    let tolerated = |taint: &Taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    taints.iter().find(|taint| taint.repels() && !tolerated(taint))
}

/// Returns the combinations of the pod's selector with each of its required node affinity terms.
pub(super) fn alternatives(spec: &PodSpec) -> impl Iterator<Item = Requirements> {
    let count = spec.node_terms.len().max(1);
    (0..count).map(|number| {
        let mut wanted = spec.node_selector.clone();
        if let Some(term) = spec.node_terms.get(number) {
            wanted.add_all(term);
        }
        wanted
    })
}
