//! Drifted nodes. Replacements are launched first, and several nodes are replaced at once, as far as budgets allow: a
//! node whose pods do not fit elsewhere does not block the others.
//!
//! The room of virtual pods moves along where that is possible, but does not keep a drifted node: what is lost is
//! bought again by the next round of provisioning.

use super::consolidate::MOST_TOGETHER;
use super::decision::{Block, Method};
use super::input::{Cause, ManagedNode};
use super::pass::Pass;
use super::world::{Trial, unplaced};
use crate::model::{PoolState, Resource};
use crate::pack;
use crate::solution::Solution;

/// Maximum number of nodes that are tried one by one if only one command is wanted.
const TRIED: usize = 100;

impl Pass<'_> {
    /// Replaces drifted nodes of static pools, each by one node of its pool.
    pub(super) fn static_drift(&mut self) {
        for node in self.drifted(true) {
            if !self.world.settings.static_capacity {
                let message = "it has drifted, but the feature gate StaticCapacity is off".to_owned();
                self.keep(node, Block::StaticPool, message);
                continue;
            }
            let Some(pool) = self.pool_for_drift(node) else { continue };
            let trial = self.attempt_static(node);
            let name = self.input().problem.pools[pool].name.clone();
            if trial.solution.new_nodes.is_empty() {
                if self.terminate_first(node, Cause::Drifted) {
                    continue;
                }
                let message = format!("NodePool `{name}` has drifted, and its limits or types leave no replacement");
                self.keep(node, Block::PodsWouldNotFit, message);
            } else {
                let launches = trial.solution.new_nodes.clone();
                self.accept((Cause::Drifted, Method::StaticDrift), &trial, launches);
                if self.world.settings.first {
                    return;
                }
            }
        }
    }

    /// Replaces drifted nodes of the other pools: the empty ones first, then by the time of their drift.
    pub(super) fn drift(&mut self) {
        let why = (Cause::Drifted, Method::Drift);
        let mut waiting = self.drifted(false);
        if self.world.settings.first {
            for node in waiting.into_iter().take(TRIED) {
                if self.pool_for_drift(node).is_none() {
                    continue;
                }
                let trial = self.world.attempt_anyway(&[node]);
                if self.world.places_real_pods(&trial) {
                    let launches = trial.solution.new_nodes.clone();
                    return self.accept(why, &trial, launches);
                }
                if self.terminate_first(node, Cause::Drifted) {
                    return;
                }
                self.keep(node, Block::PodsWouldNotFit, self.who_is_stuck(&trial));
            }
            return;
        }
        // Drifted nodes take no pods of others.
        let rooms = self.world.rooms();
        waiting.iter().for_each(|&node| self.world.close(node));
        loop {
            let going = self.next_to_drift(&waiting);
            if going.is_empty() {
                break;
            }
            let trial = self.world.attempt_anyway(&going);
            waiting.retain(|node| !going.contains(node));
            for part in trial.parts() {
                if self.world.places_real_pods(&part) {
                    let launches = part.solution.new_nodes.clone();
                    self.accept(why, &part, launches);
                    continue;
                }
                // Of nodes that would share a launch, those whose pods have places need not wait for the others.
                for node in part.nodes {
                    let alone = self.world.attempt_anyway(&[node]);
                    if self.world.places_real_pods(&alone) {
                        let launches = alone.solution.new_nodes.clone();
                        self.accept(why, &alone, launches);
                    } else if !self.terminate_first(node, Cause::Drifted) {
                        self.keep(node, Block::PodsWouldNotFit, self.who_is_stuck(&alone));
                    }
                }
            }
        }
        self.world.reopen(rooms);
        for node in waiting {
            self.pool_for_drift(node);
        }
    }

    /// Returns the next nodes that the budgets allow, at most as many as may wait for each other's launches.
    fn next_to_drift(&self, waiting: &[usize]) -> Vec<usize> {
        let mut ledger = self.ledger.clone();
        let mut going = Vec::new();
        for &node in waiting {
            let Some(pool) = self.input().managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool)
            else {
                continue;
            };
            if ledger.left(pool, Cause::Drifted) > 0 && ledger.pods_left(self.input(), node).is_none() {
                ledger.take(Some(pool));
                ledger.evict(self.input(), node);
                going.push(node);
            }
            if going.len() == MOST_TOGETHER {
                break;
            }
        }
        going
    }

    /// Returns the drifted nodes that can be disrupted, in their order.
    pub(super) fn drifted(&mut self, fixed: bool) -> Vec<usize> {
        let mut nodes = Vec::new();
        for (node, managed_node) in self.managed_nodes() {
            let Some(drift) = &managed_node.drifted else { continue };
            if self.is_static(node) != fixed || !self.is_asked_about(node) || !self.node_is_free(node) {
                continue;
            }
            // Draining is bounded: the pods' annotations and budgets are respected only until its end.
            if (managed_node.drain_is_bounded || self.pods_are_free(node)) && self.takes_none(node) {
                nodes.push((managed_node.leavers().next().is_some(), drift.since, node));
            }
        }
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, _, node)| node).collect()
    }

    /// Returns the node's pool if its budgets and those of the pods allow the disruption now; otherwise records the
    /// reason.
    fn pool_for_drift(&mut self, node: usize) -> Option<usize> {
        let pool = self.input().managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool)?;
        if self.ledger.left(pool, Cause::Drifted) == 0 {
            self.keep_by_budget(&self.ledger.clone(), node, pool, Cause::Drifted);
            return None;
        }
        self.evictions_are_left(node).then_some(pool)
    }

    /// Returns a message that names a pod of the trial without a place, if possible one that is not virtual.
    pub(super) fn who_is_stuck(&self, trial: &Trial) -> String {
        let stuck = &trial.solution.unschedulable;
        let real = stuck.iter().find(|one| !self.world.is_virtual(trial.pods[one.pod]));
        let first = real.or(stuck.first()).map(|one| self.world.pod(trial.pods[one.pod]));
        let others = match stuck.len().saturating_sub(1) {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            count => format!(" and {count} others"),
        };
        let name = first.map(|pod| pod.name).unwrap_or_default();
        format!("pod `{name}`{others} would fit on no other node, and on none that can be launched")
    }

    /// Tries to replace a static node by one node of its pool, large enough for the pods that fit on one. If none can
    /// hold any, the replacement is the cheapest node of the pool, and the pods have no place: what a static pool
    /// promises is its number of nodes.
    pub(super) fn attempt_static(&mut self, node: usize) -> Trial {
        let Some(pool) =
            self.input().managed_nodes[node].as_ref().and_then(|managed_node: &ManagedNode| managed_node.pool)
        else {
            return self.world.attempt(&[node]);
        };
        let pools = self.world.problem.pools.clone();
        for (number, other) in self.world.problem.pools.iter_mut().enumerate() {
            if number == pool {
                other.missing_replicas = None;
                let nodes = Resource::new("nodes");
                let one_more = other.usage.get(&nodes).saturating_add(1);
                let limits = other.limits.get_or_insert_default();
                let most = if limits.contains(&nodes) { limits.get(&nodes).min(one_more) } else { one_more };
                limits.set(nodes, most);
            } else {
                other.state = PoolState::NotReady("another pool's node is replaced".to_owned());
            }
        }
        // The pods follow their node: room on other nodes is not used.
        let rooms = self.world.rooms();
        (0..rooms.len()).for_each(|node| self.world.close(node));
        let mut trial = self.world.attempt(&[node]);
        self.world.reopen(rooms);
        self.world.problem.pools = pools;
        if trial.solution.new_nodes.is_empty() {
            let mut alone = self.world.problem.clone();
            for (number, other) in alone.pools.iter_mut().enumerate() {
                other.missing_replicas = Some(u32::from(number == pool));
            }
            trial.solution = Solution {
                new_nodes: pack::replicas::missing(&alone, &self.world.settings.options, &[]),
                unschedulable: (0..trial.pods.len()).map(unplaced).collect(),
                ..Solution::default()
            };
        }
        trial
    }
}
