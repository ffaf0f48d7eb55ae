//! Infallible arithmetic on timestamps.

use std::time::Duration;

use jiff::Timestamp;

/// Returns `moment` plus `wait`, or [`Timestamp::MAX`] on overflow.
#[must_use]
pub fn after(moment: Timestamp, wait: Duration) -> Timestamp {
    moment.checked_add(wait).unwrap_or(Timestamp::MAX)
}
