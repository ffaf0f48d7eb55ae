//! Nodes that are no longer what their pool or class says. Their replacements come first, and several go at once, as far as
//! budgets allow: a node whose pods fit nowhere holds up nobody else.

use super::consolidate::MOST_TOGETHER;
use super::decision::{Block, Method};
use super::estate::{Cause, Member};
use super::pass::Pass;
use super::world::Trial;
use crate::model::PoolState;
use crate::pack;

/// Nodes that are tried one by one where only one command is wanted.
const TRIED: usize = 100;

impl Pass<'_> {
    /// Drifted nodes of static pools: each is replaced by one node of its pool.
    pub(super) fn static_drift(&mut self) {
        for node in self.drifted(true) {
            let Some(pool) = self.pool_for_drift(node) else { continue };
            let trial = self.attempt_static(node);
            let name = self.estate().problem.pools[pool].name.clone();
            if trial.solution.new_nodes.len() != 1 {
                let message = format!("NodePool `{name}` has drifted, and its limits or types leave no replacement");
                self.keep(node, Block::PodsWouldNotFit, message);
            } else if !trial.places_all() {
                self.keep(node, Block::PodsWouldNotFit, self.who_is_stuck(&trial));
            } else {
                let launches = trial.solution.new_nodes.clone();
                self.accept((Cause::Drifted, Method::StaticDrift), &trial, launches);
                if self.world.settings.first {
                    return;
                }
            }
        }
    }

    /// Drifted nodes of the other pools, the empty ones first, then those that drifted first.
    pub(super) fn drift(&mut self) {
        let why = (Cause::Drifted, Method::Drift);
        let mut waiting = self.drifted(false);
        if self.world.settings.first {
            for node in waiting.into_iter().take(TRIED) {
                if self.pool_for_drift(node).is_none() {
                    continue;
                }
                let trial = self.world.attempt_anyway(&[node]);
                if trial.places_all() {
                    let launches = trial.solution.new_nodes.clone();
                    return self.accept(why, &trial, launches);
                }
                self.keep(node, Block::PodsWouldNotFit, self.who_is_stuck(&trial));
            }
            return;
        }
        // Nodes that are to go themselves take no pods of others.
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
                if part.places_all() {
                    let launches = part.solution.new_nodes.clone();
                    self.accept(why, &part, launches);
                    continue;
                }
                // Of nodes that would share a launch, those whose pods have places need not wait for the others.
                for node in part.nodes {
                    let alone = self.world.attempt_anyway(&[node]);
                    if alone.places_all() {
                        let launches = alone.solution.new_nodes.clone();
                        self.accept(why, &alone, launches);
                    } else {
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

    /// The next nodes that the budgets let go, as many as may wait for each other's launches.
    fn next_to_drift(&self, waiting: &[usize]) -> Vec<usize> {
        let mut ledger = self.ledger.clone();
        let mut going = Vec::new();
        for &node in waiting {
            let Some(pool) = self.estate().members[node].as_ref().and_then(|member| member.pool) else { continue };
            if ledger.left(pool, Cause::Drifted) > 0 && ledger.pods_left(self.estate(), node).is_none() {
                ledger.take(Some(pool));
                ledger.evict(self.estate(), node);
                going.push(node);
            }
            if going.len() == MOST_TOGETHER {
                break;
            }
        }
        going
    }

    /// Drifted nodes that may be touched, in their order.
    fn drifted(&mut self, fixed: bool) -> Vec<usize> {
        let mut nodes = Vec::new();
        for (node, member) in self.members() {
            let Some(drift) = &member.drifted else { continue };
            if self.is_static(node) != fixed || !self.is_asked_about(node) || !self.node_is_free(node) {
                continue;
            }
            // Draining is bounded: what its pods say holds until then.
            if (member.drain_is_bounded || self.pods_are_free(node)) && self.takes_none(node) {
                nodes.push((member.leavers().next().is_some(), drift.since, node));
            }
        }
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, _, node)| node).collect()
    }

    /// The node's pool, if its budgets and those of its pods let the node go now; otherwise notes which does not.
    fn pool_for_drift(&mut self, node: usize) -> Option<usize> {
        let pool = self.estate().members[node].as_ref().and_then(|member| member.pool)?;
        if self.ledger.left(pool, Cause::Drifted) == 0 {
            self.keep_by_budget(&self.ledger.clone(), node, pool, Cause::Drifted);
            return None;
        }
        self.evictions_are_left(node).then_some(pool)
    }

    /// Which pod of a trial finds no place.
    pub(super) fn who_is_stuck(&self, trial: &Trial) -> String {
        let stuck = &trial.solution.unschedulable;
        let first = stuck.first().map(|one| self.world.pod(trial.pods[one.pod]));
        let others = match stuck.len().saturating_sub(1) {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            count => format!(" and {count} others"),
        };
        let name = first.map(|pod| pod.name).unwrap_or_default();
        format!("pod `{name}`{others} would fit on no other node, and on none that can be launched")
    }

    /// A static node gone, and one node of its pool launched, which takes what fits nowhere else.
    pub(super) fn attempt_static(&mut self, node: usize) -> Trial {
        let Some(pool) = self.estate().members[node].as_ref().and_then(|member: &Member| member.pool) else {
            return self.world.attempt(&[node]);
        };
        let pools = self.world.problem.pools.clone();
        for (number, other) in self.world.problem.pools.iter_mut().enumerate() {
            if number == pool {
                other.missing_replicas = None;
            } else {
                other.state = PoolState::NotReady("another pool's node is replaced".to_owned());
            }
        }
        // The pods follow their node: whatever room others have is not asked for.
        let rooms = self.world.rooms();
        (0..rooms.len()).for_each(|node| self.world.close(node));
        let mut trial = self.world.attempt(&[node]);
        self.world.reopen(rooms);
        self.world.problem.pools = pools;
        if trial.pods.is_empty() {
            let mut alone = self.world.problem.clone();
            for (number, other) in alone.pools.iter_mut().enumerate() {
                other.missing_replicas = Some(u32::from(number == pool));
            }
            trial.solution.new_nodes = pack::replicas::missing(&alone, &self.world.settings.options, &[]);
        }
        trial
    }
}
