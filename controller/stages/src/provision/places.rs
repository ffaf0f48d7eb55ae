//! Places assigned by earlier rounds are kept, since a tight plan should not be made again.
//!
//! ```text
//!   Plan: pods by claim ──► all fit on their nodes ────────────────────────────────────────► kept
//!                                │ not all: other pods were bound first, or the node has or attaches less than planned
//!                                ▼
//!                            exchange ──► moved: kept elsewhere    left: planned again, with the other pending pods
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_scheduling::model::{BoundPod, Node, Pod, PodSpec, Problem, Resources, SpecId};
use muster_scheduling::{Exchange, exchange};
use rustc_hash::FxHashMap;

use super::Round;
use super::plan::{ClaimAndNode, Placed, Plan};
use super::round::planned;
use crate::lifecycle::is_true;

/// An unbound pod with a place.
struct Seated {
    path: Arc<str>,
    spec: SpecId,
    /// `PendingPod::queued`: the order in which its scheduler tries pods.
    queued: u64,
}

/// Adds the planned pods to their nodes in the problem, and returns the names of these pods. Pods that have lost their
/// places remain pods of the problem.
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
        // The other pods have been nominated, and their room is already reserved.
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

/// Returns the nodes of the claims of the plan, except those being deleted.
fn nodes(round: &Round<'_>, plan: &Plan, problem: &Problem) -> BTreeMap<String, usize> {
    let by_name: FxHashMap<&str, usize> =
        problem.nodes.iter().enumerate().map(|(number, node)| (&*node.name, number)).collect();
    let claims: BTreeMap<&str, &ClaimAndNode<'_>> = round.view.claims.iter().map(|one| (one.name(), one)).collect();
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

/// Moves the room of pods that were nominated to one node and have their place on another one now: they will be
/// nominated to it.
fn take_over(round: &Round<'_>, plan: &Plan, problem: &mut Problem, nodes: &BTreeMap<String, usize>) {
    let is_told_by_us = |path: &str| {
        let pending_pod = round.view.pending_pod(path).filter(|one| one.is_unbound())?;
        let hint = plan.nominations.get(&pending_pod.pod.uid)?;
        (pending_pod.nominated.as_ref() == Some(&hint.node)).then_some(())
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

/// Returns true if every node has room for its bound pods and all pods planned on it, and attaches their volumes.
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
        requests.first_shortage(&node.allocatable).is_none() && attaches_all(node, pods, &pending, &problem.specs)
    })
}

/// Returns true if the node attaches the volumes of its pods and of all planned ones; or if it is not initialized: then
/// it may have the limit of its type only, by what other nodes say.
fn attaches_all(node: &Node, planned: &[Placed], pending: &FxHashMap<&str, SpecId>, specs: &[PodSpec]) -> bool {
    if !node.initialized || node.attach_limits.is_empty() {
        return true;
    }
    // Of the planned pods those that are nominated are bound.
    let planned: BTreeSet<&str> = planned.iter().map(|pod| &*pod.path).collect();
    let mut bare = node.clone();
    let told: Vec<BoundPod> = bare.bound.extract_if(.., |pod| planned.contains(&*pod.name)).collect();
    let waiting = planned.iter().filter_map(|path| pending.get(path).copied());
    bare.over_attached(specs, told.iter().map(|pod| pod.spec).chain(waiting)).is_none()
}

/// Exchanges places where not all pods fit. Pods without a new place lose theirs and become pods of the problem again.
fn mend(round: &Round<'_>, plan: &mut Plan, problem: &mut Problem, nodes: &BTreeMap<String, usize>, now: Timestamp) {
    let claims: BTreeMap<usize, &String> = nodes.iter().map(|(claim, node)| (*node, claim)).collect();
    let (bare, places) = bare(round, plan, problem, nodes);
    let Exchange { moves, left } = exchange(&bare, &round.settings.packing, &places);
    let lost = left.iter().map(|pod| (&*bare.pods[*pod].name, None));
    let gone: BTreeMap<&str, Option<usize>> =
        moves.iter().map(|one| (&*bare.pods[one.pod].name, Some(one.to))).chain(lost).collect();
    if moves.len() + left.len() > 0 {
        tracing::debug!(moved = moves.len(), left = left.len(), "places were exchanged");
    }
    let came: BTreeMap<&str, &ClaimAndNode<'_>> =
        round.view.claims.iter().filter(|one| one.node_name().is_some()).map(|one| (one.name(), one)).collect();
    let is_alone = |claim: &str, pods: &[Placed]| {
        let of_plan = |pod: &BoundPod| pods.iter().any(|placed| placed.path == pod.name);
        problem.nodes[nodes[claim]].bound.iter().all(|pod| of_plan(pod) || pod.daemon)
    };
    let Plan { placed, nominations, .. } = plan;
    let (mut moved, mut missed) = (Vec::new(), Vec::new());
    placed.retain(|claim, pods| {
        let came = came.get(claim.as_str());
        // The node is up without pods outside of the plan, and still has no room; or others came before it was open.
        let is_closed = |one: &&ClaimAndNode<'_>| !is_true(one.claim, nodeclaim::REGISTERED);
        let is_evidence = came.is_some_and(|one| is_closed(one) || is_alone(claim, pods));
        for pod in pods.extract_if(.., |pod| gone.contains_key(&*pod.path)) {
            // kube-scheduler keeps the room of a nominated pod: another scheduler took it, or volumes are too many.
            let nominated = nominations.get(&pod.uid).map(|one| &*one.node);
            let is_taken = nominated.is_some() && nominated == came.and_then(|one| one.node_name());
            if (is_evidence || is_taken) && gone.get(&*pod.path) == Some(&None) {
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
    // A nominated pod reserves room where it does not have a place any more.
    let Problem { nodes, pods, .. } = problem;
    for node in claims.keys() {
        let told = nodes[*node].bound.extract_if(.., |pod| gone.contains_key(&*pod.name));
        pods.extend(told.map(|pod| Pod { name: pod.name, spec: pod.spec }));
    }
}

/// Returns the problem with the planned pods removed from their nodes, and the pods planned on each node. Pods are
/// sorted by the order in which they are tried.
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
            // Pods of buffers are never tried.
            let queued = round.view.pending_pod(&pod.path).map_or(u64::MAX, |one| one.queued);
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
