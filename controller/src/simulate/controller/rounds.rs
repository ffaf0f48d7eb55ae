//! Rounds of provisioning: pods that wait become NodeClaims, and learn where they are to go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::{NodePool, labels};
use muster_scheduling::model::{Catalogue, Pod, Problem, Resources};

use super::edge::Carriage;
use super::{Controller, Stop};
use crate::lifecycle::pause::Pause;
use crate::manifest::{InputError, NodeClass};
use crate::provision::{self, Applicant, Claimed, Lengths, Round, Scene, provision};
use crate::simulate::trace::Event;
use crate::simulate::world::World;
use crate::snapshot::{self, Snapshot};
use crate::state::Cluster;

/// What a round looks at, beside the problem.
pub(super) struct Stage<'c> {
    cluster: &'c Cluster,
    applicants: BTreeMap<Arc<str>, Applicant>,
    nodes: BTreeSet<&'c str>,
}

// === impl Stage ===

impl<'c> Stage<'c> {
    /// The pods that want a node, and the Nodes, of the cluster as it is seen.
    pub(super) fn of(cluster: &'c Cluster) -> Self {
        let mut applicants: BTreeMap<Arc<str>, Applicant> = BTreeMap::new();
        let mut add = |pod: &crate::state::LivePod| {
            applicants.insert(
                Arc::clone(&pod.pod.path),
                Applicant {
                    pod: pod.subject(),
                    is_of_default_scheduler: matches!(&*pod.scheduler, "" | "default-scheduler"),
                    is_marked: pod.is_marked,
                    node: pod.pod.node.clone(),
                    nominated: pod.pod.nominated_node.clone(),
                },
            );
        };
        cluster.unbound().for_each(&mut add);
        for claimed in cluster.claims().map(|claim| claimed(cluster, claim)).filter(Claimed::is_leaving) {
            let node = claimed.node.and_then(|node| node.metadata.name.as_deref());
            node.into_iter().flat_map(|node| cluster.pods_on(node)).for_each(&mut add);
        }
        let nodes = cluster.nodes().filter_map(|node| node.metadata.name.as_deref()).collect();
        Self { cluster, applicants, nodes }
    }

    /// Every claim with its Node.
    pub(super) fn claims(&self) -> Vec<Claimed<'c>> {
        self.cluster.claims().map(|claim| claimed(self.cluster, claim)).collect()
    }

    /// With the claims, what placements are looked at against.
    pub(super) fn scene<'s>(&'s self, claims: &'s [Claimed<'c>]) -> Scene<'s>
    where
        'c: 's,
    {
        Scene { claims, applicants: &self.applicants, nodes: &self.nodes }
    }
}

fn claimed<'c>(cluster: &'c Cluster, claim: &'c muster_api::NodeClaim) -> Claimed<'c> {
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    Claimed { claim, node: id.and_then(|id| cluster.nodes_of(id).next()) }
}

// === impl Controller ===

impl Controller {
    /// What an operator has paused in the whole cluster.
    pub(super) fn pause(&self) -> Pause {
        self.cluster.pause(NAMESPACE)
    }

    /// Why nothing is launched for a pool, by its name.
    pub(super) fn stops(&self) -> BTreeMap<String, String> {
        let stop = |pool: &NodePool| {
            let class = self.class(&pool.spec.template.spec.node_class_ref);
            Some((pool.metadata.name.clone()?, provision::stop(&class)?))
        };
        self.cluster.pools().filter_map(stop).collect()
    }

    pub(super) fn round_is_due(&self, now: Timestamp) -> bool {
        self.window.is_due(&Lengths::default(), now) || self.round_again.is_some_and(|again| again <= now)
    }

    /// The problem of the cluster as it is seen.
    pub(super) fn snapshot(&self, world: &World) -> Result<Snapshot, Stop> {
        self.assemble(world).map_err(Stop::Failed)
    }

    fn assemble(&self, world: &World) -> Result<Snapshot, InputError> {
        let types = |class: Option<&NodeClass>| -> Catalogue {
            let name = class.map_or("", |class| &*class.name);
            world.supply.of(name).cloned().unwrap_or_default()
        };
        snapshot::assemble(&self.cluster.manifests(), &world.settings, &types)
    }

    /// The pods that run on nodes of ours, as a problem without nodes; nothing if none has moved since it was last asked.
    pub(crate) fn running(&mut self, world: &World) -> Result<Option<Problem>, InputError> {
        if !std::mem::take(&mut self.has_moved) {
            return Ok(None);
        }
        let Snapshot { mut problem, custody, .. } = self.assemble(world)?;
        let nodes = std::mem::take(&mut problem.nodes);
        let managed = nodes.iter().zip(&custody.members).filter_map(|(node, member)| Some((node, member.as_ref()?)));
        let moves = managed.flat_map(|(node, member)| node.bound.iter().zip(&member.occupants));
        problem.pods = moves
            .filter(|(pod, occupant)| occupant.reschedulable && pod.counts)
            .map(|(pod, _)| Pod { name: Arc::clone(&pod.name), spec: pod.spec })
            .collect();
        problem.pools.iter_mut().for_each(|pool| pool.usage = Resources::new());
        Ok(Some(problem))
    }

    /// Decides what is launched for the pods that wait.
    pub(super) fn round(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        self.window.close();
        self.round_again = None;
        let snapshot = self.snapshot(world)?;
        let outcome = {
            let stage = Stage::of(&self.cluster);
            let claims = stage.claims();
            let pools: BTreeMap<&str, &NodePool> =
                self.cluster.pools().filter_map(|pool| Some((pool.metadata.name.as_deref()?, pool))).collect();
            let stops = self.stops();
            let round = Round {
                problem: &snapshot.problem,
                scene: stage.scene(&claims),
                pools: &pools,
                pause: self.pause(),
                stops: &stops,
                settings: &self.choices.provision,
                plan: &self.plan,
            };
            provision(&round, now)
        };
        for violation in &outcome.violations {
            world.trace.add(now, Event::Broken { what: format!("a plan is not valid: {violation}") });
        }
        self.plan = outcome.plan;
        self.round_again = outcome.step.again.filter(|again| *again > now);
        self.nominate_again = Some(now);
        self.carry_all(&outcome.step, &mut Carriage::default(), world)
    }

    /// Tells pods where they are to go.
    pub(super) fn nominate(&mut self, world: &mut World) -> Result<(), Stop> {
        let now = world.clock.now();
        let step = {
            let stage = Stage::of(&self.cluster);
            let claims = stage.claims();
            let mut plan = std::mem::take(&mut self.plan);
            let step = plan.nominate(&stage.scene(&claims), now);
            self.plan = plan;
            step
        };
        self.nominate_again = step.again.filter(|again| *again > now);
        if step.writes.is_empty() {
            return Ok(());
        }
        self.carry_all(&step, &mut Carriage::default(), world)
    }
}

/// Where the controller runs.
const NAMESPACE: &str = "karpenter";

/// The pool of a claim.
pub(super) fn pool_of(claim: &muster_api::NodeClaim) -> Option<&str> {
    claim.metadata.labels.as_ref()?.get(labels::NODEPOOL).map(String::as_str)
}
