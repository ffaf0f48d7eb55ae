//! Removal of disruption taints without a mark, left by an edit or by another program that kept its commands in memory.

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_cloud::after;

use super::mark::is_marked;
use super::observed_command::Candidate;
use super::planner::Timing;
use super::rollback::cleared;
use super::taint::disruption_taint;
use crate::lifecycle::is_true;
use crate::step::Step;

/// Removes the disruption taint of a node and the condition of its claim if the claim has no mark and is not
/// being rebooted.
#[must_use]
pub fn cleanup(candidate: &Candidate<'_>, timing: Timing, now: Timestamp) -> Step {
    let is_leaving_node = candidate.node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
    let is_rebooting = is_true(candidate.claim, nodeclaim::REBOOTING);
    if is_marked(candidate.claim) || candidate.is_leaving() || is_leaving_node || is_rebooting {
        return Step::rest();
    }
    let writes = cleared(candidate);
    if writes.is_empty() {
        return Step::rest();
    }
    // The mark may have been written but not observed yet.
    let added = candidate.node.and_then(disruption_taint).and_then(|taint| taint.time_added.as_ref());
    match added.map(|added| after(added.0, timing.settled)) {
        Some(settled) if now < settled => Step::until(settled),
        _ => Step::act(writes),
    }
}
