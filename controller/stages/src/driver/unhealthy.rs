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

use super::Settings;
use crate::state::{Changed, Cluster, Kind};

/// Minimum interval between two decisions that one Node hastens: kubelets write their conditions themselves.
const HASTE: Duration = Duration::from_secs(60);

/// Conditions whose repair was due, by the name of the Node.
pub type DueRepairs = BTreeMap<Arc<str>, Vec<Condition>>;

/// Conditions whose repair was due since the last decision.
#[derive(Debug, Default)]
pub struct Unhealthy {
    conditions: DueRepairs,
    /// Times at which Nodes last hastened a decision.
    hastened: BTreeMap<Arc<str>, Timestamp>,
}

// === impl Unhealthy ===

impl Unhealthy {
    /// Remembers the conditions of changed Nodes whose repair is due. Returns true if a decision is to be hastened for
    /// one.
    pub(super) fn remember(
        &mut self,
        changed: &Changed,
        cluster: &Cluster,
        settings: &Settings,
        now: Timestamp,
    ) -> bool {
        let Some(policy) = settings.repairs.filter(|_| changed.kinds.contains(Kind::Node)) else { return false };
        let claims = changed.claims.iter().filter_map(|name| cluster.claim(name));
        let claims = claims.filter(|claim| settings.serves(&claim.spec.node_class_ref.kind));
        let due = claims.filter_map(|claim| {
            let name = cluster.node_of(claim)?.metadata.name.as_deref()?;
            let node = cluster.readable_node(name)?;
            let due = conditions_due(node, &claim.spec.node_class_ref.kind, policy, now);
            (!due.is_empty()).then(|| (Arc::clone(&node.meta.name), due))
        });
        let due: Vec<(Arc<str>, Vec<Condition>)> = due.collect();
        if due.is_empty() {
            return false;
        }
        let Self { conditions, hastened } = self;
        hastened.retain(|_, last| now < after(*last, HASTE));
        let mut is_hasty = false;
        for (node, due) in due {
            is_hasty |= !hastened.contains_key(&node);
            hastened.entry(Arc::clone(&node)).or_insert(now);
            conditions.insert(node, due);
        }
        is_hasty
    }

    /// Returns the conditions, and forgets them.
    pub fn take(&mut self) -> DueRepairs {
        std::mem::take(&mut self.conditions)
    }

    /// Remembers the conditions again that a failed decision has taken, except where newer ones are known by now.
    pub fn put_back(&mut self, taken: DueRepairs) {
        for (node, conditions) in taken {
            self.conditions.entry(node).or_insert(conditions);
        }
    }
}

/// Sets the remembered conditions where the Nodes have others by now.
pub fn tell_due_repairs(manifests: &mut Manifests, mut remembered: DueRepairs) {
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
