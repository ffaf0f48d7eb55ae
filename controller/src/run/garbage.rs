//! Every two minutes: what the cloud has, and what of it nobody owns.

use std::time::Duration;

use jiff::Timestamp;

use super::desk::Desk;
use super::now;
use super::provider::Provider;
use crate::edge::{End, Held};
use crate::lifecycle::garbage::{EVERY, Yard, collect};
use crate::lifecycle::{Answers, Listing};
use crate::state::Kind;
use crate::step::Step;
use muster_cloud::{Instance, after};

/// After a list that could not be had.
const RETRY: Duration = Duration::from_secs(20);

/// Lists, remembers what the list says of each claim's instance, and has ended what nobody owns. Names of claims whose
/// instance is not on the list, and when to list again.
pub(super) async fn tidy<P: Provider>(desk: &Desk<P>) -> (Vec<String>, Timestamp) {
    let listed_at = now();
    let instances = match desk.provider.list().await {
        Ok(instances) => instances,
        Err(error) => {
            tracing::warn!(%error, "the instances cannot be listed");
            return (Vec::new(), after(now(), RETRY));
        }
    };
    let missing = note(desk, &instances, listed_at);
    let (step, mut held) = {
        let cluster = desk.picture.glance();
        // A claim that cannot be read may own anything.
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
        let held = nodes.iter().fold(Held::default(), |held, node| held.node(node));
        let yard = Yard { listed_at, instances: &instances, claims: cluster.claims().collect(), nodes };
        (collect(&yard, now()), held)
    };
    for write in step.writes {
        // Each stands for itself.
        let alone = Step::act([write]);
        let end = desk.edge.carry_out(&alone, &mut held, &mut Answers::default()).await;
        if let End::Failed(why) = end {
            tracing::warn!(why, "what nobody owns was not removed");
        }
    }
    (missing, step.again.unwrap_or_else(|| after(now(), EVERY)))
}

/// Remembers what a list says of each claim's instance.
fn note<P: Provider>(desk: &Desk<P>, instances: &[Instance], listed_at: Timestamp) -> Vec<String> {
    let known: std::collections::BTreeSet<&str> = instances.iter().map(|one| one.provider_id.as_str()).collect();
    let cluster = desk.picture.glance();
    let mut memory = desk.memory();
    memory.listings.clear();
    let mut missing = Vec::new();
    for claim in cluster.claims() {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).filter(|id| !id.is_empty());
        let (Some(id), Some(name)) = (id, &claim.metadata.name) else { continue };
        let has_instance = known.contains(id.as_str());
        if !has_instance {
            missing.push(name.clone());
        }
        memory.listings.insert(id, Listing { at: listed_at, has_instance });
    }
    missing
}
