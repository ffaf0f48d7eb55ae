//! From pods without a node to NodeClaims: who is decided when, what is launched for them, and what they are told.
//!
//! ```text
//!   pods arrive ──► Window ──► Round: Problem, applicants, claims, pools, Plan (what the rounds before have said)
//!                                │
//!                                ▼                         ┌─ places kept, pools that may not launch left out
//!   provision ──► applicant: whose turn ──► round: Draft ──┤
//!                                                          └─ solve, and prove what kube-scheduler has not looked at
//!                                │
//!                                ▼
//!      turns: who gets which ──► spending: caps ──► claims ──► told: one event per pod ──► Outcome: Step, Plan, figures
//!
//!   a Node of a claim appears ──► Plan::nominate: pods are told their node;  Plan::hold: until then, and until those that
//!                                                                            are to open with it can, it takes none
//!   Queue: which pods their scheduler tries next ──► Plan::first_in_queue: in which order nodes open
//!   a pod is bound elsewhere ──► kin: its place goes to one of its kind;  places: where not all fit any more, some exchange theirs
//! ```
//!
//! A set of pods for which nodes were launched in vain is bought for less and less often (`fruitless`).
//!
//! # How it is driven
//!
//! Whoever drives it (the live loop, the simulator) keeps one [`Window`] and one [`Plan`]:
//!
//! 1. [`Window::arrive`] for every reason to decide: a pod that waits and is new or newly marked, a node whose pods have to
//!    move, a claim that ended without becoming a node, a pool or class that changed.
//! 2. When [`Window::due`] has come: [`Window::close`], and [`provision`] with what is seen then, off the threads that must
//!    not wait. One round at a time.
//! 3. Carry out [`Outcome::step`] and keep [`Outcome::plan`]. The next round begins when the picture of the cluster has what was
//!    created, or after a while: whoever does not know of it would buy it again.
//! 4. [`Plan::nominate`] after a round, and whenever a claim's Node or a pod's nomination changes; [`Plan::hold`] becomes
//!    [`crate::lifecycle::Seen::registration_hold`]. Both only if the server honours nominations (1.35), and not if the
//!    operator has switched them off.
//!
//! A claim's name follows from what was decided, so a decision that is made again after a crash creates nothing twice.

mod admission;
mod applicant;
mod claims;
mod fruitless;
mod kin;
mod nominations;
mod places;
mod plan;
mod queue;
mod refusing;
mod round;
mod spending;
mod together;
mod told;
mod turns;
mod window;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool, conditions::reason};
use muster_cloud::after;
use muster_scheduling::explain::Explainer;
use muster_scheduling::model::{self, Pod, Problem};
use muster_scheduling::{NewNode, Place, Solution, Violation, validate};

pub(crate) use self::admission::{Admissions, Denied};
pub use self::applicant::Applicant;
pub(crate) use self::applicant::set_named;
pub use self::claims::{claim, name};
use self::fruitless::Allowed;
pub use self::plan::{Claimed, Hold, Homes, HomesThen, Plan, SETTLING, Scene, TELLING};
use self::plan::{Failure, Placed};
pub use self::queue::{Position, Queue};
pub(crate) use self::round::{Closed, closed};
pub use self::spending::spent;
pub use self::together::Late;
pub use self::window::{IDLE, Lengths, MAX, Window};
use crate::lifecycle::Class;
use crate::lifecycle::breaker::{self, Breaker};
use crate::lifecycle::caps::Caps;
use crate::lifecycle::pause::Pause;
use crate::step::{Step, Write};

/// After this, pods that found no place are decided again though nothing has changed that we know of: what a cloud has for
/// sale changes too. Karpenter's figure.
const RETRY: Duration = Duration::from_secs(10);

/// The operator's choices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// How pods are packed.
    pub packing: model::Options,
    /// `--wait-for-unschedulable-mark`: a pod is decided when its scheduler has marked it `Unschedulable`, as with Karpenter,
    /// and not before. Otherwise a pod of the default scheduler is decided as soon as nothing that is there or on its way
    /// takes it: a busy kube-scheduler marks some 60 pods a second.
    pub wait_for_unschedulable_mark: bool,
    /// How much may be launched.
    pub caps: Caps,
}

/// What one round looks at.
#[derive(Clone)]
pub struct Round<'a> {
    /// The cluster, from [`crate::snapshot::assemble`].
    pub problem: &'a Problem,
    /// Claims, pods and Nodes, as of the same moment.
    pub scene: Scene<'a>,
    /// NodePools by name, as of the same moment.
    pub pools: &'a BTreeMap<&'a str, &'a NodePool>,
    /// What an operator has paused in the whole cluster.
    pub pause: Pause,
    /// What keeps launches for a pool back though it is ready, by its name: [`stop`] of its class.
    pub stops: &'a BTreeMap<String, Stop>,
    /// The operator's choices.
    pub settings: &'a Settings,
    /// What the rounds before have said.
    pub plan: &'a Plan,
}

/// What a round comes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Claims to create, then events.
    pub step: Step,
    /// What is to be kept for the next round.
    pub plan: Plan,
    /// What was decided, in figures.
    pub figures: Figures,
    /// Promises that the packer has broken: a bug, to be told of. Nodes of which one is broken are not launched; what is
    /// broken between pods is kube-scheduler's to refuse.
    pub violations: Vec<Violation>,
}

/// A round in figures.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Pods that were solved for.
    pub pods: usize,
    /// Those of them that got no place.
    pub unplaced: usize,
    /// Pods that may yet be bound by their scheduler.
    pub waiting: usize,
    /// Pods that ask for nodes of no pool.
    pub ignored: usize,
    /// Sets of pods for which launches are held.
    pub held: usize,
    /// Claims that are to be created.
    pub claims: usize,
    /// USD per hour of these.
    pub hourly_price: f64,
}

/// What keeps launches with a class back though it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Nothing is launched.
    All {
        /// Why.
        why: String,
        /// When that is over, if it is known.
        until: Option<Timestamp>,
    },
    /// One node is launched, to see whether it comes.
    ButOne {
        /// Why not more.
        why: String,
    },
}

/// What keeps launches with a class back though it is ready, if anything does; `claims` are those of the class.
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

/// Decides what is launched for the pods that wait.
#[must_use]
pub fn provision(round: &Round<'_>, now: Timestamp) -> Outcome {
    let mut plan = round.plan.clone();
    let settled = plan.settle(&round.scene, now);
    let mut draft = round::Draft::new(round, &mut plan, now);
    let lacks_replicas = draft.problem.pools.iter().any(|pool| pool.missing_replicas.is_some_and(|count| count > 0));
    let held = plan.held_sets(now);
    if draft.problem.pods.is_empty() && draft.held.is_empty() && !lacks_replicas {
        let figures = Figures { waiting: draft.waiting, ignored: draft.ignored, held, ..Figures::default() };
        return Outcome { step: Step { writes: Vec::new(), again: settled }, plan, figures, violations: Vec::new() };
    }
    let solution = draft.solve(round.settings);
    let problem = &draft.problem;
    let mut figures = Figures {
        pods: problem.pods.len(),
        waiting: draft.waiting,
        ignored: draft.ignored,
        held,
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
    let turned = turns::in_turn(problem, &round.scene, &solution);
    decided.join(&turned);
    decided.launch(&turned, &solution.new_nodes, &mut figures, now);
    decided.explain(&turned);
    figures.unplaced = decided.failures.len() + draft.held.len();
    decided.outcome(figures, now)
}

/// A round while it is being written down.
struct Decided<'r, 'a> {
    round: &'r Round<'a>,
    problem: &'r Problem,
    plan: Plan,
    writes: Vec<Write>,
    /// Pods without a place, and why.
    failures: BTreeMap<usize, Failure>,
    /// Pods for which nothing is launched now, until when, and why.
    held: &'r [(Pod, Timestamp, String)],
    violations: Vec<Violation>,
    again: Option<Timestamp>,
    at: Timestamp,
}

impl Decided<'_, '_> {
    /// Remembers who goes to nodes that are on their way, or have just come and still wait for some of their pods. All others
    /// are kube-scheduler's.
    fn join(&mut self, solution: &Solution) {
        let claims = self.round.scene.claims.iter();
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
            let kin = kin::has_kin(self.problem, *number).then_some((self.at, pod.spec));
            let set = self.set_of(*number).unwrap_or_default();
            Placed { path: Arc::clone(&pod.name), uid, set, kin }
        });
        let placed: Vec<Placed> = placed.collect();
        self.plan.placed.entry(claim).or_default().extend(placed);
    }

    /// The set of a pod of the problem; none for that of a buffer.
    fn set_of(&self, pod: usize) -> Option<Arc<str>> {
        self.round.scene.applicant(&self.problem.pods[pod].name).map(|one| Arc::clone(&one.set))
    }

    /// Why the node is not launched though it is planned: one is on its way for a set of which launches brought nothing before.
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

    /// Creates the claims of new nodes, as far as the caps go. They are named after `planned`: who starts anew does not know
    /// in which turn the pods arrived, and comes to the same names.
    fn launch(&mut self, solution: &Solution, planned: &[NewNode], figures: &mut Figures, now: Timestamp) {
        let mut admissions = Admissions::new(self.round, self.problem, self.round.scene.claims);
        let mut names = claims::Names::new(self.round.scene.claims);
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
                // Decided before, and carried out; we have only forgotten it.
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
            if node.pods.iter().any(|pod| together::is_spread(self.problem, *pod)) {
                self.plan.companies.insert(name.clone(), now);
            }
            let sets = node.pods.iter().filter_map(|pod| self.set_of(*pod)).collect();
            self.plan.fruitless.note_launched(&name, sets, now);
            self.remember(name, &node.pods);
        }
    }

    /// UIDs of the pods of a node, sorted.
    fn uids(&self, node: &NewNode) -> BTreeSet<String> {
        let pods = node.pods.iter().map(|pod| &self.problem.pods[*pod]);
        pods.map(|pod| round::uid(self.round, pod).unwrap_or_else(|| pod.name.to_string())).collect()
    }

    /// What pods are told of a node that is not launched.
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

    /// Finds out why pods have no place.
    fn explain(&mut self, solution: &Solution) {
        let mut explainer = Explainer::new(self.problem, &self.round.settings.packing, solution);
        for one in &solution.unschedulable {
            let found = if one.message.is_empty() { explainer.unschedulable(one.pod) } else { one.clone() };
            self.failures.insert(one.pod, Failure { reason: found.reason.name(), message: found.message });
        }
    }

    fn outcome(mut self, figures: Figures, now: Timestamp) -> Outcome {
        if !self.failures.is_empty() {
            self.again = [self.again, Some(after(now, RETRY))].into_iter().flatten().min();
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
        let events = told::events(&mut self.plan, &self.round.scene, failures, now);
        self.writes.extend(events);
        let step = Step { writes: self.writes, again: self.again };
        Outcome { step, plan: self.plan, figures, violations: self.violations }
    }
}

/// What is said of a pod for which launches are held.
fn held(until: Timestamp, why: &str) -> Failure {
    Failure { reason: reason::LAUNCHES_HELD, message: format!("{why}; launches for it are held until {until}") }
}
