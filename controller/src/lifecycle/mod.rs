//! The life of a NodeClaim, as decisions: from the wish for a node to the moment at which nothing of it is left.
//!
//! ```text
//!                ┌───────── Seen: claim, pool, class, nodes, pods, what the cloud answered ◄───────────────┐
//!                ▼                                                                                         │
//!   wanted:   expire ─► verdict ─► vanish ─► launch ─► register ─► initialize ─► tag ─► liveness ─► silence │
//!   deleted:  terminate: Node: taint ─► drain ─► volumes ─► instance ─► finalizer;  claim: finalizer       │
//!                │                                                                                         │
//!                ▼                                                                                         │
//!              Step: writes, in order; when to look again ─► edge: one write after the other ─► API server, cloud
//!
//!   breaker::judge: a NodeClass       garbage::collect: what no claim owns       pause, caps: may anything be launched
//!   interruption::heed: the cloud announces that it takes an instance back       pod_events::touch: pods came or left
//!   standing::tell: whether disruption may take the node away
//! ```
//!
//! Every stage is a total function of what the API shows and of a moment. Nothing is kept between two looks but what was
//! written, and every stage asks what is, not what happened: the same look gives the same step, a look at what a step
//! has left gives the next one, and whoever stops between any two writes is continued by whoever looks next.
//!
//! What an edge has to keep to is said at [`Step`].

pub mod breaker;
pub mod caps;
pub(crate) mod conditions;
mod expire;
pub mod garbage;
mod initialize;
pub mod interruption;
mod launch;
mod liveness;
pub mod pause;
pub mod pod_events;
mod register;
mod seen;
pub(crate) mod silence;
pub mod standing;
mod tag;
mod terminate;
mod vanish;
mod verdict;

#[cfg(test)]
pub(crate) mod tests;

use jiff::Timestamp;

pub(crate) use self::conditions::{Status, at as judged, set as set_condition, whole_seconds};
pub use self::conditions::{condition, is_true};
pub use self::liveness::{INITIALIZATION_TIMEOUT, LAUNCH_TIMEOUT, REGISTRATION_TIMEOUT};
pub(crate) use self::register::has_label;
pub use self::seen::{Answers, Attachment, Class, Eviction, Hold, Listing, Readiness, Resident, Seen};
pub use crate::step::{Call, Event, EventType, MetaChange, NodeChange, Step, Subject, Write};

/// A stage: what it wants written next, and when it wants to look again.
type Stage = fn(&Seen<'_>, Timestamp) -> Step;

/// The stages of a claim that is wanted, in order.
const WANTED: [Stage; 9] = [
    expire::expire,
    verdict::verdict,
    vanish::vanish,
    launch::launch,
    register::register,
    initialize::initialize,
    tag::tag,
    liveness::liveness,
    silence::silence,
];

/// What to do next about one NodeClaim: the writes of the first stage that wants any, or the earliest moment at which
/// one of them wants to look again.
#[must_use]
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Step {
    let ending = terminate::terminate(seen, now);
    if terminate::is_ending(seen) {
        return ending;
    }
    let mut rest = Step::rest();
    for stage in WANTED {
        let step = stage(seen, now);
        if !step.writes.is_empty() {
            return step;
        }
        rest = rest.or_sooner(step.again);
    }
    rest
}
