//! First writes of a reboot: the longest drain, and the conditions that ask for it. [`crate::lifecycle`] does the rest.
//!
//! A crash between the two leaves an annotation that the next request overwrites.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{Span, annotations};
use muster_scheduling::disrupt::{Cause, RepairDue};

use super::mark::is_marked;
use super::objection::objection;
use super::observed_command::{Candidate, leavers};
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{Status, is_true, judged, set_condition};
use crate::step::{MetaChange, Step, Write};

/// Returns the step that asks for the reboot of a node; none if the claim is being deleted, disrupted or rebooted, or
/// has an objection by now.
pub(super) fn request(candidate: &Candidate<'_>, due: &RepairDue<'_>, pause: Pause, now: Timestamp) -> Option<Step> {
    let is_taken = candidate.is_leaving()
        || is_marked(candidate.claim)
        || is_true(candidate.claim, nodeclaim::REBOOTING)
        || candidate.node.is_none();
    if is_taken || objection(candidate, Cause::Unhealthy, leavers(candidate.residents), pause, now).is_some() {
        return None;
    }
    // One that was left over would pass for the boot ID before this reboot.
    let change = MetaChange::default().without_annotation(annotations::REBOOT_PRE_BOOT_ID);
    let key = annotations::REBOOT_TERMINATION_GRACE_PERIOD;
    let change = match grace(candidate, due.drain) {
        Some(grace) => change.annotation(key, Span(grace).to_string()),
        None => change.without_annotation(key),
    };
    let change = change.against(&candidate.claim.metadata);
    let meta = (!change.is_empty()).then(|| Write::ClaimMeta { name: candidate.name(), change });
    let mut status = candidate.claim.status.clone().unwrap_or_default();
    let generation = candidate.claim.metadata.generation;
    let kind = due.condition.condition.split_once('=').map_or(&*due.condition.condition, |(kind, _)| kind);
    let message = format!("rebooting for {kind}/{}", due.condition.reason);
    let unhealthy = Cause::Unhealthy.name();
    for wanted in [
        judged(nodeclaim::DISRUPTION_REASON, Status::True, unhealthy, unhealthy, generation, now),
        judged(nodeclaim::REBOOTING, Status::True, reason::REBOOT_REQUESTED, &message, generation, now),
    ] {
        // The request counts from now, whatever the status was.
        status.conditions.retain(|one| one.type_ != wanted.type_);
        set_condition(&mut status.conditions, wanted);
    }
    Some(Step::act(meta.into_iter().chain([Write::ClaimStatus { name: candidate.name(), status: Box::new(status) }])))
}

/// Returns the longest drain: that of the policy, or a shorter one of the claim.
fn grace(candidate: &Candidate<'_>, policy: Option<SignedDuration>) -> Option<Duration> {
    let policy = policy.and_then(|policy| Duration::try_from(policy).ok());
    let own = candidate.claim.spec.termination_grace_period.map(|grace| grace.0);
    policy.into_iter().chain(own).min()
}
