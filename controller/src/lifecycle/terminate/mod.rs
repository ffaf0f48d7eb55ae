//! From a deleted NodeClaim, or Node, to the moment at which nothing of them is left.
//!
//! ```text
//!   Node:   delete ─► taint ─► drain in tiers ─► volumes leave ─► instance ends, and is seen to have ended ─► finalizer
//!   claim:  deadline ─► its Nodes as above ─► instance ends, and is seen to have ended ─► what is left of Nodes ─► finalizer
//! ```
//!
//! Both finalizers go only when the cloud says that there is no instance: what would pay for it is gone last.

mod drain;
mod instance;
mod volumes;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use muster_api::conditions::nodeclaim;
use muster_api::{annotations, events, labels, taints};
use muster_cloud::after;

use super::conditions::{Draft, is_true};
use super::initialize::is_ready;
use super::launch;
use super::register::{has_finalizer, has_label, name, taints_of, uid, with_finalizer};
use super::seen::Seen;
use crate::node::Node;
use crate::step::{EventType, MetaChange, NodeChange, Step, Write};

/// Value of the label that keeps load balancers away.
const EXCLUDED_BY: &str = "karpenter";

/// Whether the claim, or a Node of it, is on its way out.
pub(super) fn is_ending(seen: &Seen<'_>) -> bool {
    is_deleted(seen) || seen.nodes.iter().any(|node| is_leaving(node))
}

pub(super) fn terminate(seen: &Seen<'_>, now: Timestamp) -> Step {
    if !is_ending(seen) {
        return Step::rest();
    }
    if !is_deleted(seen) {
        return Step::act([seen.delete("node_deleted")]);
    }
    if !launch::has_finalizer(seen) {
        return Step::rest();
    }
    if let Some(step) = set_deadline(seen) {
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

/// When the grace period of the claim ends, if it has one.
fn deadline(seen: &Seen<'_>) -> Option<Timestamp> {
    seen.annotation(annotations::NODECLAIM_TERMINATION_TIMESTAMP)?.parse().ok()
}

fn is_deleted(seen: &Seen<'_>) -> bool {
    seen.claim.metadata.deletion_timestamp.is_some()
}

/// Whether the Node is being deleted, and waits for us.
fn is_leaving(node: &Node) -> bool {
    node.metadata.deletion_timestamp.is_some() && has_finalizer(node)
}

/// Whether the Node has registered, so that there may be pods that want to leave it in good order. By the Node's own
/// word: the claim's comes after it.
fn is_ours(node: &Node) -> bool {
    has_finalizer(node) || has_label(node, labels::REGISTERED) && node.metadata.deletion_timestamp.is_none()
}

/// The moment after which nothing is waited for, written down once: the claim cannot be changed, but deleted earlier.
fn set_deadline(seen: &Seen<'_>) -> Option<Step> {
    let grace = seen.claim.spec.termination_grace_period?;
    if deadline(seen).is_some() {
        return None;
    }
    let deleted_at = seen.claim.metadata.deletion_timestamp.as_ref()?.0;
    let end = after(deleted_at, grace.0);
    let change = MetaChange::default().annotation(annotations::NODECLAIM_TERMINATION_TIMESTAMP, end.to_string());
    let message = format!("whatever is left on the node at {end} is ended then");
    Some(Step::act([
        seen.event(EventType::Warning, events::TERMINATION_GRACE_PERIOD_EXPIRING, message),
        Write::ClaimMeta { name: seen.name(), change },
    ]))
}

/// Without our finalizer the Node would be gone at once, and its pods with it.
fn delete_node(node: &Node) -> Step {
    let mut writes = Vec::new();
    if !has_finalizer(node) {
        let meta = MetaChange { finalizers: Some(with_finalizer(node)), ..MetaChange::default() };
        writes.push(Write::Node { name: name(node), change: NodeChange { meta, taints: None } });
    }
    writes.push(Write::DeleteNode { name: name(node), uid: uid(node) });
    Step::act(writes)
}

/// The Node's way out.
fn take_away(seen: &Seen<'_>, node: &Node, now: Timestamp) -> Step {
    let finalizer = let_go(node);
    // A dead kubelet may mean a dead instance: then there is nobody to drain.
    if !is_ready(node) {
        match instance::is_gone(seen) {
            instance::Look::Ask(question) => return Step::act([question]),
            instance::Look::Gone => return Step::act([finalizer]),
            instance::Look::There => {}
        }
    }
    let change = keep_away(node).against(node);
    if !change.is_empty() {
        return Step::act([Write::Node { name: name(node), change }]);
    }
    let mut draft = Draft::of(seen, now);
    // What has been judged stays so: a volume that comes back does not start the drain again.
    if !is_true(seen.claim, nodeclaim::DRAINED) {
        if let Some(step) = drain::drain(seen, node, &mut draft, now) {
            return finish(step, draft);
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

/// The step, with what the draft says of it.
fn finish(mut step: Step, draft: Draft<'_>) -> Step {
    step.writes.extend(draft.write());
    step
}

/// Nothing new comes to the Node, from the scheduler or from load balancers.
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

/// Takes our finalizer off the Node.
fn let_go(node: &Node) -> Write {
    let mut all = node.metadata.finalizers.clone().unwrap_or_default();
    all.retain(|one| one != annotations::TERMINATION_FINALIZER);
    let meta = MetaChange { finalizers: Some(all), ..MetaChange::default() };
    Write::Node { name: name(node), change: NodeChange { meta, taints: None } }
}

/// The last writes for the claim: Nodes that never registered, then our finalizer.
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
