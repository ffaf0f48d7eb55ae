//! Arithmetic of moments that cannot fail.

use std::time::Duration;

use jiff::Timestamp;

/// The moment `wait` later, or the last one there is.
#[must_use]
pub fn after(moment: Timestamp, wait: Duration) -> Timestamp {
    moment.checked_add(wait).unwrap_or(Timestamp::MAX)
}
