//! Deadlines of commands, and their reactions to failed replacements.
//!
//! | cause | waits at most | when a replacement fails |
//! |---|---|---|
//! | `Empty` `Underutilized` `Drifted` `Unhealthy` | 10 min | rolls back |
//! | `Expired` | 10 min, then proceeds | rolls back, and is decided again |
//! | `Broken` | 5 min, then proceeds | proceeds |
//! | `Interrupted` | 60 s, 5 min for the end of a capacity block, 10 min for maintenance, then proceeds | proceeds |

use std::time::Duration;

use jiff::Timestamp;
use muster_api::{Lifetime, annotations};
use muster_cloud::{NoticeKind, Urgency, after, capacity_block};
use muster_scheduling::disrupt::Cause;

use super::observed_command::Replacement;

/// Minimum wait for replacements, as in Karpenter.
const READY: Duration = Duration::from_secs(10 * 60);
/// Maximum wait for replacements, as in Karpenter.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Wait of an unhealthy node, which serves no requests; its pods need a place in any case.
const BROKEN: Duration = Duration::from_secs(5 * 60);
/// Wait of an interrupted node: spot instances are interrupted two minutes after the notice; the second minute is for
/// pods to terminate.
const INTERRUPTED: Duration = Duration::from_secs(60);

/// Reaction of a command to failed replacements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// Roll back.
    TakeBack,
    /// Proceed without them.
    Go,
}

/// Returns the wait of an interrupted node for its replacement, from the notice. A node whose notice is not recorded on
/// its claim is tainted by another program, which has told of a spot interruption or of maintenance.
pub(super) const fn of_notice(kind: NoticeKind) -> Duration {
    if matches!(kind, NoticeKind::CapacityBlockEnding) {
        return capacity_block::REPLACEMENT;
    }
    match kind.urgency() {
        Urgency::None | Urgency::Planned => READY,
        Urgency::Imminent => INTERRUPTED,
        Urgency::Immediate => Duration::ZERO,
    }
}

/// Returns the deadline of a command that began at `since`. It is extended for pools with a longer initialization
/// timeout. `dues` are the times until which interrupted nodes can wait: the last one counts, since a node that cannot
/// wait for it goes alone.
pub(super) fn deadline(
    cause: Cause,
    since: Timestamp,
    replacements: &[Replacement<'_>],
    dues: impl Iterator<Item = Timestamp>,
) -> Timestamp {
    let wait = match cause {
        Cause::Interrupted => return dues.max().unwrap_or_else(|| after(since, INTERRUPTED)),
        Cause::Broken => BROKEN,
        Cause::Empty | Cause::Underutilized | Cause::Drifted | Cause::Unhealthy | Cause::Expired => {
            replacements.iter().filter_map(granted).fold(READY, Duration::max).min(LONGEST)
        }
    };
    after(since, wait)
}

/// Returns the initialization timeout of a replacement's pool.
fn granted(replacement: &Replacement<'_>) -> Option<Duration> {
    let text = replacement.pool?.metadata.annotations.as_ref()?.get(annotations::INITIALIZATION_TIMEOUT)?;
    match text.parse().ok()? {
        Lifetime::After(wait) => Some(wait),
        Lifetime::Never => Some(LONGEST),
    }
}

/// Returns the reaction at the deadline.
pub(super) fn at_deadline(cause: Cause) -> Otherwise {
    if cause.forceful() { Otherwise::Go } else { Otherwise::TakeBack }
}

/// Returns the reaction to a failed replacement.
pub(super) fn at_failure(cause: Cause) -> Otherwise {
    match cause {
        Cause::Broken | Cause::Interrupted => Otherwise::Go,
        // An expired node need not go at once: other capacity is tried first.
        Cause::Expired | Cause::Empty | Cause::Underutilized | Cause::Drifted | Cause::Unhealthy => Otherwise::TakeBack,
    }
}
