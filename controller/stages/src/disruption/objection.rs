//! Objections to a disruption that arose after its decision: a new annotation, or a pod that was not planned for.
//! Forceful disruptions are subject only to the pause set by an operator, interruptions to none.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::{NodePool, annotations};
use muster_scheduling::disrupt::Cause;

use super::observed_command::{Candidate, leavers};
use crate::lifecycle::pause::Pause;

/// Returns the reason why the candidate must not be removed for `cause`, if there is one. `planned` is the number of
/// pods that had to move at the time of the decision.
pub(super) fn objection(
    candidate: &Candidate<'_>,
    cause: Cause,
    planned: usize,
    pause: Pause,
    now: Timestamp,
) -> Option<String> {
    if cause == Cause::Interrupted {
        return None;
    }
    if (pause | paused(candidate.pool)).disruption {
        return Some(format!("an operator has set {}", annotations::PAUSE));
    }
    if cause.forceful() {
        return None;
    }
    let veto = if cause == Cause::Unhealthy { annotations::DO_NOT_REPAIR } else { annotations::DO_NOT_DISRUPT };
    let says_no =
        |all: Option<&BTreeMap<String, String>>| all.and_then(|all| all.get(veto)).is_some_and(|value| value == "true");
    let node = candidate.node.and_then(|node| node.metadata.annotations.as_ref());
    if says_no(candidate.claim.metadata.annotations.as_ref()) || says_no(node) {
        return Some(format!("it has the annotation {veto}"));
    }
    // Pods of an unhealthy node object in vain: its drain is bounded.
    if cause == Cause::Unhealthy {
        return None;
    }
    // Drifted nodes with a termination grace period are removed regardless of their pods.
    if cause == Cause::Drifted && candidate.claim.spec.termination_grace_period.is_some() {
        return None;
    }
    if let Some(pod) = candidate.promised_to {
        return Some(format!("pod `{pod}` is nominated to its node"));
    }
    let holds = |pod: &&crate::lifecycle::Resident| {
        !pod.is_mirror && !pod.is_terminal && pod.deleted_at.is_none() && pod.hold.is_on(now)
    };
    if let Some(pod) = candidate.residents.iter().find(holds) {
        let namespace = pod.pod.namespace.as_deref().unwrap_or_default();
        return Some(format!("pod `{namespace}/{}` has the annotation {}", pod.pod.name, annotations::DO_NOT_DISRUPT));
    }
    let there = leavers(candidate.residents);
    let pods = if there == 1 { "pod" } else { "pods" };
    (there > planned)
        .then(|| format!("{there} {pods} would have to move now, and {planned} when the command was decided"))
}

/// Returns the operations that an operator has paused in a NodePool.
pub(crate) fn paused(pool: Option<&NodePool>) -> Pause {
    let annotations = pool.and_then(|pool| pool.metadata.annotations.as_ref());
    let own = annotations.and_then(|all| all.get(annotations::PAUSE));
    own.map_or(Pause::NOTHING, |text| Pause::read(text).0)
}
