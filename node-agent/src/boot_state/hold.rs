//! Decision whether the kubelet may start: pending requests, answers, and the start owed to a kubelet that was held
//! back. Pure; times are arguments.
//!
//! ```text
//!  gate asks ──► waiting ──► a check that began later ──► yes: the unit starts the kubelet
//!                   │                                  └──► no: owed ──► no fault left ──► start order ──► done
//!                   └── no check within ANSWER_WITHIN: result of the last one   ▲                │ failed
//!                                                                               └────────────────┘
//! ```
//! systemd does not retry a start that a condition has skipped, so the agent has to order it later.

use std::time::{Duration, Instant};

/// Upper bound on the delay of a boot by checks. On a healthy node they take some tenths of a second.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Pending requests, and whether the kubelet is owed a start. `A` is the means to answer a request.
#[derive(Debug)]
pub struct Hold<A> {
    waiting: Vec<(A, Instant)>,
    is_owed: bool,
}

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered<A> {
    /// Request that is answered.
    pub asked: A,
    /// True if the kubelet may start.
    pub admitted: bool,
    /// Time from the request to the answer.
    pub after: Duration,
}

impl<A> Hold<A> {
    /// Returns the state at the start of the agent. `is_owed` is true if its predecessor held the kubelet back.
    #[must_use]
    pub fn new(is_owed: bool) -> Self {
        Self { waiting: Vec::new(), is_owed }
    }

    /// Records a request of a kubelet that is about to start.
    pub fn ask(&mut self, asked: A, now: Instant) {
        self.waiting.push((asked, now));
    }

    /// Handles the end of a check that began at `began`: answers the requests made by then. Later ones wait for the
    /// next check.
    pub fn judged(&mut self, began: Instant, now: Instant, is_fatal: bool) -> Vec<Answered<A>> {
        self.answer(now, !is_fatal, |at| at <= began)
    }

    /// Answers overdue requests by the result of the last check. No check yet counts as not fatal.
    pub fn late(&mut self, now: Instant, was_fatal: bool) -> Vec<Answered<A>> {
        self.answer(now, !was_fatal, |at| now.duration_since(at) >= ANSWER_WITHIN)
    }

    /// Returns the time when the oldest pending request is overdue; `None` without pending requests.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|(_, at)| at.checked_add(ANSWER_WITHIN)).min()
    }

    fn answer(&mut self, now: Instant, admitted: bool, is_due: impl Fn(Instant) -> bool) -> Vec<Answered<A>> {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, at)| is_due(*at));
        self.waiting = rest;
        if !due.is_empty() {
            self.is_owed = !admitted;
        }
        due.into_iter().map(|(asked, at)| Answered { asked, admitted, after: now.duration_since(at) }).collect()
    }

    /// Returns true if a request is pending.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if the kubelet was kept from starting and has not been started since.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Marks the owed start as done: the order to start the kubelet was accepted, or the kubelet runs.
    pub fn settle(&mut self) {
        self.is_owed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Clock(Instant);

    impl Clock {
        fn after(&self, milliseconds: u64) -> Instant {
            self.0.checked_add(Duration::from_millis(milliseconds)).unwrap()
        }
    }

    fn answers(answered: Vec<Answered<u32>>) -> Vec<(u32, bool)> {
        answered.into_iter().map(|it| (it.asked, it.admitted)).collect()
    }

    #[test]
    fn a_check_answers_who_asked_before_it_began() {
        let clock = Clock(Instant::now());
        let mut hold = Hold::new(false);
        hold.ask(1, clock.after(0));
        hold.ask(2, clock.after(20));
        assert_eq!(answers(hold.judged(clock.after(10), clock.after(30), false)), [(1, true)]);
        assert!(hold.is_asked() && !hold.is_owed());
        assert_eq!(answers(hold.judged(clock.after(30), clock.after(40), false)), [(2, true)]);
        assert!(!hold.is_asked());
    }

    #[test]
    fn a_kubelet_that_was_refused_is_owed_its_start_until_it_has_it() {
        let clock = Clock(Instant::now());
        let mut hold = Hold::new(false);
        hold.ask(1, clock.after(0));
        assert_eq!(answers(hold.judged(clock.after(1), clock.after(2), true)), [(1, false)]);
        assert!(hold.is_owed());
        // A check without faults does not settle the owed start: the order may fail, and is then repeated.
        assert_eq!(answers(hold.judged(clock.after(3), clock.after(4), false)), []);
        assert!(hold.is_owed());
        hold.settle();
        assert!(!hold.is_owed());
        // A restart by the unit makes a new request, which settles it too.
        hold.ask(2, clock.after(5));
        hold.judged(clock.after(6), clock.after(7), true);
        hold.ask(3, clock.after(8));
        hold.judged(clock.after(9), clock.after(10), false);
        assert!(!hold.is_owed());
    }

    #[test]
    fn what_the_last_agent_owed_this_one_owes() {
        assert!(Hold::<u32>::new(true).is_owed());
    }

    #[test]
    fn a_check_that_hangs_answers_with_the_last_one() {
        let clock = Clock(Instant::now());
        let mut hold = Hold::new(false);
        hold.ask(1, clock.after(0));
        assert_eq!(answers(hold.late(clock.after(1_999), false)), []);
        assert_eq!(answers(hold.late(clock.after(2_000), false)), [(1, true)]);
        hold.ask(2, clock.after(3_000));
        assert_eq!(answers(hold.late(clock.after(5_000), true)), [(2, false)]);
        assert!(hold.is_owed());
    }

    #[test]
    fn who_asked_first_is_due_first() {
        let clock = Clock(Instant::now());
        let mut hold = Hold::new(false);
        assert_eq!(hold.due(), None);
        hold.ask(1, clock.after(700));
        hold.ask(2, clock.after(100));
        assert_eq!(hold.due(), Some(clock.after(2_100)));
        // Overdue exactly from the due time on.
        assert_eq!(answers(hold.late(clock.after(2_099), false)), []);
        assert_eq!(answers(hold.late(clock.after(2_100), false)), [(2, true)]);
        assert_eq!(hold.due(), Some(clock.after(2_700)));
        hold.late(clock.after(2_700), false);
        assert_eq!(hold.due(), None);
    }
}
