//! Lifecycle of single NodeClaims.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodeClassReference, labels};
use muster_cloud::{Alternative, Overlaid, alternatives};
use muster_manifest::NodeClass;
use muster_manifest::snapshot::OverlaidTypes;
use muster_scheduling::model::{Catalogue, Requirement, Requirements, Resource, Resources};
use muster_stages::lifecycle::{Class, Listing, Readiness, decide, is_true, overlaid};
use muster_stages::state::{ClaimInputs, LiveClass};
use muster_stages::step::Write;

use super::edge::Carriage;
use super::{Controller, Stop};
use crate::api::Kind;
use crate::supply::hash_of;
use crate::world::World;

/// Maximum number of steps after which the reconciliation of a claim must have finished.
const MOST_ROUNDS: usize = 60;

// === impl Controller ===

impl Controller {
    /// Returns the claims that a change affects or whose requeue time has come.
    pub(super) fn due_claims(&mut self, now: Timestamp) -> Vec<Arc<str>> {
        let mut due = std::mem::take(&mut self.changed.claims);
        let due_by_time = self.again.iter().filter(|(_, moment)| **moment <= now);
        due.extend(due_by_time.map(|(name, _)| Arc::from(name.as_str())));
        for (kind, name) in &self.changed.classes {
            let of_class = self.cluster.claims().filter(|claim| {
                let wanted = &claim.spec.node_class_ref;
                wanted.kind == kind.name() && *wanted.name == **name
            });
            due.extend(of_class.filter_map(|claim| claim.metadata.name.as_deref().map(Arc::from)));
        }
        self.changed.waiting.clear();
        self.changed.kinds = muster_stages::state::Kinds::default();
        due.into_iter().collect()
    }

    /// Reconciles one claim.
    pub(super) fn look(&mut self, name: &str, world: &mut World) -> Result<(), Stop> {
        let mut carriage = Carriage::default();
        for _ in 0..MOST_ROUNDS {
            let now = world.clock.now();
            let Some(step) = self.decide(name, &mut carriage, world, now) else {
                self.again.remove(name);
                return Ok(());
            };
            let asks = step.writes.iter().any(Write::is_question);
            let is_rest = step.writes.is_empty();
            self.carry_all(&step, &mut carriage, world)?;
            self.note_instance(name, &carriage, now);
            self.again.remove(name);
            if let Some(again) = step.again {
                self.again.insert(name.to_owned(), again);
            }
            if is_rest || !asks && step.again.is_some() {
                return Ok(());
            }
            if !asks {
                carriage.answers = Default::default();
            }
        }
        let what = format!("NodeClaim `{name}` does not come to rest");
        world.trace.add(world.clock.now(), crate::trace::Event::Broken { what });
        Ok(())
    }

    /// Stores the result of the last call for the claim's instance.
    fn note_instance(&mut self, name: &str, carriage: &Carriage, now: Timestamp) {
        let claim = self.cluster.claim(name);
        let id = claim.and_then(|claim| claim.status.as_ref()?.provider_id.clone());
        if let (Some(id), Some(answer)) = (id, &carriage.answers.instance) {
            self.listings.insert(id, Listing::of(answer, now));
        }
    }

    fn decide(
        &self,
        name: &str,
        carriage: &mut Carriage,
        world: &World,
        now: Timestamp,
    ) -> Option<muster_stages::step::Step> {
        let around = self.cluster.around(name)?;
        let reference = around.claim.spec.node_class_ref.clone();
        let class = self.class(&reference);
        let (alternatives, overlaid) = self.alternatives(around.claim, &reference, world, now);
        let is_joining = !around.nodes.is_empty() && !is_true(around.claim, nodeclaim::REGISTERED);
        let hold = if is_joining { self.hold(name, now) } else { None };
        let id = around.claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let seen = around.seen(ClaimInputs {
            class: &class,
            pause: self.pause(),
            registration_hold: hold.as_deref(),
            // Simulations have no node agents.
            expected: &[],
            alternatives: &alternatives,
            overlaid: &overlaid,
            listing: id.and_then(|id| self.listings.get(id).copied()),
            answers: carriage.answers.clone(),
        });
        let step = decide(&seen, now);
        carriage.hold(Kind::NodeClaim, name, around.claim.metadata.resource_version.as_ref());
        carriage.class = Some((reference.kind.clone(), reference.name.clone()));
        carriage.hold(Kind::Other(reference.kind), &reference.name, class.meta.resource_version.as_ref());
        for node in &around.nodes {
            let name = node.metadata.name.clone().unwrap_or_default();
            carriage.hold(Kind::Node, &name, node.metadata.resource_version.as_ref());
        }
        Some(step)
    }

    /// Returns the reason to delay the registration of a claim's Node: pods that are planned for it but not nominated
    /// yet.
    fn hold(&self, name: &str, now: Timestamp) -> Option<String> {
        let moment = self.cluster.moment();
        let claimed = moment.claims.iter().find(|one| one.name() == name)?;
        let view = moment.view();
        self.plan.hold(claimed, &view, &self.plan.late(&view), now).map(|hold| hold.why)
    }

    /// Returns the offerings that the claim may be launched as, and the changes of NodeOverlays to them; none if it has
    /// been launched.
    fn alternatives(
        &self,
        claim: &NodeClaim,
        class: &NodeClassReference,
        world: &World,
        now: Timestamp,
    ) -> (Vec<Alternative>, Overlaid) {
        let nothing = || (Vec::new(), Overlaid::default());
        if is_true(claim, nodeclaim::LAUNCHED) {
            return nothing();
        }
        let Some(types) = world.supply.of(&class.name) else { return nothing() };
        let changed = self.overlaid(claim, world);
        let types = changed.as_ref().unwrap_or(types);
        let mut all = alternatives(types, &requirements_of(claim), &requests_of(claim));
        self.refusals.sieve(&mut all, now);
        let overlaid = overlaid(claim, types, &all);
        (all, overlaid)
    }

    /// Returns the types of the claim's NodePool with the NodeOverlays applied; `None` without overlays.
    fn overlaid(&self, claim: &NodeClaim, world: &World) -> Option<Catalogue> {
        if !world.settings.gates.node_overlay || self.cluster.overlays().len() == 0 {
            return None;
        }
        let pool = claim.metadata.labels.as_ref()?.get(labels::NODEPOOL)?;
        let types = |class: Option<&NodeClass>| -> Catalogue {
            world.supply.of(class.map_or("", |class| &*class.name)).cloned().unwrap_or_default()
        };
        OverlaidTypes::new(&self.cluster.pools_and_overlays(), &types).of(pool).cloned()
    }

    /// Returns a NodeClass as input of the stages.
    pub(super) fn class(&self, reference: &NodeClassReference) -> Class {
        let live = self.cluster.class(reference);
        live.map_or_else(|| missing(reference), class_of)
    }
}

/// Converts a NodeClass of the simulated cloud to the input of the stages.
pub(super) fn class_of(live: &LiveClass) -> Class {
    let ready = live.conditions.iter().find(|one| one.type_ == muster_api::conditions::READY);
    let readiness = match ready {
        _ if live.meta.deletion_timestamp.is_some() => Readiness::Terminating,
        Some(ready) if ready.status == "True" => Readiness::Ready,
        Some(ready) if ready.status == "False" => Readiness::NotReady(ready.message.clone()),
        _ => Readiness::Unknown,
    };
    Class {
        reference: live.reference.clone(),
        meta: live.meta.clone(),
        conditions: live.conditions.clone(),
        readiness,
        hash: hash_of(&live.object),
        bootstrap_fault: None,
        hands_over_taints: true,
        tags_instances: true,
        reboots_instances: true,
        block_ends: BTreeMap::new(),
    }
}

fn missing(reference: &NodeClassReference) -> Class {
    Class {
        reference: reference.clone(),
        meta: Default::default(),
        conditions: Vec::new(),
        readiness: Readiness::Missing,
        hash: String::new(),
        bootstrap_fault: None,
        hands_over_taints: true,
        tags_instances: true,
        reboots_instances: true,
        block_ends: BTreeMap::new(),
    }
}

/// Returns the requirements of a claim in the engine's model.
fn requirements_of(claim: &NodeClaim) -> Requirements {
    let mut all = Requirements::new();
    for one in &claim.spec.requirements {
        let requirement = Requirement::new(operator(one.operator), one.values.iter().map(String::as_str));
        all.add(one.key.as_str(), requirement);
    }
    all
}

const fn operator(operator: muster_api::Operator) -> muster_scheduling::model::Operator {
    use muster_scheduling::model::Operator as Model;
    match operator {
        muster_api::Operator::In => Model::In,
        muster_api::Operator::NotIn => Model::NotIn,
        muster_api::Operator::Exists => Model::Exists,
        muster_api::Operator::DoesNotExist => Model::DoesNotExist,
        muster_api::Operator::Gt => Model::Gt,
        muster_api::Operator::Lt => Model::Lt,
        muster_api::Operator::Gte => Model::Gte,
        muster_api::Operator::Lte => Model::Lte,
    }
}

fn requests_of(claim: &NodeClaim) -> Resources {
    let requests = claim.spec.resources.requests.iter();
    requests
        .filter_map(|(name, amount)| {
            let resource = Resource::new(name);
            let amount = muster_aws::quantity::parse(&resource, &amount.0).ok()?;
            Some((resource, amount))
        })
        .collect()
}
