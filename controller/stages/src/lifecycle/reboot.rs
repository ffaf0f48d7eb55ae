//! Reboots of nodes that Karpenter has begun (its condition Rebooting). Such a node is left alone until it is back: its
//! capacity returns, so nothing is bought for it, and nothing takes it away.
//!
//! ```text
//!  Rebooting=True RebootRequested ─► RebootIssued ─► Ready again ─► Rebooting=False RebootSucceeded ─► initialize
//!            └──────────────── after 30 min ────────────────────────► Rebooting=False RebootFailed ───► initialize
//! ```

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{annotations, taints};
use muster_cloud::after;

use super::conditions::{Draft, Status, condition, true_since};
use super::initialize::readiness;
use super::register::{name, taints_of};
use super::seen::Seen;
use crate::node::Node;
use crate::step::{MetaChange, NodeChange, Step, Write};

/// Time for which a node is left alone: longer than the 5 and 20 minutes that Karpenter allows for the two phases.
const WINDOW: Duration = Duration::from_secs(30 * 60);

/// Returns true if the claim's node is being rebooted.
pub(super) fn is_rebooting(seen: &Seen<'_>) -> bool {
    true_since(seen.claim, nodeclaim::REBOOTING).is_some()
}

/// Returns the end of the claim's last reboot, from which the timeout of initialization counts.
pub(super) fn rebooted_at(seen: &Seen<'_>) -> Option<Timestamp> {
    let told = condition(seen.claim, nodeclaim::REBOOTING).filter(|told| told.status != Status::True.name());
    told.map(|told| told.last_transition_time.0)
}

/// Waits for the reboot, and tells its end.
pub(super) fn reboot(seen: &Seen<'_>, now: Timestamp) -> Step {
    let Some(since) = true_since(seen.claim, nodeclaim::REBOOTING) else { return Step::rest() };
    let deadline = after(since, WINDOW);
    let node = match seen.nodes.as_slice() {
        [node] => Some(*node),
        _ => None,
    };
    let (reason, message) = if node.is_some_and(|node| is_back(seen, node)) {
        (reason::REBOOT_SUCCEEDED, "the node is ready again".to_owned())
    } else if now < deadline {
        return Step::until(deadline);
    } else {
        (reason::REBOOT_FAILED, format!("the node was not ready again within {}", muster_api::Span(WINDOW)))
    };
    let mut writes = Vec::new();
    if let Some(node) = node {
        let mut kept = taints_of(node).to_vec();
        kept.retain(|taint| taint.key != taints::REBOOTING);
        let change = NodeChange { meta: MetaChange::default(), taints: Some(kept) }.against(node);
        if !change.is_empty() {
            writes.push(Write::Node { name: name(node), change });
        }
    }
    let own = seen.claim.metadata.annotations.as_ref();
    if own.is_some_and(|own| own.contains_key(annotations::REBOOT_PRE_BOOT_ID)) {
        let mut change = MetaChange::default();
        change.annotations.insert(annotations::REBOOT_PRE_BOOT_ID.to_owned(), None);
        writes.push(Write::ClaimMeta { name: seen.name(), change });
    }
    let mut draft = Draft::of(seen, now);
    draft.set(nodeclaim::REBOOTING, Status::False, reason, &message);
    writes.extend(draft.write());
    Step::act(writes)
}

/// Returns true if the reboot was issued, and the node has become ready since then.
fn is_back(seen: &Seen<'_>, node: &Node) -> bool {
    let is_issued =
        condition(seen.claim, nodeclaim::REBOOTING).is_some_and(|told| told.reason == reason::REBOOT_ISSUED);
    let issued_at = condition(seen.claim, nodeclaim::INITIALIZED)
        .filter(|told| told.status == Status::Unknown.name())
        .map(|told| told.last_transition_time.0);
    let ready_since =
        readiness(node).filter(|one| one.status == "True").and_then(|one| one.last_transition_time.as_ref());
    is_issued && issued_at.zip(ready_since).is_some_and(|(issued, ready)| ready.0 > issued)
}
