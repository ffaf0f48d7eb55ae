//! The cluster during a pass: the candidates of accepted commands are deleted, their launches exist, and the pods that
//! they move are at their new places. A trial computes where the pods of some nodes would go if these were deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Settings;
use super::decision::{Arrivals, Command, Method};
use super::input::{Cause, DisruptionInput};
use crate::labels;
use crate::model::{BoundPod, Options, Packing, Pod, PreferencePolicy, Problem, Resource, Resources, draw};
use crate::pack;
use crate::second_round::node_when_up;
use crate::solution::{NewNode, Reason, Solution, Unschedulable};

/// The cluster during a pass; see the module.
pub(super) struct World<'a> {
    pub(super) input: &'a DisruptionInput,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    /// The input's problem, changed by the accepted commands. Its pods are those of the current trial.
    pub(super) problem: Problem,
    /// Pods that accepted commands move.
    pub(super) moved: Vec<Pod>,
    /// Price of each node in USD per hour, if known.
    prices: Vec<Option<f64>>,
    /// Number of pods that the node takes from disrupted nodes, by node.
    pub(super) received: Vec<usize>,
    /// Pending pods, and their planned places.
    pub(super) arrivals: Arrivals,
    /// Virtual pods that the plan puts on a node, by node. A trial places them again, like pods that move.
    virtual_pods: BTreeMap<usize, Vec<Pod>>,
}

/// Planned places of the pods of some nodes if these were deleted.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    /// The nodes to delete.
    pub(super) nodes: Vec<usize>,
    /// Their pods that move, in the order of the indices in `solution`: node, and index among its pods. The virtual
    /// pods of a node come after those that are bound to it.
    pub(super) pods: Vec<(usize, usize)>,
    pub(super) solution: Solution,
}

impl<'a> World<'a> {
    pub(super) fn new(input: &'a DisruptionInput, settings: &'a Settings, now: Timestamp) -> Self {
        let problem = input.problem.clone();
        let prices = (0..problem.nodes.len()).map(|node| input.price(node)).collect();
        let received = vec![0; problem.nodes.len()];
        Self {
            input,
            settings,
            now,
            problem,
            moved: Vec::new(),
            prices,
            received,
            arrivals: Arrivals::default(),
            virtual_pods: BTreeMap::new(),
        }
    }

    /// Places the pending pods where a plan would; returns the nodes that take such pods, with one pod each. Nodes are
    /// not promised to virtual pods: they are never bound, and their room may move.
    pub(super) fn settle_pending(&mut self) -> Vec<(usize, Arc<str>)> {
        let mut promised = Vec::new();
        if !self.problem.pods.is_empty() {
            let solution = pack::plan(&self.problem, &self.settings.options);
            let pods = std::mem::take(&mut self.problem.pods);
            for (node, placed) in &solution.existing {
                let is_virtual = |pod: &usize| self.problem.specs[pods[*pod].spec].is_virtual;
                let (unseen, real): (Vec<usize>, Vec<usize>) = placed.iter().copied().partition(is_virtual);
                promised.extend(real.first().map(|&pod| (*node, Arc::clone(&pods[pod].name))));
                if !unseen.is_empty() {
                    self.virtual_pods.insert(*node, unseen.into_iter().map(|pod| pods[pod].clone()).collect());
                }
            }
            self.put(&pods, &solution.new_nodes, &solution.existing, "pending");
            self.arrivals = Arrivals { pods, solution };
        }
        // From here on, nodes that are not initialized take no pods: it is not known yet if they will become ready.
        for node in self.problem.nodes.iter_mut().filter(|node| !node.initialized) {
            node.allocatable = Resources::new();
        }
        promised
    }

    /// Prevents a node from taking more pods.
    pub(super) fn close(&mut self, node: usize) {
        self.problem.nodes[node].allocatable = Resources::new();
    }

    /// Returns the allocatable resources of all nodes, to be restored by [`World::reopen`].
    pub(super) fn rooms(&self) -> Vec<Resources> {
        self.problem.nodes.iter().map(|node| node.allocatable.clone()).collect()
    }

    /// Restores the resources of nodes; nodes launched since have none.
    pub(super) fn reopen(&mut self, rooms: Vec<Resources>) {
        self.problem.nodes.iter_mut().zip(rooms).for_each(|(node, room)| node.allocatable = room);
    }

    /// Calls `ask` with the cluster as kube-scheduler sees it: nodes that take no pods from consolidation do take them.
    pub(super) fn as_scheduled<T>(&mut self, ask: impl FnOnce(&mut Self) -> T) -> T {
        let rooms = self.rooms();
        let there = self.input.problem.nodes.iter().zip(&mut self.problem.nodes);
        there.for_each(|(was, node)| node.allocatable.clone_from(&was.allocatable));
        let found = ask(self);
        self.reopen(rooms);
        found
    }

    /// Returns the price of a node in USD per hour, if known.
    pub(super) fn price(&self, node: usize) -> Option<f64> {
        self.prices[node]
    }

    /// Returns the sum of the known prices of `nodes`, in USD per hour.
    pub(super) fn prices(&self, nodes: &[usize]) -> f64 {
        nodes.iter().filter_map(|&node| self.prices[node]).sum()
    }

    /// Plans the places of the pods of `nodes` as if these were deleted.
    pub(super) fn attempt(&mut self, nodes: &[usize]) -> Trial {
        let settings = self.settings;
        self.attempt_with(nodes, &settings.options)
    }

    /// Like [`World::attempt`], for nodes that are deleted at any cost. Preferences of their pods that did not hold
    /// before must not cost more than these nodes: replicas that shared a node may share the next.
    pub(super) fn attempt_anyway(&mut self, nodes: &[usize]) -> Trial {
        let trial = self.attempt(nodes);
        let settings = self.settings;
        let options = &settings.options;
        let asks = options.preferences == PreferencePolicy::Respect && options.packing == Packing::Priced;
        if !asks || trial.price() <= self.prices(nodes) {
            return trial;
        }
        let other = self.attempt_with(nodes, &Options { preferences: PreferencePolicy::Ignore, ..*options });
        let left = |trial: &Trial| trial.solution.unschedulable.len();
        if left(&other) <= left(&trial) && other.price() < trial.price() { other } else { trial }
    }

    fn attempt_with(&mut self, nodes: &[usize], options: &Options) -> Trial {
        let pods: Vec<(usize, usize)> = nodes.iter().flat_map(|&node| self.leavers(node)).collect();
        let solution = self.without(nodes, &pods, |world| {
            if pods.is_empty() { Solution::default() } else { pack::plan(&world.problem, options) }
        });
        Trial { nodes: nodes.to_vec(), pods, solution }
    }

    /// Calls `ask` while `nodes` are deleted and `pods` are pending.
    pub(super) fn without<T>(&mut self, nodes: &[usize], pods: &[(usize, usize)], ask: impl FnOnce(&Self) -> T) -> T {
        nodes.iter().for_each(|&node| self.problem.nodes[node].deleting = true);
        self.problem.pods = pods.iter().map(|&place| self.pod(place)).collect();
        let found = ask(self);
        self.problem.pods.clear();
        nodes.iter().for_each(|&node| self.problem.nodes[node].deleting = false);
        found
    }

    /// Returns the pods of a node that have to move, and its virtual pods.
    pub(super) fn leavers(&self, node: usize) -> Vec<(usize, usize)> {
        let leavers = self.input.managed_nodes[node].iter().flat_map(|managed_node| managed_node.leavers());
        let bound = self.input.problem.nodes[node].bound.len();
        let virtual_pods = bound..bound + self.virtual_pods(node).len();
        leavers.chain(virtual_pods).map(|at| (node, at)).collect()
    }

    /// Returns the virtual pods that the plan puts on a node.
    pub(super) fn virtual_pods(&self, node: usize) -> &[Pod] {
        self.virtual_pods.get(&node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a pod by node and index.
    pub(super) fn pod(&self, (node, at): (usize, usize)) -> Pod {
        let bound = &self.input.problem.nodes[node].bound;
        if let Some(bound) = bound.get(at) {
            return Pod { name: Arc::clone(&bound.name), spec: bound.spec };
        }
        self.virtual_pods(node)[at - bound.len()].clone()
    }

    /// Returns true if the pod is virtual.
    pub(super) fn is_virtual(&self, (node, at): (usize, usize)) -> bool {
        at >= self.input.problem.nodes[node].bound.len()
    }

    /// Returns the number of pods that a trial evicts.
    pub(super) fn moves(&self, trial: &Trial) -> usize {
        trial.pods.iter().filter(|&&place| !self.is_virtual(place)).count()
    }

    /// Returns true if every pod of the trial has a place, except for virtual ones.
    pub(super) fn places_real_pods(&self, trial: &Trial) -> bool {
        trial.solution.unschedulable.iter().all(|one| self.is_virtual(trial.pods[one.pod]))
    }

    /// Returns the command that executes `trial` with these launches; its pods are numbered after those that already
    /// move.
    pub(super) fn command(&self, (cause, method): (Cause, Method), trial: &Trial, replacements: &[NewNode]) -> Command {
        let first = self.moved.len();
        let number = |pods: &[usize]| -> Vec<usize> { pods.iter().map(|&pod| first + pod).collect() };
        let bare = trial.pods.iter().enumerate().filter(|(_, (node, at))| {
            let node_pod = self.input.managed_nodes[*node].as_ref().and_then(|it| it.node_pods.get(*at));
            node_pod.is_some_and(|node_pod| !node_pod.controlled)
        });
        Command {
            cause,
            method,
            candidates: trial.nodes.clone(),
            replacements: replacements
                .iter()
                .map(|node| NewNode { pods: number(&node.pods), ..node.clone() })
                .collect(),
            existing: trial.solution.existing.iter().map(|(node, pods)| (*node, number(pods))).collect(),
            unplaced: trial.solution.unschedulable.iter().map(|pod| first + pod.pod).collect(),
            bare: bare.map(|(pod, _)| first + pod).collect(),
            savings: self.prices(&trial.nodes) - replacements.iter().map(|node| node.price).sum::<f64>(),
        }
    }

    /// Applies a trial with these launches to the cluster.
    pub(super) fn carry_out(&mut self, trial: &Trial, replacements: &[NewNode]) {
        let pods: Vec<Pod> = trial.pods.iter().map(|&place| self.pod(place)).collect();
        for &node in &trial.nodes {
            self.problem.nodes[node].deleting = true;
        }
        self.put(&pods, replacements, &trial.solution.existing, "replacement");
        for (node, pods) in &trial.solution.existing {
            self.received[*node] += pods.len();
        }
        self.moved.extend(pods);
    }

    /// Binds pods to their planned nodes. New nodes count as full: their room is for the next pass, once they are
    /// ready.
    fn put(&mut self, pods: &[Pod], launched: &[NewNode], existing: &[(usize, Vec<usize>)], word: &str) {
        let bound = |pod: &usize| BoundPod {
            name: Arc::clone(&pods[*pod].name),
            spec: pods[*pod].spec,
            counts: true,
            planned: true,
            daemon: false,
        };
        for (node, placed) in existing {
            let node = &mut self.problem.nodes[*node];
            node.bound.extend(placed.iter().map(bound));
        }
        draw(&mut self.problem, launched.iter().map(|node| (node.pool, node.instance_type, node.offering)));
        // The requests of a launch include pods and daemons: the pods must be present to separate the two.
        self.problem.pods = pods.to_vec();
        for node in launched {
            let name = format!("{word}-{}", self.problem.nodes.len()).into();
            let mut up = node_when_up(&self.problem, node, name);
            up.allocatable = Resources::new();
            up.bound = node.pods.iter().map(bound).collect();
            let pool = &mut self.problem.pools[node.pool];
            pool.usage.add(&self.problem.catalogues[pool.catalogue][node.instance_type].capacity);
            pool.usage.add(&[(Resource::new("nodes"), 1)].into_iter().collect());
            self.problem.nodes.push(up);
        }
        self.problem.pods.clear();
    }
}

impl DisruptionInput {
    /// Returns the price of a managed node in USD per hour, from its labels: that of its type's offering with its zone,
    /// capacity type and reservation.
    pub fn price(&self, node: usize) -> Option<f64> {
        let pool = self.managed_nodes.get(node)?.as_ref()?.pool?;
        let label = |key: &str| self.problem.nodes[node].labels.get(key).map(|value| &**value);
        let kind = label(labels::INSTANCE_TYPE)?;
        let (zone, capacity) = (label(labels::ZONE)?, label(labels::CAPACITY_TYPE)?);
        let types = &self.problem.catalogues[self.problem.pools[pool].catalogue];
        let one = types.iter().find(|one| &*one.name == kind)?;
        let reservation = label(labels::CAPACITY_RESERVATION_ID);
        let matching = one.offerings.iter().find(|offering| {
            offering.zone() == Some(zone)
                && offering.capacity_type() == Some(capacity)
                && (!offering.reserved()
                    || reservation.is_none()
                    || offering.requirements.single(labels::CAPACITY_RESERVATION_ID) == reservation)
        })?;
        matching.price
    }
}

/// Returns an entry of a solution for a pod without a place.
pub(super) fn unplaced(pod: usize) -> Unschedulable {
    Unschedulable { pod, reason: Reason::Resources, message: String::new(), pools: Vec::new() }
}
