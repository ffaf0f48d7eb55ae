//! World and controller, in which people do things at given times.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::DynamicObject;
use muster_api::conditions::nodeclaim;
use muster_api::{Lifetime, NodeClaim, annotations, labels};
use muster_cloud::{CapacityType, InstanceState, Offering, after};
use muster_stages::lifecycle::{Status, is_true, judged, set_condition};

use super::{WriteLog, invariants, objects};
use crate::Policy;
use crate::api::{Kind, Path};
use crate::checks::Checks;
use crate::controller::{Choices, Controller, Stop, Wish};
use crate::deeds::Author;
use crate::dice::Dice;
use crate::trace;
use crate::world::{Habits, Happening, Meant, World};

/// Duration of what does not happen.
pub(super) const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Maximum number of moments in a life of a few hours at which something happens.
const MOST_MOMENTS: usize = 20_000;

/// Action of a person, or of the world.
#[derive(Debug, Clone)]
pub(super) enum Deed {
    Create(&'static str),
    Delete(&'static str),
    DeleteNodes,
    ChangeClass,
    ResetBreaker,
    /// Says of a claim that its node is not to be disrupted.
    DoNotDisrupt(&'static str),
    /// Requests the reboot of a claim's node, drained for at most so many seconds.
    Reboot(&'static str, Option<u64>),
    /// Pauses disruption.
    Pause,
    /// From now on machines take this long to join, and to come back from a reboot.
    JoinAfter(Duration),
    /// No offering that matches has capacity any more.
    SellOut(Meant),
    DeleteBudget,
    /// Begins a disruption, if the controller runs.
    Begin(Wish),
}

/// Settings of one life.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) habits: Habits,
    /// True if Nodes get the GPU that claims request.
    pub(super) has_gpu: bool,
    /// Time in seconds until which a budget protects the pods `web`.
    pub(super) budget: Option<u64>,
    /// True if the pods `dns` are never terminated by their kubelet.
    pub(super) has_stuck_pod: bool,
    /// True if the pods `web` are not to be disrupted.
    pub(super) has_hold: bool,
    /// Time in seconds from the launch until an instance ends by itself.
    pub(super) dies: Option<u64>,
    /// Termination grace period of claims, in seconds.
    pub(super) grace: Option<u64>,
    pub(super) expire_after: Lifetime,
    pub(super) deeds: Vec<(u64, Deed)>,
}

/// See the module.
pub(super) struct Life {
    pub(super) world: World,
    /// None while it is down.
    controller: Option<Controller>,
    back_at: Timestamp,
    checks: Checks,
    story: Rc<Story>,
    deeds: Vec<Deed>,
    wish: Option<Wish>,
    /// Numbers of the writes at which the controller is killed.
    pub(super) kills: BTreeSet<u64>,
    /// Nodes that have got their pods.
    filled: BTreeSet<String>,
    /// UIDs of claims that were let go before their instance had ended.
    pub(super) let_go_too_early: BTreeSet<String>,
    moments: usize,
}

pub(super) fn at(seconds: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
}

pub(super) fn offering(instance_type: &str, capacity_type: CapacityType) -> Offering {
    let (instance_type, zone) = (instance_type.to_owned(), "eu-west-1a".to_owned());
    Offering { instance_type, zone, capacity_type, reservation: None }
}

/// Returns the selection of one offering.
pub(super) fn only(instance_type: &str, capacity_type: CapacityType) -> Meant {
    Meant { instance_type: Some(instance_type.to_owned()), capacity_type: Some(capacity_type), zone: None }
}

// === impl Story ===

impl Default for Story {
    fn default() -> Self {
        Self {
            habits: Habits::default(),
            has_gpu: true,
            budget: None,
            has_stuck_pod: false,
            has_hold: false,
            dies: None,
            grace: None,
            expire_after: Lifetime::Never,
            deeds: Vec::new(),
        }
    }
}

impl Story {
    /// Returns the usual story, with these deeds.
    pub(super) fn of(deeds: impl Into<Vec<(u64, Deed)>>) -> Self {
        Self { deeds: deeds.into(), ..Self::default() }
    }

    /// Returns the story of machines that never join.
    pub(super) fn without_nodes(deeds: impl Into<Vec<(u64, Deed)>>) -> Self {
        Self { habits: Habits { join: NEVER, ..Habits::default() }, ..Self::of(deeds) }
    }
}

// === impl Life ===

impl Life {
    pub(super) fn new(story: Story) -> Self {
        let mut world = World::new(at(0), Dice::new(0), story.habits, muster_manifest::snapshot::Settings::default());
        world.write_log = Some(WriteLog::default());
        world.supply.set_default(objects::catalogue());
        if !story.has_gpu {
            let none = || [("nvidia.com/gpu".to_owned(), "0".to_owned())].into();
            world.cloud.allocatable = ["a", "b", "c"].map(|name| (name.to_owned(), none())).into();
        }
        for object in crate::tests::objects(objects::CLUSTER) {
            Author::default().start(&mut world.api, object, at(0)).unwrap();
        }
        let mut life = Self {
            world,
            controller: None,
            back_at: at(0),
            checks: Checks::default(),
            story: Rc::new(story.clone()),
            deeds: Vec::new(),
            wish: None,
            kills: BTreeSet::new(),
            filled: BTreeSet::new(),
            let_go_too_early: BTreeSet::new(),
            moments: 0,
        };
        if let Some(until) = story.budget {
            for object in crate::tests::objects(objects::BUDGET) {
                Author::default().start(&mut life.world.api, object, at(0)).unwrap();
            }
            life.plan([(until, Deed::DeleteBudget)]);
        }
        life.plan(story.deeds);
        life
    }

    /// Adds deeds; those of one moment are done in the order in which they are added.
    pub(super) fn plan(&mut self, deeds: impl IntoIterator<Item = (u64, Deed)>) {
        for (second, deed) in deeds {
            self.world.clock.at(at(second), Happening::Deed(self.deeds.len()));
            self.deeds.push(deed);
        }
    }

    /// Returns the life that goes on in `world`, a copy of this one's, with a controller that was killed at this moment
    /// and is back after `downtime`.
    pub(super) fn killed_in(&self, mut world: World, downtime: Duration) -> Self {
        world.downtime = downtime;
        Self {
            back_at: after(world.clock.now(), downtime),
            world,
            controller: None,
            checks: Checks::default(),
            story: Rc::clone(&self.story),
            deeds: self.deeds.clone(),
            wish: None,
            kills: self.kills.clone(),
            filled: self.filled.clone(),
            let_go_too_early: self.let_go_too_early.clone(),
            moments: 0,
        }
    }

    /// Lets everything happen until that second. The controller is started again whenever it is killed.
    pub(super) fn run(&mut self, until: u64) {
        self.settle();
        while self.proceed(until) {
            self.settle();
        }
    }

    /// Lets everything happen that follows now.
    pub(super) fn settle(&mut self) {
        let now = self.world.clock.now();
        self.fill_nodes();
        self.end_instances();
        // Each kill happens once, so this ends.
        while now >= self.back_at && !self.work() {
            self.controller = None;
            self.back_at = after(now, self.world.downtime);
        }
        // A controller that runs has seen what it has written.
        if self.controller.is_none() {
            self.world.settle().unwrap();
        }
        self.check();
    }

    /// Has the controller do what is due. Returns false if it was killed.
    fn work(&mut self) -> bool {
        let Self { world, controller, wish, kills, .. } = self;
        let controller = controller.get_or_insert_with(|| {
            world.settle().unwrap();
            world.fuse = kills.pop_first().map(|number| number.saturating_sub(world.writes));
            let choices = Choices {
                provision: muster_stages::provision::Settings::default(),
                disruption: muster_scheduling::disrupt::Settings::default(),
                policy: Policy::Muster,
            };
            Controller::start(choices, &world.settings, &world.api, world.clock.now())
        });
        let result = controller.tick(world).and_then(|()| match wish.take() {
            Some(wish) => controller.begin_wish(&wish, world),
            None => Ok(()),
        });
        match result {
            Ok(()) => true,
            Err(Stop::Killed) => false,
            Err(Stop::Failed(error)) => panic!("{error}\n{}", self.diary()),
        }
    }

    /// Lets happen what comes next. Returns false if nothing does until that second.
    pub(super) fn proceed(&mut self, until: u64) -> bool {
        let now = self.world.clock.now();
        let job = self.controller.as_ref().map_or(Some(self.back_at), Controller::next_job_at);
        let dies = self.story.dies.map(Duration::from_secs);
        let death = dies.and_then(|dies| self.alive().iter().map(|one| after(one.launched_at, dies)).min());
        let next = [self.world.clock.next(), job, death].into_iter().flatten().min();
        let Some(next) = next.map(|next| next.max(now)).filter(|next| *next <= at(until)) else { return false };
        self.moments += 1;
        assert!(self.moments < MOST_MOMENTS, "the controller does not come to rest\n{}", self.diary());
        for happening in self.world.clock.advance(next) {
            match happening {
                Happening::Deed(number) => self.act(self.deeds[number].clone()),
                happening => self.world.happen(happening),
            }
        }
        true
    }

    fn act(&mut self, deed: Deed) {
        let now = self.world.clock.now();
        let api = &mut self.world.api;
        match deed {
            Deed::Create(name) => api.create(objects::claim(name, &self.story), now).unwrap(),
            Deed::Delete(name) => {
                let _gone_already = api.delete::<NodeClaim>(&Kind::NodeClaim, &Path::bare(name), None, now);
            }
            Deed::DeleteNodes => {
                let paths: Vec<Path> = api.nodes.iter().map(|(path, _)| path.clone()).collect();
                paths.iter().for_each(|path| api.delete::<Node>(&Kind::Node, path, None, now).unwrap());
            }
            Deed::ChangeClass => self.change_other("EC2NodeClass", "default", |class| {
                class.data["spec"]["role"] = "other".into();
            }),
            Deed::ResetBreaker => self.change_other("EC2NodeClass", "default", |class| {
                annotate(&mut class.metadata, annotations::RESET_BREAKER, "true");
            }),
            Deed::Pause => self.change_other("Namespace", "karpenter", |namespace| {
                annotate(&mut namespace.metadata, annotations::PAUSE, "disruption");
            }),
            Deed::DoNotDisrupt(name) => self.change_claim(name, |claim| {
                annotate(&mut claim.metadata, annotations::DO_NOT_DISRUPT, "true");
            }),
            Deed::Reboot(name, grace) => self.change_claim(name, |claim| reboot(claim, grace, now)),
            Deed::JoinAfter(wait) => self.world.habits.join = wait,
            Deed::SellOut(meant) => self.world.run_out(meant, NEVER),
            Deed::DeleteBudget => {
                api.delete::<PodDisruptionBudget>(&Kind::Budget, &Path::new("shop", "web"), None, now).unwrap();
            }
            Deed::Begin(wish) => self.wish = Some(wish),
        }
    }

    fn change_claim(&mut self, name: &str, change: impl FnOnce(&mut NodeClaim)) {
        let _gone_already = self.world.api.update(&Kind::NodeClaim, &Path::bare(name), None, change);
    }

    fn change_other(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut DynamicObject)) {
        self.world.api.update(&Kind::Other(kind.to_owned()), &Path::bare(name), None, change).unwrap();
    }

    /// Gives each node its pods when it is initialized.
    fn fill_nodes(&mut self) {
        let takes_pods = |node: &&Node| {
            let is_initialized = node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::INITIALIZED));
            is_initialized && node.metadata.deletion_timestamp.is_none()
        };
        let names = self.world.api.nodes.values().filter(takes_pods).filter_map(|node| node.metadata.name.clone());
        for name in names.collect::<Vec<_>>() {
            if !self.filled.insert(name.clone()) {
                continue;
            }
            let id = self.world.provider_id(&name).unwrap();
            let claim = self.world.machines[&id].claim.clone();
            for object in objects::pods(&claim, &name, &self.story) {
                Author::default().start(&mut self.world.api, object, self.world.clock.now()).unwrap();
            }
        }
    }

    /// Ends the instances whose time has come.
    fn end_instances(&mut self) {
        let (Some(dies), now) = (self.story.dies.map(Duration::from_secs), self.world.clock.now()) else { return };
        for one in self.alive().iter().filter(|one| after(one.launched_at, dies) <= now) {
            let reason = "Client.InvalidKMSKey.InvalidState: the key is disabled";
            self.world.cloud.interrupt(&one.provider_id, reason, now);
            self.world.ending(&one.provider_id);
        }
    }

    fn check(&mut self) {
        let Self { world, controller, checks, .. } = self;
        invariants::check(world, world.write_log.as_ref().unwrap());
        checks.look(world, controller.as_mut()).unwrap();
        let broken = self.world.trace.entries().iter().find(|entry| matches!(entry.event, trace::Event::Broken { .. }));
        assert!(broken.is_none(), "{broken:?}\n{}", self.diary());
        let api = &self.world.api;
        let known: BTreeSet<&str> = api.claims.values().filter_map(|claim| claim.metadata.uid.as_deref()).collect();
        self.world.cloud.each(self.world.clock.now(), |instance, state| {
            let uid = instance.token.as_ref().map(|token| token.claim_uid.clone()).unwrap_or_default();
            if state != InstanceState::Terminated && !known.contains(uid.as_str()) {
                self.let_go_too_early.insert(uid);
            }
        });
    }
}

fn annotate(meta: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, key: &str, value: &str) {
    meta.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Requests a reboot as disruption does, if the node is one that may be rebooted.
fn reboot(claim: &mut NodeClaim, grace: Option<u64>, now: Timestamp) {
    if !is_true(claim, nodeclaim::INITIALIZED) || claim.metadata.deletion_timestamp.is_some() {
        return;
    }
    if let Some(grace) = grace {
        annotate(&mut claim.metadata, annotations::REBOOT_TERMINATION_GRACE_PERIOD, &format!("{grace}s"));
    }
    let reason = muster_api::conditions::reason::REBOOT_REQUESTED;
    let message = "rebooting for AcceleratedHardwareReady/XID48";
    let wanted = judged(nodeclaim::REBOOTING, Status::True, reason, message, None, now);
    set_condition(&mut claim.status.get_or_insert_default().conditions, wanted);
}
