//! Termination of a deleted NodeClaim or Node, until nothing of it is left.
//!
//! ```text
//!   Node:   delete ─► taint ─► drain in tiers ─► detach volumes ─► terminate instance, and confirm ─► finalizer
//!   claim:  deadline ─► its Nodes as above ─► terminate instance, and confirm ─► remaining Nodes ─► finalizer
//! ```
//!
//! Both finalizers are removed only after the cloud has confirmed that the instance is gone, so that no instance is
//! left running, and paid for, without an owner.

pub(super) mod drain;
mod instance;
mod volumes;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{annotations, events, labels, taints};
use muster_cloud::{NoticeKind, after};

use super::conditions::{Draft, Status, condition, is_true};
use super::initialize::is_ready;
use super::register::{has_finalizer, has_label, name, taints_of, uid, with_finalizer};
use super::seen::Seen;
use super::{capacity_block, interruption, launch};
use crate::node::Node;
use crate::step::{DeletionCause, EventType, MetaChange, NodeChange, Step, Write};
use drain::Drain;

/// Value of the label that excludes the Node from load balancers.
const EXCLUDED_BY: &str = "karpenter";

/// Returns true if the claim or one of its Nodes is being deleted.
pub(super) fn is_ending(seen: &Seen<'_>) -> bool {
    is_deleted(seen) || seen.nodes.iter().any(|node| is_leaving(node))
}

pub(crate) fn terminate(seen: &Seen<'_>, now: Timestamp) -> Step {
    if !is_ending(seen) {
        return Step::rest();
    }
    if !is_deleted(seen) {
        return Step::act([seen.delete(DeletionCause::NodeDeleted)]);
    }
    if !launch::has_finalizer(seen) {
        return Step::rest();
    }
    if let Some(step) = set_deadline(seen, now) {
        return step;
    }
    for node in seen.nodes.iter().filter(|node| is_ours(node)) {
        if !is_leaving(node) {
            return delete_node(node);
        }
        let step = take_away(seen, node, now);
        if !step.writes.is_empty() || step.again.is_some() {
            return step;
        }
    }
    if seen.nodes.iter().any(|node| is_ours(node)) {
        return Step::rest();
    }
    instance::end(seen, now, release(seen))
}

/// Returns the end of the claim's termination grace period, if it has one.
fn deadline(seen: &Seen<'_>) -> Option<Timestamp> {
    seen.annotation(annotations::NODECLAIM_TERMINATION_TIMESTAMP)?.parse().ok()
}

fn is_deleted(seen: &Seen<'_>) -> bool {
    seen.claim.metadata.deletion_timestamp.is_some()
}

/// Returns true if the Node is being deleted and has our finalizer.
fn is_leaving(node: &Node) -> bool {
    node.metadata.deletion_timestamp.is_some() && has_finalizer(node)
}

/// Returns true if the Node has registered, so that it may have pods to drain. Uses the Node's own label, since the
/// claim is updated after it.
fn is_ours(node: &Node) -> bool {
    has_finalizer(node) || has_label(node, labels::REGISTERED) && node.metadata.deletion_timestamp.is_none()
}

/// Writes the end of the termination grace period to the claim, or the time by which its capacity block has to be
/// empty, if that is earlier.
fn set_deadline(seen: &Seen<'_>, now: Timestamp) -> Option<Step> {
    let deleted_at = seen.claim.metadata.deletion_timestamp.as_ref()?.0;
    let known = deadline(seen);
    // Once: the spec is immutable.
    let of_claim = known.or_else(|| Some(after(deleted_at, seen.claim.spec.termination_grace_period?.0)));
    let end = of_claim.into_iter().chain(capacity_block::empty_by(seen, deleted_at, now)).min()?;
    if known == Some(end) {
        return None;
    }
    let change = MetaChange::default().annotation(annotations::NODECLAIM_TERMINATION_TIMESTAMP, end.to_string());
    let message = format!("pods that are left on the node at {end} are terminated then");
    Some(Step::act([
        seen.event(EventType::Warning, events::TERMINATION_GRACE_PERIOD_EXPIRING, message),
        Write::ClaimMeta { name: seen.name(), change },
    ]))
}

/// Deletes the Node. Without our finalizer it would be gone at once, and its pods with it.
fn delete_node(node: &Node) -> Step {
    let mut writes = Vec::new();
    if !has_finalizer(node) {
        let meta = MetaChange { finalizers: Some(with_finalizer(node)), ..MetaChange::default() };
        writes.push(Write::Node { name: name(node), change: NodeChange { meta, taints: None } });
    }
    writes.push(Write::DeleteNode { name: name(node), uid: uid(node) });
    Step::act(writes)
}

/// Terminates a Node that is being deleted.
fn take_away(seen: &Seen<'_>, node: &Node, now: Timestamp) -> Step {
    let finalizer = let_go(node);
    // A Node that is not ready may have lost its instance, and so may one of which the cloud says so, before its
    // kubelet has been silent for long: then there is nothing to drain.
    let is_told = interruption::recorded(seen.claim) == Some(NoticeKind::InstanceTerminated);
    if is_told || !is_ready(node) {
        match instance::is_gone(seen) {
            instance::Existence::Ask(question) => return Step::act([question]),
            instance::Existence::Gone => return Step::act([finalizer]),
            instance::Existence::There => {}
        }
    }
    // A taint that is refused for ever, by an admission policy for example, does not keep pods beyond their time.
    let is_over = deadline(seen).is_some_and(|end| now >= end);
    let change = keep_away(node).against(node);
    if !change.is_empty() && !is_over {
        return Step::act([Write::Node { name: name(node), change }]);
    }
    let mut draft = Draft::of(seen, now);
    // The result is final: a volume attached again does not restart the drain.
    if !is_true(seen.claim, nodeclaim::DRAINED) {
        let started = node.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
        let bounds = drain::Bounds { started, deadline: deadline(seen) };
        if let Some(Drain { mut step, message }) = drain::drain(seen, node, bounds, now) {
            if let Some(message) = message {
                let known = condition(seen.claim, nodeclaim::DRAINED).map(|one| one.message.as_str());
                draft.set(nodeclaim::DRAINED, Status::Unknown, reason::DRAINING, &message);
                if message != drain::UNDER_WAY && known != Some(message.as_str()) {
                    step.writes.push(seen.event(EventType::Warning, events::FAILED_DRAINING, message));
                }
            }
            // It may be shutting down.
            return finish(step.or_sooner(is_told.then(|| after(now, instance::LOOK))), draft);
        }
        draft.set_true(nodeclaim::DRAINED);
    }
    if let Some(step) = volumes::detach(seen, node, &mut draft, now) {
        return finish(step, draft);
    }
    let judged = Step::act(draft.write());
    if !judged.writes.is_empty() {
        return judged;
    }
    instance::end(seen, now, vec![finalizer])
}

/// Adds the status update of the draft to the step.
fn finish(mut step: Step, draft: Draft<'_>) -> Step {
    step.writes.extend(draft.write());
    step
}

/// Returns the change that keeps new pods and load balancer traffic away from the Node.
fn keep_away(node: &Node) -> NodeChange {
    let disrupted = taints::disrupted();
    let mut all: Vec<Taint> = taints_of(node).to_vec();
    if !all.iter().any(|taint| taint.key == disrupted.key && taint.effect == disrupted.effect) {
        all.push(disrupted);
    }
    let mut meta = MetaChange::default();
    meta.labels.insert(labels::EXCLUDE_FROM_BALANCERS.to_owned(), Some(EXCLUDED_BY.to_owned()));
    NodeChange { meta, taints: Some(all) }
}

/// Removes our finalizer from the Node.
fn let_go(node: &Node) -> Write {
    let mut all = node.metadata.finalizers.clone().unwrap_or_default();
    all.retain(|one| one != annotations::TERMINATION_FINALIZER);
    let meta = MetaChange { finalizers: Some(all), ..MetaChange::default() };
    Write::Node { name: name(node), change: NodeChange { meta, taints: None } }
}

/// Returns the last writes for the claim: the deletion of Nodes that never registered, and the removal of our
/// finalizer.
fn release(seen: &Seen<'_>) -> Vec<Write> {
    let mut writes: Vec<Write> = seen
        .nodes
        .iter()
        .filter(|node| node.metadata.deletion_timestamp.is_none())
        .map(|node| Write::DeleteNode { name: name(node), uid: uid(node) })
        .collect();
    let mut all = seen.claim.metadata.finalizers.clone().unwrap_or_default();
    all.retain(|one| one != annotations::TERMINATION_FINALIZER);
    let change = MetaChange { finalizers: Some(all), ..MetaChange::default() };
    writes.push(Write::ClaimMeta { name: seen.name(), change });
    writes
}
