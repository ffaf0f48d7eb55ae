//! Unhealthy nodes: each is rebooted, or replaced like a drifted one, before drift and consolidation.
//!
//! ```text
//!   conditions ──► tolerated until, do-not-repair ──► a fifth of a pool ──► budget (Unhealthy) ──► places ──► command
//!                            │                               │                       │     └─► reboot   │
//!                            └───────────────────────────────┴── kept, with reason ──┴──────────────────┘
//! ```
//!
//! Annotations against disruption, on the node or on its pods, and PodDisruptionBudgets are no objection: they are
//! respected while the node is drained, for as long as the policy of its condition allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;

use super::decision::{Block, Method};
use super::forceful::REPAIRED_AT_MOST;
use super::input::{Cause, ManagedNode, RepairAction};
use super::pass::Pass;
use crate::labels;

/// Number of nodes of a pool, and number of these that are unhealthy.
type Share = (u64, u64);

/// Returns true if so many nodes of a pool are unhealthy that none is repaired.
fn is_tripped((all, unhealthy): Share) -> bool {
    let (part, whole) = REPAIRED_AT_MOST;
    unhealthy > (all * part).div_ceil(whole)
}

impl Pass<'_> {
    /// Returns the nodes that are to be repaired, those whose repair has been due for longest first; records the
    /// reasons against the other unhealthy ones. `forced` nodes go anyway.
    pub(super) fn due_for_repair(&mut self, forced: &[usize]) -> Vec<usize> {
        let shares = self.shares();
        let now = self.world.now;
        let mut due: Vec<(SignedDuration, f64, Arc<str>, usize)> = Vec::new();
        for (node, managed_node) in self.managed_nodes() {
            let Some(first) = managed_node.repair_conditions.first().filter(|_| !forced.contains(&node)) else {
                continue;
            };
            let pool_name = &managed_node.pool_name;
            if managed_node.do_not_repair {
                let message = format!("annotation `karpenter.sh/do-not-repair: \"true\"` on the node: {first}");
                self.keep(node, Block::DoNotRepair, message);
                continue;
            }
            let Some(repair) = managed_node.repair_due(now) else {
                let message = format!("{first} is tolerated until {}, and then the node is repaired", first.due());
                self.keep(node, Block::RepairNotDue, message);
                continue;
            };
            let (all, unhealthy) = shares.get(pool_name).copied().unwrap_or_default();
            if managed_node.pool.is_none() {
                let message = format!("{}, but its NodePool `{pool_name}` does not exist", repair.condition);
                self.keep(node, Block::NodePoolMissing, message);
            } else if is_tripped((all, unhealthy)) {
                let message = format!(
                    "{}, but more than 20% of the nodes of NodePool `{pool_name}` are unhealthy ({unhealthy} of {all}): another cause is likely, and none is repaired",
                    repair.condition
                );
                self.keep(node, Block::NodeRepairBlocked, message);
            } else if !self.input().problem.nodes[node].initialized {
                let message = format!("{}, but the node has not registered yet", repair.condition);
                self.keep(node, Block::NotInitialized, message);
            } else {
                let late = now.duration_since(repair.condition.due());
                let name = Arc::clone(&self.input().problem.nodes[node].name);
                due.push((late, managed_node.moving_cost(), name, node));
            }
        }
        due.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)).then_with(|| a.2.cmp(&b.2)));
        due.into_iter().map(|(_, _, _, node)| node).collect()
    }

    /// Returns the nodes that are due for repair and have registered, but were never initialized. No workload depends
    /// on them, so they go at once, whatever budgets say.
    pub(super) fn never_initialized(&self) -> Vec<usize> {
        let (shares, now) = (self.shares(), self.world.now);
        let goes = |&(node, managed_node): &(usize, &ManagedNode)| {
            let about = &self.input().problem.nodes[node];
            let has_registered = about.labels.get(labels::REGISTERED).is_some_and(|value| &**value == "true");
            let is_coming = has_registered && !about.initialized && !managed_node.rebooting;
            let is_repaired = managed_node.pool.is_some() && !managed_node.do_not_repair;
            is_coming
                && is_repaired
                && managed_node.repair_due(now).is_some()
                && !is_tripped(shares.get(&managed_node.pool_name).copied().unwrap_or_default())
        };
        self.managed_nodes().into_iter().filter(goes).map(|(node, _)| node).collect()
    }

    /// Returns the nodes of each pool, and how many of them are unhealthy, whether or not that is tolerated yet. Nodes
    /// that are being removed count: a pool of which many have failed is not repaired one after the other.
    fn shares(&self) -> BTreeMap<Arc<str>, Share> {
        let mut shares: BTreeMap<Arc<str>, Share> = BTreeMap::new();
        for managed_node in self.input().managed_nodes.iter().flatten() {
            let (all, unhealthy) = shares.entry(Arc::clone(&managed_node.pool_name)).or_default();
            *all += 1;
            *unhealthy += u64::from(managed_node.rebooting || !managed_node.repair_conditions.is_empty());
        }
        shares
    }

    /// Reboots or replaces the nodes that are `due`, as far as the budgets of their pools allow.
    pub(super) fn repair(&mut self, due: &[usize]) {
        for &node in due {
            let managed_node = self.input().managed_nodes[node].as_ref();
            let Some((managed_node, pool)) = managed_node.and_then(|it: &ManagedNode| Some((it, it.pool?))) else {
                continue;
            };
            if self.ledger.left(pool, Cause::Unhealthy) == 0 {
                self.keep_by_budget(&self.ledger.clone(), node, pool, Cause::Unhealthy);
                continue;
            }
            if managed_node.repair_due(self.world.now).is_some_and(|due| due.action == RepairAction::Reboot) {
                self.reboot(node, pool);
                continue;
            }
            let is_static = self.is_static(node);
            if is_static && !self.world.settings.static_capacity {
                let message = "it is due for repair, but the feature gate StaticCapacity is off".to_owned();
                self.keep(node, Block::StaticPool, message);
                continue;
            }
            let trial = if is_static { self.attempt_static(node) } else { self.world.attempt_anyway(&[node]) };
            // A static node is replaced by one node of its pool, whether or not that has places for all its pods.
            let is_stuck = if is_static { trial.solution.new_nodes.len() != 1 } else { !trial.places_all() };
            if is_stuck && self.terminate_first(node, Cause::Unhealthy) {
                continue;
            }
            if is_stuck && is_static {
                let message =
                    "it is due for repair, but the limits or types of its static NodePool leave no replacement";
                self.keep(node, Block::PodsWouldNotFit, message.to_owned());
            } else if is_stuck {
                let message = format!("it is due for repair, but {}", self.who_is_stuck(&trial));
                self.keep(node, Block::PodsWouldNotFit, message);
            } else {
                let launches = trial.solution.new_nodes.clone();
                self.accept((Cause::Unhealthy, Method::Repair), &trial, launches);
            }
        }
    }
}
