//! Virtual clock and event queue.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Queued events, ordered by time, then by the order in which they were added.
#[derive(Debug, Clone)]
pub(crate) struct Clock<H> {
    now: Timestamp,
    noted: u64,
    ahead: BTreeMap<(Timestamp, u64), H>,
}

// === impl Clock ===

impl<H> Clock<H> {
    /// Creates a clock that starts at `start`.
    pub(crate) const fn new(start: Timestamp) -> Self {
        Self { now: start, noted: 0, ahead: BTreeMap::new() }
    }

    /// Returns the current time.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// Queues an event for `moment`, or for the current time if that has passed.
    pub(crate) fn at(&mut self, moment: Timestamp, happening: H) {
        self.noted += 1;
        self.ahead.insert((moment.max(self.now), self.noted), happening);
    }

    /// Returns the time of the next event.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.ahead.first_key_value().map(|((moment, _), _)| *moment)
    }

    /// Advances to `moment`, which is not after the next event, and returns the events that are due.
    pub(crate) fn advance(&mut self, moment: Timestamp) -> Vec<H> {
        self.now = self.now.max(moment);
        let mut due = Vec::new();
        while let Some(entry) = self.ahead.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            due.push(entry.remove());
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_first_happens_first_of_one_moment() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut clock = Clock::new(at(10));
        clock.at(at(30), "c");
        clock.at(at(20), "a");
        clock.at(at(20), "b");
        clock.at(at(5), "at once");
        assert_eq!(clock.next(), Some(at(10)));
        assert_eq!(clock.advance(at(10)), ["at once"]);
        assert_eq!(clock.advance(at(25)), ["a", "b"]);
        assert_eq!((clock.now(), clock.next()), (at(25), Some(at(30))));
    }
}
