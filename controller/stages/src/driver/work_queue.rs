//! Work queue with the time of the next reconciliation of each object: pure.
//!
//! An object is reconciled when something around it has changed, or at the time that a step requested; by one task at a
//! time, and at most once in 100 ms, so that many changes cause one reconciliation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

/// Minimum interval between two reconciliations of one object, as [`crate::step::Step`] requires of an edge.
const SPACING: Duration = Duration::from_millis(100);
/// First and longest delay after a failed reconciliation.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Times of the next reconciliation of all objects.
#[derive(Debug, Clone)]
pub(super) struct WorkQueue<K> {
    entries: BTreeMap<K, Entry>,
    /// Entries that are not being reconciled, by due time.
    waiting: BTreeSet<(Timestamp, K)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Time of the next reconciliation, if one is scheduled.
    due: Option<Timestamp>,
    /// Start of the last reconciliation.
    looked: Option<Timestamp>,
    /// True while the object is being reconciled.
    is_open: bool,
    /// Failures in a row.
    failures: u32,
}

/// Outcome of a reconciliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Reconcile again at this time, if set, or at the next change.
    Rest(Option<Timestamp>),
    /// Reconcile again at this time and not earlier, even if something changes.
    RestUntil(Timestamp),
    /// Reconcile again as soon as possible.
    Again,
    /// A write conflicted with a write of another client: reconcile as soon as that one is observed. After repeated
    /// conflicts, reconcile after a growing delay, even if something changes.
    Conflicted,
    /// Reconcile again after a delay that grows with each failure.
    Failed,
}

// === impl Verdict ===

impl Verdict {
    /// Moves the next reconciliation of an object that may rest to `moment`, if that is earlier.
    pub fn or_sooner(self, moment: Option<Timestamp>) -> Self {
        match (self, moment) {
            (Self::Rest(own), Some(moment)) => Self::Rest(Some(own.map_or(moment, |own| own.min(moment)))),
            (verdict, _) => verdict,
        }
    }
}

// === impl WorkQueue ===

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), waiting: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// Schedules a reconciliation of the object at `moment`, unless an earlier one is scheduled.
    pub(super) fn want(&mut self, key: K, moment: Timestamp) {
        let entry = self.entries.entry(key.clone()).or_default();
        let earliest = entry.looked.map_or(moment, |looked| moment.max(after(looked, SPACING)));
        if entry.due.is_some_and(|due| due <= earliest) {
            return;
        }
        let before = entry.due.replace(earliest);
        if !entry.is_open {
            if let Some(before) = before {
                self.waiting.remove(&(before, key.clone()));
            }
            self.waiting.insert((earliest, key));
        }
    }

    /// Schedules like [`WorkQueue::want`] but overrides [`Verdict::RestUntil`], whose reason does not hold any more.
    pub(super) fn insist(&mut self, key: K, moment: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.looked = entry.looked.map(|looked| looked.min(moment));
        }
        self.want(key, moment);
    }

    /// Returns the earliest due time of the objects that are not being reconciled.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(moment, _)| *moment)
    }

    /// Returns the objects that are due.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = &K> {
        self.waiting.iter().take_while(move |(moment, _)| *moment <= now).map(|(_, key)| key)
    }

    /// Returns an object that is due and marks it as being reconciled.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<K> {
        let (moment, _) = self.waiting.first()?;
        if *moment > now {
            return None;
        }
        let (_, key) = self.waiting.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            *entry = Entry { due: None, looked: Some(now), is_open: true, failures: entry.failures };
        }
        Some(key)
    }

    /// Records the end of a reconciliation.
    pub(super) fn close(&mut self, key: &K, verdict: Verdict, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.is_open = false;
        // Keep a request that arrived during the reconciliation.
        let wanted = entry.due.take();
        let has_failed = matches!(verdict, Verdict::Failed | Verdict::Conflicted);
        entry.failures = if has_failed { entry.failures.saturating_add(1) } else { 0 };
        let next = match verdict {
            Verdict::Rest(moment) => [wanted, moment].into_iter().flatten().min(),
            Verdict::RestUntil(moment) => {
                entry.looked = Some(moment.checked_sub(SPACING).unwrap_or(moment));
                Some(moment)
            }
            Verdict::Again => Some(now),
            Verdict::Conflicted if entry.failures <= 1 => Some(now),
            Verdict::Conflicted => {
                let wait = SPACING.saturating_mul(1 << (entry.failures - 1).min(9)).min(RETRY.1);
                let moment = after(now, jittered(wait, now));
                entry.looked = Some(moment.checked_sub(SPACING).unwrap_or(moment));
                Some(moment)
            }
            Verdict::Failed => {
                let wait = RETRY.0.saturating_mul(1 << (entry.failures - 1).min(8)).min(RETRY.1);
                Some(after(now, wait))
            }
        };
        match next {
            Some(moment) => self.want(key.clone(), moment),
            // Entries without a due time are removed.
            None => drop(self.entries.remove(key)),
        }
    }
}

/// Returns 75 % to 125 % of `wait`, depending on the current microsecond, so that two clients do not conflict
/// repeatedly.
fn jittered(wait: Duration, now: Timestamp) -> Duration {
    let percent = u32::try_from(now.as_microsecond().rem_euclid(51)).unwrap_or(0);
    wait * (75 + percent) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn a_crowd_of_changes_is_one_look() {
        let mut work_queue = WorkQueue::default();
        work_queue.want("a", at(0));
        work_queue.want("a", at(0));
        assert_eq!(work_queue.take(at(0)), Some("a"));
        work_queue.want("a", at(10));
        work_queue.want("a", at(20));
        assert_eq!(work_queue.take(at(20)), None, "somebody looks at it");
        work_queue.close(&"a", Verdict::Rest(None), at(30));
        assert_eq!((work_queue.take(at(99)), work_queue.next()), (None, Some(at(100))));
        assert_eq!(work_queue.take(at(100)), Some("a"));
        work_queue.close(&"a", Verdict::Rest(None), at(110));
        assert_eq!(work_queue.next(), None);
    }

    #[test]
    fn the_earliest_reason_counts() {
        let mut work_queue = WorkQueue::default();
        work_queue.want("a", at(5000));
        work_queue.want("b", at(3000));
        work_queue.want("a", at(1000));
        work_queue.want("a", at(9000));
        assert_eq!(work_queue.next(), Some(at(1000)));
        assert_eq!(
            (work_queue.take(at(4000)), work_queue.take(at(4000)), work_queue.take(at(4000))),
            (Some("a"), Some("b"), None)
        );
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let mut work_queue = WorkQueue::default();
        work_queue.want("a", at(0));
        let mut now = at(0);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(work_queue.take(now), Some("a"));
            work_queue.close(&"a", Verdict::Failed, now);
            assert_eq!(work_queue.next(), Some(after(now, Duration::from_secs(seconds))));
            now = after(now, Duration::from_secs(seconds));
        }
        assert_eq!(work_queue.take(now), Some("a"));
        work_queue.close(&"a", Verdict::Again, now);
        assert_eq!(work_queue.next(), Some(after(now, SPACING)));
    }

    #[test]
    fn object_that_always_conflicts_is_tried_less_and_less() {
        let mut work_queue = WorkQueue::default();
        work_queue.want("a", at(0));
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..12 {
            assert_eq!(work_queue.take(now), Some("a"));
            work_queue.close(&"a", Verdict::Conflicted, now);
            // The object changes continuously.
            work_queue.want("a", now);
            let next = work_queue.next().unwrap();
            waits.push(next.duration_since(now).as_millis());
            now = next;
        }
        assert_eq!(waits[0], 100, "the first time it is enough to see what won");
        let is_within = |wait: &i128, most: i128| (most * 3 / 4..=most * 5 / 4).contains(wait);
        let expected = [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000];
        assert!(waits[1..].iter().zip(expected).all(|(wait, most)| is_within(wait, most)), "{waits:?}");
        assert_eq!(work_queue.take(now), Some("a"));
        work_queue.close(&"a", Verdict::Rest(None), now);
        work_queue.want("a", now);
        assert_eq!(work_queue.next(), Some(now), "success forgets it");
    }

    #[test]
    fn some_are_not_looked_at_more_often_than_that() {
        let mut work_queue = WorkQueue::default();
        work_queue.want("a", at(0));
        assert_eq!(work_queue.take(at(0)), Some("a"));
        work_queue.close(&"a", Verdict::RestUntil(at(5000)), at(10));
        work_queue.want("a", at(1000));
        assert_eq!(work_queue.next(), Some(at(5000)));
        work_queue.insist("a", at(1000));
        assert_eq!(work_queue.next(), Some(at(1100)), "unless what they knew no longer holds");
    }
}
