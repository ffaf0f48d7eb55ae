//! Simulated controller: the driver and the stages of the live one, whose jobs are done at once, in virtual time. Only
//! the application of writes differs.
//!
//! ```text
//!   Api ──► refresh ──► Cluster ──► Driver::on
//!                                      │
//!            Driver::done ◄── Done ◄── Job ─┬─► claims       lifecycle::decide          ─┐
//!                                           ├─► rounds       provision, nominations      ├──► edge: one write after
//!                                           ├─► disruption   planner, begin, advance     │    the other
//!                                           └─► upkeep       pools, classes, garbage    ─┘
//! ```
//!
//! All state here is in memory: it is lost when the controller stops, and a restarted one begins with a list.

mod claims;
mod disruption;
mod edge;
mod offers;
mod rounds;
mod upkeep;
#[cfg(test)]
mod wishes;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest::InputError;
use muster_manifest::snapshot;
use muster_scheduling::disrupt::Repair;
use muster_stages::disruption::{DisruptionPlanner, Timing};
use muster_stages::driver::{Done, Driver, Item, Job, LeaderState, Settings, Verdict};
use muster_stages::provision::Lengths;
use muster_stages::state::{self, Changed, Cluster};

use self::offers::Offers;
use self::rounds::Placeable;
#[cfg(test)]
pub(crate) use self::wishes::Wish;
use super::api::{Api, Key, Kind};
use super::policy::Policy;
use super::world::World;

/// Maximum number of decisions about more than one object at one moment. Objects are spaced by the driver.
const MOST_DECISIONS: usize = 200;
/// Delay after that many.
const STUCK: Duration = Duration::from_secs(1);

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
    settings: Settings,
    driver: Driver,
    state: LeaderState,
    planner: DisruptionPlanner,
    offers: Offers,
    /// Earliest time of the next job.
    idle_until: Timestamp,
    /// NodeClasses that were ready when they were last reconciled, by kind and name.
    ready: BTreeSet<(String, String)>,
    /// True if a pod with a node was added, changed or removed since [`Controller::running`] was last called.
    has_moved: bool,
    /// Answer of [`Controller::could_be_placed`]; none if an object was added, changed or removed since.
    placeable: Option<Placeable>,
    /// Problems solved for waiting pods.
    pub(crate) solved: usize,
}

// === impl Controller ===

impl Controller {
    /// Creates a controller that has just started and listed all objects.
    pub(crate) fn start(choices: Choices, snapshot: &snapshot::Settings, api: &Api, now: Timestamp) -> Self {
        let (mut cluster, mut state) = (Cluster::default(), LeaderState::default());
        for key in api.keys() {
            apply(&mut cluster, api, &key);
        }
        let gates = snapshot.gates;
        let settings = Settings {
            class_kind: None,
            namespace: crate::NAMESPACE.into(),
            timing: Timing::default(),
            window: Lengths::default(),
            nominates: true,
            repairs: (choices.disruption.repair != Repair::Off).then(|| snapshot.repair_policy()),
            keeps_buffers: gates.capacity_buffer,
            overlays: gates.node_overlay,
            // Shown whatever the feature gate says.
            keeps_replicas: true,
        };
        let driver = Driver::start(settings.clone(), &cluster, &mut state, now);
        let (planner, offers) = (DisruptionPlanner::default(), Offers::default());
        Self {
            choices,
            cluster,
            settings,
            driver,
            state,
            planner,
            offers,
            idle_until: now,
            ready: BTreeSet::new(),
            has_moved: true,
            placeable: None,
            solved: 0,
        }
    }

    /// Applies changes of the API to the cluster state, and tells the driver.
    pub(crate) fn see(&mut self, api: &Api, keys: &[Key], now: Timestamp) {
        let mut all = Changed::default();
        for key in keys {
            // Pods without a node are not paid for.
            let is_bound = |cluster: &Cluster| {
                key.kind == Kind::Pod && cluster.pod(&key.path.to_string()).is_some_and(|pod| pod.pod.node.is_some())
            };
            let was_bound = is_bound(&self.cluster);
            let changed = apply(&mut self.cluster, api, key);
            self.has_moved |= !changed.is_empty() && (was_bound || is_bound(&self.cluster));
            all.merge(changed);
        }
        if !all.is_empty() {
            self.placeable = None;
        }
        self.driver.on(&all, &self.cluster, &mut self.state, now);
    }

    /// Lets the world react to the writes, and applies the changes.
    fn refresh(&mut self, world: &mut World) -> Result<(), Stop> {
        let keys = world.settle().map_err(Stop::Failed)?;
        self.see(&world.api, &keys, world.clock.now());
        Ok(())
    }

    /// Does everything that is due.
    pub(crate) fn tick(&mut self, world: &mut World) -> Result<(), Stop> {
        self.refresh(world)?;
        self.heed_notices(world)?;
        let (now, mut decisions) = (world.clock.now(), 0);
        if now < self.idle_until {
            return Ok(());
        }
        while let Some(job) = self.driver.next_job(now) {
            decisions += usize::from(!matches!(job, Job::Reconcile(..) | Job::Advance(..)));
            self.carry_out(job, world)?;
            if decisions == MOST_DECISIONS {
                let what = format!("{decisions} decisions at one moment do not come to rest");
                world.trace.add(now, crate::trace::Event::Broken { what });
                self.idle_until = after(now, STUCK);
                break;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, job: Job, world: &mut World) -> Result<(), Stop> {
        match job {
            Job::Reconcile(item, _) => {
                let verdict = match &item {
                    Item::Claim(name) => self.reconcile_claim(name, world)?,
                    Item::Pool(name) => self.reconcile_pool(name, world)?,
                    Item::Class(kind, name) => self.reconcile_class(*kind, name, world)?,
                    // Simulations do not show what overlays and buffers say of themselves.
                    Item::Overlays | Item::Buffers => Verdict::Rest(None),
                };
                self.done(Done::Reconciled(item, verdict), world);
            }
            Job::Advance(item, _) => {
                let verdict = self.advance(&item, world)?;
                self.done(Done::Advanced(item, verdict), world);
            }
            Job::DecidePods => {
                let again = self.round(world)?;
                self.done(Done::DecidedPods { again }, world);
            }
            // A simulation has no orders.
            Job::CarryOutOrder => self.done(Done::CarriedOutOrder, world),
            Job::DecideDisruption => self.plan_disruption(world)?,
            Job::Nominate { is_writing } => self.nominate(is_writing, world)?,
            Job::CollectGarbage => {
                let done = self.collect(world)?;
                self.done(done, world);
            }
        }
        Ok(())
    }

    fn done(&mut self, done: Done, world: &World) {
        self.driver.done(done, &self.cluster, &mut self.state, world.clock.now());
    }

    /// Returns the time of the next job if nothing changes.
    pub(crate) fn next_job_at(&self) -> Option<Timestamp> {
        self.driver.next().map(|next| next.max(self.idle_until))
    }
}

fn apply(cluster: &mut Cluster, api: &Api, key: &Key) -> Changed {
    let Some(kind) = kind_of(&key.kind) else { return Changed::default() };
    match api.json(key) {
        Some(object) => cluster.apply_object(kind, &object),
        None => cluster.remove(kind, &key.path.to_string()),
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
