//! The cheapest plan of a small problem, by trying them all.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_scheduling::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use muster_scheduling::model::*;
use muster_scheduling::{NewNode, Solution};

use crate::room::{daemons_of, pods_of, ports_free, tolerates, total};
use crate::rules_hold::{Host, rules_hold, still_possible};

/// How the nodes of a group may be launched: coarse where finer choices cannot matter.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Class {
    zone: Option<&'static str>,
    pool: Option<usize>,
    kind: Option<usize>,
    /// Index of the reserved type, if the group uses its reservation.
    reserved: Option<usize>,
}

/// One launch of a group.
#[derive(Debug, Clone, Copy)]
struct Launch {
    pool: usize,
    kind: usize,
    offering: usize,
    price: f64,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    mask: usize,
    class: usize,
    launch: Launch,
}

/// The search.
pub struct BruteForce<'p> {
    problem: &'p Problem,
    classes: Vec<Class>,
    zonal: bool,
    /// By class and set of pods.
    known: Vec<Vec<Option<Option<Launch>>>>,
    groups: Vec<Group>,
    on_nodes: Vec<usize>,
    best: Option<(f64, Vec<Group>, Vec<usize>)>,
}

/// The cheapest plan that places every pod, if there is one.
pub fn cheapest(problem: &Problem) -> Option<(f64, Solution)> {
    let specs = || problem.specs.iter();
    let zonal = specs().any(|spec| {
        spec.spread.iter().any(|it| &*it.topology_key == ZONE)
            || spec.affinity.iter().chain(&spec.anti_affinity).any(|it| &*it.topology_key == ZONE)
    });
    let labelled = |spec: &PodSpec| !spec.node_selector.is_empty() || !spec.node_terms.is_empty();
    let fine = problem.pools[0].limits.is_some()
        || specs().any(|spec| {
            spec.spread
                .iter()
                .any(|it| &*it.topology_key == ZONE && (it.honor_taints || it.honor_affinity && labelled(spec)))
        });
    let zones = if zonal { vec![Some("zone-a"), Some("zone-b"), Some("zone-c")] } else { vec![None] };
    let mut classes = Vec::new();
    for zone in zones {
        for pool in 0..problem.pools.len() {
            for kind in 0..problem.catalogues[0].len() {
                classes.push(Class { zone, pool: fine.then_some(pool), kind: fine.then_some(kind), reserved: None });
            }
        }
        for (kind, about) in problem.catalogues[0].iter().enumerate() {
            let has = |offering: &Offering| offering.capacity_type() == Some("reserved");
            if about.offerings.iter().any(has) {
                for pool in 0..problem.pools.len() {
                    classes.push(Class { zone, pool: Some(pool), kind: Some(kind), reserved: Some(kind) });
                }
            }
        }
    }
    let mut distinct: Vec<Class> = Vec::new();
    for class in classes {
        if !distinct.contains(&class) {
            distinct.push(class);
        }
    }
    let mut search = BruteForce {
        problem,
        known: vec![vec![None; 1 << problem.pods.len()]; distinct.len()],
        classes: distinct,
        zonal,
        groups: Vec::new(),
        on_nodes: vec![0; problem.nodes.len()],
        best: None,
    };
    search.place(0);
    let (price, groups, on_nodes) = search.best.clone()?;
    Some((price, search.solution(&groups, &on_nodes)))
}

impl BruteForce<'_> {
    fn place(&mut self, pod: usize) {
        let price: f64 = self.groups.iter().map(|group| group.launch.price).sum();
        if self.best.as_ref().is_some_and(|(best, ..)| price >= best - 1e-12) || !self.within_limits() {
            return;
        }
        let hosts = self.hosts();
        if !still_possible(self.problem, &hosts) {
            return;
        }
        if pod == self.problem.pods.len() {
            drop(hosts);
            self.finish();
            return;
        }
        for node in 0..self.problem.nodes.len() {
            self.on_nodes[node] |= 1 << pod;
            if self.fits_existing(node) {
                self.place(pod + 1);
            }
            self.on_nodes[node] &= !(1 << pod);
        }
        for at in 0..self.groups.len() {
            let group = self.groups[at];
            let mask = group.mask | 1 << pod;
            if let Some(launch) = self.launch(group.class, mask) {
                self.groups[at] = Group { mask, launch, ..group };
                self.place(pod + 1);
                self.groups[at] = group;
            }
        }
        for class in 0..self.classes.len() {
            if let Some(launch) = self.launch(class, 1 << pod) {
                self.groups.push(Group { mask: 1 << pod, class, launch });
                self.place(pod + 1);
                self.groups.pop();
            }
        }
    }

    /// Every pod has its place: whose turn it is can be told now, since a pod that needs a pool may come last.
    fn finish(&mut self) {
        let before = self.groups.clone();
        for at in 0..self.groups.len() {
            let Group { mask, class, .. } = self.groups[at];
            match self.cheapest_launch(self.classes[class], mask, true) {
                Some(launch) => self.groups[at].launch = launch,
                None => {
                    self.groups = before;
                    return;
                }
            }
        }
        let price: f64 = self.groups.iter().map(|group| group.launch.price).sum();
        let cheaper = self.best.as_ref().is_none_or(|(best, ..)| price < best - 1e-12);
        if cheaper && self.within_limits() && rules_hold(self.problem, &self.hosts()) {
            self.best = Some((price, self.groups.clone(), self.on_nodes.clone()));
        }
        self.groups = before;
    }

    fn hosts(&self) -> Vec<Host<'_>> {
        let problem = self.problem;
        let existing =
            problem.nodes.iter().zip(&self.on_nodes).map(|(node, mask)| Host::existing(problem, node, *mask));
        let new = self
            .groups
            .iter()
            .map(|group| Host::new(problem, group.launch.pool, group.launch.kind, group.launch.offering, group.mask));
        existing.filter(|host| !host.deleting).chain(new).collect()
    }

    fn within_limits(&self) -> bool {
        let reserved_left = self.problem.catalogues[0].iter().enumerate().all(|(kind, about)| {
            let used = self.groups.iter().filter(|group| self.classes[group.class].reserved == Some(kind)).count();
            let reserved = about.offerings.iter().find(|offering| offering.capacity_type() == Some("reserved"));
            reserved.is_none_or(|offering| used <= offering.reservation_capacity as usize)
        });
        reserved_left
            && self.problem.pools.iter().all(|pool| {
                let Some(limits) = &pool.limits else { return true };
                let mut used = pool.usage.clone();
                for group in &self.groups {
                    used.add(&self.problem.catalogues[0][group.launch.kind].capacity);
                    used.add(&[(Resource::new("nodes"), 1)].into_iter().collect());
                }
                limits.iter().all(|(resource, limit)| self.groups.is_empty() || used.get(resource) <= limit)
            })
    }

    fn fits_existing(&self, number: usize) -> bool {
        let node = &self.problem.nodes[number];
        let pods: Vec<&PodSpec> = pods_of(self.problem, self.on_nodes[number]);
        let bound: Vec<&PodSpec> = node.bound.iter().map(|bound| &self.problem.specs[bound.spec]).collect();
        let mut room = node.allocatable.clone();
        bound.iter().for_each(|spec| room.subtract(&spec.requests));
        room.subtract(&node.daemon_requests);
        let host = Host::existing(self.problem, node, self.on_nodes[number]);
        let volumes = node.attach_limits.iter().all(|(driver, limit)| {
            let of = |specs: &[&PodSpec]| -> BTreeSet<Arc<str>> {
                let all = specs.iter().flat_map(|spec| spec.attachments.clone());
                all.filter(|attachment| attachment.driver == *driver).map(|attachment| attachment.claim).collect()
            };
            let (mut there, wanted) = (of(&bound), of(&pods));
            let attached = node.attached.iter().filter(|one| one.driver == *driver);
            there.extend(attached.map(|one| Arc::clone(&one.claim)));
            wanted.is_subset(&there) || there.union(&wanted).count() <= *limit as usize
        });
        !node.deleting
            && volumes
            && total(&pods).first_shortage(&room).is_none()
            && ports_free(&pods, &bound)
            && pods.iter().all(|spec| tolerates(spec, &node.taints) && host.suits(spec, true))
    }

    /// The cheapest launch of these pods together, whosever turn it is.
    fn launch(&mut self, class: usize, mask: usize) -> Option<Launch> {
        if let Some(known) = self.known[class][mask] {
            return known;
        }
        let cheapest = self.cheapest_launch(self.classes[class], mask, false);
        self.known[class][mask] = Some(cheapest);
        cheapest
    }

    fn cheapest_launch(&self, class: Class, mask: usize, turns: bool) -> Option<Launch> {
        let mut best: Option<Launch> = None;
        for (number, pool) in self.problem.pools.iter().enumerate() {
            if class.pool.is_some_and(|wanted| wanted != number) || pool.state != PoolState::Ready {
                continue;
            }
            for (kind, about) in self.problem.catalogues[0].iter().enumerate() {
                if class.kind.is_some_and(|wanted| wanted != kind) || !self.holds(number, kind, mask) {
                    continue;
                }
                for (at, offering) in about.offerings.iter().enumerate() {
                    let reserved = offering.capacity_type() == Some("reserved");
                    let zone = class.zone.is_none() || offering.zone() == class.zone;
                    let price = offering.price.unwrap();
                    if offering.available
                        && zone
                        && reserved == class.reserved.is_some()
                        && best.is_none_or(|best| price < best.price)
                        && self.suits_all(number, kind, at, mask)
                        && (!turns || self.has_its_turn(number, offering.zone(), mask))
                    {
                        best = Some(Launch { pool: number, kind, offering: at, price });
                    }
                }
            }
        }
        best
    }

    fn suits_all(&self, pool: usize, kind: usize, offering: usize, mask: usize) -> bool {
        let host = Host::new(self.problem, pool, kind, offering, mask);
        let about = &self.problem.pools[pool];
        let offering = &self.problem.catalogues[0][kind].offerings[offering];
        about.requirements.intersects(&offering.requirements)
            && pods_of(self.problem, mask).iter().all(|spec| host.suits(spec, true))
    }

    /// Whether the type has room in this pool and carries what the pool requires.
    fn holds(&self, pool: usize, kind: usize, mask: usize) -> bool {
        let (about, pool) = (&self.problem.catalogues[0][kind], &self.problem.pools[pool]);
        let pods = pods_of(self.problem, mask);
        let daemons = daemons_of(self.problem, pool, about);
        let mut all = total(&pods);
        all.add(&total(&daemons));
        about.requirements.intersects(&pool.requirements)
            && all.first_shortage(&about.allocatable()).is_none()
            && ports_free(&pods, &daemons)
            && pods.iter().all(|spec| tolerates(spec, &pool.taints))
    }

    /// Whether one of the pods can use no heavier pool.
    fn has_its_turn(&self, pool: usize, zone: Option<&str>, mask: usize) -> bool {
        let pods = (0..self.problem.pods.len()).filter(|pod| mask >> pod & 1 == 1);
        let heavier: Vec<usize> = (0..self.problem.pools.len())
            .filter(|other| self.problem.pools[*other].weight > self.problem.pools[pool].weight)
            .filter(|other| self.problem.pools[*other].state == PoolState::Ready)
            .collect();
        let zone = zone.filter(|_| self.zonal);
        pods.into_iter().any(|pod| {
            let alone = 1 << pod;
            let follows = !self.problem.spec_of(pod).affinity.is_empty();
            follows
                || !heavier.iter().any(|&other| {
                    self.problem.catalogues[0].iter().enumerate().any(|(kind, about)| {
                        self.holds(other, kind, alone)
                            && about.offerings.iter().any(|offering| {
                                let host = Host::of(self.problem, other, kind, offering, alone);
                                offering.available
                                    && offering.capacity_type() != Some("reserved")
                                    && (zone.is_none() || offering.zone() == zone)
                                    && self.problem.pools[other].requirements.intersects(&offering.requirements)
                                    && host.suits(self.problem.spec_of(pod), true)
                            })
                    })
                })
        })
    }

    /// The plan in the engine's terms.
    fn solution(&self, groups: &[Group], on_nodes: &[usize]) -> Solution {
        let indices =
            |mask: usize| (0..self.problem.pods.len()).filter(move |pod| mask >> pod & 1 == 1).collect::<Vec<_>>();
        let existing = on_nodes.iter().enumerate().filter(|(_, mask)| **mask != 0);
        Solution {
            new_nodes: groups.iter().map(|group| self.new_node(group, indices(group.mask))).collect(),
            existing: existing.map(|(node, mask)| (node, indices(*mask))).collect(),
            unschedulable: Vec::new(),
        }
    }

    fn new_node(&self, group: &Group, pods: Vec<usize>) -> NewNode {
        let (launch, class) = (group.launch, self.classes[group.class]);
        let (pool, types) = (&self.problem.pools[launch.pool], &self.problem.catalogues[0]);
        let chosen = &types[launch.kind].offerings[launch.offering];
        let host = Host::new(self.problem, launch.pool, launch.kind, launch.offering, group.mask);
        let mut requirements = pool.requirements.clone();
        for spec in pods_of(self.problem, group.mask) {
            requirements.add_all(&spec.node_selector);
            for terms in [&spec.node_terms, &spec.volume_terms] {
                if let Some(term) = terms.iter().find(|term| host.meets(term)) {
                    requirements.add_all(term);
                }
            }
        }
        requirements.remove(HOSTNAME);
        if self.zonal {
            requirements.add_all(
                &chosen
                    .requirements
                    .iter()
                    .filter(|(key, _)| &***key == ZONE)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect(),
            );
        }
        if class.reserved.is_some() {
            requirements.add(CAPACITY_TYPE, crate::cases::one_of(["reserved"]));
        }
        if class.kind.is_some() {
            requirements.add(INSTANCE_TYPE, crate::cases::one_of([&*types[launch.kind].name]));
        }
        let mut priced: Vec<(f64, usize)> = Vec::new();
        for (kind, about) in types.iter().enumerate() {
            let offered = about.offerings.iter().filter(|it| {
                let reserved = it.capacity_type() == Some("reserved");
                it.available && reserved == class.reserved.is_some() && requirements.intersects(&it.requirements)
            });
            let price = offered.filter_map(|it| it.price).fold(f64::INFINITY, f64::min);
            let admitted = price.is_finite() && about.requirements.intersects(&requirements);
            if admitted && self.holds(launch.pool, kind, group.mask) {
                priced.push((price, kind));
            }
        }
        priced.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1 != launch.kind).cmp(&(b.1 != launch.kind))));
        let mut requests = total(&pods_of(self.problem, group.mask));
        requests.add(&total(&daemons_of(self.problem, pool, &types[launch.kind])));
        NewNode {
            pool: launch.pool,
            pods,
            instance_type: launch.kind,
            offering: launch.offering,
            price: launch.price,
            alternatives: priced.into_iter().map(|(_, kind)| kind).collect(),
            requirements: requirements.into(),
            requests,
            min_values_relaxed: None,
        }
    }
}
