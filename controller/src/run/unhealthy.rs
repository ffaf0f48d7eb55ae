//! Conditions of nodes whose repair is due, as events show them.
//!
//! A condition counts for as long as it has stood, also if it is gone when the next decision is made: a kubelet that
//! comes back for a moment, again and again, would never be repaired. It is remembered until that decision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest::snapshot::conditions_due;
use muster_manifest::{Condition, Manifests};
use muster_scheduling::disrupt::{Cause, Decision, DisruptionInput, Repair, RepairDue};
use muster_stages::disruption::CommandStart;
use muster_stages::state::{Changed, Cluster, Kind};

use super::context::LeaderContext;
use super::metrics::Metrics;
use crate::provider::Provider;

/// Minimum interval between two decisions that one Node hastens: kubelets write their conditions themselves.
const HASTE: Duration = Duration::from_secs(60);

/// Conditions whose repair was due, by the name of the Node.
pub(super) type Conditions = BTreeMap<Arc<str>, Vec<Condition>>;

/// Conditions whose repair was due since the last decision.
#[derive(Debug, Default)]
pub(super) struct Unhealthy {
    conditions: Conditions,
    /// Times at which Nodes last hastened a decision.
    hastened: BTreeMap<Arc<str>, Timestamp>,
}

/// Remembers the conditions of changed Nodes whose repair is due. Returns true if a decision is to be hastened for one.
pub(super) fn remember<P: Provider>(
    context: &LeaderContext<P>,
    changed: &Changed,
    cluster: &Cluster,
    now: Timestamp,
) -> bool {
    if context.settings.disruption.repair == Repair::Off || !changed.kinds.contains(Kind::Node) {
        return false;
    }
    let policy = context.settings.snapshot.repair_policy();
    let claims = changed.claims.iter().filter_map(|name| cluster.claim(name));
    let nodes = claims.filter_map(|claim| cluster.node_of(claim)?.metadata.name.as_deref());
    let due: Vec<(Arc<str>, Vec<Condition>)> = nodes
        .filter_map(|name| {
            let node = cluster.readable_node(name)?;
            let due = conditions_due(node, P::CLASS, policy, now);
            (!due.is_empty()).then(|| (Arc::clone(&node.meta.name), due))
        })
        .collect();
    if due.is_empty() {
        return false;
    }
    let mut leader_state = context.leader_state();
    let Unhealthy { conditions, hastened } = &mut leader_state.unhealthy;
    hastened.retain(|_, last| now < after(*last, HASTE));
    let mut is_hasty = false;
    for (node, due) in due {
        is_hasty |= !hastened.contains_key(&node);
        hastened.entry(Arc::clone(&node)).or_insert(now);
        conditions.insert(node, due);
    }
    is_hasty
}

// === impl Unhealthy ===

impl Unhealthy {
    /// Returns the conditions, and forgets them.
    pub(super) fn take(&mut self) -> Conditions {
        std::mem::take(&mut self.conditions)
    }

    /// Remembers the conditions again that a failed decision has taken, except where newer ones are known by now.
    pub(super) fn put_back(&mut self, taken: Conditions) {
        for (node, conditions) in taken {
            self.conditions.entry(node).or_insert(conditions);
        }
    }
}

/// Sets the remembered conditions where the Nodes have others by now.
pub(super) fn tell(manifests: &mut Manifests, mut remembered: Conditions) {
    for node in &mut manifests.nodes {
        for condition in remembered.remove(&node.meta.name).into_iter().flatten() {
            match node.conditions.iter_mut().find(|one| one.kind == condition.kind) {
                Some(there) if there.status == condition.status => {}
                Some(there) => *there = condition,
                None => node.conditions.push(condition),
            }
        }
    }
}

/// Logs and records the conditions for which nodes are repaired.
pub(super) fn tell_repairs(
    metrics: &Metrics,
    (decision, input): (&Decision, &DisruptionInput),
    command_starts: &[CommandStart],
    now: Timestamp,
) {
    let repairs = command_starts.iter().filter(|one| one.cause == Cause::Unhealthy);
    let commands = repairs.filter_map(|one| decision.commands.get(one.number));
    for &node in commands.flat_map(|command| &command.candidates).chain(&decision.reboots) {
        let managed_node = input.managed_nodes[node].as_ref();
        let Some(RepairDue { condition, drain, action }) = managed_node.and_then(|it| it.repair_due(now)) else {
            continue;
        };
        let (name, due) = (&input.problem.nodes[node].name, condition.due());
        let drain_seconds = drain.map(|drain| drain.as_secs());
        metrics.repairing(name, &condition.condition);
        tracing::info!(node = %name, %condition, %due, drain_seconds, ?action, "repairing a node");
    }
}
