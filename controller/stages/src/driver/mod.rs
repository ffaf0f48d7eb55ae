//! The loop of the controller without its input and output: which job is due, and in which order.
//!
//! ```text
//!   Changed ──► on ──┬─► WorkQueue: claims, pools, classes ───► Job::Reconcile       concurrent, one for each object
//!                    ├─► WorkQueue: commands, replacements ───► Job::Advance         concurrent, one for each command
//!                    ├─► Window ── due ───────────────────────► Job::DecidePods      one at a time,
//!   an order ────────┼────────────────────────────────────────► Job::CarryOutOrder   in turn with that
//!                    ├─► new Node, nomination written ────────► Job::Nominate
//!                    ├─► PassSchedule ── due ─────────────────► Job::DecideDisruption   one at a time
//!                    └─► every two minutes ───────────────────► Job::CollectGarbage
//!                                                                    │
//!   queues, times ◄── done ◄── Done: how it ended ◄── the caller ◄───┘
//! ```
//!
//! The caller applies each change to the [`Cluster`] and passes it to [`Driver::on`], does what [`Driver::next_job`]
//! returns until it returns nothing, reports the end of each job to [`Driver::done`], and comes back at
//! [`Driver::next`]. A job is begun when it is returned: until its end is reported, no other that excludes it is
//! returned. The same input gives the same jobs and, with the functions of [`claim`], [`command`] and
//! [`cluster_wide`], the same writes: a [`recording`] of a live loop can be replayed.

pub mod claim;
mod cloud_view;
pub mod cluster_wide;
pub mod command;
mod decision_order;
mod gates;
mod intake;
mod interrupted;
mod item;
mod job;
mod leader_state;
mod offers;
pub mod recording;
#[cfg(test)]
mod tests;
mod unhealthy;
mod work_queue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest::snapshot::RepairPolicy;

pub use self::cloud_view::{CloudView, Grown, judged, readiness};
use self::decision_order::{Turn, Waiting};
pub use self::gates::{Gate, Gates};
pub use self::interrupted::Interrupted;
pub use self::item::{CommandItem, Item};
pub use self::job::{Done, Job, PassEnd};
pub use self::leader_state::{LeaderState, Version};
pub use self::unhealthy::{DueRepairs, Unhealthy, tell_due_repairs};
pub use self::work_queue::Verdict;
use self::work_queue::WorkQueue;
use crate::disruption::{PassSchedule, Rest, Timing};
use crate::provision::{LaunchHold, Lengths, RETRY, Window};
use crate::state::Cluster;

/// Maximum number of concurrent reconciliations. Most of them wait for the API server, each on a connection of its own,
/// or for the cloud.
pub const AT_ONCE: usize = 48;
/// Delay of the next reconciliation after a write if no change is observed.
pub const LOST: Duration = Duration::from_secs(10);
/// Interval between rounds while a pod is unbound: Karpenter's value.
const AGAIN: Duration = Duration::from_secs(10);
/// Longest interval between rounds while a CapacityBuffer lacks room: refused capacity returns without a change.
const SHORT: Duration = Duration::from_secs(60);
/// Shortest interval between two decisions of which the first has asked for the second: a time that has come already
/// would keep the loop busy.
const APART: Duration = Duration::from_millis(10);

/// Choices of the operator that the loop depends on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Kind of the NodeClasses that the controller serves; `None` if it serves all kinds.
    pub class_kind: Option<&'static str>,
    /// Namespace with the annotation that pauses the whole cluster.
    pub namespace: Arc<str>,
    /// Durations of the window in which pods are gathered.
    pub window: Lengths,
    /// Timing of disruption.
    pub timing: Timing,
    /// True if nominations are written to pending pods.
    pub nominates: bool,
    /// Conditions of Nodes that are repaired; `None` if none are.
    pub repairs: Option<RepairPolicy>,
    /// True if room is kept for CapacityBuffers.
    pub keeps_buffers: bool,
    /// True if NodeOverlays have an effect.
    pub overlays: bool,
    /// True if NodePools with `replicas` get them.
    pub keeps_replicas: bool,
}

/// Decision about launches in progress. They run one at a time, so that concurrent ones do not exceed a limit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Launching {
    Idle,
    Running,
}

/// Decision about disruption in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disrupting {
    Idle,
    Deciding,
    /// Commands are being begun. They are not reconciled until that is done, because an incomplete command would be
    /// repaired.
    Beginning,
}

/// Nominations in progress. They are computed again while they are being written, but not written twice.
#[derive(Debug, Clone, Copy, Default)]
struct Nominating {
    at: Option<Timestamp>,
    is_computing: bool,
    is_writing: bool,
}

/// Order of jobs, see the module.
#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    /// Number of reconciliations in progress.
    open: usize,
    work_queue: WorkQueue<Item>,
    /// Objects of disruption: commands in progress, and taints without a command.
    commands: WorkQueue<CommandItem>,
    window: Window,
    decide_at: Option<Timestamp>,
    launching: Launching,
    pass_schedule: PassSchedule,
    disrupting: Disrupting,
    nominating: Nominating,
    /// Time of the next garbage collection; `None` while it is running.
    collect_at: Option<Timestamp>,
    /// True if the cluster has changed since the last decision about pods began.
    has_changed: bool,
    /// True if an order waits.
    has_order: bool,
    /// True if the last decision about launches was about an order: then pods take precedence.
    was_order: bool,
    /// Pods that were seen to wait, so that they alone do not open the window again.
    waiting: BTreeSet<Arc<str>>,
    /// NodePools whose launches were held after the last round.
    holds: BTreeMap<String, LaunchHold>,
}

// === impl Settings ===

impl Settings {
    /// Returns true if NodeClasses of this kind are served.
    pub(super) fn serves(&self, class_kind: &str) -> bool {
        self.class_kind.is_none_or(|served| served == class_kind)
    }
}

// === impl Driver ===

impl Driver {
    /// Creates the driver of a leader that has just begun: everything is reconciled, since it is not known what changed
    /// before.
    #[must_use]
    pub fn start(settings: Settings, cluster: &Cluster, state: &mut LeaderState, now: Timestamp) -> Self {
        let every = settings.timing.every;
        let mut driver = Self {
            settings,
            open: 0,
            work_queue: WorkQueue::default(),
            commands: WorkQueue::default(),
            window: Window::default(),
            decide_at: None,
            launching: Launching::Idle,
            // No nominations have been computed yet: a node that waits for its pods would seem empty.
            pass_schedule: PassSchedule::from(after(now, every)),
            disrupting: Disrupting::Idle,
            nominating: Nominating { at: Some(now), ..Nominating::default() },
            collect_at: Some(now),
            has_changed: false,
            has_order: false,
            was_order: false,
            waiting: BTreeSet::new(),
            holds: BTreeMap::new(),
        };
        driver.on_everything(cluster, state, now);
        driver
    }

    /// Returns a job to begin now; `None` if there is none before [`Driver::next`].
    pub fn next_job(&mut self, now: Timestamp) -> Option<Job> {
        if self.open < AT_ONCE {
            let late = overdue(self.work_queue.next(), now);
            if let Some(item) = self.work_queue.take(now) {
                self.open += 1;
                return Some(Job::Reconcile(item, late));
            }
            let late = overdue(self.commands.next(), now);
            if let Some(item) = self.commands_if_free().and_then(|commands| commands.take(now)) {
                self.open += 1;
                return Some(Job::Advance(item, late));
            }
        }
        if self.settings.nominates && !self.nominating.is_computing && is_due(self.nominating.at, now) {
            self.nominating = Nominating { at: None, is_computing: true, ..self.nominating };
            return Some(Job::Nominate { is_writing: self.nominating.is_writing });
        }
        match self.waiting_for_a_turn(now).next(self.was_order) {
            Some(Turn::Pods) => {
                self.window.close();
                self.decide_at = None;
                self.launching = Launching::Running;
                self.has_changed = false;
                self.was_order = false;
                return Some(Job::DecidePods);
            }
            Some(Turn::Order) => {
                self.launching = Launching::Running;
                self.has_order = false;
                self.was_order = true;
                return Some(Job::CarryOutOrder);
            }
            Some(Turn::Disruption) => {
                self.pass_schedule.ask(now);
                self.disrupting = Disrupting::Deciding;
                return Some(Job::DecideDisruption);
            }
            None => {}
        }
        if is_due(self.collect_at, now) {
            self.collect_at = None;
            return Some(Job::CollectGarbage);
        }
        None
    }

    /// Returns the time at which there is a job if nothing happens before. An order that waits is not counted.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        let (is_free, is_launching) = (self.open < AT_ONCE, self.launching == Launching::Running);
        [
            self.work_queue.next().filter(|_| is_free),
            self.commands.next().filter(|_| is_free && self.disrupting != Disrupting::Beginning),
            self.window.due(&self.settings.window).filter(|_| !is_launching),
            self.decide_at.filter(|_| !is_launching),
            self.nominating.at.filter(|_| self.settings.nominates && !self.nominating.is_computing),
            self.can_decide_disruption().then(|| self.pass_schedule.next()),
            self.collect_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns true if disruption may be decided now: pending pods take precedence, and decided commands are begun
    /// before the next decision.
    fn can_decide_disruption(&self) -> bool {
        self.disrupting == Disrupting::Idle && self.launching == Launching::Idle
    }

    /// Returns the decisions that could begin now. An order waits until the replacements of decided commands have been
    /// created.
    fn waiting_for_a_turn(&self, now: Timestamp) -> Waiting {
        let is_idle = self.launching == Launching::Idle;
        let is_due = self.window.is_due(&self.settings.window, now) || is_due(self.decide_at, now);
        Waiting {
            pods: is_due && is_idle,
            order: self.has_order && is_idle && self.disrupting != Disrupting::Beginning,
            disruption: self.can_decide_disruption() && self.pass_schedule.is_due(now),
        }
    }

    fn commands_if_free(&mut self) -> Option<&mut WorkQueue<CommandItem>> {
        (self.disrupting != Disrupting::Beginning).then_some(&mut self.commands)
    }

    /// Takes in the end of a job, with the state as the job has left it.
    pub fn done(&mut self, done: Done, cluster: &Cluster, state: &mut LeaderState, now: Timestamp) {
        match done {
            Done::Reconciled(item, verdict) => {
                self.open = self.open.saturating_sub(1);
                self.work_queue.close(&item, verdict, now);
                self.on_ready_classes(&std::mem::take(&mut state.ready_classes), cluster, now);
            }
            Done::Advanced(item, verdict) => {
                self.open = self.open.saturating_sub(1);
                self.commands.close(&item, verdict, now);
            }
            Done::DecidedPods { again } => {
                self.launching = Launching::Idle;
                self.forget_gone(cluster);
                let again = again.map(|again| again.max(after(now, APART)));
                self.decide_at = [again, self.decides_again(cluster, state, now)].into_iter().flatten().min();
                self.work_queue.want(Item::Buffers, now);
                self.note_holds(state, now);
                self.nominating.at = Some(now);
            }
            Done::CarriedOutOrder => self.launching = Launching::Idle,
            Done::DecidedDisruption(PassEnd { again, moments, is_open, rests, begins }) => {
                self.disrupting = if begins { Disrupting::Beginning } else { Disrupting::Idle };
                self.pass_schedule.answer(again, is_open, moments, now);
                self.note_rests(rests, state, now);
            }
            Done::BegunCommands { is_open } => {
                self.disrupting = Disrupting::Idle;
                if is_open {
                    self.pass_schedule.hurry();
                }
            }
            Done::Nominated { again, writes } => {
                self.nominating.is_computing = false;
                self.nominating.is_writing |= writes;
                let again = again.map(|again| again.max(after(now, APART)));
                self.nominating.at = [self.nominating.at, again].into_iter().flatten().min();
                // The claims whose Nodes have been released, each at the time at which its node opens.
                for (claim, moment) in state.gates.openings() {
                    self.work_queue.want(Item::Claim(claim.clone()), moment);
                }
            }
            Done::WroteNominations => {
                self.nominating.is_writing = false;
                self.nominating.at = Some(now);
            }
            Done::CollectedGarbage { concerned, is_news, again } => {
                self.collect_at = Some(again.max(after(now, APART)));
                // Nothing in the cluster says that an instance has changed.
                if is_news {
                    self.pass_schedule.stir();
                }
                for claim in concerned {
                    self.work_queue.want(Item::Claim(claim), now);
                }
            }
        }
    }

    /// Returns the time of the next round after one that has just ended. The room of a pod may be given to another pod,
    /// which causes no change. Pods that found no place in the cluster as it still is wait for a change.
    fn decides_again(&self, cluster: &Cluster, state: &LeaderState, now: Timestamp) -> Option<Timestamp> {
        let is_at_rest = !self.has_changed && state.plan.has_only_unplaced();
        if !is_at_rest && cluster.count_unbound() > 0 {
            return Some(after(now, AGAIN));
        }
        if !self.keeps_buffers(cluster) {
            return None;
        }
        // A change during the round may have taken the room of a buffer.
        let is_short = state.buffers.iter().any(|one| one.places.failed > 0);
        let wait = if self.has_changed { Some(RETRY) } else { is_short.then_some(SHORT) };
        wait.map(|wait| after(now, wait))
    }

    /// Has NodePools say whose consolidation rests, or rests no more.
    fn note_rests(&mut self, rests: BTreeMap<String, Rest>, state: &mut LeaderState, now: Timestamp) {
        let before = std::mem::replace(&mut state.rests, rests);
        for (pool, rest) in &state.rests {
            if before.get(pool) != Some(rest) {
                self.work_queue.want(Item::Pool(pool.clone()), now);
            }
        }
    }

    /// Has NodePools say that their launches are held, or are held no more.
    fn note_holds(&mut self, state: &LeaderState, now: Timestamp) {
        let holds = state.plan.holds().clone();
        let before = std::mem::replace(&mut self.holds, holds);
        let is_news = |pool: &&String| before.get(*pool) != self.holds.get(*pool);
        let changed: BTreeSet<&String> = before.keys().chain(self.holds.keys()).filter(is_news).collect();
        for pool in changed {
            self.work_queue.want(Item::Pool(pool.clone()), now);
        }
    }

    /// Returns the objects that are due and not being reconciled.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &Item> {
        self.work_queue.due(now)
    }

    /// Returns the number of objects of disruption that are due and not being reconciled.
    #[must_use]
    pub fn count_due_commands(&self, now: Timestamp) -> usize {
        self.commands.due(now).count()
    }
}

fn is_due(moment: Option<Timestamp>, now: Timestamp) -> bool {
    moment.is_some_and(|moment| moment <= now)
}

/// Returns the time since an object was due.
fn overdue(due: Option<Timestamp>, now: Timestamp) -> Duration {
    due.and_then(|due| Duration::try_from(now.duration_since(due)).ok()).unwrap_or_default()
}
