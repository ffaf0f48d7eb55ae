//! Virtual time: what happens next, and when.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// What is to happen, in the order in which it happens: by moment, then in the order in which it was noted.
#[derive(Debug, Clone)]
pub(crate) struct Clock<H> {
    now: Timestamp,
    noted: u64,
    ahead: BTreeMap<(Timestamp, u64), H>,
}

// === impl Clock ===

impl<H> Clock<H> {
    /// A clock that shows `start`.
    pub(crate) const fn new(start: Timestamp) -> Self {
        Self { now: start, noted: 0, ahead: BTreeMap::new() }
    }

    /// The moment that it shows.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// Lets something happen at that moment; at once, if it is over.
    pub(crate) fn at(&mut self, moment: Timestamp, happening: H) {
        self.noted += 1;
        self.ahead.insert((moment.max(self.now), self.noted), happening);
    }

    /// The next moment at which anything happens.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.ahead.first_key_value().map(|((moment, _), _)| *moment)
    }

    /// Goes on to `moment`, which is not beyond the next happening, and hands out what happens then.
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
