//! Events about terminations and replacements that wait, from the conditions of NodeClaims.

use muster_api::conditions::{nodeclaim, reason};
use muster_api::{NodeClaim, annotations, events};

use super::{event, of_claim, of_node};
use crate::lifecycle::{Status, condition, is_true};
use crate::state::Cluster;
use crate::step::{Event, EventType};

/// Returns the events of all claims.
#[must_use]
pub fn progress(cluster: &Cluster) -> Vec<Event> {
    cluster.claims().flat_map(|claim| of(claim, cluster)).collect()
}

fn of(claim: &NodeClaim, cluster: &Cluster) -> Vec<Event> {
    let node = || cluster.node_of(claim).map_or_else(|| of_claim(claim), of_node);
    let unknown = |kind: &str| condition(claim, kind).filter(|one| one.status == Status::Unknown.name());
    let mut all = Vec::new();
    if claim.metadata.deletion_timestamp.is_some() {
        let waits = unknown(nodeclaim::VOLUMES_DETACHED);
        if let Some(one) = waits.filter(|one| one.reason == reason::AWAITING_VOLUME_DETACHMENT) {
            all.push(event(node(), EventType::Normal, events::AWAITING_VOLUME_DETACHMENT, &one.message));
        }
        if let Some(one) = unknown(nodeclaim::INSTANCE_TERMINATING).filter(|one| !one.message.is_empty()) {
            all.push(event(node(), EventType::Warning, events::FAILED_TERMINATION, &one.message));
        }
        return all;
    }
    let is_replacement = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::REPLACES));
    if is_replacement && is_true(claim, nodeclaim::LAUNCHED) && !is_true(claim, nodeclaim::INITIALIZED) {
        let message = "Waiting on readiness to continue disruption";
        all.push(event(of_claim(claim), EventType::Normal, events::DISRUPTION_WAITING_READINESS, message));
    }
    let inconsistent = condition(claim, nodeclaim::CONSISTENT_STATE_FOUND);
    if let Some(one) = inconsistent.filter(|one| one.status == Status::False.name()) {
        all.push(event(of_claim(claim), EventType::Warning, events::FAILED_CONSISTENCY_CHECK, &one.message));
    }
    all
}
