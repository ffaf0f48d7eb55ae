//! Other duties: interruption notices, pod event times, pools and classes, garbage collection.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::NodeClaim;
use muster_cloud::{NoticeKind, after};
use muster_manifest::snapshot::FeatureGates;
use muster_stages::classes;
use muster_stages::lifecycle::garbage::{self, GarbageInput};
use muster_stages::lifecycle::{Listing, interruption};
use muster_stages::pools::{self, Edition, Outcomes};
use muster_stages::provision::ClaimAndNode;
use muster_stages::state::LiveClass;
use muster_stages::step::Step;

use super::claims;
use super::edge::Carriage;
use super::rounds::pool_of;
use super::{Controller, Stop};
use crate::api::Kind;
use crate::supply::HASH_VERSION;
use crate::world::World;

// === impl Controller ===

impl Controller {
    /// Records the cloud's interruption notices on the claims. A notice stays queued until that is done.
    pub(super) fn heed_notices(&mut self, world: &mut World) -> Result<(), Stop> {
        while let Some((id, at)) = world.notices.front().cloned() {
            let claims: Vec<NodeClaim> = self.cluster.claims_of(&id).cloned().collect();
            for claim in &claims {
                let step = interruption::heed(claim, None, NoticeKind::SpotInterrupted, at);
                let mut carriage = Carriage::default();
                let meta = &claim.metadata;
                carriage.hold(
                    Kind::NodeClaim,
                    meta.name.as_deref().unwrap_or_default(),
                    meta.resource_version.as_ref(),
                );
                self.carry_all(&step, &mut carriage, world)?;
            }
            world.notices.pop_front();
        }
        Ok(())
    }

    /// Records on the claims that pods arrived on or left their nodes.
    pub(super) fn touch_claims(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        for node in std::mem::take(&mut self.changed.moved) {
            let id = self.cluster.node(&node).and_then(|node| node.spec.as_ref()?.provider_id.clone());
            let claim = id.and_then(|id| self.cluster.claims_of(&id).next().cloned());
            let Some(claim) = claim else { continue };
            let step = muster_stages::lifecycle::pod_events::touch(&claim, now);
            let mut carriage = Carriage::default();
            let meta = &claim.metadata;
            carriage.hold(Kind::NodeClaim, meta.name.as_deref().unwrap_or_default(), meta.resource_version.as_ref());
            self.carry_all(&step, &mut carriage, world)?;
        }
        Ok(())
    }

    /// Reconciles NodeClasses and NodePools: finalizers, hashes, circuit breakers, counts and conditions.
    pub(super) fn keep_classes_and_pools(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        for (kind, name) in std::mem::take(&mut self.changed.classes) {
            let is_it = |class: &&LiveClass| class.reference.kind == kind.name() && *class.reference.name == *name;
            let found = self.cluster.classes().find(is_it).map(|class| class.reference.clone());
            let Some(reference) = found else { continue };
            let class = self.class(&reference);
            let step = {
                let claims: Vec<&NodeClaim> = self.cluster.claims_of_class(&reference).collect();
                let kind = if reference.kind == "KWOKNodeClass" {
                    classes::Kind::KWOK
                } else {
                    classes::Kind::ec2(HASH_VERSION)
                };
                classes::decide(
                    &classes::ClassInput { class: &class, kind, claims: &claims, has_leftovers: false },
                    now,
                )
            };
            self.about_class(&step, &reference, class.meta.resource_version.as_ref(), world)?;
            let users = self.cluster.pools().filter(|pool| pool.spec.template.spec.node_class_ref.name == *name);
            self.changed.pools.extend(users.filter_map(|pool| pool.metadata.name.as_deref().map(Arc::from)));
        }
        self.pools_due.append(&mut self.changed.pools);
        if self.pools_due.is_empty() || now < self.pools_at {
            return Ok(());
        }
        self.pools_at = after(now, pools::EVERY);
        for name in std::mem::take(&mut self.pools_due) {
            let Some(pool) = self.cluster.pool(&name).cloned() else { continue };
            let reference = &pool.spec.template.spec.node_class_ref;
            let class = self.cluster.class(reference).map(claims::class_of);
            let outcomes = self.outcomes.entry(name.to_string()).or_insert_with(|| Outcomes::of(&pool, class.as_ref()));
            let rest = self.planner.rest_of(&name);
            let hold = self.plan.holds().get(&*name).cloned();
            let step = {
                let claims = self.cluster.claims_of_pool(&name);
                let all: Vec<ClaimAndNode<'_>> = claims.map(|claim| self.cluster.claimed(claim)).collect();
                let class = class.as_ref();
                let input = pools::PoolInput {
                    pool: &pool,
                    class,
                    claims: &all,
                    unclaimed: &[],
                    outcomes,
                    rest,
                    hold: hold.as_ref(),
                    keeps_replicas: true,
                };
                pools::decide(&input, now)
            };
            let mut carriage = Carriage::default();
            carriage.hold(Kind::NodePool, &name, pool.metadata.resource_version.as_ref());
            self.carry_all(&step, &mut carriage, world)?;
            let input = pools::SurplusInput {
                cluster: &self.cluster,
                plan: &self.plan,
                pause: self.pause(),
                gates: FeatureGates::default(),
            };
            let step = pools::shrink(&input, &pool, now);
            self.carry_all(&step, &mut Carriage::default(), world)?;
        }
        Ok(())
    }

    /// Records the result of a claim's launch for the health of its pool.
    pub(super) fn note_outcome(&mut self, claim: &NodeClaim, became_a_node: bool) {
        let Some(pool) = pool_of(claim).and_then(|pool| self.cluster.pool(pool)) else { return };
        let class = self.cluster.class(&pool.spec.template.spec.node_class_ref).map(claims::class_of);
        let edition = Edition::of(pool, class.as_ref());
        let name = pool.metadata.name.clone().unwrap_or_default();
        let outcomes = self.outcomes.entry(name).or_insert_with(|| Outcomes::of(pool, class.as_ref()));
        outcomes.note(edition, became_a_node);
    }

    fn about_class(
        &mut self,
        step: &Step,
        class: &muster_api::NodeClassReference,
        version: Option<&String>,
        world: &mut World,
    ) -> Result<(), Stop> {
        if step.writes.is_empty() {
            return Ok(());
        }
        let mut carriage = Carriage::default();
        carriage.class = Some((class.kind.clone(), class.name.clone()));
        carriage.hold(Kind::Other(class.kind.clone()), &class.name, version);
        self.carry_all(step, &mut carriage, world)
    }

    /// Lists the cloud's instances, and terminates those without an owner.
    pub(super) fn collect(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        self.collect_at = after(now, garbage::EVERY);
        let Ok(instances) = world.cloud.list(now) else { return Ok(()) };
        let known: BTreeSet<&str> = instances.iter().map(|one| one.provider_id.as_str()).collect();
        self.listings.clear();
        for claim in self.cluster.claims() {
            let Some(id) = claim.status.as_ref().and_then(|status| status.provider_id.clone()) else { continue };
            let listing = Listing { at: now, has_instance: known.contains(id.as_str()), capacity_type: None };
            if !listing.has_instance {
                self.changed.claims.extend(claim.metadata.name.as_deref().map(Arc::from));
            }
            self.listings.insert(id, listing);
        }
        let is_ours = |node: &&muster_stages::node::Node| {
            node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(muster_api::labels::NODEPOOL))
        };
        let nodes: Vec<_> = self.cluster.nodes().filter(is_ours).cloned().collect();
        let input = GarbageInput {
            listed_at: now,
            instances: &instances,
            claims: self.cluster.claims().collect(),
            nodes: nodes.iter().collect(),
        };
        let step = garbage::collect(&input, now);
        let mut carriage = Carriage::default();
        for node in &nodes {
            let meta = &node.metadata;
            carriage.hold(Kind::Node, meta.name.as_deref().unwrap_or_default(), meta.resource_version.as_ref());
        }
        // The writes are independent of each other.
        for write in step.writes {
            self.carry_all(&Step::act([write]), &mut carriage, world)?;
        }
        Ok(())
    }
}
