//! Reasons why nodes are not disrupted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::events;
use muster_scheduling::disrupt::{Block, Decision, DisruptionInput, allowed_disruptions};

use super::{event, of_claim, of_node};
use crate::state::Cluster;
use crate::step::{Event, EventType, Subject};

/// Returns the events of a decision: for each node that something keeps from being disrupted or consolidated, with its
/// claim, and for each NodePool whose budget allows nothing while a node waits for it.
#[must_use]
pub fn blocked(input: &DisruptionInput, decision: &Decision, cluster: &Cluster, now: Timestamp) -> Vec<Event> {
    let mut all = Vec::new();
    let mut pools: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    for blocked in &decision.blocked {
        let (Some(node), Some(Some(managed))) =
            (input.problem.nodes.get(blocked.node), input.managed_nodes.get(blocked.node))
        else {
            continue;
        };
        if let (Block::Budget, Some(pool)) = (blocked.block, managed.pool) {
            pools.insert(&managed.pool_name, pool);
        }
        let Some(reason) = reason(blocked.block) else { continue };
        let Some(node) = cluster.node(&node.name) else { continue };
        let claim = cluster.claim_of(node).map(of_claim);
        let subjects = claim.into_iter().chain([of_node(node)]);
        all.extend(subjects.map(|about| event(about, EventType::Normal, reason, &blocked.message)));
    }
    let none_left = allowed_disruptions(input, now);
    for (name, pool) in pools {
        let uid = cluster.pool(name).and_then(|pool| pool.metadata.uid.clone()).unwrap_or_default();
        for (_, cause, _) in none_left.iter().filter(|(of, _, left)| *of == pool && *left == 0) {
            let about =
                Subject { kind: "NodePool".to_owned(), namespace: None, name: name.to_string(), uid: uid.clone() };
            let message =
                format!("No allowed disruptions for disruption reason {} due to blocking budget", cause.name());
            all.push(event(about, EventType::Normal, events::DISRUPTION_BLOCKED, message));
        }
    }
    all
}

/// Returns the reason of the event; none if the state of the node will pass by itself.
const fn reason(block: Block) -> Option<&'static str> {
    match block {
        Block::DoNotDisrupt
        | Block::ZonalShift
        | Block::PodDoNotDisrupt
        | Block::PodDisruptionBudget
        | Block::NodePoolMissing
        | Block::UnknownInstanceType
        | Block::MissingLabel
        | Block::DoNotRepair => Some(events::DISRUPTION_BLOCKED),
        Block::ConsolidationPolicy | Block::PodsWouldNotFit | Block::NoCheaperReplacement | Block::SpotToSpot => {
            Some(events::UNCONSOLIDATABLE)
        }
        Block::NotInitialized
        | Block::Rebooting
        | Block::Nominated
        | Block::Budget
        | Block::ConsolidateAfter
        | Block::PoolRests
        | Block::LaunchedLately
        | Block::StaticPool
        | Block::NothingToGain
        // The first passes, and the second has an event of its own.
        | Block::RepairNotDue
        | Block::NodeRepairBlocked => None,
    }
}
