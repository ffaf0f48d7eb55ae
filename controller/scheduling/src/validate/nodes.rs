//! Checks of nodes to launch, one by one.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::catalogue::{Catalogue, DaemonsId, Launches, Overheads, opens_for_pods};
use super::existing::taken_twice;
use super::specs::{Placement, PlacementId, Specs, ToleranceId, add_row, fits, implies};
use super::violation::{Findings, Place, Promise};
use super::volumes;
use crate::labels::HOSTNAME;
use crate::model::{InstanceType, MinValuesPolicy, NodePool, Options, PoolState, Problem, Requirements};
use crate::solution::NewNode;

/// Maximum number of types of a launch.
const MOST_ALTERNATIVES: usize = 600;

/// Cached data about launches, computed once for all nodes that share it.
pub(crate) struct Launch<'a> {
    /// Constraints of the pods.
    pub(crate) specs: &'a Specs<'a>,
    /// The operator's choices.
    pub(crate) options: &'a Options,
    choices: &'a [Vec<Requirements>],
    /// Types to read, by catalogue.
    named: Vec<FixedBitSet>,
    catalogues: Vec<Option<Catalogue<'a>>>,
    overheads: Vec<Option<Overheads>>,
    ids: FxHashMap<(usize, &'a Requirements), usize>,
    /// Launches by pool and requirements, each with the first label whose requirement contradicts the pool's.
    launches: Vec<(Launches, Option<&'a str>)>,
    holds: FxHashMap<(usize, PlacementId), Option<Promise>>,
    tolerated: FxHashMap<(usize, ToleranceId), bool>,
    /// Lists by launches and alternatives.
    lists: FxHashMap<(usize, &'a [usize]), List>,
    seen: Vec<usize>,
}

/// Properties of a list of alternatives that do not depend on the node's pods.
struct List {
    /// Minimum room over the types of the list.
    room: Vec<i64>,
    /// Price of the cheapest launch without a reservation, in USD per hour.
    least: f64,
    /// Violations of the list itself.
    faults: Vec<(Promise, String)>,
}

impl<'a> Launch<'a> {
    /// Creates an empty cache. `nodes` are all nodes that will be checked.
    pub(crate) fn new(
        specs: &'a Specs<'a>,
        options: &'a Options,
        choices: &'a [Vec<Requirements>],
        nodes: &[NewNode],
    ) -> Self {
        let problem = specs.problem;
        Self {
            specs,
            options,
            choices,
            named: named(problem, nodes),
            catalogues: problem.catalogues.iter().map(|_| None).collect(),
            overheads: problem.pools.iter().map(|_| None).collect(),
            ids: FxHashMap::default(),
            launches: Vec::new(),
            holds: FxHashMap::default(),
            tolerated: FxHashMap::default(),
            lists: FxHashMap::default(),
            seen: vec![usize::MAX; problem.catalogues.iter().map(|types| types.len()).max().unwrap_or(0)],
        }
    }

    /// Returns the pool, its types, and the room that its daemons leave.
    pub(crate) fn pool(&mut self, pool: usize) -> (&'a NodePool, &mut Catalogue<'a>, &Overheads) {
        let problem = self.specs.problem;
        let about = &problem.pools[pool];
        let (specs, reserved) = (self.specs, self.options.reserved_capacity);
        let types = &problem.catalogues[about.catalogue];
        let named = &self.named[about.catalogue];
        let catalogue =
            self.catalogues[about.catalogue].get_or_insert_with(|| Catalogue::new(types, named, specs, reserved));
        let choices = self.choices;
        let overheads = self.overheads[pool].get_or_insert_with(|| catalogue.overheads(specs, about, choices));
        (about, catalogue, overheads)
    }

    /// Returns the id of the possible launches in `pool` under `requirements`.
    pub(crate) fn launches(&mut self, pool: usize, requirements: &'a Requirements) -> usize {
        if let Some(&id) = self.ids.get(&(pool, requirements)) {
            return id;
        }
        let (about, catalogue, _) = self.pool(pool);
        let strays = about.requirements.iter().find(|(key, of_pool)| {
            requirements.get(key).is_none_or(|have| !implies(have, of_pool)) && &***key != HOSTNAME
        });
        let launches = (catalogue.launches(requirements), strays.map(|(key, _)| &**key));
        self.launches.push(launches);
        self.ids.insert((pool, requirements), self.launches.len() - 1);
        self.launches.len() - 1
    }

    /// Returns the launches with id `id`.
    pub(crate) fn launch(&self, id: usize) -> &Launches {
        &self.launches[id].0
    }

    /// Checks new node number `number`; returns the id of its launches.
    pub(crate) fn check(&mut self, number: usize, node: &'a NewNode, findings: &mut Findings) -> usize {
        let place = Place::New(number);
        let pool = &self.specs.problem.pools[node.pool];
        if pool.state != PoolState::Ready {
            findings.note(place, Promise::Pool, format!("pool {} may not launch", pool.name));
        }
        if pool.missing_replicas.is_some() != node.pods.is_empty() {
            findings.note(place, Promise::Replicas, "nodes carry pods unless their pool is static");
        }
        let launch = self.launches(node.pool, &node.requirements);
        if let Some(key) = self.launches[launch].1 {
            findings.note(place, Promise::Requirements, format!("{key} is not what the pool requires"));
        }
        let mut total = vec![0; self.specs.resources.len()];
        let mut last = usize::MAX;
        for &pod in &node.pods {
            let spec = self.specs.problem.pods[pod].spec;
            add_row(&mut total, self.specs.request(spec));
            if spec != last {
                self.check_spec(node, launch, spec, place, findings);
                last = spec;
            }
        }
        self.check_alternatives(launch, node, &total, place, findings);
        self.check_price(node, place, findings);
        self.check_ports(node, place, findings);
        volumes::check(self.specs.problem, node, place, findings);
        check_min_values(self.specs, self.options, node, place, findings);
        launch
    }

    fn check_spec(&mut self, node: &NewNode, launch: usize, spec: usize, place: Place, findings: &mut Findings) {
        let NewNode { pool, requirements, .. } = node;
        let pool = *pool;
        let (placement, tolerance) = (self.specs.placement_id(spec), self.specs.tolerance_id(spec));
        let (specs, about) = (self.specs, &self.specs.problem.pools[pool]);
        let tolerated = self.tolerated.entry((pool, tolerance));
        if !*tolerated.or_insert_with(|| specs.repelled_by(tolerance, &about.taints).is_none()) {
            findings.note(place, Promise::Taints, format!("spec {spec} does not tolerate the pool's taints"));
        }
        let wanted = specs.placement(placement);
        if wanted.is_free() {
            return;
        }
        let miss = match self.holds.get(&(launch, placement)) {
            Some(known) => *known,
            None => {
                let (about, catalogue, _) = self.pool(pool);
                let miss = first_miss(wanted, requirements, about, catalogue);
                self.holds.insert((launch, placement), miss);
                miss
            }
        };
        if let Some(promise) = miss {
            findings.note(place, promise, format!("the node's requirements do not give spec {spec} what it wants"));
        }
    }

    fn check_alternatives(
        &mut self,
        launch: usize,
        node: &'a NewNode,
        total: &[i64],
        place: Place,
        findings: &mut Findings,
    ) {
        self.pool(node.pool);
        let Some(overheads) = &self.overheads[node.pool] else { return };
        let launches = &self.launches[launch].0;
        let width = total.len();
        let number = self.lists.len();
        let list = self.lists.entry((launch, &node.alternatives));
        let list =
            list.or_insert_with(|| List::new(launches, overheads, &node.alternatives, width, number, &mut self.seen));
        for (promise, detail) in &list.faults {
            findings.note(place, *promise, detail.clone());
        }
        if node.alternatives.first() != Some(&node.instance_type) {
            findings.note(place, Promise::Alternatives, "the first is not the chosen one");
        }
        if list.least < node.price {
            findings.note(place, Promise::Price, format!("{} would be cheaper than {}", list.least, node.price));
        }
        if !fits(total, &list.room) {
            let tight = |kind: &&usize| !fits(total, &overheads.room[**kind * width..(**kind + 1) * width]);
            for kind in node.alternatives.iter().filter(tight) {
                findings.note(place, Promise::Resources, format!("type {kind} does not hold the pods"));
            }
        }
        let asked = self.specs.row(&node.requests);
        let is_sum = |kind: &usize| {
            let daemons = &overheads.requests[overheads.daemons[*kind]];
            total
                .iter()
                .zip(daemons)
                .zip(&asked)
                .all(|((pods, daemons), asked)| pods.saturating_add(*daemons) == *asked)
        };
        let strangers = node
            .requests
            .iter()
            .any(|(resource, amount)| amount != 0 && self.specs.resources.binary_search(&resource).is_err());
        if strangers || !node.alternatives.iter().any(is_sum) {
            findings.note(place, Promise::Requests, "not the sum over its pods and daemons");
        }
    }

    fn check_price(&mut self, node: &NewNode, place: Place, findings: &mut Findings) {
        let (_, catalogue, _) = self.pool(node.pool);
        let offering = &catalogue.types[node.instance_type].offerings[node.offering];
        let offered = catalogue.is_offered(node.instance_type, node.offering);
        if !offered || !node.requirements.intersects(&offering.requirements) {
            findings.note(place, Promise::Launchable, "the offering is not available, or not what is required");
        }
        if offering.price != Some(node.price) {
            findings.note(place, Promise::Price, format!("{} is not the price of the offering", node.price));
        }
    }

    fn check_ports(&mut self, node: &NewNode, place: Place, findings: &mut Findings) {
        let problem = self.specs.problem;
        let specs = || node.pods.iter().map(|&pod| problem.spec_of(pod));
        if specs().all(|spec| spec.host_ports.is_empty()) {
            return;
        }
        let (_, _, overheads) = self.pool(node.pool);
        let sets: BTreeSet<DaemonsId> = node.alternatives.iter().map(|&kind| overheads.daemons[kind]).collect();
        for daemons in sets {
            if let Some(port) = taken_twice(specs(), overheads.ports[daemons].iter()) {
                findings.note(place, Promise::HostPorts, format!("port {} is taken twice", port.port));
            }
        }
    }
}

impl List {
    fn new(
        launches: &Launches,
        overheads: &Overheads,
        alternatives: &[usize],
        width: usize,
        number: usize,
        seen: &mut [usize],
    ) -> Self {
        let mut list = Self { room: vec![i64::MAX; width], least: f64::INFINITY, faults: Vec::new() };
        let count = alternatives.len();
        if count > MOST_ALTERNATIVES {
            list.faults.push((Promise::Alternatives, format!("there are {count} of them")));
        }
        let (mut open, mut any) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let (mut open_sorted, mut any_sorted) = (true, true);
        for &kind in alternatives {
            if seen[kind] == number {
                list.faults.push((Promise::Alternatives, format!("type {kind} is listed twice")));
            }
            seen[kind] = number;
            if !launches.admitted[kind] || launches.any[kind].is_infinite() {
                list.faults.push((Promise::Launchable, format!("type {kind} cannot be launched as required")));
            }
            for (least, room) in list.room.iter_mut().zip(&overheads.room[kind * width..(kind + 1) * width]) {
                *least = (*least).min(*room);
            }
            open_sorted &= open <= launches.open[kind];
            any_sorted &= any <= launches.any[kind];
            (open, any) = (launches.open[kind], launches.any[kind]);
            list.least = list.least.min(open);
        }
        if !open_sorted && !any_sorted {
            list.faults.push((Promise::Alternatives, "not sorted by price".to_owned()));
        }
        list
    }
}

/// Returns the types to read, by catalogue: those that the nodes may be, and all types of heavier pools that are
/// compared.
fn named(problem: &Problem, nodes: &[NewNode]) -> Vec<FixedBitSet> {
    let mut named: Vec<FixedBitSet> =
        problem.catalogues.iter().map(|types| FixedBitSet::with_capacity(types.len())).collect();
    for node in nodes {
        let types = &mut named[problem.pools[node.pool].catalogue];
        node.alternatives.iter().chain([&node.instance_type]).for_each(|&kind| types.insert(kind));
    }
    let lightest = nodes.iter().map(|node| problem.pools[node.pool].weight).min();
    let heavier = |pool: &&NodePool| lightest.is_some_and(|least| pool.weight > least) && opens_for_pods(pool);
    for pool in problem.pools.iter().filter(heavier) {
        named[pool.catalogue].insert_range(..);
    }
    named
}

/// Returns the promise that the node's requirements break for a pod of `wanted`, if any.
fn first_miss(
    wanted: &Placement<'_>,
    requirements: &Requirements,
    pool: &NodePool,
    catalogue: &Catalogue<'_>,
) -> Option<Promise> {
    let unknown = |key: &str| key != HOSTNAME && pool.requirements.get(key).is_none() && !catalogue.defines(key);
    let held = wanted.any(|part| {
        part.iter().all(|(key, wanted)| match requirements.get(key) {
            _ if &**key == HOSTNAME => wanted.allows_unheard(),
            _ if unknown(key) => wanted.allows_absence(),
            Some(have) => implies(have, wanted),
            None => false,
        })
    });
    let known = wanted.any(|part| part.iter().all(|(key, wanted)| wanted.allows_absence() || !unknown(key)));
    let promise = if known { Promise::Requirements } else { Promise::KnownLabels };
    (!held).then_some(promise)
}

/// Returns the first key whose `minValues` the `types` do not reach, and their number of values.
pub(crate) fn first_min_values_miss<'r>(
    requirements: &'r Requirements,
    types: &[&InstanceType],
) -> Option<(&'r str, usize)> {
    requirements.iter().find_map(|(key, requirement)| {
        let wanted = requirement.min_values? as usize;
        let labels = types.iter().filter_map(|kind| kind.requirements.get(key));
        let values: BTreeSet<&str> =
            labels.filter(|label| label.is_finite()).flat_map(|label| label.values()).map(|value| &**value).collect();
        (values.len() < wanted).then_some((&**key, values.len()))
    })
}

fn check_min_values(specs: &Specs<'_>, options: &Options, node: &NewNode, place: Place, findings: &mut Findings) {
    let pool = &specs.problem.pools[node.pool];
    let asked = pool.requirements.iter().any(|(_, requirement)| requirement.min_values.is_some());
    let mut relaxed = None;
    if asked {
        let types = &specs.problem.catalogues[pool.catalogue];
        let alternatives: Vec<&InstanceType> = node.alternatives.iter().map(|&kind| &types[kind]).collect();
        let miss = first_min_values_miss(&pool.requirements, &alternatives);
        relaxed = Some(miss.is_some());
        if let (Some((key, have)), MinValuesPolicy::Strict) = (miss, options.min_values) {
            findings.note(place, Promise::MinValues, format!("{have} values of {key} are too few"));
            return;
        }
    }
    if relaxed != node.min_values_relaxed {
        findings.note(place, Promise::MinValues, format!("relaxed is {:?}, not {relaxed:?}", node.min_values_relaxed));
    }
}
