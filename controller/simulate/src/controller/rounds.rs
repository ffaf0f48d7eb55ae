//! Provisioning rounds: create NodeClaims for waiting pods, and nominate nodes for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodePool, labels};
use muster_cloud::after;
use muster_manifest::snapshot::{self, Snapshot};
use muster_manifest::{InputError, Manifests, NodeClass};
use muster_scheduling::model::{Catalogue, Node, Pod, Refused};
use muster_stages::lifecycle::caps::Caps;
use muster_stages::lifecycle::is_true;
use muster_stages::lifecycle::pause::Pause;
use muster_stages::provision::{self, Lengths, Outcome, Plan, Round, provision};
use muster_stages::step::{Event, EventType, Write};

use super::edge::Carriage;
use super::{Controller, Stop};
use crate::NAMESPACE;
use crate::ledger::Running;
use crate::trace::Event as Traced;
use crate::world::World;

/// Interval between rounds while a CapacityBuffer lacks room: refused capacity returns without a change.
const SHORT: Duration = Duration::from_secs(60);

/// Pods that could be placed, with what that depends on besides the observed objects.
#[derive(Debug)]
pub(super) struct Placeable {
    /// `namespace/name` of each.
    pods: BTreeSet<String>,
    refused: Vec<Refused>,
    stops: BTreeMap<String, provision::Stop>,
}

// === impl Controller ===

impl Controller {
    /// Returns the cluster-wide pause.
    pub(super) fn pause(&self) -> Pause {
        self.cluster.pause(NAMESPACE)
    }

    /// Returns the reasons to suspend launches, by pool name.
    pub(super) fn stops(&self, now: Timestamp) -> BTreeMap<String, provision::Stop> {
        let stop = |pool: &NodePool| {
            let reference = &pool.spec.template.spec.node_class_ref;
            let stop = provision::stop(&self.class(reference), self.cluster.claims_of_class(reference), now)?;
            Some((pool.metadata.name.clone()?, stop))
        };
        self.cluster.pools().filter_map(stop).collect()
    }

    pub(super) fn round_is_due(&self, now: Timestamp) -> bool {
        self.window.is_due(&Lengths::default(), now) || self.round_again.is_some_and(|again| again <= now)
    }

    /// Returns the problem of `manifests`, without offerings refused recently.
    pub(super) fn snapshot(&mut self, manifests: &Manifests, world: &World) -> Result<Snapshot, InputError> {
        self.offers.renew(self.refusals.current(world.clock.now()));
        let offers = &self.offers;
        let types = |class: Option<&NodeClass>| offers.of(class.map_or("", |class| &*class.name), &world.supply);
        snapshot::assemble(manifests, &world.settings, &types)
    }

    /// Returns the pods on instances in `paid` (provider IDs); none if no pod has changed since the last call.
    pub(crate) fn running(&mut self, paid: &BTreeSet<String>, world: &World) -> Result<Option<Running>, InputError> {
        if !std::mem::take(&mut self.has_moved) {
            return Ok(None);
        }
        let types = |class: Option<&NodeClass>| -> Catalogue {
            let name = class.map_or("", |class| &*class.name);
            world.supply.of(name).cloned().unwrap_or_default()
        };
        let mut manifests = self.cluster.manifests();
        // The bill uses the cloud's prices, not those of NodeOverlays.
        manifests.node_overlays.clear();
        let Snapshot { mut problem, managed_nodes, .. } = snapshot::assemble(&manifests, &world.settings, &types)?;
        let nodes = std::mem::take(&mut problem.nodes);
        let is_paid = |node: &Node| {
            let spec = self.cluster.node(&node.name).and_then(|node| node.spec.as_ref());
            spec.and_then(|spec| spec.provider_id.as_ref()).is_some_and(|id| paid.contains(id))
        };
        let managed = nodes
            .iter()
            .zip(&managed_nodes.nodes)
            .filter_map(|(node, managed_node)| Some((node, managed_node.as_ref()?)));
        let moves = managed
            .filter(|(node, _)| is_paid(node))
            .flat_map(|(node, managed_node)| node.bound.iter().zip(&managed_node.node_pods));
        problem.pods = moves
            .filter(|(pod, node_pod)| node_pod.reschedulable && pod.counts)
            .map(|(pod, _)| Pod { name: Arc::clone(&pod.name), spec: pod.spec })
            .collect();
        // A spread only applies at placement; it may be violated after other pods have left.
        problem.specs.iter_mut().for_each(|spec| spec.spread.clear());
        let made_at = |claim: &NodeClaim| claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let oldest = self.cluster.claims().filter_map(made_at).min();
        Ok(Some(Running { problem, oldest }))
    }

    /// Records a change of the instances that are paid for.
    pub(crate) fn stir_running(&mut self) {
        self.has_moved = true;
    }

    /// Decides what to launch for waiting pods.
    pub(super) fn round(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        self.window.close();
        self.round_again = None;
        let outcome = self.decide_round(&self.plan.clone(), world).map_err(Stop::Failed)?;
        for violation in &outcome.violations {
            world.trace.add(now, Traced::Broken { what: format!("a plan is not valid: {violation}") });
        }
        let before = std::mem::replace(&mut self.plan, outcome.plan);
        let (before, holds) = (before.holds(), self.plan.holds());
        let news = before.keys().chain(holds.keys()).filter(|pool| before.get(*pool) != holds.get(*pool));
        self.changed.pools.extend(news.map(|pool| Arc::from(&**pool)));
        let is_short = outcome.buffers.iter().any(|one| one.places.failed > 0);
        let again = is_short.then(|| after(now, SHORT));
        self.round_again = outcome.step.again.filter(|again| *again > now).into_iter().chain(again).min();
        self.nominate_again = Some(now);
        self.carry_all(&outcome.step, &mut Carriage::default(), world)
    }

    /// Returns the pods (`namespace/name`) that a controller without earlier plans would place now.
    pub(crate) fn could_be_placed(&mut self, world: &World) -> Result<BTreeSet<String>, InputError> {
        let now = world.clock.now();
        let (refused, stops) = (self.refusals.current(now), self.stops(now));
        if let Some(known) = &self.placeable
            && (&known.refused, &known.stops) == (&refused, &stops)
        {
            return Ok(known.pods.clone());
        }
        let pods = self.decide_placeable(world)?;
        // Caps on launches per minute allow more as time passes.
        if self.choices.provision.caps == Caps::default() {
            self.placeable = Some(Placeable { pods: pods.clone(), refused, stops });
        }
        Ok(pods)
    }

    fn decide_placeable(&mut self, world: &World) -> Result<BTreeSet<String>, InputError> {
        let outcome = self.decide_round(&self.plan.afresh(), world)?;
        let mut placed: BTreeSet<String> = self.cluster.unbound().map(|pod| pod.pod.path.to_string()).collect();
        // Without an earlier plan, each pod that cannot be placed gets a warning event.
        for write in &outcome.step.writes {
            if let Write::Event(Event { about, kind: EventType::Warning, .. }) = write {
                placed.remove(&format!("{}/{}", about.namespace.as_deref().unwrap_or_default(), about.name));
            }
        }
        Ok(placed)
    }

    fn decide_round(&mut self, plan: &Plan, world: &World) -> Result<Outcome, InputError> {
        let now = world.clock.now();
        let snapshot = self.snapshot(&self.cluster.without_void_nominations(), world)?;
        let moment = self.cluster.moment();
        let pools: BTreeMap<&str, &NodePool> =
            self.cluster.pools().filter_map(|pool| Some((pool.metadata.name.as_deref()?, pool))).collect();
        let stops = self.stops(now);
        let round = Round {
            problem: &snapshot.problem,
            buffers: &snapshot.buffers,
            view: moment.view(),
            pools: &pools,
            pause: self.pause(),
            stops: &stops,
            settings: &self.choices.provision,
            plan,
        };
        let outcome = provision(&round, now);
        self.solved += outcome.figures.solved;
        Ok(outcome)
    }

    /// Nominates nodes for pods, and determines which Nodes wait for that; those that no longer do are reconciled.
    pub(super) fn nominate(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let (step, holds) = {
            let moment = self.cluster.moment();
            let view = moment.view();
            let step = self.plan.nominate(&view, now);
            let late = self.plan.late(&view);
            let joining = view.claims.iter().filter(|claimed| !is_true(claimed.claim, nodeclaim::REGISTERED));
            let holds = joining.filter_map(|claimed| {
                let hold = self.plan.hold(claimed, &view, &late, now)?;
                Some((claimed.name().to_owned(), hold.until))
            });
            let holds: BTreeMap<String, Timestamp> = holds.collect();
            (step.or_sooner(holds.values().min().copied()), holds)
        };
        let before = std::mem::replace(&mut self.held, holds.into_keys().collect());
        self.changed.claims.extend(before.difference(&self.held).map(|claim| claim.as_str().into()));
        self.nominate_again = step.again.filter(|again| *again > now);
        if step.writes.is_empty() {
            return Ok(());
        }
        self.carry_all(&step, &mut Carriage::default(), world)
    }
}

/// Returns the pool of a claim.
pub(super) fn pool_of(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.labels.as_ref()?.get(labels::NODEPOOL).map(String::as_str)
}
