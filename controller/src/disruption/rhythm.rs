//! When it is asked again what is to go: while something changes, every ten seconds; else when time alone may have changed
//! the answer. What cannot wait does not wait for either.

use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_scheduling::disrupt::Moments;

/// How long at most nothing is asked though nothing has changed and nothing is due.
const STILL: Duration = Duration::from_secs(300);
/// Between two questions at least, whatever is due: moments of hundreds of nodes may be close together.
const APART: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Rhythm {
    /// When to ask if anything has changed.
    at: Timestamp,
    /// Whether anything has changed since it was last asked.
    is_stirred: bool,
    asked: Timestamp,
    rest_until: Timestamp,
    moments: Moments,
}

// === impl Rhythm ===

impl Rhythm {
    /// The first question is asked at `moment`.
    #[must_use]
    pub fn from(moment: Timestamp) -> Self {
        let asked = moment.checked_sub(APART).unwrap_or(moment);
        Self { at: moment, is_stirred: true, asked, rest_until: moment, moments: Moments::default() }
    }

    /// Something has changed.
    pub const fn stir(&mut self) {
        self.is_stirred = true;
    }

    /// Something has changed that people wait to be told of: what a NodePool or a NodeClass says.
    pub fn hurry(&mut self) {
        self.is_stirred = true;
        self.at = self.at.min(after(self.asked, APART));
    }

    /// Tells if it is to be asked now.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next()
    }

    /// When it is to be asked next, if nothing changes before.
    #[must_use]
    pub fn next(&self) -> Timestamp {
        let soonest = after(self.asked, APART);
        let Moments { forceful, voluntary } = self.moments;
        let due = forceful.into_iter().chain(voluntary.filter(|_| !self.is_stirred)).min();
        let regular = if self.is_stirred { self.at } else { self.rest_until.max(self.at) };
        due.map_or(regular, |due| regular.min(due.max(soonest)))
    }

    /// It is being asked: what changes from here on is news.
    pub const fn ask(&mut self, now: Timestamp) {
        self.is_stirred = false;
        self.asked = now;
    }

    /// It has been answered. It is asked again at `again` if anything has changed, or if the answer `is_open`; else when one of
    /// `moments` comes.
    pub fn answer(&mut self, again: Timestamp, is_open: bool, moments: Moments, now: Timestamp) {
        self.at = again;
        self.is_stirred |= is_open;
        self.moments = moments;
        self.rest_until = after(now, STILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn changes_are_a_reason_to_ask_and_rest_is_not() {
        let mut rhythm = Rhythm::from(at(100));
        assert!(!rhythm.is_due(at(99)) && rhythm.is_due(at(100)));
        rhythm.ask(at(100));
        rhythm.answer(at(110), false, Moments::default(), at(100));
        assert_eq!(rhythm.next(), at(400), "nothing has changed");
        rhythm.stir();
        assert_eq!(rhythm.next(), at(110));
        rhythm.ask(at(110));
        rhythm.stir();
        rhythm.answer(at(120), false, Moments::default(), at(111));
        assert_eq!(rhythm.next(), at(120), "something has changed while it was asked");
        rhythm.hurry();
        assert_eq!(rhythm.next(), at(111), "people wait for it");
        rhythm.ask(at(120));
        rhythm.answer(at(130), true, Moments::default(), at(120));
        assert_eq!(rhythm.next(), at(130), "the answer is to be confirmed");
    }

    #[test]
    fn moments_are_kept_to_the_second() {
        let mut rhythm = Rhythm::from(at(100));
        let answered = |rhythm: &mut Rhythm, forceful: Option<i64>, voluntary: Option<i64>| {
            rhythm.ask(at(100));
            let moments = Moments { forceful: forceful.map(at), voluntary: voluntary.map(at) };
            rhythm.answer(at(110), false, moments, at(100));
        };
        answered(&mut rhythm, None, Some(103));
        assert_eq!(rhythm.next(), at(103), "in a cluster in which nothing changes");
        rhythm.stir();
        assert_eq!(rhythm.next(), at(110), "where much changes, with everything else");
        answered(&mut rhythm, Some(103), None);
        rhythm.stir();
        assert_eq!(rhythm.next(), at(103), "what cannot wait does not");
        answered(&mut rhythm, Some(100), None);
        assert_eq!(rhythm.next(), at(101), "not more than once a second");
    }
}
