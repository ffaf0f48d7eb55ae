//! Schedule of decisions about disruption: every ten seconds while something changes; otherwise when the passage of
//! time may have changed the result. Forceful disruption is not delayed by either.

use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_scheduling::disrupt::Moments;

/// Maximum interval if nothing changes and nothing is due.
pub(super) const STILL: Duration = Duration::from_secs(300);
/// Minimum interval between two decisions: the due times of hundreds of nodes may be close together.
const APART: Duration = Duration::from_secs(1);

/// Schedule of decisions about disruption, see the module.
#[derive(Debug, Clone, Copy)]
pub struct PassSchedule {
    /// Time of the next decision if something has changed. During a decision: what changes demand meanwhile.
    at: Timestamp,
    /// True if something has changed since the last decision.
    is_stirred: bool,
    asked: Timestamp,
    rest_until: Timestamp,
    moments: Moments,
}

// === impl PassSchedule ===

impl PassSchedule {
    /// Creates a schedule whose first decision is at `moment`.
    #[must_use]
    pub fn from(moment: Timestamp) -> Self {
        let asked = moment.checked_sub(APART).unwrap_or(moment);
        Self { at: moment, is_stirred: true, asked, rest_until: moment, moments: Moments::default() }
    }

    /// Records a change.
    pub const fn stir(&mut self) {
        self.is_stirred = true;
    }

    /// Records a change of a NodePool or NodeClass, whose effect people wait for.
    pub fn hurry(&mut self) {
        self.is_stirred = true;
        self.at = self.at.min(after(self.asked, APART));
    }

    /// Records a change that cannot wait.
    pub fn hurry_at_once(&mut self, now: Timestamp) {
        self.is_stirred = true;
        self.at = self.at.min(now);
    }

    /// Returns true if a decision is due.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next()
    }

    /// Returns the time of the next decision, if nothing changes before.
    #[must_use]
    pub fn next(&self) -> Timestamp {
        let soonest = after(self.asked, APART);
        let Moments { forceful, voluntary } = self.moments;
        let due = forceful.into_iter().chain(voluntary.filter(|_| !self.is_stirred)).min();
        let regular = if self.is_stirred { self.at } else { self.rest_until.max(self.at) };
        due.map_or(regular, |due| regular.min(due.max(soonest)))
    }

    /// Records the start of a decision: later changes count for the next one.
    pub const fn ask(&mut self, now: Timestamp) {
        self.is_stirred = false;
        self.asked = now;
        self.at = Timestamp::MAX;
    }

    /// Records the end of a decision. The next one is at `again` if something has changed or the result `is_open`,
    /// otherwise at one of `moments`; earlier if a change since its start cannot wait.
    pub fn answer(&mut self, again: Timestamp, is_open: bool, moments: Moments, now: Timestamp) {
        self.at = self.at.min(again);
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
        let mut pass_schedule = PassSchedule::from(at(100));
        assert!(!pass_schedule.is_due(at(99)) && pass_schedule.is_due(at(100)));
        pass_schedule.ask(at(100));
        pass_schedule.answer(at(110), false, Moments::default(), at(100));
        assert_eq!(pass_schedule.next(), at(400), "nothing has changed");
        pass_schedule.stir();
        assert_eq!(pass_schedule.next(), at(110));
        pass_schedule.ask(at(110));
        pass_schedule.stir();
        pass_schedule.answer(at(120), false, Moments::default(), at(111));
        assert_eq!(pass_schedule.next(), at(120), "something has changed while it was asked");
        pass_schedule.hurry();
        assert_eq!(pass_schedule.next(), at(111), "people wait for it");
        pass_schedule.ask(at(120));
        pass_schedule.answer(at(130), true, Moments::default(), at(120));
        assert_eq!(pass_schedule.next(), at(130), "the answer is to be confirmed");
        pass_schedule.ask(at(130));
        pass_schedule.hurry_at_once(at(131));
        pass_schedule.answer(at(140), false, Moments::default(), at(132));
        assert_eq!(pass_schedule.next(), at(131), "what cannot wait came while it was asked");
        pass_schedule.ask(at(132));
        pass_schedule.answer(at(142), true, Moments::default(), at(132));
        assert_eq!(pass_schedule.next(), at(142), "and is answered once");
    }

    #[test]
    fn moments_are_kept_to_the_second() {
        let mut pass_schedule = PassSchedule::from(at(100));
        let answered = |pass_schedule: &mut PassSchedule, forceful: Option<i64>, voluntary: Option<i64>| {
            pass_schedule.ask(at(100));
            let moments = Moments { forceful: forceful.map(at), voluntary: voluntary.map(at) };
            pass_schedule.answer(at(110), false, moments, at(100));
        };
        answered(&mut pass_schedule, None, Some(103));
        assert_eq!(pass_schedule.next(), at(103), "in a cluster in which nothing changes");
        pass_schedule.stir();
        assert_eq!(pass_schedule.next(), at(110), "where much changes, with everything else");
        answered(&mut pass_schedule, Some(103), None);
        pass_schedule.stir();
        assert_eq!(pass_schedule.next(), at(103), "what cannot wait does not");
        answered(&mut pass_schedule, Some(100), None);
        assert_eq!(pass_schedule.next(), at(101), "not more than once a second");
    }
}
