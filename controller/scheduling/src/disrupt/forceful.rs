//! Forceful disruption: interrupted and expired nodes, unhealthy ones that were never initialized, and with
//! `--legacy-node-repair` all unhealthy ones. Budgets and annotations are ignored. Places for the
//! pods are planned nevertheless, so that replacements are ready before the old nodes are deleted.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Repair;
use super::consolidate::MOST_TOGETHER;
use super::decision::{Block, Method};
use super::input::{Cause, ManagedNode};
use super::pass::Pass;
use super::world::Trial;

/// Maximum share of a pool's nodes that are repaired, a fifth, rounded up. If more are unhealthy, another cause is
/// likely, and none is repaired.
pub(super) const REPAIRED_AT_MOST: (u64, u64) = (1, 5);

/// Time for which an expired node waits for places for its pods: capacity returns, and other nodes become ready. The
/// same as Karpenter's timeout for a replacement; Karpenter's own expiration does not wait.
pub(crate) const LATE: SignedDuration = SignedDuration::from_mins(10);

/// Returns the time from which a node that expires at `expires` no longer waits.
fn late(expires: Timestamp) -> Timestamp {
    expires.checked_add(LATE).unwrap_or(Timestamp::MAX)
}

/// Cause of a disruption, and the method that found it.
type Why = (Cause, Method);

impl Pass<'_> {
    /// Returns the nodes of a forceful disruption, by cause in the order of execution; expired nodes are sorted by
    /// expiry.
    pub(super) fn forced(&mut self) -> [(Why, Vec<usize>); 3] {
        let managed_nodes = self.managed_nodes();
        let interrupted = |managed_node: &ManagedNode| managed_node.interrupted.is_some();
        let broken: Vec<usize> = match self.world.settings.repair {
            Repair::Legacy => self.broken(),
            Repair::Voluntary => self.never_initialized(),
            Repair::Off => Vec::new(),
        };
        let now = self.world.now;
        let expired = |managed_node: &ManagedNode| managed_node.expires().is_some_and(|end| end <= now);
        let mut groups = [
            ((Cause::Interrupted, Method::Interruption), Vec::new()),
            ((Cause::Broken, Method::ForcefulRepair), Vec::new()),
            ((Cause::Expired, Method::Expiration), Vec::new()),
        ];
        for (node, managed_node) in managed_nodes {
            let group = match () {
                () if interrupted(managed_node) => 0,
                () if broken.contains(&node) => 1,
                () if expired(managed_node) => 2,
                () => continue,
            };
            groups[group].1.push(node);
        }
        let expires = |&node: &usize| (self.input().managed_nodes[node].as_ref().and_then(ManagedNode::expires), node);
        groups[2].1.sort_by_key(expires);
        groups
    }

    /// Disrupts these nodes; they take no more pods.
    pub(super) fn forceful(&mut self, forced: [(Why, Vec<usize>); 3]) {
        for (why, nodes) in forced {
            let (fixed, others): (Vec<usize>, Vec<usize>) = nodes.into_iter().partition(|&node| self.is_static(node));
            for node in fixed {
                let trial = self.attempt_static(node);
                let launches = trial.solution.new_nodes.clone();
                self.accept(why, &trial, launches);
            }
            for batch in others.chunks(MOST_TOGETHER) {
                let trial = if why.0 == Cause::Expired {
                    self.attempt_expired(batch)
                } else {
                    self.world.attempt_anyway(batch)
                };
                for part in trial.parts() {
                    if why.0 == Cause::Expired && !part.places_all() && self.waits_for_turn(&part) {
                        continue;
                    }
                    let launches = part.solution.new_nodes.clone();
                    self.accept(why, &part, launches);
                }
            }
        }
    }

    /// Tries to place the pods of expired nodes, leaving out nodes whose pods have no place and that may still wait for
    /// one.
    fn attempt_expired(&mut self, batch: &[usize]) -> Trial {
        let mut going = batch.to_vec();
        loop {
            let trial = self.world.attempt_anyway(&going);
            let waiting: Vec<usize> = trial.stuck().into_iter().filter(|&node| self.waits_for_places(node)).collect();
            if waiting.is_empty() {
                return trial;
            }
            for &node in &waiting {
                let homeless = trial.solution.unschedulable.iter().map(|one| trial.pods[one.pod]);
                let pod = homeless.filter(|(owner, _)| *owner == node).map(|place| self.world.pod(place).name).min();
                let due = self.input().managed_nodes[node].as_ref().and_then(ManagedNode::expires).map(late);
                let (pod, due) = (pod.unwrap_or_default(), due.unwrap_or(Timestamp::MAX));
                let message =
                    format!("it has expired, but pod `{pod}` would fit nowhere; it is removed anyway at {due}");
                self.keep(node, Block::PodsWouldNotFit, message);
            }
            going.retain(|node| !waiting.contains(node));
        }
    }

    /// Returns true if an expired node whose pods have no place may still wait.
    pub(super) fn waits_for_places(&self, node: usize) -> bool {
        let expires = self.input().managed_nodes[node].as_ref().and_then(ManagedNode::expires);
        expires.is_some_and(|expires| self.world.now < late(expires))
    }

    /// Returns true, and records the reason, if the nodes of `part`, whose pods have no place, must wait for another
    /// node of their pools that is being launched or deleted. They go one after the other, each once the replacement of
    /// the one before is ready. The deadline of their NodeClaims ends the wait at the latest.
    fn waits_for_turn(&mut self, part: &Trial) -> bool {
        let pool = |node: usize| self.input().managed_nodes[node].as_ref().map(|managed_node| &managed_node.pool_name);
        let pools: Vec<_> = part.nodes.iter().map(|&node| pool(node)).collect();
        let nodes = self.input().problem.nodes.iter().enumerate();
        let changes =
            nodes.filter(|(_, it)| it.deleting || !it.initialized).find(|(node, _)| pools.contains(&pool(*node)));
        let goes = self.commands.iter().find(|command| {
            !command.unplaced.is_empty() && command.candidates.iter().any(|&node| pools.contains(&pool(node)))
        });
        let other =
            changes.map(|(node, _)| node).or_else(|| goes.and_then(|command| command.candidates.first().copied()));
        let Some(other) = other else { return false };
        let name = &self.input().problem.nodes[other].name;
        let message = format!(
            "it has expired, but its pods would fit nowhere: it waits for `{name}`, which is starting or terminating"
        );
        part.nodes.iter().for_each(|&node| self.keep(node, Block::PodsWouldNotFit, message.clone()));
        true
    }

    /// Returns true if the node's pool has a fixed number of nodes.
    pub(super) fn is_static(&self, node: usize) -> bool {
        let pool = self.input().managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool);
        pool.is_some_and(|pool| self.input().problem.pools[pool].missing_replicas.is_some())
    }

    /// Returns the nodes that have been unhealthy for too long, in pools with at most the tolerated share of them.
    fn broken(&mut self) -> Vec<usize> {
        let now = self.world.now;
        let ails = |managed_node: &ManagedNode| managed_node.repair_due(now).is_some();
        let managed_nodes = self.managed_nodes();
        let of_pool = |pool: &Arc<str>| {
            let nodes = managed_nodes.iter().filter(|(_, managed_node)| managed_node.pool_name == *pool);
            nodes.fold((0_u64, 0_u64), |(all, sick), (_, managed_node)| (all + 1, sick + u64::from(ails(managed_node))))
        };
        let mut broken = Vec::new();
        for (node, managed_node) in managed_nodes.iter().filter(|(_, managed_node)| ails(managed_node)) {
            let (all, sick) = of_pool(&managed_node.pool_name);
            let (part, whole) = REPAIRED_AT_MOST;
            if sick <= (all * part).div_ceil(whole) {
                broken.push(*node);
                continue;
            }
            let due = managed_node.repair_due(now);
            let condition = due.map(|due| &*due.condition.condition).unwrap_or_default();
            let message = format!(
                "it is due for repair ({condition}), but {sick} of {all} nodes of NodePool `{}` are unhealthy: above a fifth, another cause is likely",
                managed_node.pool_name
            );
            self.keep(*node, Block::NodeRepairBlocked, message);
        }
        broken
    }
}
