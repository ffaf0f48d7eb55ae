//! Enrolments that this replica has just recorded, which its cache may not show yet. Pure.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use muster_link::Enrolled;

/// Maximum lag of the cache behind this replica's records.
const LAG: SignedDuration = SignedDuration::from_secs(60);

/// Enrolment by UID of the NodeClaim; not by name, which the next NodeClaim for the same pods may have. Entries written
/// longer than [`LAG`] ago are forgotten: the cache shows them by then.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// With the time of the write, which may be long after that of the enrolment.
    by_claim: HashMap<String, (Enrolled, Timestamp)>,
    /// In order of arrival.
    order: VecDeque<(Timestamp, String)>,
}

impl Recorded {
    /// Records an enrolment that was written at `now`.
    pub(super) fn note(&mut self, claim: &str, enrolled: Enrolled, now: Timestamp) {
        self.forget(now);
        self.by_claim.insert(claim.to_owned(), (enrolled, now));
        self.order.push_back((now, claim.to_owned()));
    }

    /// Forgets old entries; an empty map frees its memory.
    pub(super) fn forget(&mut self, now: Timestamp) {
        while let Some((_, old)) = self.order.pop_front_if(|(at, _)| now.duration_since(*at) >= LAG) {
            // An instance that has enrolled again since is kept for that.
            if self.by_claim.get(&old).is_some_and(|(_, written)| now.duration_since(*written) >= LAG) {
                self.by_claim.remove(&old);
            }
        }
        if self.order.is_empty() {
            *self = Self::default();
        }
    }

    /// Returns the latest enrolment of a NodeClaim, from the cache and these records.
    pub(super) fn latest(&self, claim: &str, shown: Option<Enrolled>, now: Timestamp) -> Option<Enrolled> {
        let recorded = self.by_claim.get(claim).filter(|(_, written)| now.duration_since(*written) < LAG);
        let recorded = recorded.map(|(enrolled, _)| *enrolled);
        match (shown, recorded) {
            (Some(shown), Some(recorded)) if recorded.at <= shown.at => Some(shown),
            (shown, recorded) => recorded.or(shown),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_link::KeyHash;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn by(key: u8, second: i64) -> Enrolled {
        Enrolled { key: KeyHash::of(&[key]), at: at(second) }
    }

    #[test]
    fn record_counts_until_the_cache_shows_it_or_a_later_one() {
        let mut recorded = Recorded::default();
        recorded.note("a", by(1, 10), at(10));
        assert_eq!(recorded.latest("a", None, at(11)), Some(by(1, 10)));
        assert_eq!(recorded.latest("a", Some(by(2, 5)), at(11)), Some(by(1, 10)), "the cache is behind");
        assert_eq!(recorded.latest("a", Some(by(3, 12)), at(13)), Some(by(3, 12)), "another replica has written since");
        assert_eq!(recorded.latest("b", Some(by(4, 1)), at(11)), Some(by(4, 1)));
        assert_eq!(recorded.latest("a", None, at(70)), None, "by then the cache shows the present");
    }

    #[test]
    fn grace_period_of_the_cache_begins_with_the_write() {
        let mut recorded = Recorded::default();
        recorded.note("a", by(1, 10), at(50));
        recorded.forget(at(109));
        assert_eq!(recorded.latest("a", None, at(109)), Some(by(1, 10)), "the write came late");
        assert_eq!(recorded.latest("a", None, at(110)), None);
        recorded.forget(at(110));
        assert_eq!((recorded.by_claim.len(), recorded.order.len()), (0, 0));
    }

    #[test]
    fn nothing_is_remembered_for_longer() {
        let mut recorded = Recorded::default();
        for (claim, second) in [("a", 0), ("b", 10), ("a", 30)] {
            recorded.note(claim, by(1, second), at(second));
        }
        recorded.note("c", by(1, 65), at(65));
        assert_eq!(recorded.latest("a", None, at(65)), Some(by(1, 30)), "the later of two");
        recorded.note("d", by(1, 200), at(200));
        assert_eq!((recorded.by_claim.len(), recorded.order.len()), (1, 1));
        recorded.forget(at(260));
        assert_eq!((recorded.by_claim.capacity(), recorded.order.capacity()), (0, 0));
    }
}
