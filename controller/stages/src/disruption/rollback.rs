//! Rollback of a command: unused replacements are deleted first, and marks are removed last, so that the next leader
//! can continue an interrupted rollback.

use k8s_openapi::api::core::v1::Taint;
use muster_api::conditions::nodeclaim;
use muster_api::{annotations, events};
use muster_scheduling::disrupt::Cause;

use super::observed_command::{Candidate, ObservedCommand, is_leaving, name};
use super::start::told;
use super::taint::{disruption_taint, taints_of};
use crate::lifecycle::condition;
use crate::step::{DeletionCause, MetaChange, NodeChange, Step, Write};

/// Releases `candidates` for the reason `why`.
pub(super) fn rollback(observed: &ObservedCommand<'_>, candidates: &[&Candidate<'_>], why: &str) -> Step {
    let mut writes = Vec::new();
    let message = format!("the node is kept: {why}");
    writes.extend(candidates.iter().map(|candidate| told(candidate, events::DISRUPTION_TAKEN_BACK, &message)));
    // Candidates that are already being deleted need their replacements.
    if candidates.len() >= size(candidates) {
        let unused = observed.replacements.iter().filter(|one| !is_leaving(one.claim) && !one.is_used());
        writes.extend(unused.map(|one| Write::DeleteClaim {
            name: name(one.claim).to_owned(),
            uid: one.claim.metadata.uid.clone().unwrap_or_default(),
            cause: DeletionCause::DisruptionTakenBack,
        }));
    }
    for candidate in candidates {
        writes.extend(unmark(candidate));
    }
    Step::act(writes)
}

/// Returns the number of claims of the command, without those that it has released: those that are missing among the
/// `candidates`, all that are marked and stay, have been deleted. While a release is under way the marks disagree, and
/// the largest number counts: it includes the claim that is being released, which is one of the candidates until it
/// loses its mark.
pub(super) fn size(candidates: &[&Candidate<'_>]) -> usize {
    candidates.iter().filter_map(|one| one.mark()).map(|mark| mark.candidates).max().unwrap_or(0)
}

/// Returns the writes that remove all traces of the command from the candidate; its mark is removed last.
pub(super) fn unmark(candidate: &Candidate<'_>) -> Vec<Write> {
    let mut writes = cleared(candidate);
    let mut change = MetaChange::default().without_annotation(annotations::DISRUPTION);
    // The command writes the end of the drain before it deletes the claim. If that outlived the command, a later one
    // would end the pods without a drain. One of a deletion under way is kept.
    let is_bounded = candidate.mark().is_some_and(|mark| matches!(mark.cause, Cause::Unhealthy | Cause::Broken));
    if is_bounded && !candidate.is_leaving() {
        change = change.without_annotation(annotations::NODECLAIM_TERMINATION_TIMESTAMP);
    }
    let change = change.against(&candidate.claim.metadata);
    if !change.is_empty() {
        writes.push(Write::ClaimMeta { name: candidate.name(), change });
    }
    writes
}

/// Returns the writes that remove the taint and the condition, if they exist.
pub(super) fn cleared(candidate: &Candidate<'_>) -> Vec<Write> {
    let mut writes = Vec::new();
    if let Some((node, taint)) = candidate.node.and_then(|node| Some((node, disruption_taint(node)?))) {
        let all: Vec<Taint> = taints_of(node).iter().filter(|one| *one != taint).cloned().collect();
        let name = node.metadata.name.clone().unwrap_or_default();
        writes.push(Write::Node { name, change: NodeChange { taints: Some(all), ..NodeChange::default() } });
    }
    if condition(candidate.claim, nodeclaim::DISRUPTION_REASON).is_some() {
        let mut status = candidate.claim.status.clone().unwrap_or_default();
        status.conditions.retain(|one| one.type_ != nodeclaim::DISRUPTION_REASON);
        writes.push(Write::ClaimStatus { name: candidate.name(), status: Box::new(status) });
    }
    writes
}
