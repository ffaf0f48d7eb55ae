//! Detection of recent nodes that do not accept the pods they were launched for, because of their taints or labels, or
//! because they were deleted.
//!
//! ```text
//!   pending pods without a place ──► their sets ──► NodeClaims launched for these ──► Node: its taints and labels
//!                                                                                     refuses, deleted ► evidence
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_api::conditions::nodeclaim;
use muster_manifest::snapshot::runs_on;
use muster_scheduling::model::{Problem, SpecId};
use rustc_hash::FxHashMap;

use super::Round;
use super::fruitless::{Fruitless, Sight};
use super::plan::{ClaimAndNode, Plan, is_marked};
use crate::lifecycle::is_true;

/// Records the launches whose nodes refuse pods of `problem`, except for pods in `kept`, which have places.
pub(super) fn note(round: &Round<'_>, plan: &mut Plan, problem: &Problem, kept: &BTreeSet<Arc<str>>, now: Timestamp) {
    let claims: FxHashMap<&str, &ClaimAndNode<'_>> = round.view.claims.iter().map(|one| (one.name(), one)).collect();
    let (fruitless, coming) = (&mut plan.fruitless, &plan.coming);
    for name in fruitless.young() {
        let claim = claims.get(&*name).map(|one| one.claim);
        observe(fruitless, &name, claim, coming.contains_key(&name), now);
    }
    let suspects = fruitless.suspects();
    if suspects.is_empty() {
        return;
    }
    let waits = problem.pods.iter().filter(|pod| !kept.contains(&pod.name)).filter_map(|pod| {
        // Including those on nodes being removed, which need a node as well.
        let pending_pod = round.view.pending_pod(&pod.name)?;
        Some((&*pending_pod.set, pod.spec))
    });
    let waits: BTreeMap<&str, SpecId> = waits.collect();
    let nodes: FxHashMap<&str, usize> =
        problem.nodes.iter().enumerate().map(|(number, node)| (&*node.name, number)).collect();
    let mut takers: BTreeMap<&str, usize> = BTreeMap::new();
    for ((set, claim), lost) in &suspects {
        let Some(spec) = waits.get(&**set).and_then(|spec| problem.specs.get(*spec)) else { continue };
        if let Some(lost) = lost {
            fruitless.note_lost(set, claim, *lost, now);
        }
        let is_up = |one: &&ClaimAndNode<'_>| {
            !one.is_leaving() && !one.is_marked() && is_true(one.claim, nodeclaim::REGISTERED)
        };
        let there = claims.get(claim.as_str()).copied().filter(is_up);
        let Some(node) = there.and_then(|one| nodes.get(one.node_name()?)) else { continue };
        if runs_on(spec, &problem.nodes[*node]) {
            fruitless.note_taking(set, claim);
            *takers.entry(&**set).or_default() += 1;
        } else {
            fruitless.note_refusing(set, claim, now);
        }
    }
    for set in waits.into_keys() {
        fruitless.note_takers(set, takers.get(set).copied().unwrap_or_default());
    }
}

/// Records the state of a decided NodeClaim. One whose Node is deleted right after it appeared never registers; one for
/// which the cloud had no capacity was never launched.
pub(super) fn observe(
    fruitless: &mut Fruitless,
    name: &str,
    claim: Option<&NodeClaim>,
    is_coming: bool,
    now: Timestamp,
) {
    if claim.is_some_and(|claim| is_true(claim, nodeclaim::LAUNCHED)) {
        fruitless.observe(name, Sight::Launched, now);
    }
    fruitless.observe(name, sight(claim, is_coming), now);
}

fn sight(claim: Option<&NodeClaim>, is_coming: bool) -> Sight {
    match claim {
        None if is_coming => Sight::Coming,
        None => Sight::Gone,
        Some(claim) if is_marked(claim) => Sight::TakenAway,
        Some(claim) if claim.metadata.deletion_timestamp.is_some() => Sight::Gone,
        Some(claim) if is_true(claim, nodeclaim::LAUNCHED) => Sight::Launched,
        Some(_) => Sight::Coming,
    }
}
