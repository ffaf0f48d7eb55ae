//! Other duties: interruption notices, pools and classes, garbage collection.

use std::time::Duration;

use muster_api::NodeClaim;
use muster_cloud::{NoticeKind, after};
use muster_manifest::snapshot::FeatureGates;
use muster_stages::classes;
use muster_stages::driver::{CloudView, Done, Verdict, cluster_wide};
use muster_stages::lifecycle::garbage::{self, GarbageInput};
use muster_stages::lifecycle::{Readiness, interruption};
use muster_stages::pools;
use muster_stages::state::{self, LiveClass};
use muster_stages::step::Step;

use super::claims::verdict_of;
use super::edge::Carriage;
use super::{Controller, Stop};
use crate::api::Kind;
use crate::supply::HASH_VERSION;
use crate::world::World;

/// Delay after a failed listing.
const RETRY: Duration = Duration::from_secs(20);

// === impl Controller ===

impl Controller {
    /// Records the cloud's interruption notices on the claims. A notice stays queued until that is done.
    pub(super) fn heed_notices(&mut self, world: &mut World) -> Result<(), Stop> {
        while let Some((id, at)) = world.notices.front().cloned() {
            let claims: Vec<NodeClaim> = self.cluster.claims_of(&id).cloned().collect();
            for claim in &claims {
                let step = interruption::heed(claim, None, NoticeKind::SpotInterrupted, at);
                let mut carriage = Carriage::default();
                carriage.hold(Kind::NodeClaim, &claim.metadata);
                self.carry_all(&step, &mut carriage, world)?;
            }
            world.notices.pop_front();
        }
        Ok(())
    }

    /// Reconciles a NodeClass: finalizers, hash, circuit breaker.
    pub(super) fn reconcile_class(
        &mut self,
        kind: state::Kind,
        name: &str,
        world: &mut World,
    ) -> Result<Verdict, Stop> {
        let now = world.clock.now();
        let is_it = |class: &&LiveClass| class.reference.kind == kind.name() && class.reference.name == name;
        let Some(live) = self.cluster.classes().find(is_it) else { return Ok(Verdict::Rest(None)) };
        let (class, reference) = (world.supply.judge(live), &live.reference);
        let key = (reference.kind.clone(), reference.name.clone());
        // Claims that were refused a launch wait for it.
        if class.readiness != Readiness::Ready {
            self.ready.remove(&key);
        } else if self.ready.insert(key) {
            self.state.ready_classes.insert(reference.name.clone());
        }
        let is_of_kwok = kind == state::Kind::KwokNodeClass;
        let kind = if is_of_kwok { classes::Kind::KWOK } else { classes::Kind::ec2(HASH_VERSION) };
        let claims: Vec<&NodeClaim> = self.cluster.claims_of_class(reference).collect();
        let input = classes::ClassInput { class: &class, kind, claims: &claims, has_leftovers: false };
        let step = classes::decide(&input, now);
        let mut carriage = Carriage::default();
        carriage.class = Some((reference.kind.clone(), reference.name.clone()));
        carriage.hold(Kind::Other(reference.kind.clone()), &class.meta);
        let flow = self.carry_all(&step, &mut carriage, world)?;
        Ok(verdict_of(flow, !step.writes.is_empty(), &step, now))
    }

    /// Reconciles a NodePool: counts and conditions, and the surplus of a static pool.
    pub(super) fn reconcile_pool(&mut self, name: &str, world: &mut World) -> Result<Verdict, Stop> {
        let now = world.clock.now();
        let pool = self.cluster.pool(name).cloned();
        let mut again = None;
        if let Some(pool) = &pool {
            let (pause, gates) = (self.pause(), FeatureGates::default());
            let input = pools::SurplusInput { cluster: &self.cluster, plan: &self.state.plan, pause, gates };
            let step = pools::shrink(&input, pool, now);
            self.carry_all(&step, &mut Carriage::default(), world)?;
            again = step.again;
        }
        let step = cluster_wide::pool(&world.supply, &self.settings, &self.cluster, &mut self.state, name, now);
        let Some((step, pool)) = step.zip(pool) else { return Ok(Verdict::Rest(again)) };
        let mut carriage = Carriage::default();
        carriage.hold(Kind::NodePool, &pool.metadata);
        let flow = self.carry_all(&step, &mut carriage, world)?;
        Ok(match verdict_of(flow, !step.writes.is_empty(), &step, now) {
            Verdict::Rest(_) if !step.writes.is_empty() => Verdict::RestUntil(after(now, pools::EVERY)),
            verdict => verdict.or_sooner(again),
        })
    }

    /// Lists the cloud's instances, and terminates those without an owner.
    pub(super) fn collect(&mut self, world: &mut World) -> Result<Done, Stop> {
        let now = world.clock.now();
        let Ok(instances) = world.cloud.list(now) else {
            return Ok(Done::CollectedGarbage { concerned: Vec::new(), is_news: false, again: after(now, RETRY) });
        };
        let (concerned, is_news) = cluster_wide::note_listing(&self.cluster, &mut self.state, &instances, now);
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
        nodes.iter().for_each(|node| carriage.hold(Kind::Node, &node.metadata));
        // The writes are independent of each other.
        for write in step.writes {
            self.carry_all(&Step::act([write]), &mut carriage, world)?;
        }
        Ok(Done::CollectedGarbage { concerned, is_news, again: step.again.unwrap_or_else(|| after(now, RETRY)) })
    }
}
