//! The leader's event loop: one task that receives changes and starts reconciliations.
//!
//! ```text
//!   ClusterCache::changed ─┬─► WorkQueue: claims, classes ──► reconciliations, concurrent, one for each object
//!                          ├─► Window ── due ──► round: decide (on a thread of its own), create      one at a time
//!   Orders ────────────────┼─► one in turn with that: decide, write, answer
//!                          ├─► new Node, nomination written ──► nominate                             concurrent
//!                          ├─► PassSchedule ── due ──► plan_disruption (likewise), open              one at a time
//!                          └─► commands: candidates and replacements ──► reconciliations, one for each command
//!   ShiftWatch ──────────────► pods and nodes are decided anew, NodePools are told
//!   freed reservations ──────► pods are decided anew
//!   every two minutes ───────► tidy
//! ```
//!
//! A slow launch is one long reconciliation and does not block others. Dropping the future aborts all tasks. `intake`
//! maps changes to reconciliations, `decisions` starts what is decided about more than one object, and `telling` writes
//! what is for people and metrics.

mod decision_order;
mod decisions;
mod intake;
mod telling;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_stages::disruption::{DisruptionPlanner, PassSchedule};
use muster_stages::notices::ToldShifts;
use muster_stages::provision::{LaunchHold, Window};
use muster_stages::step::Step;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use self::decision_order::Turn;
use self::telling::{Audience, controller_of};
use super::context::LeaderContext;
use super::metrics::{Controller, Ended};
use super::orders::Ordered;
use super::work_queue::{Verdict, WorkQueue};
use super::zonal_shifts::ShiftWatch;
use super::{buffers, disruption, garbage, interruption, now, overlays, reconcile, static_capacity};
use crate::facts::ClaimFacts;
use crate::provider::Provider;

/// Maximum number of concurrent reconciliations. Most of them wait for the API server, each on a connection of its own,
/// or for the cloud.
const AT_ONCE: usize = 48;
/// Interval between rounds while a pod is unbound: Karpenter's value.
const AGAIN: Duration = Duration::from_secs(10);
/// Longest wait between two checks of the clock.
const IDLE: Duration = Duration::from_secs(60);

/// An object to be reconciled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Claim(String),
    Pool(String),
    Class(String),
    /// All NodeOverlays.
    Overlays,
    /// All CapacityBuffers.
    Buffers,
}

/// Result of a task.
enum Done {
    Reconciled(Item, Verdict),
    /// A reconciliation of a disruption command or stale taint.
    Advanced(disruption::Item, Verdict),
    /// A decision about disruption.
    PlannedDisruption(Box<disruption::PlannedDisruption>),
    /// The commands have been begun. True if one that cannot wait has to be decided again.
    Opened(bool),
    /// The conditions that a decision about disruption gives to claims have been written.
    ClaimsTold,
    /// A round has ended: events to publish, and the time of the next round if nothing changes.
    Decided(Step),
    /// An order has been decided, executed and answered.
    Ordered,
    /// Nominations to write.
    Nominated(Step),
    /// Events or nominations have been written.
    EventsWritten(Audience),
    Tidied(garbage::Tidied),
}

struct Leader<P> {
    context: Arc<LeaderContext<P>>,
    work_queue: WorkQueue<Item>,
    window: Window,
    tasks: JoinSet<Done>,
    open: usize,
    /// Objects of disruption: commands in progress, and taints without a command.
    commands: WorkQueue<disruption::Item>,
    pass_schedule: PassSchedule,
    planner: DisruptionPlanner,
    /// True once the cloud has listed its instance types: only then is it known which are gone.
    has_all_types: bool,
    /// NodePools whose launches were held after the last round.
    holds: BTreeMap<String, LaunchHold>,
    shifts: ShiftWatch,
    /// `None` if the cloud has no reservations.
    freed: Option<watch::Receiver<u64>>,
    told_shifts: ToldShifts,
    is_planning_disruption: bool,
    /// True while the conditions of the last such decision are being written.
    is_telling_claims: bool,
    /// True while commands are being begun. They are not reconciled until that is done, because an incomplete command
    /// would be repaired.
    is_opening: bool,
    /// True while launches are being decided, for pods or for an order: one at a time, so that concurrent decisions do
    /// not exceed a limit together.
    is_planning: bool,
    /// True if the cluster has changed since the last decision about pods began.
    has_changed: bool,
    /// The next order.
    order: Option<Ordered>,
    /// True if the last such decision was about an order: then pods take precedence.
    was_order: bool,
    /// True while nominations are being computed.
    is_nominating: bool,
    /// True while nominations are being written, so that they are not written twice.
    is_telling: bool,
    decide_at: Option<Timestamp>,
    nominate_at: Option<Timestamp>,
    /// `None` while garbage collection is running.
    tidy_at: Option<Timestamp>,
    /// Pods in the last round, so that they alone do not open the window again.
    waiting: BTreeSet<Arc<str>>,
    /// Time at which the metrics were last told of the queues.
    told_at: Option<Timestamp>,
}

/// Leads until it is dropped, or until a task panics.
pub(super) async fn lead<P: Provider>(
    context: Arc<LeaderContext<P>>,
    facts: Arc<ClaimFacts>,
    orders: &mut mpsc::Receiver<Ordered>,
) -> JoinError {
    context.cluster_cache.synced().await;
    context.provider.catch_up().await;
    // Everything is reconciled anyway; pod events before this time are not recorded.
    drop(context.cluster_cache.take_changed());
    reconcile::learn_from_all(&context);
    let (begun, timing) = (now(), context.settings.timing);
    let mut leader = Leader {
        shifts: ShiftWatch::of(&context.provider),
        freed: context.provider.freed_reservations(),
        told_shifts: ToldShifts::default(),
        context,
        commands: WorkQueue::default(),
        // A new leader has not computed nominations yet: a node that waits for its pods would seem empty.
        pass_schedule: PassSchedule::from(after(begun, timing.every)),
        planner: DisruptionPlanner::at(timing),
        has_all_types: false,
        holds: BTreeMap::new(),
        is_planning_disruption: false,
        is_telling_claims: false,
        is_opening: false,
        work_queue: WorkQueue::default(),
        window: Window::default(),
        tasks: JoinSet::new(),
        open: 0,
        is_planning: false,
        has_changed: false,
        order: None,
        was_order: false,
        is_nominating: false,
        is_telling: false,
        decide_at: None,
        nominate_at: None,
        tidy_at: Some(begun),
        waiting: BTreeSet::new(),
        told_at: None,
    };
    leader.context.metrics.workers(AT_ONCE);
    leader.look_at_everything();
    let provider = leader.context.provider.clone();
    let polled = interruption::poll(Arc::clone(&leader.context), facts);
    tokio::select! {
        broken = leader.run(orders) => broken,
        never = provider.keep_up() => match never {},
        never = polled => match never {},
    }
}

/// Completes when instances of a reservation have become available.
async fn is_freed(freed: &mut Option<watch::Receiver<u64>>) {
    let Some(freed) = freed else { return pending().await };
    if freed.changed().await.is_err() {
        pending().await
    }
}

/// Returns the time since an object was due.
fn late(due: Option<Timestamp>, now: Timestamp) -> Duration {
    due.and_then(|due| Duration::try_from(now.duration_since(due)).ok()).unwrap_or_default()
}

/// Returns the outcome of a reconciliation for metrics. A conflict is not a failure: the object is decided again.
const fn ended(verdict: Verdict) -> Ended {
    match verdict {
        Verdict::Rest(None) => Ended::Success,
        Verdict::Rest(Some(_)) | Verdict::RestUntil(_) => Ended::Later,
        Verdict::Again | Verdict::Conflicted => Ended::Again,
        Verdict::Failed => Ended::Failed,
    }
}

// === impl Leader ===

impl<P: Provider> Leader<P> {
    async fn run(&mut self, orders: &mut mpsc::Receiver<Ordered>) -> JoinError {
        let cluster_cache = self.context.cluster_cache.clone();
        loop {
            self.hand_out();
            let wait = self
                .next_moment()
                .map_or(IDLE, |moment| Duration::try_from(moment.duration_since(now())).unwrap_or_default().min(IDLE));
            tokio::select! {
                changed = cluster_cache.changed() => self.take_in(&changed),
                Some(done) = self.tasks.join_next() => match done {
                    Ok(done) => self.conclude(done),
                    Err(broken) => return broken,
                },
                Some(order) = orders.recv(), if self.order.is_none() => self.order = Some(order),
                () = self.shifts.heard() => {}
                () = is_freed(&mut self.freed) => self.take_in_freed(now()),
                () = sleep(wait) => {}
            }
        }
    }

    fn conclude(&mut self, done: Done) {
        let now = now();
        match done {
            Done::Reconciled(item, verdict) => {
                self.open = self.open.saturating_sub(1);
                self.work_queue.close(&item, verdict, now);
                self.look_at_claims_of_ready_classes();
            }
            Done::Advanced(item, verdict) => {
                self.open = self.open.saturating_sub(1);
                self.commands.close(&item, verdict, now);
            }
            Done::PlannedDisruption(decided) => {
                let disruption::PlannedDisruption {
                    planner,
                    command_starts,
                    deletion_costs,
                    again,
                    moments,
                    notices,
                    told,
                } = *decided;
                self.is_planning_disruption = false;
                self.planner = planner;
                let is_open = self.planner.is_open();
                self.pass_schedule.answer(again, is_open, moments, now);
                self.note_rests(now);
                self.begin(command_starts);
                self.tell_claims(told);
                self.tell(Step::act(deletion_costs), Audience::People);
                self.tell(notices, Audience::People);
            }
            Done::Opened(is_open) => {
                self.is_opening = false;
                if is_open {
                    self.pass_schedule.hurry();
                }
            }
            Done::ClaimsTold => self.is_telling_claims = false,
            Done::Decided(step) => {
                self.is_planning = false;
                // The room of a pod may be given to another pod, which causes no change. Pods that found no place in
                // the cluster as it still is wait for a change.
                let is_at_rest = !self.has_changed && self.context.leader_state().plan.has_only_unplaced();
                let waits = {
                    let cluster = self.context.cluster_cache.read();
                    !is_at_rest && cluster.count_unbound() > 0 || buffers::are_kept(&self.context, &cluster)
                };
                self.work_queue.want(Item::Buffers, now);
                self.note_holds(now);
                self.decide_at = [step.again, waits.then(|| after(now, AGAIN))].into_iter().flatten().min();
                self.nominate_at = Some(now);
                self.tell(step, Audience::People);
            }
            Done::Ordered => self.is_planning = false,
            Done::Nominated(step) => {
                self.is_nominating = false;
                self.nominate_at = [self.nominate_at, step.again].into_iter().flatten().min();
                self.open_gates();
                self.is_telling |= !step.writes.is_empty();
                self.tell(step, Audience::Pods);
            }
            Done::EventsWritten(Audience::People) => {}
            Done::EventsWritten(Audience::Pods) => {
                self.is_telling = false;
                self.nominate_at = Some(now);
            }
            Done::Tidied(tidied) => {
                self.tidy_at = Some(tidied.again);
                // Nothing in the cluster says that an instance has changed.
                if tidied.is_news {
                    self.pass_schedule.stir();
                }
                for claim in tidied.concerned {
                    self.work_queue.want(Item::Claim(claim), now);
                }
            }
        }
    }

    /// Schedules the claims whose Nodes have been released, each at the time at which its node opens.
    fn open_gates(&mut self) {
        let context = Arc::clone(&self.context);
        for (claim, moment) in context.leader_state().gates.openings() {
            self.work_queue.want(Item::Claim(claim.clone()), moment);
        }
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let is_free = self.open < AT_ONCE;
        [
            self.work_queue.next().filter(|_| is_free),
            self.commands.next().filter(|_| is_free && !self.is_opening),
            self.window.due(&self.context.settings.window).filter(|_| !self.is_planning),
            self.decide_at.filter(|_| !self.is_planning),
            self.nominate_at.filter(|_| !self.is_nominating),
            self.can_plan_disruption().then(|| self.pass_schedule.next()),
            self.tidy_at,
            self.shifts.next_end(now()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Starts all tasks that are due.
    fn hand_out(&mut self) {
        let now = now();
        if !self.has_all_types && self.context.provider.has_all_types() {
            self.has_all_types = true;
            self.pass_schedule.stir();
        }
        self.take_in_shifts(now);
        self.tell_queues(now);
        while self.open < AT_ONCE {
            let late = late(self.work_queue.next(), now);
            let Some(item) = self.work_queue.take(now) else { break };
            self.open += 1;
            let context = Arc::clone(&self.context);
            self.tasks.spawn(async move {
                let work = context.metrics.work(controller_of(&item)).taken(late);
                let verdict = match &item {
                    Item::Claim(name) => reconcile::claim(&context, name).await,
                    Item::Pool(name) => {
                        let again = static_capacity::shrink(&context, name).await;
                        reconcile::pool(&context, name).await.or_sooner(again)
                    }
                    Item::Class(name) => reconcile::class(&context, name).await,
                    Item::Overlays => overlays::reconcile(&context).await,
                    Item::Buffers => buffers::reconcile(&context).await,
                };
                work.end(ended(verdict));
                Done::Reconciled(item, verdict)
            });
        }
        while self.open < AT_ONCE && !self.is_opening {
            let late = late(self.commands.next(), now);
            let Some(item) = self.commands.take(now) else { break };
            self.open += 1;
            let context = Arc::clone(&self.context);
            self.tasks.spawn(async move {
                let work = context.metrics.work(Controller::Commands).taken(late);
                let verdict = disruption::reconcile(&context, &item).await;
                work.end(ended(verdict));
                Done::Advanced(item, verdict)
            });
        }
        self.nominate(now);
        while let Some(turn) = self.waiting_for_a_turn(now).next(self.was_order) {
            match turn {
                Turn::Pods => self.plan(),
                Turn::Order => self.carry_out_order(),
                Turn::DisruptionPlanner => self.plan_disruption(),
            }
        }
        if self.tidy_at.is_some_and(|moment| moment <= now) {
            self.tidy_at = None;
            let context = Arc::clone(&self.context);
            self.tasks.spawn(async move {
                let work = context.metrics.work(Controller::Garbage);
                let tidied = garbage::tidy(&context).await;
                work.end(Ended::Later);
                Done::Tidied(tidied)
            });
        }
    }
}
