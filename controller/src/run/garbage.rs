//! Periodic garbage collection: lists the instances in the cloud and removes those without an owner.

use std::time::Duration;

use muster_cloud::after;
use muster_stages::driver::Done;
use muster_stages::driver::cluster_wide::note_listing;
use muster_stages::driver::recording::Occurrence;
use muster_stages::lifecycle::Answers;
use muster_stages::lifecycle::garbage::{GarbageInput, collect, interval};
use muster_stages::state::Kind;
use muster_stages::step::Step;
use tokio::time::Instant;

use super::context::LeaderContext;
use super::now;
use crate::edge::{End, ObservedVersions};
use crate::provider::Provider;

/// Delay after a failed listing.
const RETRY: Duration = Duration::from_secs(20);

/// Lists the instances, records them with the claims that have one, and removes instances and Nodes without an owner.
pub(super) async fn tidy<P: Provider>(context: &LeaderContext<P>) -> Done {
    let listed_at = now();
    let begun = Instant::now();
    let listed = context.provider.list().await;
    context.metrics.cloud_called("List", listed.as_ref().err(), begun.elapsed());
    let instances = match listed {
        Ok(instances) => instances,
        Err(error) => {
            tracing::warn!(%error, "the instances cannot be listed");
            return Done::CollectedGarbage { concerned: Vec::new(), is_news: false, again: after(now(), RETRY) };
        }
    };
    let (concerned, is_news) = {
        let cluster = context.cluster_cache.read();
        let mut leader_state = context.leader_state();
        context.record(Some(&cluster), listed_at, || Occurrence::Listed(instances.clone()));
        note_listing(&cluster, &mut leader_state, &instances, listed_at)
    };
    let (step, mut observed) = {
        let cluster = context.cluster_cache.read();
        // An unreadable claim may own any of the instances.
        if cluster.has_unreadable(Kind::NodeClaim) {
            tracing::warn!("instances are not collected: there is a NodeClaim that cannot be read");
            return Done::CollectedGarbage { concerned, is_news, again: after(now(), interval(cluster.claims())) };
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
    Done::CollectedGarbage { concerned, is_news, again: step.again.unwrap_or_else(|| after(now(), RETRY)) }
}
