//! Decisions about more than one object that need the leader's state: nominations, instances in the cloud, pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodePool, labels};
use muster_cloud::{CapacityType, Instance};

use super::{CloudView, Gate, LeaderState, Settings, judged};
use crate::disruption::observed_instances;
use crate::lifecycle::{Listing, has_label, is_reserved, is_true};
use crate::node::Node;
use crate::pools::{self, Outcomes};
use crate::provision::{self, ClaimAndNode, Position, Stop};
use crate::state::Cluster;
use crate::step::Step;

/// Computes the nominations to write, unless some are being written, and updates the holds on Nodes.
pub fn nominate(cluster: &Cluster, state: &mut LeaderState, is_writing: bool, now: Timestamp) -> Step {
    let moment = cluster.moment();
    let view = moment.view();
    let step = if is_writing { Step::rest() } else { state.plan.nominate(&view, now) };
    let plan = &state.plan;
    let late = plan.late(&view);
    let closed = view.claims.iter().filter(|claimed| !is_true(claimed.claim, nodeclaim::REGISTERED));
    let gates = closed.filter_map(|claimed| {
        let node = claimed.node?.metadata.uid.clone()?;
        let turn = plan.first_in_queue(claimed.name(), &view, cluster.queue()).unwrap_or(Position::LAST);
        let is_open = claimed.node.is_some_and(|node| has_label(node, labels::REGISTERED));
        Some((claimed.name().to_owned(), Gate { node, hold: plan.hold(claimed, &view, &late, now), turn, is_open }))
    });
    let gates = gates.collect();
    state.gates.succeed(gates, now);
    step.or_sooner(state.gates.over())
}

/// Records the instances of a listing, and for each claim whether its own is among them. Returns the names of the
/// claims whose instance is missing or has left its capacity reservation, and true if an instance has changed.
pub fn note_listing(
    cluster: &Cluster,
    state: &mut LeaderState,
    instances: &[Instance],
    listed_at: Timestamp,
) -> (Vec<String>, bool) {
    let observed = observed_instances(instances);
    let known: BTreeMap<&str, CapacityType> =
        instances.iter().map(|one| (one.provider_id.as_str(), one.offering.capacity_type)).collect();
    state.listings.clear();
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
        state.listings.insert(id, listing);
    }
    let is_news = *state.instances != observed;
    if is_news {
        state.instances = Arc::new(observed);
    }
    (concerned, is_news)
}

/// Decides about the status of a NodePool. Returns `None` if it does not exist or is not served.
pub fn pool(
    cloud: &impl CloudView,
    settings: &Settings,
    cluster: &Cluster,
    state: &mut LeaderState,
    name: &str,
    now: Timestamp,
) -> Option<Step> {
    let Some(pool) = cluster.pool(name) else {
        state.outcomes.remove(name);
        state.rests.remove(name);
        return None;
    };
    let reference = &pool.spec.template.spec.node_class_ref;
    // Pools of another cloud's classes belong to another controller.
    if !settings.serves(&reference.kind) {
        return None;
    }
    let class = cluster.class(reference).map(|live| cloud.judge(live));
    let claims: Vec<ClaimAndNode<'_>> = cluster.claims_of_pool(name).map(|claim| cluster.claimed(claim)).collect();
    let is_of_pool = |node: &&Node| {
        let label = node.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        label.is_some_and(|label| label == name) && cluster.claims_of(id).next().is_none()
    };
    let unclaimed: Vec<&Node> = cluster.nodes().filter(is_of_pool).collect();
    let rest = state.rests.get(name).copied();
    let hold = state.plan.holds().get(name).cloned();
    let outcomes = state.outcomes.entry(name.to_owned()).or_insert_with(|| Outcomes::of(pool, class.as_ref()));
    let input = pools::PoolInput {
        pool,
        class: class.as_ref(),
        claims: &claims,
        unclaimed: &unclaimed,
        outcomes,
        rest,
        hold: hold.as_ref(),
        keeps_replicas: settings.keeps_replicas,
    };
    Some(pools::decide(&input, now))
}

/// Returns the reasons that block launches, by NodePool.
pub fn stops(cloud: &impl CloudView, settings: &Settings, cluster: &Cluster, now: Timestamp) -> BTreeMap<String, Stop> {
    let stop = |pool: &NodePool| {
        let reference = &pool.spec.template.spec.node_class_ref;
        let stop = if settings.serves(&reference.kind) {
            let class = judged(cloud, cluster.class(reference), reference);
            provision::stop(&class, cluster.claims_of_class(reference), now)
        } else {
            let why = format!("this replica does not launch with the kind `{}`", reference.kind);
            Some(Stop::All { why, until: None })
        };
        Some((pool.metadata.name.clone()?, stop?))
    };
    cluster.pools().filter_map(stop).collect()
}
