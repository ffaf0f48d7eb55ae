//! Deletion costs of pods, by which the ReplicaSet controller chooses the pods that it gives up: those on nodes that go
//! anyway, then those on the nodes that the plan gives up next.
//!
//! | node | cost of its pods that a ReplicaSet owns |
//! |---|---|
//! | being removed | −2147483648 |
//! | the n that are to go next, in the order of the plan | −n … −1 |
//! | any other | none |
//!
//! As in Karpenter, costs that others have written there are replaced.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::annotations::POD_DELETION_COST;
use muster_scheduling::disrupt::{Departures, DisruptionInput, Settings, departures};

use crate::state::{Cluster, LivePod};
use crate::step::Write;

/// Maximum number of nodes, beside those that are being removed, whose pods one pass changes: Karpenter's value.
const MOST_NODES: usize = 50;
/// Maximum number of pods that one pass changes.
const MOST_PODS: usize = 2000;
/// Kinds of controllers whose pods do not keep a node from becoming empty.
const STEERED: [&str; 3] = ["ReplicaSet", "Job", "DaemonSet"];

/// Returns the writes of the costs that have changed.
#[must_use]
pub fn deletion_costs(input: &DisruptionInput, cluster: &Cluster, settings: &Settings, now: Timestamp) -> Vec<Write> {
    let name = |node: usize| &*input.problem.nodes[node].name;
    let Departures { going, next } = departures(input, now, settings, |node| is_open(cluster, name(node)));
    let count = i32::try_from(next.len()).unwrap_or(i32::MAX);
    let ranks: BTreeMap<usize, i32> = next.iter().copied().zip(-count..).collect();
    let mut writes = Vec::new();
    for &node in &going {
        writes.extend(changes(cluster, name(node), Some(i32::MIN)));
    }
    let managed_nodes = input.managed_nodes.iter().enumerate().filter(|(_, it)| it.is_some());
    let others = managed_nodes.map(|(node, _)| node).filter(|node| !ranks.contains_key(node) && !going.contains(node));
    let mut nodes = 0;
    for node in next.iter().copied().chain(others) {
        let changes = changes(cluster, name(node), ranks.get(&node).copied());
        nodes += usize::from(!changes.is_empty());
        if nodes > MOST_NODES || writes.len() >= MOST_PODS {
            break;
        }
        writes.extend(changes);
    }
    writes.truncate(MOST_PODS);
    writes
}

/// Returns true if the pods of a node can all go without being drained: none outside of `kube-system` belongs to a
/// controller that keeps its pods where they are.
fn is_open(cluster: &Cluster, node: &str) -> bool {
    let stays = |pod: &LivePod| {
        let owner = pod.pod.owner.as_ref();
        &*pod.pod.namespace != "kube-system" && owner.is_some_and(|owner| !STEERED.contains(&&*owner.kind))
    };
    !cluster.pods_on(node).filter(|pod| !pod.pod.terminal && pod.deleted_at.is_none()).any(stays)
}

/// Returns the writes that give the pods of a node this cost.
fn changes(cluster: &Cluster, node: &str, cost: Option<i32>) -> Vec<Write> {
    let wanted = cost.map(|cost| cost.to_string());
    let is_steered = |pod: &&LivePod| {
        let of_set = pod.pod.owner.as_ref().is_some_and(|owner| &*owner.kind == "ReplicaSet");
        of_set && !pod.pod.terminal && pod.deleted_at.is_none()
    };
    let differs = |pod: &&LivePod| pod.pod.annotations.get(POD_DELETION_COST).map(|text| &**text) != wanted.as_deref();
    let pods = cluster.pods_on(node).filter(is_steered).filter(differs);
    pods.map(|pod| Write::PodDeletionCost { pod: pod.subject(), cost }).collect()
}
