//! Simulated controller: uses the same cluster state and stages as the live one. Only the application of writes
//! differs.
//!
//! ```text
//!   Api ──► refresh ──► Cluster ──► claims       lifecycle::decide            ─┐
//!                          │    ──► rounds       provision::provision          ├──► edge: one write after the other
//!                          │    ──► disruption   planner, begin, advance       │
//!                          │    ──► upkeep       pools, classes, garbage      ─┘
//!                          └──► requeue times
//! ```
//!
//! All state here is in memory: it is lost when the controller stops, and a restarted one begins with a list.

mod claims;
mod disruption;
mod edge;
mod offers;
mod rounds;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use muster_cloud::{Refusals, after};
use muster_manifest::InputError;
use muster_stages::disruption::{DisruptionPlanner, PassSchedule};
use muster_stages::lifecycle::Listing;
use muster_stages::pools::Outcomes;
use muster_stages::provision::{Lengths, Plan, RETRY, Window};
use muster_stages::state::{self, Changed, Cluster};

use self::offers::Offers;
use self::rounds::Placeable;
use super::api::{Api, Key, Kind};
use super::policy::Policy;
use super::world::World;

/// Kinds that the room of a CapacityBuffer depends on.
const BUFFERED: [state::Kind; 5] = [
    state::Kind::CapacityBuffer,
    state::Kind::PodTemplate,
    state::Kind::Deployment,
    state::Kind::StatefulSet,
    state::Kind::ReplicaSet,
];

/// Reason why a reconciliation was aborted.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The controller was killed between two writes.
    Killed,
    /// An object of the cluster is invalid.
    Failed(InputError),
}

/// Options of the operator.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    pub(crate) provision: muster_stages::provision::Settings,
    pub(crate) disruption: muster_scheduling::disrupt::Settings,
    pub(crate) policy: Policy,
}

/// See the module.
pub(crate) struct Controller {
    choices: Choices,
    cluster: Cluster,
    /// Changes that have not been handled yet.
    changed: Changed,
    refusals: Refusals,
    offers: Offers,
    listings: BTreeMap<String, Listing>,
    /// Requeue times of claims.
    again: BTreeMap<String, Timestamp>,
    window: Window,
    plan: Plan,
    round_again: Option<Timestamp>,
    nominate_again: Option<Timestamp>,
    /// Claims whose Nodes wait for nominations of pods, or for other Nodes.
    held: BTreeSet<String>,
    planner: DisruptionPlanner,
    /// Nodes that a pod has left since the last disruption decision.
    left: BTreeSet<Arc<str>>,
    /// Schedule of disruption decisions.
    pass_schedule: PassSchedule,
    /// Time at which running commands are checked again.
    advance_at: Option<Timestamp>,
    collect_at: Timestamp,
    /// NodePools to reconcile, and the earliest time to do so.
    pools_due: BTreeSet<Arc<str>>,
    pools_at: Timestamp,
    /// Results of the last launches of each pool.
    outcomes: BTreeMap<String, Outcomes>,
    /// True if a pod was added, changed or removed since [`Controller::running`] was last called.
    has_moved: bool,
    /// Answer of [`Controller::could_be_placed`]; none if an object was added, changed or removed since.
    placeable: Option<Placeable>,
    /// Problems solved for waiting pods.
    pub(crate) solved: usize,
}

// === impl Controller ===

impl Controller {
    /// Creates a controller that has just started and listed all objects.
    pub(crate) fn start(choices: Choices, api: &Api, now: Timestamp) -> Self {
        let mut controller = Self {
            choices,
            cluster: Cluster::default(),
            changed: Changed::default(),
            refusals: Refusals::default(),
            offers: Offers::default(),
            listings: BTreeMap::new(),
            again: BTreeMap::new(),
            window: Window::default(),
            plan: Plan::default(),
            round_again: None,
            nominate_again: None,
            held: BTreeSet::new(),
            planner: DisruptionPlanner::default(),
            left: BTreeSet::new(),
            pass_schedule: PassSchedule::from(now),
            advance_at: None,
            collect_at: now,
            pools_due: BTreeSet::new(),
            pools_at: now,
            outcomes: BTreeMap::new(),
            has_moved: true,
            placeable: None,
            solved: 0,
        };
        controller.see(api, &api.keys(), now);
        // Pods that existed before the start have not moved.
        controller.changed.moved.clear();
        controller
    }

    /// Applies changes of the API to the cluster state.
    pub(crate) fn see(&mut self, api: &Api, keys: &[Key], now: Timestamp) {
        for key in keys {
            let Some(kind) = kind_of(&key.kind) else { continue };
            let path = key.path.to_string();
            let changed = match api.json(key) {
                Some(object) => self.cluster.apply_object(kind, &object),
                None => self.cluster.remove(kind, &path),
            };
            if kind == state::Kind::Pod {
                self.has_moved |= !changed.is_empty();
            }
            for path in &changed.waiting {
                if let Some(pod) = self.cluster.pod(path) {
                    self.window.arrive(&pod.uid, now);
                }
            }
            for pool in &changed.pools {
                self.window.arrive(&format!("pool {pool}"), now);
            }
            if changed.has_new_policy {
                self.plan.forget_fruitless();
            } else if changed.concerns_daemons() {
                self.plan.note_daemons(now);
            }
            if BUFFERED.contains(&kind) && self.cluster.buffers().len() > 0 {
                self.window.arrive("buffers", now);
            }
            if changed.has_new_policy {
                self.pass_schedule.hurry();
            } else if !changed.is_empty() {
                self.pass_schedule.stir();
            }
            if !changed.is_empty() && self.round_again.is_none() && self.cluster.buffers().len() > 0 {
                // A pod may have taken the room of a buffer, which is filled again.
                self.round_again = Some(after(now, RETRY));
            }
            if !changed.is_empty() {
                self.placeable = None;
                // What stays pending is decided again soon after a change, and seldom without one.
                self.round_again = self.round_again.map(|again| again.min(after(now, RETRY)));
            }
            self.left.extend(changed.left.iter().cloned());
            self.changed.merge(changed);
        }
    }

    /// Lets the world react to the writes, and applies the changes.
    fn refresh(&mut self, world: &mut World) -> Result<(), Stop> {
        let keys = world.settle().map_err(Stop::Failed)?;
        self.see(&world.api, &keys, world.clock.now());
        Ok(())
    }

    /// Reconciles everything that is due.
    pub(crate) fn tick(&mut self, world: &mut World) -> Result<(), Stop> {
        self.refresh(world)?;
        let mut rounds = 0;
        loop {
            let now = world.clock.now();
            let is_touched = !self.changed.is_empty();
            self.heed_notices(world)?;
            self.touch_claims(world)?;
            let claims = self.due_claims(world.clock.now());
            self.keep_classes_and_pools(world)?;
            for claim in claims {
                self.look(&claim, world)?;
            }
            if is_touched || self.advance_at.is_some_and(|at| at <= now) {
                self.advance_commands(world)?;
            }
            if is_touched || self.nominate_again.is_some_and(|at| at <= now) {
                self.nominate(world)?;
            }
            if self.round_is_due(world.clock.now()) {
                self.round(world)?;
            }
            if self.pass_schedule.is_due(world.clock.now()) {
                self.plan_disruption(world)?;
            }
            if world.clock.now() >= self.collect_at {
                self.collect(world)?;
            }
            rounds += 1;
            if self.changed.is_empty() || rounds > 200 {
                return Ok(());
            }
        }
    }

    /// Returns the time of the next reconciliation if nothing changes.
    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        let lengths = Lengths::default();
        let has_nodes = self.cluster.claims().len() > 0;
        [
            self.again.values().min().copied(),
            self.window.due(&lengths),
            self.round_again,
            self.nominate_again,
            self.advance_at,
            has_nodes.then_some(self.pass_schedule.next()),
            has_nodes.then_some(self.collect_at),
            (!self.pools_due.is_empty()).then_some(self.pools_at),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// Returns the kind in the cluster state; none for kinds that the live controller does not watch.
fn kind_of(kind: &Kind) -> Option<state::Kind> {
    Some(match kind {
        Kind::Pod => state::Kind::Pod,
        Kind::Node => state::Kind::Node,
        Kind::NodeClaim => state::Kind::NodeClaim,
        Kind::NodePool => state::Kind::NodePool,
        Kind::Budget => state::Kind::PodDisruptionBudget,
        Kind::VolumeClaim => state::Kind::PersistentVolumeClaim,
        Kind::Volume => state::Kind::PersistentVolume,
        Kind::Attachment => state::Kind::VolumeAttachment,
        Kind::Other(name) => return state::Kind::named(name),
    })
}
