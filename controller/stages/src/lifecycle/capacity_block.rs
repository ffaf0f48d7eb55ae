//! Nodes of a capacity block that ends: they leave while there is time for replacements and drains.
//!
//! EC2 terminates the instances half an hour before the end, whatever runs there. The end is known from the start, so
//! nothing has to be heard: the notice is recorded as if the cloud had given it, and disruption acts on it.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, labels};
use muster_cloud::{NoticeKind, after, capacity_block};

use super::conditions::whole_seconds;
use super::interruption;
use super::seen::Seen;
use crate::step::Step;

/// Value of the label for the type of reservation.
const BLOCK: &str = "capacity-block";
/// Interval between two evaluations of a claim in a block, whose end may be moved. Karpenter's.
const EVERY: Duration = Duration::from_secs(60);

/// Records the notice that the block ends.
pub(super) fn leave(seen: &Seen<'_>, now: Timestamp) -> Step {
    let Some(end) = end(seen) else { return Step::rest() };
    let notice_at = capacity_block::notice_at(end);
    if now < notice_at {
        return Step::until(notice_at.min(after(now, EVERY)));
    }
    interruption::heed(seen.claim, seen.nodes.first().copied(), NoticeKind::CapacityBlockEnding, now)
}

/// Returns true if the instance of the claim is in a capacity block, whose end its class has.
#[must_use]
pub fn is_in_block(claim: &NodeClaim) -> bool {
    let kind = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::CAPACITY_RESERVATION_TYPE));
    kind.is_some_and(|kind| kind == BLOCK)
}

/// Returns the time by which the node of a deleted claim has to be empty, once the claim has to leave its block.
pub(super) fn empty_by(seen: &Seen<'_>, deleted_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let end = end(seen).filter(|end| capacity_block::notice_at(*end) <= now)?;
    Some(whole_seconds(capacity_block::empty_by(end, deleted_at)))
}

/// Returns the end of the claim's capacity block, if it is in one.
fn end(seen: &Seen<'_>) -> Option<Timestamp> {
    let is_reserved = seen.label(labels::CAPACITY_TYPE) == Some(labels::RESERVED);
    let id = seen.label(labels::CAPACITY_RESERVATION_ID).filter(|_| is_reserved)?;
    seen.class.block_ends.get(id).copied()
}
