//! Metrics of unhealthy nodes and of the deletion costs of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use muster_api::{NodeClaim, labels};
use muster_stages::step::Write;

use super::catalogue as names;
use super::{Metrics, mode_of};
use crate::edge::Fate;

impl Metrics {
    /// Records the condition for which a node is repaired, such as `Ready=False`.
    pub(in crate::run) fn repairing(&self, node: &str, condition: &str) {
        // In the order in which all take these locks.
        let cluster = self.cluster_cache.read();
        let mut repairs = self.repairs.lock().unwrap_or_else(PoisonError::into_inner);
        // Repairs may end in other ways than by a deletion.
        repairs.retain(|node, _| cluster.node(node).is_some());
        repairs.insert(node.to_owned(), snake_case(condition));
    }

    /// Counts a claim that was deleted because its Node is unhealthy. The condition is not known if an earlier leader
    /// has decided on the repair.
    pub(super) fn unhealthy_disrupted(&self, claim: &NodeClaim, pool: &str, capacity_type: &str) {
        let status = claim.status.as_ref();
        let node = status.and_then(|status| status.node_name.as_deref()).unwrap_or_default();
        let image = status.and_then(|status| status.image_id.as_deref()).unwrap_or_default();
        let condition = self.repairs.lock().unwrap_or_else(PoisonError::into_inner).remove(node).unwrap_or_default();
        let all = [condition.as_str(), pool, capacity_type, image, mode_of(claim)];
        self.series.count(&names::NODECLAIMS_UNHEALTHY_DISRUPTED, &all);
    }

    /// Records a pass over the deletion costs of pods, by what it writes.
    pub(in crate::run) fn deletion_costs(&self, writes: &[Write]) {
        let cluster = self.cluster_cache.read();
        let node_of = |write: &Write| {
            let Write::PodDeletionCost { pod, .. } = write else { return None };
            cluster.pod(&format!("{}/{}", pod.namespace.as_deref()?, pod.name))?.pod.node.clone()
        };
        let nodes: BTreeSet<_> = writes.iter().filter_map(node_of).collect();
        let mut pools: BTreeMap<&str, u32> = BTreeMap::new();
        for node in nodes.iter().filter_map(|name| cluster.node(name)) {
            if let Some(pool) = node.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL)) {
                *pools.entry(pool).or_default() += 1;
            }
        }
        self.series.clear(&names::DELETION_COST_NODES);
        for (pool, nodes) in pools {
            self.series.set(&names::DELETION_COST_NODES, &[pool], f64::from(nodes));
        }
    }

    /// Counts a write of a deletion cost.
    pub(super) fn deletion_cost_written(&self, fate: &Fate) {
        let result = match fate {
            Fate::Done => "updated",
            Fate::Gone => "skipped_notfound",
            Fate::Conflict => "skipped_conflict",
            Fate::Refused(_) | Fate::Unavailable(_) => "error",
            Fate::Fenced => return,
        };
        self.series.count(&names::DELETION_COST_WRITES, &[result]);
    }
}

/// Returns the type of a condition in Karpenter's metrics: `Ready=False` is `ready`.
fn snake_case(condition: &str) -> String {
    let kind = condition.split('=').next().unwrap_or_default();
    let mut text = String::with_capacity(kind.len() + 8);
    for letter in kind.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_named_as_in_karpenter() {
        assert_eq!(snake_case("Ready=Unknown"), "ready");
        assert_eq!(snake_case("AcceleratedHardwareReady=False"), "accelerated_hardware_ready");
    }
}
