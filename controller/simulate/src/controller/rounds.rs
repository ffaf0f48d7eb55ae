//! Provisioning rounds: create NodeClaims for waiting pods, and nominate nodes for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool};
use muster_cloud::after;
use muster_manifest::snapshot::{self, Snapshot};
use muster_manifest::{InputError, Manifests, NodeClass};
use muster_scheduling::model::{Catalogue, Node, Pod, Refused};
use muster_stages::driver::{Done, cluster_wide};
use muster_stages::lifecycle::caps::Caps;
use muster_stages::lifecycle::pause::Pause;
use muster_stages::provision::{self, Outcome, Plan, Round, provision};
use muster_stages::step::{Event, EventType, Write};

use super::edge::{Carriage, Flow};
use super::{Controller, Stop};
use crate::ledger::Running;
use crate::trace::Event as Traced;
use crate::world::World;

/// Delay after a round of which a write was refused.
const RETRY: Duration = Duration::from_secs(1);

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
        self.cluster.pause(&self.settings.namespace)
    }

    /// Returns the reasons that block launches, by NodePool.
    pub(super) fn stops(&self, world: &World) -> BTreeMap<String, provision::Stop> {
        cluster_wide::stops(&world.supply, &self.settings, &self.cluster, world.clock.now())
    }

    /// Returns the problem of `manifests`, without offerings refused recently.
    pub(super) fn snapshot(&mut self, manifests: &Manifests, world: &World) -> Result<Snapshot, InputError> {
        self.offers.renew(self.state.refusals.current(world.clock.now()));
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

    /// Decides what to launch for waiting pods. Returns the time of the next round if nothing changes.
    pub(super) fn round(&mut self, world: &mut World) -> Result<Option<Timestamp>, Stop> {
        let now = world.clock.now();
        let outcome = self.decide_round(&self.state.plan.clone(), world).map_err(Stop::Failed)?;
        for violation in &outcome.violations {
            world.trace.add(now, Traced::Broken { what: format!("a plan is not valid: {violation}") });
        }
        self.state.plan.succeed(outcome.plan);
        self.state.buffers = outcome.buffers;
        Ok(match self.carry_all(&outcome.step, &mut Carriage::default(), world)? {
            Flow::On => outcome.step.again,
            Flow::Drop => Some(after(now, RETRY)),
        })
    }

    /// Returns the pods (`namespace/name`) that a controller without earlier plans would place now.
    pub(crate) fn could_be_placed(&mut self, world: &World) -> Result<BTreeSet<String>, InputError> {
        let now = world.clock.now();
        let (refused, stops) = (self.state.refusals.current(now), self.stops(world));
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
        let outcome = self.decide_round(&self.state.plan.afresh(), world)?;
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
        let stops = self.stops(world);
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

    /// Nominates nodes for pods, and determines which Nodes wait for that.
    pub(super) fn nominate(&mut self, is_writing: bool, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let step = cluster_wide::nominate(&self.cluster, &mut self.state, is_writing, now);
        let writes = !step.writes.is_empty();
        self.done(Done::Nominated { again: step.again, writes }, world);
        if writes {
            self.carry_all(&step, &mut Carriage::default(), world)?;
            self.done(Done::WroteNominations, world);
        }
        Ok(())
    }
}
