//! Provisioning: decides which NodeClaims to create for pending pods, and the nominations and events of the pods.
//!
//! ```text
//!   pods arrive ──► Window ──► Round: Problem, pending pods, claims, pools, Plan (results of earlier rounds)
//!                                │
//!                                ▼                         ┌─ places kept, pools that may not launch left out
//!   provision ──► pending_pod: turn of each pod ──► Draft ─┤
//!                                                          └─ solve, and verify pods not tried by kube-scheduler
//!                                │
//!                                ▼
//!      turns: order of replicas ──► spending: caps ──► claims ──► last_event ──► Outcome: Step, Plan, figures
//!
//!   a Node of a claim appears ──► Plan::nominate: nominates its pods;  Plan::hold: holds the Node until then, and
//!                                                                      until the Nodes opened with it are ready
//!   Queue: pods that kube-scheduler tries next ──► Plan::first_in_queue: order in which nodes open
//!   a pod is bound elsewhere ──► equivalent_pods: its place goes to a similar pod;  places: nodes exchange pods
//! ```
//!
//! Launches for a set of pods that repeatedly brought no usable node become less and less frequent (`fruitless`).
//!
//! # Usage
//!
//! The caller (the event loop or the simulator) keeps one [`Window`] and one [`Plan`]:
//!
//! 1. Call [`Window::arrive`] for every reason to decide: a pending pod that is new or newly marked unschedulable, a
//!    node whose pods must move, a claim that ended without becoming a node, a pool or class that changed.
//! 2. At [`Window::due`], call [`Window::close`], and [`provision`] with the current state, on a blocking thread. Run
//!    one round at a time.
//! 3. Execute [`Outcome::step`] and keep [`Outcome::plan`]. Begin the next round after the watch cache shows the
//!    created claims, or after a timeout: otherwise they would be created again.
//! 4. Call [`Plan::nominate`] after a round, and whenever a claim's Node or a pod's nomination changes; [`Plan::hold`]
//!    becomes [`crate::lifecycle::Seen::registration_hold`]. Both only if the server honours nominations (1.35), and
//!    unless the operator has disabled them.
//!
//! A claim's name is a function of the decision, so that a decision repeated after a crash creates nothing twice.

mod admission;
mod buffers;
mod claims;
mod equivalent_pods;
mod fruitless;
mod gang;
mod holds;
mod last_event;
mod nominations;
mod pending_pod;
mod places;
mod plan;
mod queue;
mod refusing;
mod replica_order;
mod round;
mod spending;
mod unplaced;
mod window;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool, conditions::reason};
use muster_cloud::after;
use muster_manifest::snapshot::ResolvedBuffer;
use muster_scheduling::explain::Explainer;
use muster_scheduling::model::{self, Pod, PoolState, Problem};
use muster_scheduling::{NewNode, Place, Solution, Violation, validate};

pub(crate) use self::admission::{Admissions, Denied};
use self::buffers::Counted;
pub use self::buffers::{BufferOutcome, BufferPlaces};
pub use self::claims::{claim, name};
use self::fruitless::Allowed;
pub use self::gang::Late;
pub use self::holds::LaunchHold;
pub use self::pending_pod::PendingPod;
pub(crate) use self::pending_pod::set_named;
pub use self::plan::{ClaimAndNode, NodeHold, PlacementView, Plan, PodBindings, RecordedBindings, SETTLING, TELLING};
use self::plan::{Failure, Placed};
pub use self::queue::{Position, Queue};
pub(crate) use self::round::{Closed, closed};
pub use self::spending::spent;
pub use self::unplaced::RETRY;
use self::unplaced::Unplaced;
pub use self::window::{IDLE, Lengths, MAX, Window};
use crate::lifecycle::Class;
use crate::lifecycle::breaker::{self, Breaker};
use crate::lifecycle::caps::Caps;
use crate::lifecycle::pause::Pause;
use crate::step::{Step, Write};

/// Settings by the operator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Settings of bin packing.
    pub packing: model::Options,
    /// `--wait-for-unschedulable-mark`: if true, a pod is decided only after its scheduler has marked it
    /// `Unschedulable`, as in Karpenter. Otherwise a pod of the default scheduler is decided as soon as no existing or
    /// coming node has room for it: a busy kube-scheduler marks only some 60 pods per second.
    pub wait_for_unschedulable_mark: bool,
    /// Limits on launches.
    pub caps: Caps,
}

/// Input of one round.
#[derive(Clone)]
pub struct Round<'a> {
    /// The cluster, from [`muster_manifest::snapshot::assemble`].
    pub problem: &'a Problem,
    /// CapacityBuffers, from there.
    pub buffers: &'a [ResolvedBuffer],
    /// Claims, pods and Nodes, observed at the same time.
    pub view: PlacementView<'a>,
    /// NodePools by name, observed at the same time.
    pub pools: &'a BTreeMap<&'a str, &'a NodePool>,
    /// Operations that an operator has paused in the whole cluster.
    pub pause: Pause,
    /// Reasons that block launches for ready pools, by name of the pool: [`stop`] of its class.
    pub stops: &'a BTreeMap<String, Stop>,
    /// Settings by the operator.
    pub settings: &'a Settings,
    /// Results of earlier rounds.
    pub plan: &'a Plan,
}

/// Result of a round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Claims to create, then events.
    pub step: Step,
    /// Plan to keep for the next round.
    pub plan: Plan,
    /// Statistics of the round.
    pub figures: Figures,
    /// CapacityBuffers, and where their pods have room.
    pub buffers: Vec<BufferOutcome>,
    /// Violations by the packer, which are bugs to be reported. Nodes with a violation are not launched; violations
    /// between pods are left to kube-scheduler to refuse.
    pub violations: Vec<Violation>,
}

/// Statistics of a round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Pods in the solved problem, without those of CapacityBuffers.
    pub pods: usize,
    /// Pods of these without a place.
    pub unplaced: usize,
    /// Pods that their scheduler may still bind.
    pub waiting: usize,
    /// Pods that exclude nodes of all pools.
    pub ignored: usize,
    /// Sets of pods for which launches are held.
    pub held: usize,
    /// Claims to create.
    pub claims: usize,
    /// Price of these claims, in USD per hour.
    pub hourly_price: f64,
    /// Problems solved: none if there are no pods to decide, or if an earlier answer still holds.
    pub solved: usize,
}

/// Reason that blocks launches with a class although it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// No launches.
    All {
        /// Reason.
        why: String,
        /// Time at which the block ends, if known.
        until: Option<Timestamp>,
    },
    /// One trial launch.
    ButOne {
        /// Reason why not more.
        why: String,
    },
}

/// Returns the reason that blocks launches with a ready class, if there is one; `claims` are those of the class.
#[must_use]
pub fn stop<'c>(class: &Class, claims: impl IntoIterator<Item = &'c NodeClaim>, now: Timestamp) -> Option<Stop> {
    let name = &class.reference.name;
    if let Some(fault) = &class.bootstrap_fault {
        return Some(Stop::All { why: format!("{}: {fault}", reason::BOOTSTRAP_INVALID), until: None });
    }
    let why = |reason: &str, message: &str| {
        format!("launches with `{name}` have failed with {reason}, the last one with: {message}")
    };
    match Breaker::of(class, now) {
        Breaker::Open { reason, message, until } => Some(Stop::All { why: why(&reason, &message), until: Some(until) }),
        Breaker::HalfOpen { since, reason, message } => {
            let is_tried = claims.into_iter().any(|claim| breaker::is_trial(claim, since));
            let why = format!("{}; one node is being tried", why(&reason, &message));
            Some(if is_tried { Stop::All { why, until: None } } else { Stop::ButOne { why } })
        }
        Breaker::Closed => None,
    }
}

/// Decides what to launch for pending pods.
#[must_use]
pub fn provision(round: &Round<'_>, now: Timestamp) -> Outcome {
    let mut plan = round.plan.clone();
    let settled = plan.settle(&round.view, now);
    let mut draft = round::Draft::new(round, &mut plan, now);
    let lacks_replicas = draft.problem.pools.iter().any(|pool| pool.missing_replicas.is_some_and(|count| count > 0));
    let held = plan.held_sets(now);
    plan.holds = holds::by_pool(round, &draft.held, &plan.fruitless);
    if draft.problem.pods.is_empty() && draft.held.is_empty() && !lacks_replicas {
        let figures = Figures { waiting: draft.waiting, ignored: draft.ignored, held, ..Figures::default() };
        plan.unplaced = None;
        let (problem, solution, failures) = (&draft.problem, &Solution::default(), &BTreeMap::new());
        let buffers = Counted { round, problem, solution, plan: &plan, failures }.outcomes();
        let step = Step { writes: Vec::new(), again: settled };
        return Outcome { step, plan, figures, buffers, violations: Vec::new() };
    }
    if let Some(known) = plan.unplaced.take().filter(|known| known.answers(&draft.problem, &round.settings.packing)) {
        return still_unplaced(round, &draft, plan, known, settled, now);
    }
    let waiting = draft.waiting;
    let solution = draft.solve(round.settings);
    // Otherwise it has taken pods out of the problem.
    let is_whole = draft.waiting == waiting;
    let problem = &draft.problem;
    let mut figures = Figures {
        pods: problem.pods.iter().filter(|pod| round.view.pending_pod(&pod.name).is_some()).count(),
        waiting: draft.waiting,
        ignored: draft.ignored,
        held,
        solved: 1,
        ..Figures::default()
    };
    let violations = validate(problem, &round.settings.packing, &solution);
    let mut decided = Decided {
        round,
        problem,
        plan,
        writes: Vec::new(),
        failures: BTreeMap::new(),
        held: &draft.held,
        violations,
        again: settled,
        at: now,
    };
    let turned = replica_order::in_turn(problem, &round.view, &solution);
    decided.join(&turned);
    decided.launch(&turned, &solution.new_nodes, &mut figures, now);
    decided.explain(&turned);
    if is_whole && solution.new_nodes.is_empty() && solution.existing.is_empty() {
        let failures = decided.failures.iter().map(|(pod, why)| (*pod, why.clone())).collect();
        decided.plan.unplaced = Some(Arc::new(Unplaced::new(problem.clone(), round.settings.packing, failures)));
    }
    let unplaced = decided.failures.keys().filter(|pod| decided.set_of(**pod).is_some()).count();
    figures.unplaced = unplaced + draft.held.len();
    let Decided { plan, failures, .. } = &decided;
    let buffers = Counted { round, problem, solution: &turned, plan, failures }.outcomes();
    decided.outcome(figures, buffers, now)
}

/// Returns the outcome of a round whose problem is the one in which no pod found a place before.
fn still_unplaced(
    round: &Round<'_>,
    draft: &round::Draft,
    mut plan: Plan,
    known: Arc<Unplaced>,
    settled: Option<Timestamp>,
    now: Timestamp,
) -> Outcome {
    let pods = draft.problem.pods.iter().filter(|pod| round.view.pending_pod(&pod.name).is_some()).count();
    let figures = Figures {
        pods,
        unplaced: pods + draft.held.len(),
        waiting: draft.waiting,
        ignored: draft.ignored,
        held: plan.held_sets(now),
        ..Figures::default()
    };
    let failures: BTreeMap<usize, Failure> = known.failures().collect();
    let (problem, solution) = (&draft.problem, &Solution::default());
    let buffers = Counted { round, problem, solution, plan: &plan, failures: &failures }.outcomes();
    plan.unplaced = Some(Arc::new(Arc::unwrap_or_clone(known).again()));
    let decided = Decided {
        round,
        problem: &draft.problem,
        plan,
        writes: Vec::new(),
        failures,
        held: &draft.held,
        violations: Vec::new(),
        again: settled,
        at: now,
    };
    decided.outcome(figures, buffers, now)
}

/// A decided round whose writes are being prepared.
struct Decided<'r, 'a> {
    round: &'r Round<'a>,
    problem: &'r Problem,
    plan: Plan,
    writes: Vec<Write>,
    /// Reasons why pods have no place, by pod.
    failures: BTreeMap<usize, Failure>,
    /// Pods for which launches are held, with the end of the hold and the reason.
    held: &'r [(Pod, Timestamp, String)],
    violations: Vec<Violation>,
    again: Option<Timestamp>,
    at: Timestamp,
}

impl Decided<'_, '_> {
    /// Records the pods placed on nodes that are coming, or that have come and still wait for some of their pods. The
    /// others are left to kube-scheduler.
    fn join(&mut self, solution: &Solution) {
        let claims = self.round.view.claims.iter();
        let by_node: BTreeMap<&str, &str> =
            claims.map(|one| (one.node_name().unwrap_or(one.name()), one.name())).collect();
        for (node, pods) in &solution.existing {
            let node = &self.problem.nodes[*node];
            let place = by_node.get(&*node.name);
            if let Some(claim) = place.filter(|claim| !node.initialized || self.plan.has_places(claim)) {
                self.remember((*claim).to_owned(), pods);
            }
        }
    }

    fn remember(&mut self, claim: String, pods: &[usize]) {
        let placed = pods.iter().map(|number| {
            let pod = &self.problem.pods[*number];
            let uid = round::uid(self.round, pod).unwrap_or_default();
            let equivalence = equivalent_pods::has_equivalents(self.problem, *number).then_some((self.at, pod.spec));
            let set = self.set_of(*number).unwrap_or_default();
            Placed { path: Arc::clone(&pod.name), uid, set, equivalence }
        });
        let placed: Vec<Placed> = placed.collect();
        self.plan.placed.entry(claim).or_default().extend(placed);
    }

    /// Returns the set of a pod of the problem; `None` for a pod of a buffer.
    fn set_of(&self, pod: usize) -> Option<Arc<str>> {
        self.round.view.pending_pod(&self.problem.pods[pod].name).map(|one| Arc::clone(&one.set))
    }

    /// Returns a failure if the node must not be launched because another node is already being tried for one of its
    /// sets, whose earlier launches were fruitless.
    fn trial(&self, node: &NewNode, tried: &mut BTreeSet<Arc<str>>, now: Timestamp) -> Option<Failure> {
        let sets: BTreeSet<Arc<str>> = node.pods.iter().filter_map(|pod| self.set_of(*pod)).collect();
        let doubtful = sets.iter().filter(|set| self.plan.fruitless.allowed(set, now) != Allowed::All);
        let doubtful: Vec<&Arc<str>> = doubtful.collect();
        if let Some(set) = doubtful.iter().find(|set| tried.contains(**set)) {
            let message =
                format!("the last node that was launched for `{set}` took none of its pods; one node is being tried");
            return Some(Failure { reason: reason::LAUNCHES_HELD, message });
        }
        tried.extend(doubtful.into_iter().cloned());
        None
    }

    /// Creates the claims of new nodes, within the limits. Their names are derived from `planned`: after a restart the
    /// arrival order of the pods is unknown, and the names must be the same.
    fn launch(&mut self, solution: &Solution, planned: &[NewNode], figures: &mut Figures, now: Timestamp) {
        let mut admissions = Admissions::new(self.round, self.problem, self.round.view.claims);
        let mut names = claims::Names::new(self.round.view.claims);
        let mut tried: BTreeSet<Arc<str>> =
            self.plan.placed.values().flatten().map(|pod| Arc::clone(&pod.set)).collect();
        for (number, (node, planned)) in solution.new_nodes.iter().zip(planned).enumerate() {
            let broken = self.violations.iter().find(|one| one.place == Place::New(number));
            if let Some(message) = broken.map(ToString::to_string) {
                let failure = Failure { reason: "InvalidPlan", message };
                self.failures.extend(node.pods.iter().map(|pod| (*pod, failure.clone())));
                continue;
            }
            let pool_name = &*self.problem.pools[node.pool].name;
            let Some(pool) = self.round.pools.get(pool_name) else { continue };
            let name = names.of(pool_name, node, &self.uids(planned));
            let Some(name) = name.new else {
                // The claim was created by an earlier round, whose plan is lost.
                self.remember(name.name, &node.pods);
                continue;
            };
            if let Some(why) = self.trial(node, &mut tried, now) {
                self.failures.extend(node.pods.iter().map(|pod| (*pod, why.clone())));
                continue;
            }
            if let Err(denied) = admissions.admit(pool, node.price, now) {
                let why = self.denied(denied);
                self.failures.extend(node.pods.iter().map(|pod| (*pod, why.clone())));
                continue;
            }
            figures.claims += 1;
            figures.hourly_price += node.price;
            let claim = claim(self.problem, node, pool, name.clone());
            self.writes.push(Write::CreateClaim(Box::new(claim)));
            self.plan.coming.insert(name.clone(), now);
            if node.pods.iter().any(|pod| gang::is_spread(self.problem, *pod)) {
                self.plan.gangs.insert(name.clone(), now);
            }
            let sets = node.pods.iter().filter_map(|pod| self.set_of(*pod)).collect();
            self.plan.fruitless.note_launched(&name, sets, now);
            self.remember(name, &node.pods);
        }
    }

    /// Returns the UIDs of the pods of a node, sorted.
    fn uids(&self, node: &NewNode) -> BTreeSet<String> {
        let pods = node.pods.iter().map(|pod| &self.problem.pods[*pod]);
        pods.map(|pod| round::uid(self.round, pod).unwrap_or_else(|| pod.name.to_string())).collect()
    }

    /// Returns the failure for pods of a node that is not launched.
    fn denied(&mut self, denied: Denied) -> Failure {
        let (reason, message) = match denied {
            Denied::Trial(message) => (reason::LAUNCHES_STOPPED, message),
            Denied::NotBefore(moment, message) => {
                self.again = [self.again, Some(moment)].into_iter().flatten().min();
                ("Capped", message)
            }
            Denied::TooDear(message) => ("Capped", message),
        };
        Failure { reason, message }
    }

    /// Determines the reasons why pods have no place.
    fn explain(&mut self, solution: &Solution) {
        let mut explainer = Explainer::new(self.problem, &self.round.settings.packing, solution);
        for one in &solution.unschedulable {
            let found = if one.message.is_empty() { explainer.unschedulable(one.pod) } else { one.clone() };
            self.failures.insert(one.pod, Failure { reason: found.reason.name(), message: found.message });
        }
    }

    fn outcome(mut self, figures: Figures, buffers: Vec<BufferOutcome>, now: Timestamp) -> Outcome {
        if !self.failures.is_empty() {
            let retry = self.plan.unplaced.as_ref().map_or(after(now, RETRY), |known| known.retry_at(now));
            self.again = [self.again, Some(retry)].into_iter().flatten().min();
        }
        let resumes = self.round.stops.values().filter_map(|stop| match stop {
            Stop::All { until, .. } => *until,
            Stop::ButOne { .. } => None,
        });
        self.again = self.again.into_iter().chain(resumes).min();
        self.again = self.again.into_iter().chain(self.held.iter().map(|(_, until, _)| *until)).min();
        let failures = self.failures.iter().map(|(pod, why)| (&*self.problem.pods[*pod].name, why));
        let held: Vec<(&str, Failure)> =
            self.held.iter().map(|(pod, until, why)| (&*pod.name, held(*until, why))).collect();
        let failures = failures.chain(held.iter().map(|(pod, why)| (*pod, why))).collect();
        let offered = self.problem.pools.iter().map(|pool| {
            let generation = self.round.pools.get(&*pool.name).and_then(|pool| pool.metadata.generation);
            (Arc::clone(&pool.name), generation.unwrap_or_default(), pool.state == PoolState::Ready)
        });
        let events = last_event::events(&mut self.plan, &self.round.view, failures, offered.collect(), now);
        self.writes.extend(events);
        let step = Step { writes: self.writes, again: self.again };
        Outcome { step, plan: self.plan, figures, buffers, violations: self.violations }
    }
}

/// Returns the failure for a pod whose launches are held.
fn held(until: Timestamp, why: &str) -> Failure {
    Failure { reason: reason::LAUNCHES_HELD, message: format!("{why}; launches for it are held until {until}") }
}
