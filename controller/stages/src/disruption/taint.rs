//! Taint of nodes that are being disrupted, and the condition of their claims.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use muster_api::conditions::nodeclaim;
use muster_api::taints;
use muster_scheduling::disrupt::Cause;

use super::observed_command::Candidate;
use crate::lifecycle::{Status, condition, judged, set_condition, whole_seconds};
use crate::node::Node;
use crate::step::{NodeChange, Write};

/// Returns the missing writes of the taint on a candidate's node and of the condition of its claim.
pub(super) fn keep_away(candidate: &Candidate<'_>, cause: Cause, now: Timestamp) -> Vec<Write> {
    let mut writes = Vec::new();
    if let Some(node) = candidate.node.filter(|node| disruption_taint(node).is_none()) {
        let mut all: Vec<Taint> = taints_of(node).to_vec();
        // The time distinguishes a stale taint from one whose mark has not been observed yet.
        all.push(Taint { time_added: Some(Time(whole_seconds(now))), ..taints::disrupted() });
        let name = node.metadata.name.clone().unwrap_or_default();
        writes.push(Write::Node { name, change: NodeChange { taints: Some(all), ..NodeChange::default() } });
    }
    let kind = nodeclaim::DISRUPTION_REASON;
    let is_told = |one: &&Condition| one.status == Status::True.name() && one.reason == cause.name();
    if condition(candidate.claim, kind).filter(is_told).is_none() {
        let mut status = candidate.claim.status.clone().unwrap_or_default();
        let generation = candidate.claim.metadata.generation;
        set_condition(&mut status.conditions, judged(kind, Status::True, cause.name(), cause.name(), generation, now));
        writes.push(Write::ClaimStatus { name: candidate.name(), status: Box::new(status) });
    }
    writes
}

pub(super) fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns the taint of nodes that are being disrupted, if the node has it.
pub(super) fn disruption_taint(node: &Node) -> Option<&Taint> {
    let wanted = taints::disrupted();
    taints_of(node).iter().find(|taint| taint.key == wanted.key && taint.effect == wanted.effect)
}
