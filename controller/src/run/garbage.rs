//! Periodic garbage collection: lists the instances in the cloud and removes those without an owner.

use std::time::Duration;

use jiff::Timestamp;
use muster_stages::lifecycle::garbage::{EVERY, GarbageInput, collect};
use muster_stages::lifecycle::{Answers, Listing};
use muster_stages::state::Kind;
use muster_stages::step::Step;

use super::context::LeaderContext;
use super::now;
use crate::edge::{End, ObservedVersions};
use crate::provider::Provider;
use muster_cloud::{Instance, after};

/// Delay after a failed listing.
const RETRY: Duration = Duration::from_secs(20);

/// Lists the instances, records for each claim whether its instance exists, and removes instances and Nodes without an
/// owner. Returns the names of the claims whose instance is missing, and the time of the next listing.
pub(super) async fn tidy<P: Provider>(context: &LeaderContext<P>) -> (Vec<String>, Timestamp) {
    let listed_at = now();
    let instances = match context.provider.list().await {
        Ok(instances) => instances,
        Err(error) => {
            tracing::warn!(%error, "the instances cannot be listed");
            return (Vec::new(), after(now(), RETRY));
        }
    };
    let missing = note(context, &instances, listed_at);
    let (step, mut observed) = {
        let cluster = context.cluster_cache.read();
        // An unreadable claim may own any of the instances.
        if cluster.has_unreadable(Kind::NodeClaim) {
            tracing::warn!("instances are not collected: there is a NodeClaim that cannot be read");
            return (missing, after(now(), EVERY));
        }
        let nodes: Vec<_> = cluster
            .nodes()
            .filter(|node| {
                let labels = node.metadata.labels.as_ref();
                labels.is_some_and(|all| all.contains_key(muster_api::labels::NODEPOOL))
            })
            .collect();
        let observed = nodes.iter().fold(ObservedVersions::default(), |observed, node| observed.node(node));
        let input = GarbageInput { listed_at, instances: &instances, claims: cluster.claims().collect(), nodes };
        (collect(&input, now()), observed)
    };
    for write in step.writes {
        // The writes are independent: a failure does not stop the others.
        let alone = Step::act([write]);
        let end = context.edge.carry_out(&alone, &mut observed, &mut Answers::default()).await;
        if let End::Failed(why) = end {
            tracing::warn!(why, "an object without an owner was not removed");
        }
    }
    (missing, step.again.unwrap_or_else(|| after(now(), EVERY)))
}

/// Records for each claim whether its instance is in the list. Returns the names of the claims whose instance is
/// missing.
fn note<P: Provider>(context: &LeaderContext<P>, instances: &[Instance], listed_at: Timestamp) -> Vec<String> {
    let known: std::collections::BTreeSet<&str> = instances.iter().map(|one| one.provider_id.as_str()).collect();
    let cluster = context.cluster_cache.read();
    let mut leader_state = context.leader_state();
    leader_state.listings.clear();
    let mut missing = Vec::new();
    for claim in cluster.claims() {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).filter(|id| !id.is_empty());
        let (Some(id), Some(name)) = (id, &claim.metadata.name) else { continue };
        let has_instance = known.contains(id.as_str());
        if !has_instance {
            missing.push(name.clone());
        }
        leader_state.listings.insert(id, Listing { at: listed_at, has_instance });
    }
    missing
}
