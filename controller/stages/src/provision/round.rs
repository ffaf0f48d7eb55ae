//! Problem of one round: without pods that are not decided now, with the planned pods on their nodes, and without the
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

use super::fruitless::Allowed;
use super::pending_pod::{Turn, turn};
use super::places::keep_places;
use super::plan::Plan;
use super::refusing;
use super::{Round, Settings, Stop};
use crate::lifecycle::pause::Pause;

/// A problem, and the pods left out of it.
pub(super) struct Draft {
    pub(super) problem: Problem,
    /// By pod of the problem: true if it must be verified that no existing node has room for it.
    pub(super) needs_proof: Vec<bool>,
    /// Number of pods that are not decided now.
    pub(super) waiting: usize,
    /// Number of pods that exclude nodes of all pools.
    pub(super) ignored: usize,
    /// Pods whose launches are held because earlier ones were fruitless, with the end of the hold and the reason.
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
            let pending_pod = round.view.pending_pod(&pod.name);
            let turn = turn(pending_pod, &draft.problem.specs[pod.spec], round.settings.wait_for_unschedulable_mark);
            let set = pending_pod.map(|one| &*one.set).filter(|_| matches!(turn, Turn::Now | Turn::IfNothingTakesIt));
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

    /// Returns the reason why pods of `set` are refused by the node last launched for them, as far as it can be
    /// determined.
    fn why_held(&self, round: &Round<'_>, plan: &Plan, set: &str, pod: &Pod) -> String {
        let Some((count, claim)) = plan.fruitless.of(set) else { return String::new() };
        let found = round.view.claims.iter().find(|one| one.name() == claim);
        let node = found.and_then(|one| one.node_name());
        let index = node.and_then(|name| self.problem.nodes.iter().position(|node| *node.name == *name));
        let alone = Solution::default();
        let explainer = Explainer::new(&self.problem, &round.settings.packing, &alone);
        let refusal = index.and_then(|index| explainer.refused_by(index, pod.spec));
        let last = match (node, refusal) {
            (Some(node), Some(refusal)) => format!("node `{node}` does not take it: {refusal}"),
            (Some(node), None) => format!("no known constraint excludes node `{node}`"),
            (None, _) => format!("NodeClaim `{claim}` is gone"),
        };
        format!("{count} nodes were launched for `{set}`, and none of its pods was bound there; {last}")
    }

    /// Reserves room for these pods on existing nodes.
    fn keep_room(&mut self, pods: Vec<Pod>, settings: &Settings) {
        let mut alone = self.problem.clone();
        alone.pools.clear();
        alone.pods = pods;
        let options = model::Options { preferences: PreferencePolicy::Ignore, ..settings.packing };
        for (node, placed) in solve(&alone, &options).existing {
            self.problem.nodes[node].bound.extend(placed.iter().map(|pod| planned(&alone.pods[*pod])));
        }
    }

    /// Solves the problem. Pods that may still be bound to an existing node keep their room there and are removed from
    /// the problem.
    pub(super) fn solve(&mut self, settings: &Settings) -> Solution {
        // Pods removed in the first pass may make room for others in the second. More passes find less and less.
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

    /// Returns the pods on new nodes that an existing node may still accept, with that node: preferences may place a
    /// pod on a new node, but do not make kube-scheduler leave it pending.
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

/// Returns the pod as bound to its planned node.
pub(super) fn planned(pod: &Pod) -> BoundPod {
    BoundPod { name: Arc::clone(&pod.name), spec: pod.spec, counts: true, planned: true, daemon: false }
}

/// Reason why nothing is launched with a ready pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Closed {
    /// An operator has paused it.
    Paused,
    /// Launches with its class fail, or would fail.
    Stopped(String),
    /// The pool does not exist any more.
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

/// Returns the reason that blocks launches with this ready pool, if there is one.
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

/// Marks pools that may not launch as not ready, so that their pods can use other pools.
fn close_pools(round: &Round<'_>, problem: &mut Problem) {
    for pool in &mut problem.pools {
        if let (PoolState::Ready, Some(closed)) = (&pool.state, closed(round, &pool.name)) {
            pool.state = PoolState::NotReady(closed.to_string());
        }
    }
}

/// Returns the UID of a pod; `None` for a pod of a buffer.
pub(super) fn uid(round: &Round<'_>, pod: &Pod) -> Option<String> {
    round.view.pending_pod(&pod.name).map(|one| one.pod.uid.clone())
}
