//! Sequential placement of pods with kube-scheduler's default profile.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::books::{Books, rules_of};
use super::lines::{BLOCK, Lines, Masks, Search};
use crate::model::{HostPort, Node, PodSpec, Problem, Resource};
use crate::solution::Solution;
use crate::validate::rules::RuleId;
use crate::validate::specs::{Specs, add_row};

/// The nodes, with the resources that their pods use.
pub(super) struct Floor<'a> {
    specs: &'a Specs<'a>,
    /// Free resources by node, in the order of the requests.
    pub(super) room: Vec<i64>,
    /// Cpu and memory by node: used and allocatable.
    pub(super) load: Vec<[(f64, f64); 2]>,
    /// Number of pods placed, by node.
    pub(super) pods: Vec<u32>,
    /// Number of pods placed, by block of nodes.
    pub(super) changes: Vec<u32>,
    ports: Vec<Vec<HostPort>>,
    /// Remaining volumes and attached claims, for each driver with a limit.
    volumes: Vec<Vec<(u32, BTreeSet<&'a str>)>>,
}

/// A pod in kube-scheduler's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Its index in [`Problem::pods`].
    pub pod: usize,
    /// Index of its nominated node, which is tried before all others.
    pub hint: Option<usize>,
}

/// Returns the pods of the plan that get a node, in order, with the node; and those that do not. No scheduler sees
/// virtual pods.
pub(super) fn place_real_pods(
    problem: &Problem,
    nodes: &[Node],
    solution: &Solution,
) -> (Vec<(usize, usize)>, Vec<usize>) {
    let new = solution.new_nodes.iter().flat_map(|node| &node.pods);
    let mut pods: Vec<usize> = new.chain(solution.existing.iter().flat_map(|(_, pods)| pods)).copied().collect();
    pods.retain(|pod| !problem.spec_of(*pod).is_virtual);
    pods.sort_unstable();
    let queue: Vec<Waiting> = pods.into_iter().map(|pod| Waiting { pod, hint: None }).collect();
    let found = place_queue(problem, nodes, &queue);
    let (mut places, mut left_over) = (Vec::with_capacity(queue.len()), Vec::new());
    for (waiting, found) in queue.iter().zip(found) {
        match found {
            Some(node) => places.push((waiting.pod, node)),
            None => left_over.push(waiting.pod),
        }
    }
    (places, left_over)
}

/// Resources reserved on nominated nodes for pods that are not placed yet: other pods cannot use them.
#[derive(Debug, Default)]
struct Held(FxHashMap<usize, Vec<i64>>);

impl Held {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn keep(&mut self, node: usize, request: &[i64]) {
        let held = self.0.entry(node).or_insert_with(|| vec![0; request.len()]);
        held.iter_mut().zip(request).for_each(|(held, request)| *held = held.saturating_add(*request));
    }

    fn give_back(&mut self, node: usize, request: &[i64]) {
        if let Some(held) = self.0.get_mut(&node) {
            held.iter_mut().zip(request).for_each(|(held, request)| *held = held.saturating_sub(*request));
        }
    }
}

/// Returns the node of each pod of the queue, in order.
pub(super) fn place_queue(problem: &Problem, nodes: &[Node], queue: &[Waiting]) -> Vec<Option<usize>> {
    let specs = Specs::new(problem);
    let mut placed = vec![false; problem.specs.len()];
    queue.iter().for_each(|waiting| placed[problem.pods[waiting.pod].spec] = true);
    let rules = rules_of(&specs, problem, nodes, &placed);
    let mut books = Books::new(&specs, &rules, nodes);
    let mut floor = Floor::new(&specs, nodes);
    let mut lines = Lines::new(&specs, nodes);
    let mut masks = Masks::new(nodes.len());
    let (mut wishes, mut sample) = (Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(queue.len());
    let enough = sample_size(nodes.len());
    let mut start = 0;
    let mut held = Held::default();
    for &Waiting { pod, hint } in queue {
        if let Some(hint) = hint {
            held.keep(hint, specs.request(problem.pods[pod].spec));
        }
    }
    for &Waiting { pod, hint } in queue {
        let spec = problem.pods[pod].spec;
        let filters = masks.of(&books.gates(spec));
        let picky = !problem.specs[spec].host_ports.is_empty() || !problem.specs[spec].attachments.is_empty();
        let takes = |node: usize| !picky || floor.takes(&nodes[node], spec, node);
        let takes_beside = |node: usize| takes(node) && floor.has_room_beside(&held, spec, node, hint);
        let looks_closer = picky || !held.is_empty();
        books.wishes(spec, &mut wishes);
        let line = lines.of(spec);
        let hinted = hint.and_then(|hint| {
            let takes = Some(|node: usize| node == hint && takes(node));
            line.best(Search { floor: &floor, filters: &filters, takes, start: &mut 0, enough: nodes.len() })
        });
        let found = if hinted.is_some() {
            hinted
        } else {
            let takes = looks_closer.then_some(takes_beside);
            let search = Search { floor: &floor, filters: &filters, takes, start: &mut start, enough };
            if wishes.is_empty() {
                line.best(search)
            } else {
                sample.clear();
                line.gather(search, &mut sample);
                best(&sample, &books, &wishes)
            }
        };
        if let Some(node) = found {
            drop(filters);
            if let Some(hint) = hint {
                held.give_back(hint, specs.request(spec));
            }
            floor.put(&nodes[node], spec, node);
            books.enter(spec, node);
        }
        places.push(found);
    }
    places
}

/// Returns the number of feasible nodes at which kube-scheduler stops.
fn sample_size(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(100)
}

/// Returns the node with the highest score, preferred spreads included.
fn best(sample: &[(u32, u8)], books: &Books<'_>, wishes: &[(RuleId, f64, f64)]) -> Option<usize> {
    let mut best: Option<(f64, u32)> = None;
    let crowding: Vec<Option<f64>> = sample.iter().map(|&(node, _)| books.crowding(wishes, node as usize)).collect();
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for &sum in crowding.iter().flatten() {
        (least, most) = (least.min(sum), most.max(sum));
    }
    for (&(node, points), crowding) in sample.iter().zip(crowding) {
        let spread = match crowding {
            Some(_) if most == 0.0 => 100.0,
            Some(sum) => (100.0 * (most + least - sum) / most).floor(),
            None => 0.0,
        };
        let points = f64::from(points) + 2.0 * spread;
        if best.is_none_or(|(most, _)| points > most) {
            best = Some((points, node));
        }
    }
    best.map(|(_, node)| node as usize)
}

impl<'a> Floor<'a> {
    /// Creates the nodes with the pods that are bound to them.
    pub(super) fn new(specs: &'a Specs<'a>, nodes: &'a [Node]) -> Self {
        let mut room = Vec::with_capacity(nodes.len() * specs.resources.len());
        let mut load = Vec::with_capacity(nodes.len());
        let (mut ports, mut volumes) = (Vec::new(), Vec::new());
        let mut rows = FxHashMap::default();
        for node in nodes {
            let all: &Vec<i64> = rows.entry(&node.allocatable).or_insert_with_key(|amounts| specs.row(amounts));
            let mut used = specs.row(&node.daemon_requests);
            node.bound.iter().for_each(|bound| add_row(&mut used, specs.request(bound.spec)));
            room.extend(all.iter().zip(&used).map(|(all, used)| all.saturating_sub(*used).max(0)));
            load.push([Resource::Cpu, Resource::Memory].map(|resource| {
                let used = specs.resources.binary_search(&&resource).map_or(0, |at| used[at]);
                (used as f64, node.allocatable.get(&resource).max(1) as f64)
            }));
            let bound = || node.bound.iter().map(|bound| &specs.problem.specs[bound.spec]);
            ports.push(bound().flat_map(|spec| spec.host_ports.iter().copied()).collect());
            let limits = node.attach_limits.iter().map(|(driver, limit)| {
                let volumes = node.attached.iter().chain(bound().flat_map(|spec| &spec.attachments));
                let attached: BTreeSet<&str> = volumes.filter(|it| it.driver == *driver).map(|it| &*it.claim).collect();
                (limit.saturating_sub(u32::try_from(attached.len()).unwrap_or(u32::MAX)), attached)
            });
            volumes.push(limits.collect());
        }
        Self {
            specs,
            room,
            load,
            pods: vec![0; nodes.len()],
            changes: vec![0; nodes.len().div_ceil(BLOCK)],
            ports,
            volumes,
        }
    }

    /// Returns true if the node has room for the requests of a pod.
    pub(super) fn has_room(&self, spec: usize, node: usize) -> bool {
        let request = self.specs.request(spec);
        let width = request.len();
        let room = &self.room[node * width..(node + 1) * width];
        room.iter().zip(request).all(|(room, wanted)| *wanted == 0 || room >= wanted)
    }

    /// Returns true if the node has room for a pod in addition to the resources reserved for others. On `hint`, the
    /// node where resources are reserved for the pod itself, reservations are not checked.
    fn has_room_beside(&self, held: &Held, spec: usize, node: usize, hint: Option<usize>) -> bool {
        let Some(held) = held.0.get(&node).filter(|_| hint != Some(node)) else { return true };
        let request = self.specs.request(spec);
        let width = request.len();
        let room = &self.room[node * width..(node + 1) * width];
        room.iter().zip(held).zip(request).all(|((room, held), wanted)| *wanted == 0 || room - held >= *wanted)
    }

    /// Returns true if host ports and attach limits allow the pod.
    pub(super) fn takes(&self, about: &Node, spec: usize, node: usize) -> bool {
        let spec = &self.specs.problem.specs[spec];
        let free = |port: &HostPort| self.ports[node].iter().all(|taken| !port.conflicts(taken));
        spec.host_ports.iter().all(free)
            && (spec.attachments.is_empty()
                || about.attach_limits.iter().zip(&self.volumes[node]).all(|((driver, _), (left, there))| {
                    new_volumes(spec, driver).filter(|claim| !there.contains(claim)).count() <= *left as usize
                }))
    }

    pub(super) fn put(&mut self, about: &Node, spec: usize, node: usize) {
        let request = self.specs.request(spec);
        let width = request.len();
        for (room, taken) in self.room[node * width..(node + 1) * width].iter_mut().zip(request) {
            *room = room.saturating_sub(*taken);
        }
        let spec = &self.specs.problem.specs[spec];
        let [cpu, memory] = &mut self.load[node];
        cpu.0 += spec.requests.get(&Resource::Cpu) as f64;
        memory.0 += spec.requests.get(&Resource::Memory) as f64;
        self.pods[node] += 1;
        self.changes[node / BLOCK] += 1;
        self.ports[node].extend(&spec.host_ports);
        for ((driver, _), (left, there)) in about.attach_limits.iter().zip(&mut self.volumes[node]) {
            for claim in new_volumes(spec, driver) {
                *left = left.saturating_sub(u32::from(there.insert(claim)));
            }
        }
    }
}

/// Returns the claims of `driver` that a pod attaches.
fn new_volumes<'s>(spec: &'s PodSpec, driver: &str) -> impl Iterator<Item = &'s str> {
    spec.attachments.iter().filter(move |it| &*it.driver == driver).map(|it| &*it.claim)
}
