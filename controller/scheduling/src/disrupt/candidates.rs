//! Reasons not to disrupt a node, in Karpenter's order: the node, its pods, then the conditions of consolidation.

use std::sync::Arc;

use jiff::Timestamp;

use super::decision::{Block, Blocked};
use super::input::{Consolidation, DisruptionBlocker, DisruptionInput};
use crate::labels;

/// Labels that determine a node's price.
const PRICE_LABELS: [&str; 3] = [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE];

/// Returns the reason in the node itself. `promised` is a pending pod, not a virtual one, that a plan places on it.
pub(super) fn node_block(input: &DisruptionInput, node: usize, promised: Option<&Arc<str>>) -> Option<Blocked> {
    let managed_node = input.managed_nodes[node].as_ref()?;
    let about = &input.problem.nodes[node];
    let block = |block, since, message| Some(Blocked { node, block, since, message });
    if managed_node.rebooting {
        return block(
            Block::Rebooting,
            managed_node.reboots.last().copied().or(managed_node.created),
            "the node is rebooting".to_owned(),
        );
    }
    if !about.initialized {
        let message = "the node is not initialized yet".to_owned();
        return block(Block::NotInitialized, managed_node.created, message);
    }
    if let Some(pod) = &managed_node.nominated_by {
        return block(Block::Nominated, None, format!("pod `{pod}` is nominated to it"));
    }
    if let Some(pod) = promised {
        return block(Block::Nominated, None, format!("pending pod `{pod}` is planned onto it"));
    }
    if managed_node.do_not_disrupt {
        let message = "annotation `karpenter.sh/do-not-disrupt: \"true\"` on the node".to_owned();
        return block(Block::DoNotDisrupt, None, message);
    }
    if managed_node.pool.is_none() {
        return block(
            Block::NodePoolMissing,
            None,
            format!("its NodePool `{}` does not exist", managed_node.pool_name),
        );
    }
    if let Some(why) = &managed_node.closed_zone {
        let pool = &managed_node.pool_name;
        let message = format!("{why}, and NodePool `{pool}` does not ask that its nodes leave the zone");
        return block(Block::ZonalShift, None, message);
    }
    None
}

/// Returns the first of its pods that must not be evicted now.
pub(super) fn pods_block(input: &DisruptionInput, node: usize, now: Timestamp) -> Option<Blocked> {
    let managed_node = input.managed_nodes[node].as_ref()?;
    let pods = input.problem.nodes[node].bound.iter().zip(&managed_node.node_pods);
    let evicted: Vec<_> = pods.filter(|(_, node_pod)| node_pod.evictable).collect();
    if let Some((pod, node_pod)) = evicted.iter().find(|(_, node_pod)| node_pod.holds(now)) {
        let why = match node_pod.hold {
            Some(DisruptionBlocker::Until(end)) => format!("has annotation `karpenter.sh/do-not-disrupt` until {end}"),
            Some(DisruptionBlocker::Unreadable) => "cannot be read, and what it needs elsewhere is unknown".to_owned(),
            _ => "has annotation `karpenter.sh/do-not-disrupt`".to_owned(),
        };
        let message = format!("pod `{}` {why}", pod.name);
        return Some(Blocked { node, block: Block::PodDoNotDisrupt, since: node_pod.started, message });
    }
    let guarded = evicted.iter().find_map(|(pod, node_pod)| match node_pod.budgets.as_slice() {
        [] => None,
        [one] if input.pod_budgets[*one].allowed > 0 => None,
        [one] => Some((
            pod,
            node_pod,
            format!("PodDisruptionBudget `{}` allows no eviction of", input.pod_budgets[*one].name),
        )),
        several => {
            let names: Vec<String> = several.iter().map(|&one| format!("`{}`", input.pod_budgets[one].name)).collect();
            let rule =
                format!("PodDisruptionBudgets {} both select, and so forbid the eviction of,", names.join(" and "));
            Some((pod, node_pod, rule))
        }
    });
    let (pod, node_pod, rule) = guarded?;
    let message = format!("{rule} pod `{}`", pod.name);
    Some(Blocked { node, block: Block::PodDisruptionBudget, since: node_pod.started, message })
}

/// Returns the reason not to consolidate an otherwise free node. `empty`: no pod would have to move.
pub(super) fn consolidation_block(
    input: &DisruptionInput,
    node: usize,
    now: Timestamp,
    empty: bool,
    price: Option<f64>,
) -> Option<Blocked> {
    let managed_node = input.managed_nodes[node].as_ref()?;
    let pool = managed_node.pool?;
    let policy = &input.policies[pool];
    let about = &input.problem.nodes[node];
    let name = &managed_node.pool_name;
    let block = |block, since, message| Some(Blocked { node, block, since, message });
    if input.problem.pools[pool].missing_replicas.is_some() {
        let message = format!("NodePool `{name}` has a fixed number of nodes (`replicas`)");
        return block(Block::StaticPool, managed_node.known_since(), message);
    }
    if !empty && price.is_none() {
        if let Some(key) = PRICE_LABELS.iter().find(|key| about.labels.get(key).is_none()) {
            return block(
                Block::MissingLabel,
                managed_node.known_since(),
                format!("label `{key}` is missing, so its price is unknown"),
            );
        }
        let of = |key: &str| about.labels.get(key).map_or("", |value| &**value);
        let (kind, capacity, zone) = (of(labels::INSTANCE_TYPE), of(labels::CAPACITY_TYPE), of(labels::ZONE));
        let message = format!("the price of `{kind}`, {capacity} in {zone}, is unknown");
        return block(Block::UnknownInstanceType, managed_node.known_since(), message);
    }
    let Some(after) = policy.consolidate_after else {
        let message = format!("`consolidateAfter` of NodePool `{name}` is Never");
        return block(Block::ConsolidateAfter, managed_node.known_since(), message);
    };
    if !empty && policy.consolidation == Consolidation::WhenEmpty {
        let message = format!("NodePool `{name}` consolidates empty nodes only (`consolidationPolicy: WhenEmpty`)");
        return block(Block::ConsolidationPolicy, managed_node.known_since(), message);
    }
    if let Some(until) = policy.rests_until.filter(|until| !empty && now < *until) {
        let message = format!(
            "consolidation of NodePool `{name}` rests until {until}: its last commands saved less than half of what they promised"
        );
        return block(Block::PoolRests, managed_node.known_since(), message);
    }
    if let Some(until) = managed_node.keeps_until.filter(|until| !empty && now < *until) {
        let message =
            format!("it was launched recently, and its load has not decreased since: it is kept until {until}");
        return block(Block::LaunchedLately, managed_node.known_since(), message);
    }
    if managed_node.is_consolidatable(Some(after), now) {
        return None;
    }
    let since = managed_node.last_pod_event.max(managed_node.initialized);
    let what = if managed_node.last_pod_event >= managed_node.initialized {
        "its pods changed"
    } else {
        "it became initialized"
    };
    let end = since.and_then(|since| since.checked_add(after).ok());
    let end = end.map_or_else(String::new, |end| format!(" ends at {end}"));
    let message = match since {
        Some(since) => format!("`consolidateAfter` of NodePool `{name}`{end}: {what} at {since}"),
        None => format!(
            "`consolidateAfter` of NodePool `{name}` is assumed not to have passed: it is unknown when the node became initialized"
        ),
    };
    block(Block::ConsolidateAfter, since, message)
}
