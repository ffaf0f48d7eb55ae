//! End of a capacity block: times by which its nodes must have moved elsewhere.
//!
//! ```text
//!   before the end:   60 min                50 min                        40 min              30 min
//!                     closed: nothing is    notice: replacements, then    empty, at the       EC2 terminates
//!                     launched into it      the nodes are drained         latest              what is left
//! ```
//!
//! Karpenter begins 40 minutes before the end, when EC2 sends its own notice. A drain that begins then has ten minutes
//! in all, and nothing in hand.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::moment::after;

/// Time before the end from which EC2 terminates the instances of a block.
const TAKEN: SignedDuration = SignedDuration::from_mins(30);
/// Time before the end by which the nodes are empty.
const EMPTY: SignedDuration = SignedDuration::from_mins(40);
/// Time before the end at which the nodes begin to leave.
const NOTICE: SignedDuration = SignedDuration::from_mins(50);
/// Time before the end from which nothing is launched: a node that comes later would leave as soon as it serves.
const CLOSED: SignedDuration = SignedDuration::from_mins(60);
/// Minimum time for the drain of a node that leaves late, e.g. because no controller ran.
const DRAIN: Duration = Duration::from_secs(5 * 60);
/// Time that instances take to shut down, before EC2 would terminate them.
const SHUTDOWN: SignedDuration = SignedDuration::from_mins(1);

/// Maximum wait for the replacement of a node that leaves its block; the rest of the time is for the drain.
pub const REPLACEMENT: Duration = Duration::from_secs(5 * 60);

/// Returns true if a block with this end is closed for launches.
#[must_use]
pub fn is_closed(end: Timestamp, now: Timestamp) -> bool {
    before(end, CLOSED) <= now
}

/// Returns the time at which the nodes of a block with this end begin to leave.
#[must_use]
pub fn notice_at(end: Timestamp) -> Timestamp {
    before(end, NOTICE)
}

/// Returns the time by which a node that was deleted at `deleted_at` is empty, and its pods are terminated by force.
#[must_use]
pub fn empty_by(end: Timestamp, deleted_at: Timestamp) -> Timestamp {
    let late = after(deleted_at, DRAIN).min(before(end, TAKEN + SHUTDOWN));
    before(end, EMPTY).max(late)
}

fn before(end: Timestamp, time: SignedDuration) -> Timestamp {
    end.checked_sub(time).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    #[test]
    fn a_block_closes_before_its_nodes_leave() {
        let end = at(100);
        assert_eq!([39, 40, 100].map(|minute| is_closed(end, at(minute))), [false, true, true]);
        assert_eq!(notice_at(end), at(50));
        assert_eq!(notice_at(Timestamp::MIN), Timestamp::MIN);
    }

    #[test]
    fn its_nodes_are_empty_ten_minutes_before_ec2_terminates_them() {
        let end = at(100);
        assert_eq!([10, 50, 55].map(|minute| empty_by(end, at(minute))), [at(60); 3]);
        assert_eq!([58, 63].map(|minute| empty_by(end, at(minute))), [at(63), at(68)], "who leaves late has minutes");
        assert_eq!([66, 80].map(|minute| empty_by(end, at(minute))), [at(69); 2], "and none once EC2 takes them");
    }
}
