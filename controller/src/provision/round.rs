//! The problem of one round: without the pods whose turn it is not, with those that have a place on it, and without the
//! pools that may not launch.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::annotations;
use muster_scheduling::Solution;
use muster_scheduling::explain::Explainer;
use muster_scheduling::model::{self, BoundPod, Pod, PoolState, PreferencePolicy, Problem};
use muster_scheduling::solve;

use super::applicant::{Turn, turn};
use super::fruitless::Allowed;
use super::places::keep_places;
use super::plan::Plan;
use super::refusing;
use super::{Round, Settings, Stop};
use crate::lifecycle::pause::Pause;

/// A problem and what has been left out of it.
pub(super) struct Draft {
    pub(super) problem: Problem,
    /// By pod of the problem: whether something that is there must be known not to take it.
    pub(super) needs_proof: Vec<bool>,
    /// Pods whose turn is not now.
    pub(super) waiting: usize,
    /// Pods that nobody here cares about.
    pub(super) ignored: usize,
    /// Pods for which nothing is launched now, because what was launched before brought nothing: until when, and why.
    pub(super) held: Vec<(Pod, Timestamp, String)>,
}

impl Draft {
    pub(super) fn new(round: &Round<'_>, plan: &mut Plan, now: Timestamp) -> Self {
        let mut problem = round.problem.clone();
        close_pools(round, &mut problem);
        let kept = keep_places(round, plan, &mut problem, now);
        refusing::note(round, plan, &problem, &kept, now);
        let mut draft = Self { needs_proof: Vec::new(), waiting: 0, ignored: 0, held: Vec::new(), problem };
        let mut left = Vec::with_capacity(draft.problem.pods.len());
        let mut provided_for = Vec::new();
        for pod in std::mem::take(&mut draft.problem.pods) {
            if kept.contains(&pod.name) {
                continue;
            }
            let applicant = round.scene.applicant(&pod.name);
            let turn = turn(applicant, &draft.problem.specs[pod.spec], round.settings.wait_for_unschedulable_mark);
            let set = applicant.map(|one| &*one.set).filter(|_| matches!(turn, Turn::Now | Turn::IfNothingTakesIt));
            if let Some(Allowed::NothingUntil(until)) = set.map(|set| plan.fruitless.allowed(set, now)) {
                let why = set.map(|set| draft.why_held(round, plan, set, &pod)).unwrap_or_default();
                draft.held.push((pod, until, why));
                continue;
            }
            match turn {
                Turn::Now | Turn::IfNothingTakesIt => {
                    draft.needs_proof.push(turn == Turn::IfNothingTakesIt);
                    left.push(pod);
                }
                Turn::KeepsRoom => provided_for.push(pod),
                Turn::OnceMarked => draft.waiting += 1,
                Turn::Never => draft.ignored += 1,
            }
        }
        if !provided_for.is_empty() {
            draft.keep_room(provided_for, round.settings);
        }
        draft.problem.pods = left;
        draft
    }

    /// What speaks against the node that was last launched for `set` in vain, as far as it is there.
    fn why_held(&self, round: &Round<'_>, plan: &Plan, set: &str, pod: &Pod) -> String {
        let Some((count, claim)) = plan.fruitless.of(set) else { return String::new() };
        let found = round.scene.claims.iter().find(|one| one.name() == claim);
        let node = found.and_then(|one| one.node_name());
        let index = node.and_then(|name| self.problem.nodes.iter().position(|node| *node.name == *name));
        let alone = Solution::default();
        let explainer = Explainer::new(&self.problem, &round.settings.packing, &alone);
        let refusal = index.and_then(|index| explainer.refused_by(index, pod.spec));
        let last = match (node, refusal) {
            (Some(node), Some(refusal)) => format!("node `{node}` does not take it: {refusal}"),
            (Some(node), None) => format!("nothing that is known speaks against node `{node}`"),
            (None, _) => format!("NodeClaim `{claim}` is gone"),
        };
        format!("{count} nodes were launched for `{set}`, and none of its pods was bound there; {last}")
    }

    /// Has these pods take room where there is some.
    fn keep_room(&mut self, pods: Vec<Pod>, settings: &Settings) {
        let mut alone = self.problem.clone();
        alone.pools.clear();
        alone.pods = pods;
        let options = model::Options { preferences: PreferencePolicy::Ignore, ..settings.packing };
        for (node, placed) in solve(&alone, &options).existing {
            self.problem.nodes[node].bound.extend(placed.iter().map(|pod| planned(&alone.pods[*pod])));
        }
    }

    /// A plan in which whatever needs a proof has one. What may still be bound to a node that is there keeps its room, and
    /// is not in the problem any more.
    pub(super) fn solve(&mut self, settings: &Settings) -> Solution {
        // What is found in the first look may make room for something in the second. More looks only find less.
        for _ in 0..2 {
            let solution = solve(&self.problem, &settings.packing);
            let doubtful = self.taken_elsewhere(&solution, settings);
            if doubtful.is_empty() {
                return solution;
            }
            self.waiting += doubtful.len();
            self.leave_out(&doubtful);
        }
        solve(&self.problem, &settings.packing)
    }

    /// Pods on new nodes that need a proof and have none, with the node that may take them: preferences may send a pod to
    /// a new node, and are no reason for kube-scheduler to leave it pending.
    fn taken_elsewhere(&self, solution: &Solution, settings: &Settings) -> BTreeMap<usize, usize> {
        let on_new = solution.new_nodes.iter().flat_map(|node| node.pods.iter().copied());
        let mut doubtful: Vec<usize> = on_new.filter(|pod| self.needs_proof[*pod]).collect();
        if doubtful.is_empty() || self.problem.nodes.iter().all(|node| node.deleting) {
            return BTreeMap::new();
        }
        doubtful.sort_unstable();
        let mut alone = self.problem.clone();
        alone.pools.clear();
        for (node, pods) in &solution.existing {
            alone.nodes[*node].bound.extend(pods.iter().map(|pod| planned(&self.problem.pods[*pod])));
        }
        alone.pods = doubtful.iter().map(|pod| self.problem.pods[*pod].clone()).collect();
        let options = model::Options { preferences: PreferencePolicy::Ignore, ..settings.packing };
        let found = solve(&alone, &options).existing.into_iter();
        found
            .flat_map(|(node, pods)| pods.into_iter().map(move |pod| (pod, node)).collect::<Vec<_>>())
            .map(|(pod, node)| (doubtful[pod], node))
            .collect()
    }

    fn leave_out(&mut self, pods: &BTreeMap<usize, usize>) {
        for (pod, node) in pods {
            let bound = planned(&self.problem.pods[*pod]);
            self.problem.nodes[*node].bound.push(bound);
        }
        let mut number = 0..;
        self.problem.pods.retain(|_| number.next().is_none_or(|pod| !pods.contains_key(&pod)));
        let mut number = 0..;
        self.needs_proof.retain(|_| number.next().is_none_or(|pod| !pods.contains_key(&pod)));
    }
}

/// A pod whose node is decided.
pub(super) fn planned(pod: &Pod) -> BoundPod {
    BoundPod { name: Arc::clone(&pod.name), spec: pod.spec, counts: true, planned: true, daemon: false }
}

/// Why nothing is launched with a pool that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Closed {
    /// An operator has paused it.
    Paused,
    /// Launches with its class fail, or would.
    Stopped(String),
    /// It is not there any more.
    Gone,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => write!(f, "launches are paused by the annotation {}", annotations::PAUSE),
            Self::Stopped(why) => f.write_str(why),
            Self::Gone => f.write_str("it is gone"),
        }
    }
}

/// What keeps launches with the pool of that name back though it is ready, if anything does.
pub(crate) fn closed(round: &Round<'_>, pool: &str) -> Option<Closed> {
    let paused = round.pools.get(pool).map_or(round.pause, |one| {
        let own = one.metadata.annotations.as_ref().and_then(|all| all.get(annotations::PAUSE));
        round.pause | own.map_or(Pause::NOTHING, |text| Pause::read(text).0)
    });
    if paused.launches {
        return Some(Closed::Paused);
    }
    if let Some(Stop::All { why, .. }) = round.stops.get(pool) {
        return Some(Closed::Stopped(why.clone()));
    }
    (!round.pools.contains_key(pool)).then_some(Closed::Gone)
}

/// Pools with which nothing is launched now are as if they were not ready: their pods may go to others.
fn close_pools(round: &Round<'_>, problem: &mut Problem) {
    for pool in &mut problem.pools {
        if let (PoolState::Ready, Some(closed)) = (&pool.state, closed(round, &pool.name)) {
            pool.state = PoolState::NotReady(closed.to_string());
        }
    }
}

/// The UID of a pod; none for that of a buffer.
pub(super) fn uid(round: &Round<'_>, pod: &Pod) -> Option<String> {
    round.scene.applicant(&pod.name).map(|one| one.pod.uid.clone())
}
