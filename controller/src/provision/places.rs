//! Places that the rounds before have given are kept: a plan that fits tightly is not made anew.
//!
//! ```text
//!   Plan: pods by claim ──► all fit where they are meant to go ─────────────────────────────► kept
//!                                │ not all: others came there first, or the node has turned out smaller
//!                                ▼
//!                            exchange ──► moved: kept elsewhere    left: planned again, with those who wait
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use muster_scheduling::model::{BoundPod, Pod, Problem, Resources, SpecId};
use muster_scheduling::{Exchange, exchange};
use rustc_hash::FxHashMap;

use super::Round;
use super::plan::{Claimed, Placed, Plan};
use super::round::planned;

/// A pod without a node that has a place.
struct Seated {
    path: Arc<str>,
    spec: SpecId,
    /// When its scheduler tries it, compared with others.
    queued: u64,
}

/// Puts pods where the rounds before have planned them, and says which of the problem's pods these are. Who has lost its place to
/// others is among the problem's pods.
pub(super) fn keep_places(
    round: &Round<'_>,
    plan: &mut Plan,
    problem: &mut Problem,
    now: Timestamp,
) -> BTreeSet<Arc<str>> {
    let nodes = nodes(round, plan, problem);
    plan.placed.retain(|claim, _| nodes.contains_key(claim));
    take_over(round, plan, problem, &nodes);
    if !all_fit(plan, problem, &nodes) {
        mend(round, plan, problem, &nodes, now);
    }
    let pending = pending(problem);
    let mut kept = BTreeSet::new();
    let mut places: Vec<(usize, BoundPod)> = Vec::new();
    for (claim, pods) in &plan.placed {
        // The others have been nominated, and hold their room already.
        for (path, spec) in pods.iter().filter_map(|pod| Some((&pod.path, *pending.get(&*pod.path)?))) {
            let name = Arc::clone(path);
            kept.insert(Arc::clone(&name));
            places.push((nodes[claim], planned(&Pod { name, spec })));
        }
    }
    for (node, pod) in places {
        problem.nodes[node].bound.push(pod);
    }
    kept
}

/// The nodes of the claims of the plan, but for those that go away.
fn nodes(round: &Round<'_>, plan: &Plan, problem: &Problem) -> BTreeMap<String, usize> {
    let by_name: FxHashMap<&str, usize> =
        problem.nodes.iter().enumerate().map(|(number, node)| (&*node.name, number)).collect();
    let claims: BTreeMap<&str, &Claimed<'_>> = round.scene.claims.iter().map(|one| (one.name(), one)).collect();
    let node = |claim: &String| {
        let claimed = claims.get(claim.as_str());
        let node = claimed.and_then(|one| by_name.get(one.node_name().unwrap_or(claim)).copied())?;
        (!problem.nodes[node].deleting).then(|| (claim.clone(), node))
    };
    plan.placed.keys().filter_map(node).collect()
}

fn pending(problem: &Problem) -> FxHashMap<&str, SpecId> {
    problem.pods.iter().map(|pod| (&*pod.name, pod.spec)).collect()
}

/// Who was told of one node and has a place on another one by now has its room there: it will be told.
fn take_over(round: &Round<'_>, plan: &Plan, problem: &mut Problem, nodes: &BTreeMap<String, usize>) {
    let is_told_by_us = |path: &str| {
        let applicant = round.scene.applicant(path).filter(|one| one.is_unbound())?;
        let hint = plan.hinted.get(&applicant.pod.uid)?;
        (applicant.nominated.as_ref() == Some(&hint.node)).then_some(())
    };
    let placed = plan.placed.iter().flat_map(|(claim, pods)| pods.iter().map(|pod| (&*pod.path, nodes[claim])));
    let placed: FxHashMap<&str, usize> = placed.collect();
    let Problem { nodes, pods, .. } = problem;
    for (number, node) in nodes.iter_mut().enumerate() {
        node.bound.retain(|pod| {
            let is_elsewhere = placed.get(&*pod.name).is_some_and(|place| *place != number);
            let stays = !is_elsewhere || is_told_by_us(&pod.name).is_none();
            if !stays {
                pods.push(Pod { name: Arc::clone(&pod.name), spec: pod.spec });
            }
            stays
        });
    }
}

/// Whether every node has room for those who are there, and all that are meant for it.
fn all_fit(plan: &Plan, problem: &Problem, nodes: &BTreeMap<String, usize>) -> bool {
    let pending = pending(problem);
    plan.placed.iter().all(|(claim, pods)| {
        let node = &problem.nodes[nodes[claim]];
        let mut requests: Resources = node.daemon_requests.clone();
        let bound = node.bound.iter().map(|pod| pod.spec);
        let here = pods.iter().filter_map(|pod| pending.get(&*pod.path).copied());
        for spec in bound.chain(here) {
            requests.add(&problem.specs[spec].requests);
        }
        requests.first_shortage(&node.allocatable).is_none()
    })
}

/// Where not all fit, some get other places. For whom there is none it forgets theirs, and they are the problem's again.
fn mend(round: &Round<'_>, plan: &mut Plan, problem: &mut Problem, nodes: &BTreeMap<String, usize>, now: Timestamp) {
    let claims: BTreeMap<usize, &String> = nodes.iter().map(|(claim, node)| (*node, claim)).collect();
    let (bare, places) = bare(round, plan, problem, nodes);
    let Exchange { moves, left } = exchange(&bare, &round.settings.packing, &places);
    let lost = left.iter().map(|pod| (&*bare.pods[*pod].name, None));
    let gone: BTreeMap<&str, Option<usize>> =
        moves.iter().map(|one| (&*bare.pods[one.pod].name, Some(one.to))).chain(lost).collect();
    if moves.len() + left.len() > 0 {
        tracing::debug!(moved = moves.len(), left = left.len(), "places were mended");
    }
    let came: BTreeSet<&str> =
        round.scene.claims.iter().filter(|one| one.node_name().is_some()).map(|one| one.name()).collect();
    let is_alone = |claim: &str, pods: &[Placed]| {
        let of_plan = |pod: &BoundPod| pods.iter().any(|placed| placed.path == pod.name);
        let mut bound = problem.nodes[nodes[claim]].bound.iter();
        came.contains(claim) && bound.all(|pod| of_plan(pod) || pod.daemon)
    };
    let (mut moved, mut missed) = (Vec::new(), Vec::new());
    plan.placed.retain(|claim, pods| {
        // Its node is there, and nobody else on it, and yet it has no room.
        let is_evidence = is_alone(claim, pods);
        for pod in pods.extract_if(.., |pod| gone.contains_key(&*pod.path)) {
            if is_evidence && gone.get(&*pod.path) == Some(&None) {
                missed.push((Arc::clone(&pod.set), claim.clone()));
            }
            moved.push(pod);
        }
        !pods.is_empty()
    });
    missed.iter().for_each(|(set, claim)| plan.fruitless.note_unused(set, claim, now));
    for placed in moved {
        if let Some(claim) = gone.get(&*placed.path).copied().flatten().and_then(|node| claims.get(&node)) {
            plan.placed.entry((*claim).clone()).or_default().push(placed);
        }
    }
    // Who had been told holds room where it no longer has a place.
    let Problem { nodes, pods, .. } = problem;
    for node in claims.keys() {
        let told = nodes[*node].bound.extract_if(.., |pod| gone.contains_key(&*pod.name));
        pods.extend(told.map(|pod| Pod { name: pod.name, spec: pod.spec }));
    }
}

/// The nodes of the plan without the pods that only have places there, these pods, and who is meant to go where. Who is tried
/// sooner comes first.
fn bare(
    round: &Round<'_>,
    plan: &Plan,
    problem: &Problem,
    nodes: &BTreeMap<String, usize>,
) -> (Problem, Vec<(usize, Vec<usize>)>) {
    let pending = pending(problem);
    let mut seated: Vec<(Seated, usize)> = Vec::new();
    let mut bare = problem.clone();
    for (claim, pods) in &plan.placed {
        let node = nodes[claim];
        let told: FxHashMap<&str, SpecId> =
            problem.nodes[node].bound.iter().map(|pod| (&*pod.name, pod.spec)).collect();
        for pod in pods {
            let Some(spec) = pending.get(&*pod.path).or_else(|| told.get(&*pod.path)).copied() else { continue };
            // Buffers have pods that nobody tries.
            let queued = round.scene.applicant(&pod.path).map_or(u64::MAX, |one| one.queued);
            seated.push((Seated { path: Arc::clone(&pod.path), spec, queued }, node));
        }
        let here: BTreeSet<&str> = pods.iter().map(|pod| &*pod.path).collect();
        bare.nodes[node].bound.retain(|pod| !here.contains(&*pod.name));
    }
    seated.sort_by(|(one, _), (other, _)| (one.queued, &one.path).cmp(&(other.queued, &other.path)));
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, (_, node)) in seated.iter().enumerate() {
        places.entry(*node).or_default().push(number);
    }
    bare.pods = seated.into_iter().map(|(one, _)| Pod { name: one.path, spec: one.spec }).collect();
    bare.pools.clear();
    (bare, places.into_iter().collect())
}
