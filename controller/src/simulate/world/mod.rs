//! Everything around the controller: API server, scheduler, workload controllers, kubelets, the cloud and its moods.
//!
//! ```text
//!   script ──► deeds ─┐                               ┌──► workloads: pods come and go
//!   clock ──► happenings ──► Api (objects, log) ──► react ──► scheduler: pods get nodes, nodes get daemons
//!   Memory (instances) ┘        ▲                     ├──► kubelet: pods start and end, volumes follow
//!                               │                     └──► machines: instances become nodes, and go
//!                          the controller
//! ```
//!
//! Everything that takes time is a happening on the clock; everything else follows at once, until nothing changes any more.

mod admission;
mod cloud;
mod kubelet;
mod machines;
mod scheduler;
mod volumes;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::core::DynamicObject;
use muster_cloud::{LaunchToken, Memory};

pub(crate) use self::cloud::Meant;
pub(crate) use self::machines::Machine;
pub(crate) use self::scheduler::is_waiting;
pub(crate) use self::workloads::WORKLOADS;
use super::api::{Api, Key, Kind, Path};
use super::clock::Clock;
use super::dice::Dice;
use super::supply::Supply;
use super::trace::{Event, Trace};
use crate::manifest::InputError;
use crate::snapshot::Settings;

/// How long things take; each time, 70 to 130 hundredths of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Habits {
    /// From a running instance to its Node.
    pub(crate) join: Duration,
    /// From the Node to Ready.
    pub(crate) ready: Duration,
    /// From Ready until a startup taint is taken off.
    pub(crate) startup_taint: Duration,
    /// From bound to running: images and containers.
    pub(crate) pod_start: Duration,
    /// From the deletion of a pod until it has ended, if its grace period is not shorter.
    pub(crate) pod_end: Duration,
    /// From the end of its pod until a volume is detached.
    pub(crate) detach: Duration,
    /// How long a pod of a Job runs.
    pub(crate) job: Duration,
}

/// What happens at a moment.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// The next deed of the script.
    Deed(usize),
    /// The machine with this provider ID becomes a Node.
    Joins(String),
    /// A Node is ready.
    Ready(String),
    /// A startup taint is taken off a Node.
    StartupTaintGoes(String, String),
    /// A pod runs, by its UID.
    PodStarts(Path, String),
    /// A pod of a Job has done its work.
    PodSucceeds(Path, String),
    /// A pod that is being deleted has ended, on a Node.
    PodEnds(Path, String, String),
    /// Volumes that nobody uses leave.
    Detach,
    /// A spot instance is taken back.
    TakenBack(String),
    /// The node controller gives up a Node.
    GivenUp(String),
    /// Pods give up a Node that is out of reach.
    PatienceEnds(String),
    /// What is left of the pods of a Node that is gone is removed.
    PodsOfLostNode(String),
    /// A CronJob runs.
    Cron(Path, u64),
}

/// The next run of a CronJob.
#[derive(Debug, Clone, Copy, Default)]
struct CronPlan {
    /// Its number, of which there is never a second.
    number: u64,
    /// Its moment; none if it is not noted.
    at: Option<Timestamp>,
}

/// See the module.
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) cloud: Memory,
    pub(crate) clock: Clock<Happening>,
    pub(crate) dice: Dice,
    pub(crate) habits: Habits,
    pub(crate) supply: Supply,
    pub(crate) trace: Trace,
    /// How long the pods of Jobs run, where somebody has said so.
    pub(crate) runs: BTreeMap<Path, Duration>,
    pub(crate) settings: Settings,
    pub(crate) machines: BTreeMap<String, Machine>,
    /// What the cloud has announced and nobody has heeded: provider ID, and when.
    pub(crate) notices: VecDeque<(String, Timestamp)>,
    /// Writes of the controller so far.
    pub(crate) writes: u64,
    /// After so many more writes the controller stops.
    pub(crate) fuse: Option<u64>,
    /// How long it is away then.
    pub(crate) downtime: Duration,
    /// When the world began.
    pub(crate) born_at: Timestamp,
    workloads: workloads::Workloads,
    scheduler: scheduler::Scheduler,
    shortages: Vec<cloud::Shortage>,
    /// For how long the next launches are refused what they would have got.
    snubs: cloud::Queue<Duration>,
    /// Why the machines of the next launches do not join.
    misfits: cloud::Queue<&'static str>,
    /// Tokens that were asked for.
    asked: BTreeSet<LaunchToken>,
    /// Instances that were told that they are taken back.
    noticed: BTreeSet<String>,
    /// Pods, by UID, that their kubelets have begun to start.
    started: BTreeSet<String>,
    /// Pods, by UID, that their kubelets end, and when they must have ended.
    ending: BTreeMap<String, Timestamp>,
    /// Nodes that there were at the last look.
    known_nodes: BTreeSet<String>,
    crons: BTreeMap<Path, CronPlan>,
}

// === impl Habits ===

impl Default for Habits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            join: seconds(22),
            ready: seconds(9),
            startup_taint: seconds(8),
            pod_start: seconds(5),
            pod_end: seconds(4),
            detach: seconds(6),
            job: seconds(1800),
        }
    }
}

// === impl World ===

impl World {
    /// An empty world at that moment.
    pub(crate) fn new(start: Timestamp, dice: Dice, habits: Habits, settings: Settings) -> Self {
        Self {
            api: Api::default(),
            cloud: Memory::default(),
            clock: Clock::new(start),
            dice,
            habits,
            supply: Supply::default(),
            trace: Trace::default(),
            runs: BTreeMap::new(),
            settings,
            machines: BTreeMap::new(),
            notices: VecDeque::new(),
            writes: 0,
            fuse: None,
            downtime: Duration::from_secs(20),
            born_at: start,
            workloads: workloads::Workloads::default(),
            scheduler: scheduler::Scheduler::default(),
            shortages: Vec::new(),
            snubs: cloud::Queue::default(),
            misfits: cloud::Queue::default(),
            asked: BTreeSet::new(),
            noticed: BTreeSet::new(),
            started: BTreeSet::new(),
            ending: BTreeMap::new(),
            known_nodes: BTreeSet::new(),
            crons: BTreeMap::new(),
        }
    }

    /// Lets something happen, all but what the script and the controller do.
    pub(crate) fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Joins(id) => self.join(&id),
            Happening::Ready(node) => self.become_ready(&node),
            Happening::StartupTaintGoes(node, key) => self.take_off(&node, &key),
            Happening::PodStarts(path, uid) => self.start(&path, &uid),
            Happening::PodSucceeds(path, uid) => self.succeed(&path, &uid),
            Happening::PodEnds(path, uid, node) => self.end(&path, &uid, &node),
            Happening::Detach => self.detach(),
            Happening::TakenBack(id) => self.take_back(&id),
            Happening::GivenUp(node) => self.give_up(&node),
            Happening::PatienceEnds(node) => self.end_pods_of(&node),
            Happening::PodsOfLostNode(node) => self.remove_orphans(&node),
            Happening::Cron(path, number) => self.run_cron(&path, number),
            Happening::Deed(_) => {}
        }
    }

    /// Lets everything that follows at once follow, until nothing changes any more. What has changed, for the controller.
    ///
    /// # Errors
    /// An object that makes no sense.
    pub(crate) fn settle(&mut self) -> Result<Vec<Key>, InputError> {
        let now = self.clock.now();
        let mut changed = Vec::new();
        while self.api.has_news() {
            self.api.collect_orphans(now);
            let news = self.api.take_log();
            for key in &news {
                self.scheduler.see(&self.api, key);
                match &key.kind {
                    Kind::Pod => self.notice(&key.path),
                    Kind::Node => self.notice_node(&key.path.name),
                    Kind::Other(kind) if kind == "CronJob" => self.plan_cron(&key.path),
                    _ => {}
                }
            }
            // What happens to nodes and claims is nothing to those who look after pods.
            let is_about_pods = news.iter().any(|key| matches!(key.kind, Kind::Pod | Kind::Budget | Kind::Other(_)));
            changed.extend(news);
            if is_about_pods {
                for (workload, pods) in self.workloads.keep(&mut self.api, now) {
                    self.trace.add(now, Event::PodsCame { workload, pods });
                }
                self.api.judge_budgets();
            }
            let bound = self.scheduler.tick(&mut self.api, &self.settings, now)?;
            if bound > 0 {
                self.trace.add(now, Event::Bound { pods: bound });
            }
        }
        Ok(changed)
    }

    fn notice_node(&mut self, name: &str) {
        if self.api.nodes.get(&Path::bare(name)).is_some() {
            self.known_nodes.insert(name.to_owned());
        } else if self.known_nodes.remove(name) {
            self.node_has_gone(name);
        }
    }

    fn detach(&mut self) {
        for path in volumes::idle(&self.api) {
            let now = self.clock.now();
            let _gone_already = self.api.delete::<VolumeAttachment>(&Kind::Attachment, &path, None, now);
        }
    }

    /// Notes when a CronJob runs next, if that is not noted yet.
    fn plan_cron(&mut self, path: &Path) {
        let next = self.next_run(path);
        let plan = self.crons.entry(path.clone()).or_default();
        if plan.at == next {
            return;
        }
        // What was noted for the moment before is of another number, and does not come about.
        plan.number += u64::from(plan.at.is_some());
        plan.at = next;
        if let Some(next) = next {
            self.clock.at(next, Happening::Cron(path.clone(), plan.number));
        }
    }

    /// When a CronJob runs next; nothing if it is gone, or suspended.
    fn next_run(&self, path: &Path) -> Option<Timestamp> {
        let spec = self.api.others.get("CronJob")?.get(path)?.data.get("spec")?;
        if spec.get("suspend").and_then(serde_json::Value::as_bool).unwrap_or(false) {
            return None;
        }
        let schedule: croner::Cron = spec.get("schedule")?.as_str()?.parse().ok()?;
        let now = self.clock.now().to_zoned(jiff::tz::TimeZone::UTC);
        schedule.find_next_occurrence(&now, false).ok().map(|next| next.timestamp())
    }

    fn run_cron(&mut self, path: &Path, number: u64) {
        let now = self.clock.now();
        let Some(plan) = self.crons.get_mut(path).filter(|plan| plan.number == number) else { return };
        plan.at = None;
        plan.number += 1;
        let cron_job = self.api.others.get("CronJob").and_then(|shelf| shelf.get(path));
        if let Some(job) = cron_job.and_then(|cron_job| workloads::job_of(cron_job, number)) {
            let _there_already = self.api.create::<DynamicObject>(job, now);
        }
        self.plan_cron(path);
    }
}
