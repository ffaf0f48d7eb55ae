//! Status of NodeOverlays.
//!
//! ```text
//!   LiveOverlay, OverlayReport ──► ValidationSucceeded ─► Ready
//!                                   False: RuntimeValidation, Conflict
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::NodeOverlay;
use muster_api::conditions::{READY, nodeoverlay, reason};
use muster_api::nodeoverlay::NodeOverlayStatus;
use muster_scheduling::overlay::{OverlayOutcome, OverlayReport};

use crate::lifecycle::conditions::{Status, at, set};
use crate::state::LiveOverlay;
use crate::step::{Step, Write};

#[cfg(test)]
mod tests;

/// Interval between evaluations if no overlay, pool or class changes: offerings of the cloud change without an event.
pub const EVERY: Duration = Duration::from_secs(600);

/// Returns the writes about all overlays; `reports` are the results of applying them together.
#[must_use]
pub fn decide<'o>(overlays: impl Iterator<Item = &'o LiveOverlay>, reports: &[OverlayReport], now: Timestamp) -> Step {
    let by_name: BTreeMap<&str, &OverlayOutcome> = reports.iter().map(|one| (&*one.name, &one.outcome)).collect();
    let mut writes = Vec::new();
    for LiveOverlay { typed, refusal, .. } in overlays {
        if typed.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let name = typed.metadata.name.clone().unwrap_or_default();
        let status = judge(typed, refusal.as_deref(), by_name.get(name.as_str()).copied(), now);
        if typed.status.as_ref() != Some(&status) {
            writes.push(Write::OverlayStatus { name, status: Box::new(status) });
        }
    }
    Step::act(writes)
}

fn judge(
    overlay: &NodeOverlay,
    refusal: Option<&str>,
    outcome: Option<&OverlayOutcome>,
    now: Timestamp,
) -> NodeOverlayStatus {
    let mut status = overlay.status.clone().unwrap_or_default();
    let generation = overlay.metadata.generation;
    let problem = match (refusal, outcome) {
        (Some(refusal), _) => Some((reason::RUNTIME_VALIDATION, refusal.to_owned())),
        (None, Some(OverlayOutcome::Invalid(why))) => Some((reason::RUNTIME_VALIDATION, why.clone())),
        (None, Some(OverlayOutcome::Conflict { with })) => {
            let others = with.join("`, `");
            let message =
                format!("conflict with another overlay of the same weight: `{others}`; this one has no effect");
            Some((reason::CONFLICT, message))
        }
        (None, Some(OverlayOutcome::Applied { .. } | OverlayOutcome::MatchesNothing) | None) => None,
    };
    let (valid, ready) = match &problem {
        Some((why, message)) => {
            let dependents = format!("{}=False", nodeoverlay::VALIDATION_SUCCEEDED);
            (
                at(nodeoverlay::VALIDATION_SUCCEEDED, Status::False, why, message, generation, now),
                at(READY, Status::False, reason::UNHEALTHY_DEPENDENTS, &dependents, generation, now),
            )
        }
        None => {
            let valid = nodeoverlay::VALIDATION_SUCCEEDED;
            (at(valid, Status::True, valid, "", generation, now), at(READY, Status::True, READY, "", generation, now))
        }
    };
    set(&mut status.conditions, valid);
    set(&mut status.conditions, ready);
    status
}
