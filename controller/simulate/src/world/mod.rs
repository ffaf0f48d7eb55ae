//! World around the controller: API server, scheduler, workload controllers, kubelets, and the cloud with its failures.
//!
//! ```text
//!   script ──► deeds ─┐                               ┌──► workloads: create and delete pods
//!   clock ──► happenings ──► Api (objects, log) ──► react ──► scheduler: bind pods, create daemons
//!   Memory (instances) ┘        ▲                     ├──► kubelet: start and end pods, attach volumes
//!                               │                     └──► machines: join and leave
//!                          the controller
//! ```
//!
//! Everything that takes time is a queued event on the clock; everything else follows immediately, until nothing
//! changes.

mod admission;
mod cloud;
mod kubelet;
mod machines;
mod node_faults;
mod scheduler;
mod volumes;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::core::DynamicObject;
use muster_cloud::{LaunchToken, Memory};
use muster_manifest::InputError;
use muster_manifest::snapshot::Settings;

pub(crate) use self::admission::admit;
pub(crate) use self::cloud::Meant;
#[cfg(test)]
pub(crate) use self::kubelet::STUCK;
pub(crate) use self::machines::Machine;
pub(crate) use self::node_faults::ReportedFault;
pub(crate) use self::scheduler::is_waiting;
pub(crate) use self::volumes::make_ephemeral;
pub(crate) use self::workloads::WORKLOADS;
use super::api::{Api, Key, Kind, Path};
use super::clock::Clock;
use super::dice::Dice;
use super::supply::Supply;
use super::trace::{Event, Trace};

/// Durations of simulated processes; each is varied from 70 % to 130 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Habits {
    /// Time from a running instance to its Node.
    pub(crate) join: Duration,
    /// Time from the Node to Ready.
    pub(crate) ready: Duration,
    /// Time from Ready to the removal of a startup taint.
    pub(crate) startup_taint: Duration,
    /// Time from binding to running, for images and containers.
    pub(crate) pod_start: Duration,
    /// Time from the deletion of a pod to its end, unless its grace period is shorter.
    pub(crate) pod_end: Duration,
    /// Time from the end of a pod to the detachment of its volumes.
    pub(crate) detach: Duration,
    /// Run time of a Job's pod.
    pub(crate) job: Duration,
}

/// Queued event.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// An event of the script, by index.
    Deed(usize),
    /// The machine with this provider ID joins as a Node.
    Joins(String),
    /// A Node becomes ready.
    Ready(String),
    /// A startup taint is removed from a Node.
    StartupTaintGoes(String, String),
    /// A pod, by path and UID, starts running.
    PodStarts(Path, String),
    /// A pod of a Job, by path and UID, completes.
    PodSucceeds(Path, String),
    /// A pod that is being deleted, by path, UID and Node, ends.
    PodEnds(Path, String, String),
    /// Unused volumes are detached.
    Detach,
    /// A spot instance is interrupted.
    TakenBack(String),
    /// The machine with this provider ID is back after a reboot.
    Boots(String),
    /// The node controller marks a Node as unreachable.
    GivenUp(String),
    /// The pods of an unreachable Node are evicted.
    PatienceEnds(String),
    /// The remaining pods of a removed Node are removed.
    PodsOfLostNode(String),
    /// A CronJob runs.
    Cron(Path, u64),
}

/// Next run of a CronJob.
#[derive(Debug, Clone, Copy, Default)]
struct CronPlan {
    /// Number of the run, which is unique.
    number: u64,
    /// Scheduled time; none if it is not queued.
    at: Option<Timestamp>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) cloud: Memory,
    pub(crate) clock: Clock<Happening>,
    pub(crate) dice: Dice,
    pub(crate) habits: Habits,
    pub(crate) supply: Supply,
    pub(crate) trace: Trace,
    /// Run times of Jobs that the script specifies.
    pub(crate) runs: BTreeMap<Path, Duration>,
    pub(crate) settings: Settings,
    pub(crate) machines: BTreeMap<String, Machine>,
    /// Announced interruptions that the controller has not handled: provider ID and time.
    pub(crate) notices: VecDeque<(String, Timestamp)>,
    /// Number of writes by the controller so far.
    pub(crate) writes: u64,
    /// Number of further writes after which the controller is killed.
    pub(crate) fuse: Option<u64>,
    /// Downtime of the controller after that.
    pub(crate) downtime: Duration,
    /// Start time of the world.
    pub(crate) born_at: Timestamp,
    /// Console output of machines whose agent reports nothing.
    #[cfg(test)]
    pub(crate) console: Option<String>,
    /// Record of the controller's writes; none if it is not kept.
    #[cfg(test)]
    pub(crate) write_log: Option<super::tests::WriteLog>,
    workloads: workloads::Workloads,
    scheduler: scheduler::Scheduler,
    shortages: Vec<cloud::Shortage>,
    /// Durations for which the preferred offerings of the next launches are refused.
    snubs: cloud::Queue<Duration>,
    /// Verdict codes for which the machines of the next launches do not join.
    misfits: cloud::Queue<&'static str>,
    /// Number of images published so far.
    images: u64,
    /// Tokens of earlier launches.
    asked: BTreeSet<LaunchToken>,
    /// Instances whose interruption was announced.
    noticed: BTreeSet<String>,
    /// Pods, by UID, that their kubelets have started to run.
    started: BTreeSet<String>,
    /// Pods, by UID, that their kubelets terminate, and their deadlines.
    ending: BTreeMap<String, Timestamp>,
    /// Nodes that existed at the last step.
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
    /// Creates an empty world that starts at `start`.
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
            #[cfg(test)]
            console: None,
            #[cfg(test)]
            write_log: None,
            workloads: workloads::Workloads::default(),
            scheduler: scheduler::Scheduler::default(),
            shortages: Vec::new(),
            snubs: cloud::Queue::default(),
            misfits: cloud::Queue::default(),
            images: 0,
            asked: BTreeSet::new(),
            noticed: BTreeSet::new(),
            started: BTreeSet::new(),
            ending: BTreeMap::new(),
            known_nodes: BTreeSet::new(),
            crons: BTreeMap::new(),
        }
    }

    /// Executes a queued event, other than one of the script.
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
            Happening::Boots(id) => self.boot(&id),
            Happening::GivenUp(node) => self.give_up(&node),
            Happening::PatienceEnds(node) => self.end_pods_of(&node),
            Happening::PodsOfLostNode(node) => self.remove_orphans(&node),
            Happening::Cron(path, number) => self.run_cron(&path, number),
            Happening::Deed(_) => {}
        }
    }

    /// Lets all components react until nothing changes. Returns the changed objects.
    ///
    /// # Errors
    /// Fails if an object is invalid.
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
            // Changes of nodes and claims do not concern the workload controllers.
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

    /// Queues the next run of a CronJob, unless it is queued already.
    fn plan_cron(&mut self, path: &Path) {
        let next = self.next_run(path);
        let plan = self.crons.entry(path.clone()).or_default();
        if plan.at == next {
            return;
        }
        // The number changes, so that the run queued for the previous time is ignored.
        plan.number += u64::from(plan.at.is_some());
        plan.at = next;
        if let Some(next) = next {
            self.clock.at(next, Happening::Cron(path.clone(), plan.number));
        }
    }

    /// Returns the time of the next run of a CronJob; none if it is gone or suspended.
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
        let cron_job = self.api.others.get("CronJob").and_then(|store| store.get(path));
        if let Some(job) = cron_job.and_then(|cron_job| workloads::job_of(cron_job, number)) {
            let _there_already = self.api.create::<DynamicObject>(job, now);
        }
        self.plan_cron(path);
    }
}
