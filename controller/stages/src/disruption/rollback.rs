//! Rollback of a command: unused replacements are deleted first, and marks are removed last, so that the next leader
//! can continue an interrupted rollback.

use k8s_openapi::api::core::v1::Taint;
use muster_api::conditions::nodeclaim;
use muster_api::{annotations, events};

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
    let expected = candidates.first().and_then(|one| one.mark()).map_or(0, |mark| mark.candidates);
    if candidates.len() >= expected {
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

/// Returns the writes that remove all traces of the command from the candidate; its mark is removed last.
pub(super) fn unmark(candidate: &Candidate<'_>) -> Vec<Write> {
    let mut writes = cleared(candidate);
    let change = MetaChange::default().without_annotation(annotations::DISRUPTION).against(&candidate.claim.metadata);
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
