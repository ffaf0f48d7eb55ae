//! Lifecycle of a NodeClaim, as pure decisions: from its creation to the removal of its last trace.
//!
//! ```text
//!                ┌───────── Seen: claim, pool, class, nodes, pods, answers of the cloud ◄──────────────────┐
//!                ▼                                                                                         │
//!   wanted:   tidy ─► leave ─► interrupt ─► expire ─► verdict ─► vanish ─► demote ─► launch ─► register    │
//!             ─► initialize ─► tag ─► liveness ─► silence                                                  │
//!   rebooted: leave ─► interrupt ─► expire ─► vanish ─► reboot ─► tag                                      │
//!   deleted:  terminate: Node: taint ─► drain ─► volumes ─► instance ─► finalizer;  claim: finalizer       │
//!                │                                                                                         │
//!                ▼                                                                                         │
//!              Step: writes, in order; next reconciliation ─► edge: one write after the other ─► API server, cloud
//!
//!   breaker::judge: a NodeClass       garbage::collect: orphans                pause, caps: limits on launches
//!   interruption::heed: a notice of the cloud, or of the end of a capacity block (leave); disruption or interrupt acts
//!   pod_events::touch: pods came or left
//!   standing::tell: conditions for disruption
//! ```
//!
//! Every stage is a total function of the observed state and the time. No state is kept between two reconciliations
//! except in the written objects, and every stage is level-triggered: the same state gives the same step, and the state
//! after a step gives the next step. If the controller stops between two writes, the next leader continues.
//!
//! [`Step`] lists the rules for an edge.

pub mod agent_silence;
pub mod breaker;
mod capacity_block;
pub mod caps;
pub(crate) mod conditions;
pub mod consistency;
mod demote;
pub mod disruption_status;
mod expire;
pub mod garbage;
mod initialize;
pub mod interruption;
mod launch;
mod liveness;
mod overlaid;
pub mod pause;
pub mod pod_events;
mod reboot;
mod register;
mod seen;
mod tag;
mod terminate;
mod vanish;
mod verdict;

#[cfg(test)]
pub(crate) mod tests;

use jiff::Timestamp;

pub use self::capacity_block::is_in_block;
pub use self::conditions::{Status, at as judged, set as set_condition, whole_seconds};
pub use self::conditions::{condition, is_true};
pub use self::demote::is_reserved;
pub use self::liveness::{INITIALIZATION_TIMEOUT, LAUNCH_TIMEOUT, REGISTRATION_TIMEOUT};
pub use self::overlaid::overlaid;
pub use self::reboot::{SUCCEEDED, reboot_result};
pub use self::register::has_label;
pub use self::seen::{Answers, Attachment, Class, DisruptionBlocker, Eviction, Listing, Readiness, Resident, Seen};
pub use crate::step::{Call, DeletionCause, Event, EventType, MetaChange, NodeChange, Step, Subject, Write};

/// A stage: returns the next writes and the time of the next reconciliation.
type Stage = fn(&Seen<'_>, Timestamp) -> Step;

/// Stages of a claim that is not being deleted, in order.
const WANTED: [Stage; 13] = [
    reboot::tidy,
    capacity_block::leave,
    interruption::interrupt,
    expire::expire,
    verdict::verdict,
    vanish::vanish,
    demote::demote,
    launch::launch,
    register::register,
    initialize::initialize,
    tag::tag,
    liveness::liveness,
    agent_silence::silence,
];

/// Stages of a claim whose node is being rebooted.
const REBOOTING: [Stage; 6] =
    [capacity_block::leave, interruption::interrupt, expire::expire, vanish::vanish, reboot::reboot, tag::tag];

/// Decides the next step of one NodeClaim: the writes of the first stage that has any, or else the earliest
/// reconciliation that a stage requests.
#[must_use]
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Step {
    let ending = terminate::terminate(seen, now);
    if terminate::is_ending(seen) {
        return ending;
    }
    let mut rest = Step::rest();
    let stages: &[Stage] = if reboot::is_rebooting(seen) { &REBOOTING } else { &WANTED };
    for stage in stages {
        let step = stage(seen, now);
        if !step.writes.is_empty() {
            return step;
        }
        rest = rest.or_sooner(step.again);
    }
    rest
}
