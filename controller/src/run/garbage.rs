//! Periodic garbage collection: lists the instances in the cloud and removes those without an owner.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_stages::disruption::observed_instances;
use muster_stages::lifecycle::garbage::{EVERY, GarbageInput, collect};
use muster_stages::lifecycle::{Answers, Listing};
use muster_stages::state::Kind;
use muster_stages::step::Step;
use tokio::time::Instant;

use super::context::LeaderContext;
use super::now;
use crate::edge::{End, ObservedVersions};
use crate::provider::Provider;
use muster_cloud::{Instance, after};

/// Delay after a failed listing.
const RETRY: Duration = Duration::from_secs(20);

/// Result of a listing.
#[derive(Debug)]
pub(super) struct Tidied {
    /// Claims whose instance is missing.
    pub(super) missing: Vec<String>,
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
            return Tidied { missing: Vec::new(), is_news: false, again: after(now(), RETRY) };
        }
    };
    let (missing, is_news) = note(context, &instances, listed_at);
    let (step, mut observed) = {
        let cluster = context.cluster_cache.read();
        // An unreadable claim may own any of the instances.
        if cluster.has_unreadable(Kind::NodeClaim) {
            tracing::warn!("instances are not collected: there is a NodeClaim that cannot be read");
            return Tidied { missing, is_news, again: after(now(), EVERY) };
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
    Tidied { missing, is_news, again: step.again.unwrap_or_else(|| after(now(), EVERY)) }
}

/// Records the instances, and for each claim whether its own is in the list. Returns the names of the claims whose
/// instance is missing, and true if an instance has changed.
fn note<P: Provider>(context: &LeaderContext<P>, instances: &[Instance], listed_at: Timestamp) -> (Vec<String>, bool) {
    let observed = observed_instances(instances);
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
    let is_news = *leader_state.instances != observed;
    if is_news {
        leader_state.instances = Arc::new(observed);
    }
    (missing, is_news)
}
