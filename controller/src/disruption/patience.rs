//! How long a command waits for what it launched, and what happens when that fails.
//!
//! | cause | waits at most | when a replacement fails |
//! |---|---|---|
//! | `Empty` `Underutilized` `Drifted` | 10 min | is taken back |
//! | `Expired` | 10 min, then goes | is taken back, and decided anew |
//! | `Unhealthy` | 5 min, then goes | goes |
//! | `Interrupted` | 60 s, then goes | goes |

use std::time::Duration;

use jiff::Timestamp;
use muster_api::{Lifetime, annotations};
use muster_cloud::after;
use muster_scheduling::disrupt::Cause;

use super::look::Replacement;

/// Karpenter's least wait for replacements.
const READY: Duration = Duration::from_secs(10 * 60);
/// Karpenter's longest.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// A broken node serves nobody; its pods wait for a place in any case.
const BROKEN: Duration = Duration::from_secs(5 * 60);
/// Spot instances are taken back two minutes after the notice; the second minute is for pods to end.
pub(super) const INTERRUPTED: Duration = Duration::from_secs(60);

/// What becomes of a command whose replacements fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// It is taken back.
    TakeBack,
    /// It goes on without them.
    Go,
}

/// When a command that began at `since` no longer waits. Pools that give their nodes longer to start are given that.
pub(super) fn deadline(cause: Cause, since: Timestamp, replacements: &[Replacement<'_>]) -> Timestamp {
    let wait = match cause {
        Cause::Interrupted => INTERRUPTED,
        Cause::Unhealthy => BROKEN,
        Cause::Empty | Cause::Underutilized | Cause::Drifted | Cause::Expired => {
            replacements.iter().filter_map(granted).fold(READY, Duration::max).min(LONGEST)
        }
    };
    after(since, wait)
}

/// What the pool of a replacement grants its nodes for initialization.
fn granted(replacement: &Replacement<'_>) -> Option<Duration> {
    let text = replacement.pool?.metadata.annotations.as_ref()?.get(annotations::INITIALIZATION_TIMEOUT)?;
    match text.parse().ok()? {
        Lifetime::After(wait) => Some(wait),
        Lifetime::Never => Some(LONGEST),
    }
}

/// What happens at the deadline.
pub(super) fn at_deadline(cause: Cause) -> Otherwise {
    if cause.forceful() { Otherwise::Go } else { Otherwise::TakeBack }
}

/// What happens when a replacement fails.
pub(super) fn at_failure(cause: Cause) -> Otherwise {
    match cause {
        Cause::Unhealthy | Cause::Interrupted => Otherwise::Go,
        // Its time is up, but not this minute: other capacity is tried first.
        Cause::Expired | Cause::Empty | Cause::Underutilized | Cause::Drifted => Otherwise::TakeBack,
    }
}
