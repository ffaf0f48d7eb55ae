//! Available instances of capacity reservations: the last counts of EC2, changed by our own instances since.
//!
//! ```text
//!   DescribeCapacityReservations ──► tell ──► count ──► offerings
//!   launched ──► one less at once                ▲
//!   ended ─────► one more, if EC2 was asked before the end began; doubtful ─┐
//!   refused ───► none left; doubtful ───────────────────────────────────────┴──► asked again soon
//! ```
//!
//! EC2 is asked once a minute, and others use the same reservations. A count that is too high costs a launch that is
//! refused; one that is too low costs an instance on demand while a reserved one is idle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

/// Minimum interval between two questions about a doubtful count: EC2 may count an instance for a while that has ended.
pub const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Maximum time for which a count stays doubtful; then the usual interval is enough.
const DOUBT: Duration = Duration::from_secs(2 * 60);

/// Counts by reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReservationCounts {
    by_id: BTreeMap<String, Count>,
    /// Our instances in reservations, by ID.
    instances: BTreeMap<String, Holder>,
    edition: u64,
    freed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Count {
    told: u32,
    asked_at: Timestamp,
    /// Times of our launches and ends that the count does not include.
    launched: Vec<Timestamp>,
    ended: Vec<Timestamp>,
    /// Time of the event since which the count may be wrong.
    doubted_at: Option<Timestamp>,
}

/// The use of a reservation by one of our instances.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    reservation: String,
    /// Time at which its termination was requested.
    ending_at: Option<Timestamp>,
}

// === impl ReservationCounts ===

impl ReservationCounts {
    /// Sets the counts of EC2, which was asked at `asked_at`. Events before that time are included in them.
    pub fn tell<'a>(&mut self, counts: impl IntoIterator<Item = (&'a str, u32)>, asked_at: Timestamp) {
        for (id, told) in counts {
            let is_since = |at: &&Timestamp| **at > asked_at;
            let before = self.by_id.get(id);
            if before.is_some_and(|before| before.asked_at > asked_at) {
                continue;
            }
            let since = |of: fn(&Count) -> &Vec<Timestamp>| -> Vec<Timestamp> {
                before.iter().flat_map(|before| of(before)).filter(is_since).copied().collect()
            };
            let (launched, ended) = (since(|count| &count.launched), since(|count| &count.ended));
            let doubted_at = before.and_then(|before| before.doubted_at);
            // EC2 has noticed what the doubt was about.
            let doubted_at = doubted_at.filter(|_| told == 0 || !launched.is_empty());
            let count = Count { told, asked_at, launched, ended, doubted_at };
            let (left, now_left) = (before.map(Count::available), count.available());
            self.by_id.insert(id.to_owned(), count);
            self.edition += u64::from(left != Some(now_left));
            self.freed += u64::from(left.is_some_and(|left| left < now_left));
        }
    }

    /// Records the launch of one of our instances into a reservation.
    pub fn launched(&mut self, instance: &str, reservation: &str, at: Timestamp) {
        let holder = Holder { reservation: reservation.to_owned(), ending_at: None };
        // A repeated request finds the instance of the first one.
        if self.instances.insert(instance.to_owned(), holder).is_none()
            && let Some(count) = self.by_id.get_mut(reservation)
        {
            count.launched.push(at);
            self.edition += 1;
        }
    }

    /// Records that one of our instances is in a reservation, as EC2 says; the counts include it.
    pub fn seen(&mut self, instance: &str, reservation: &str) {
        let holder = || Holder { reservation: reservation.to_owned(), ending_at: None };
        self.instances.entry(instance.to_owned()).or_insert_with(holder);
    }

    /// Records that the termination of an instance was requested.
    pub fn ending(&mut self, instance: &str, at: Timestamp) {
        if let Some(holder) = self.instances.get_mut(instance) {
            holder.ending_at.get_or_insert(at);
        }
    }

    /// Records that an instance has ended, or has left its reservation. EC2's count may include that already, if it was
    /// asked after the end began.
    pub fn ended(&mut self, instance: &str, at: Timestamp) {
        let Some(holder) = self.instances.remove(instance) else { return };
        let Some(count) = self.by_id.get_mut(&holder.reservation) else { return };
        if holder.ending_at.is_some_and(|ending_at| count.asked_at < ending_at) {
            count.ended.push(at);
            self.edition += 1;
            self.freed += 1;
        }
        count.doubted_at = Some(at);
    }

    /// Records that EC2 refused a launch, because no instance is left of the reservation.
    pub fn refused(&mut self, reservation: &str, at: Timestamp) {
        let Some(count) = self.by_id.get_mut(reservation) else { return };
        let is_news = count.available() > 0;
        // A question before the refusal does not count any more.
        *count = Count { told: 0, asked_at: at, launched: Vec::new(), ended: Vec::new(), doubted_at: Some(at) };
        self.edition += u64::from(is_news);
    }

    /// Returns the number of instances left; `None` if EC2 has never told.
    #[must_use]
    pub fn available(&self, reservation: &str) -> Option<u32> {
        self.by_id.get(reservation).map(Count::available)
    }

    /// Returns the reservations whose count may be wrong, so that EC2 has to be asked again at `now`.
    #[must_use]
    pub fn doubtful(&self, now: Timestamp) -> BTreeSet<String> {
        let is_due = |count: &Count| {
            count.doubted_at.is_some_and(|at| now < after(at, DOUBT)) && after(count.asked_at, ASK_AGAIN) <= now
        };
        self.by_id.iter().filter(|(_, count)| is_due(count)).map(|(id, _)| id.clone()).collect()
    }

    /// Returns true if some count may be wrong.
    #[must_use]
    pub fn has_doubts(&self) -> bool {
        self.by_id.values().any(|count| count.doubted_at.is_some())
    }

    /// Iterates over the IDs of our instances in reservations.
    pub fn instances(&self) -> impl Iterator<Item = &str> {
        self.instances.keys().map(String::as_str)
    }

    /// Returns a counter that grows whenever an instance becomes available.
    #[must_use]
    pub const fn freed(&self) -> u64 {
        self.freed
    }

    /// Returns a counter that grows with every change of a number.
    #[must_use]
    pub const fn edition(&self) -> u64 {
        self.edition
    }
}

// === impl Count ===

impl Count {
    fn available(&self) -> u32 {
        let number = |all: &[Timestamp]| u32::try_from(all.len()).unwrap_or(u32::MAX);
        self.told.saturating_add(number(&self.ended)).saturating_sub(number(&self.launched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Two of `cr-1`, as EC2 has said at second 100.
    fn two() -> ReservationCounts {
        let mut counts = ReservationCounts::default();
        counts.tell([("cr-1", 2)], at(100));
        counts
    }

    fn left(counts: &ReservationCounts) -> u32 {
        counts.available("cr-1").unwrap()
    }

    #[test]
    fn our_launches_count_at_once_and_never_below_zero() {
        let mut counts = two();
        for (number, expected) in [(1, 1), (2, 0), (3, 0)] {
            counts.launched(&format!("i-{number}"), "cr-1", at(100 + number));
            assert_eq!(left(&counts), expected);
        }
        counts.launched("i-1", "cr-1", at(110));
        counts.tell([("cr-1", 1)], at(102));
        assert_eq!(left(&counts), 0, "the third came after the question, and the first was found again");
        counts.tell([("cr-1", 1)], at(120));
        assert_eq!(left(&counts), 1, "one of them has been given back by somebody else");
        counts.launched("i-9", "cr-9", at(121));
        assert_eq!(counts.available("cr-9"), None);
    }

    #[test]
    fn an_end_counts_where_ec2_cannot_have_counted_it() {
        let mut counts = two();
        counts.launched("i-1", "cr-1", at(101));
        counts.ending("i-1", at(110));
        assert_eq!(left(&counts), 1, "it is shutting down");
        counts.ended("i-1", at(130));
        assert_eq!(left(&counts), 2);
        counts.ended("i-1", at(131));
        assert_eq!(left(&counts), 2, "it ends once");

        let mut counts = two();
        counts.seen("i-1", "cr-1");
        counts.ending("i-1", at(110));
        counts.tell([("cr-1", 3)], at(120));
        counts.ended("i-1", at(130));
        assert_eq!(left(&counts), 3, "EC2 may have counted it");
        assert_eq!(counts.doubtful(at(131)), ["cr-1".to_owned()].into(), "and is asked");

        let mut counts = two();
        counts.seen("i-1", "cr-1");
        counts.ended("i-1", at(130));
        assert_eq!(left(&counts), 2, "somebody else ended it, at an unknown time");
    }

    #[test]
    fn a_refusal_leaves_nothing_until_ec2_is_asked_again_which_is_soon() {
        let mut counts = two();
        assert_eq!(counts.doubtful(at(200)), BTreeSet::new());
        counts.refused("cr-1", at(110));
        assert_eq!(left(&counts), 0);
        counts.tell([("cr-1", 2)], at(109));
        assert_eq!(left(&counts), 0, "that was asked before");
        assert_eq!(counts.doubtful(at(114)), BTreeSet::new());
        assert_eq!(counts.doubtful(at(115)), ["cr-1".to_owned()].into());
        counts.tell([("cr-1", 0)], at(115));
        assert_eq!(counts.doubtful(at(116)), BTreeSet::new());
        assert_eq!(counts.doubtful(at(120)), ["cr-1".to_owned()].into(), "EC2 may be late");
        assert_eq!(counts.doubtful(at(230)), BTreeSet::new(), "but not that late");
        counts.tell([("cr-1", 1)], at(120));
        assert_eq!((left(&counts), counts.doubtful(at(130))), (1, BTreeSet::new()));
    }

    #[test]
    fn the_edition_changes_with_the_numbers() {
        let mut counts = two();
        let edition = counts.edition();
        counts.tell([("cr-1", 2)], at(120));
        assert_eq!(counts.edition(), edition);
        counts.tell([("cr-1", 1)], at(130));
        assert!(counts.edition() > edition);
    }
}
