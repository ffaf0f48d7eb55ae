//! What speaks against taking a node away now that did not when it was decided: somebody has said no since, or a pod has
//! come that nobody planned for. What cannot wait hears no objection but the operator's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::{NodePool, annotations};
use muster_scheduling::disrupt::Cause;

use super::look::{Candidate, leavers};
use crate::lifecycle::pause::Pause;

/// Why the candidate is not to go for `cause`, if it is not. `planned` is how many pods had to move when that was decided.
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
    let says_no = |all: Option<&BTreeMap<String, String>>| {
        all.and_then(|all| all.get(annotations::DO_NOT_DISRUPT)).is_some_and(|value| value == "true")
    };
    let node = candidate.node.and_then(|node| node.metadata.annotations.as_ref());
    if says_no(candidate.claim.metadata.annotations.as_ref()) || says_no(node) {
        return Some(format!("it has the annotation {}", annotations::DO_NOT_DISRUPT));
    }
    // Drifted nodes whose drain is bounded go whatever their pods say.
    if cause == Cause::Drifted && candidate.claim.spec.termination_grace_period.is_some() {
        return None;
    }
    if let Some(pod) = candidate.promised_to {
        return Some(format!("pod `{pod}` was promised room on its node"));
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
    (there > planned).then(|| format!("{there} {pods} would have to move, and {planned} had to when that was decided"))
}

/// What an operator has paused in a NodePool.
pub(super) fn paused(pool: Option<&NodePool>) -> Pause {
    let annotations = pool.and_then(|pool| pool.metadata.annotations.as_ref());
    let own = annotations.and_then(|all| all.get(annotations::PAUSE));
    own.map_or(Pause::NOTHING, |text| Pause::read(text).0)
}
