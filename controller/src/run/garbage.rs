//! Periodic garbage collection: lists the instances in the cloud and removes those without an owner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_stages::disruption::observed_instances;
use muster_stages::lifecycle::garbage::{GarbageInput, collect, interval};
use muster_stages::lifecycle::{Answers, Listing, is_reserved};
use muster_stages::state::Kind;
use muster_stages::step::Step;
use tokio::time::Instant;

use super::context::LeaderContext;
use super::now;
use crate::edge::{End, ObservedVersions};
use crate::provider::Provider;
use muster_cloud::{CapacityType, Instance, after};

/// Delay after a failed listing.
const RETRY: Duration = Duration::from_secs(20);

/// Result of a listing.
#[derive(Debug)]
pub(super) struct Tidied {
    /// Claims whose instance is missing, or has left its capacity reservation.
    pub(super) concerned: Vec<String>,
    /// True if an instance differs from the last listing.
    pub(super) is_news: bool,
    /// Time of the next listing.
    pub(super) again: Timestamp,
}

/// Lists the instances, records them with the claims that have one, and removes instances and Nodes without an owner.
pub(super) async fn tidy<P: Provider>(context: &LeaderContext<P>) -> Tidied {
    let listed_at = now();
    let begun = Instant::now();
    let listed = context.provider.list().await;
    context.metrics.cloud_called("List", listed.as_ref().err(), begun.elapsed());
    let instances = match listed {
        Ok(instances) => instances,
        Err(error) => {
            tracing::warn!(%error, "the instances cannot be listed");
            return Tidied { concerned: Vec::new(), is_news: false, again: after(now(), RETRY) };
        }
    };
    let (concerned, is_news) = note(context, &instances, listed_at);
    let (step, mut observed) = {
        let cluster = context.cluster_cache.read();
        // An unreadable claim may own any of the instances.
        if cluster.has_unreadable(Kind::NodeClaim) {
            tracing::warn!("instances are not collected: there is a NodeClaim that cannot be read");
            return Tidied { concerned, is_news, again: after(now(), interval(cluster.claims())) };
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
    Tidied { concerned, is_news, again: step.again.unwrap_or_else(|| after(now(), RETRY)) }
}

/// Records the instances, and for each claim whether its own is in the list. Returns the names of the claims whose
/// instance is missing or has left its capacity reservation, and true if an instance has changed.
fn note<P: Provider>(context: &LeaderContext<P>, instances: &[Instance], listed_at: Timestamp) -> (Vec<String>, bool) {
    let observed = observed_instances(instances);
    let known: BTreeMap<&str, CapacityType> =
        instances.iter().map(|one| (one.provider_id.as_str(), one.offering.capacity_type)).collect();
    let cluster = context.cluster_cache.read();
    let mut leader_state = context.leader_state();
    leader_state.listings.clear();
    let mut concerned = Vec::new();
    for claim in cluster.claims() {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).filter(|id| !id.is_empty());
        let (Some(id), Some(name)) = (id, &claim.metadata.name) else { continue };
        let capacity_type = known.get(id.as_str()).copied();
        let listing = Listing { at: listed_at, has_instance: capacity_type.is_some(), capacity_type };
        let has_left = capacity_type == Some(CapacityType::OnDemand) && is_reserved(claim.metadata.labels.as_ref());
        if !listing.has_instance || has_left {
            concerned.push(name.clone());
        }
        leader_state.listings.insert(id, listing);
    }
    let is_news = *leader_state.instances != observed;
    if is_news {
        leader_state.instances = Arc::new(observed);
    }
    (concerned, is_news)
}
