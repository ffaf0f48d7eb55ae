//! Batching window: the time to wait for more pods before all of them are decided together.
//!
//! ```text
//!   first new pod                last new pod
//!        ▼          ▼     ▼           ▼
//!   ─────┬──────────┬─────┬───────────┬─────────────┬──────►
//!        │                            └── idle (1 s)┤ due
//!        └── max (10 s) ────────────────────────────┴─ due, whatever still arrives
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

/// Karpenter's `BATCH_IDLE_DURATION`.
pub const IDLE: Duration = Duration::from_secs(1);
/// Karpenter's `BATCH_MAX_DURATION`.
pub const MAX: Duration = Duration::from_secs(10);

/// Durations of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Maximum time without a new reason.
    pub idle: Duration,
    /// Maximum duration in total.
    pub max: Duration,
}

/// Reasons that have arrived since the last round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    open: Option<Open>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    since: Timestamp,
    /// Arrival of the last new reason.
    latest: Timestamp,
    /// Reasons that have arrived, by their identifiers.
    known: BTreeSet<String>,
}

// === impl Lengths ===

impl Default for Lengths {
    fn default() -> Self {
        Self { idle: IDLE, max: MAX }
    }
}

// === impl Window ===

impl Window {
    /// Records a reason to decide: the UID of a pending pod, or the name of a node whose pods must move. A repeated
    /// reason (a patched status) does not extend the window.
    pub fn arrive(&mut self, reason: &str, now: Timestamp) {
        let open = self.open.get_or_insert_with(|| Open { since: now, latest: now, known: BTreeSet::new() });
        if !open.known.contains(reason) {
            open.known.insert(reason.to_owned());
            open.latest = open.latest.max(now);
        }
    }

    /// Returns the time of the next round; `None` if nothing has arrived. The result does not depend on the current
    /// time and may be in the past.
    #[must_use]
    pub fn due(&self, lengths: &Lengths) -> Option<Timestamp> {
        let open = self.open.as_ref()?;
        Some(after(open.latest, lengths.idle).min(after(open.since, lengths.max)))
    }

    /// Returns true if the round is due.
    #[must_use]
    pub fn is_due(&self, lengths: &Lengths, now: Timestamp) -> bool {
        self.due(lengths).is_some_and(|due| due <= now)
    }

    /// Closes the window at the start of a round: later reasons open the next one.
    pub fn close(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn due(arrivals: &[(&str, i64)]) -> Option<Timestamp> {
        let mut window = Window::default();
        for (reason, moment) in arrivals {
            window.arrive(reason, at(*moment));
        }
        window.due(&Lengths::default())
    }

    #[test]
    fn a_second_without_anything_new_ends_it() {
        assert_eq!(due(&[]), None);
        assert_eq!(due(&[("a", 0)]), Some(at(1000)));
        assert_eq!(due(&[("a", 0), ("b", 900)]), Some(at(1900)));
        assert_eq!(due(&[("a", 0), ("a", 900)]), Some(at(1000)), "the same pod is nothing new");
    }

    #[test]
    fn ten_seconds_end_it_whatever_arrives() {
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let crowd: Vec<(&str, i64)> =
            (0_i64..).zip(&names).map(|(number, name)| (name.as_str(), number * 500)).collect();
        assert_eq!(due(&crowd), Some(at(10_000)));
    }

    #[test]
    fn what_arrives_during_a_round_is_for_the_next() {
        let mut window = Window::default();
        window.arrive("a", at(0));
        assert!(!window.is_due(&Lengths::default(), at(999)) && window.is_due(&Lengths::default(), at(1000)));
        window.close();
        assert_eq!(window.due(&Lengths::default()), None);
        window.arrive("a", at(1500));
        assert_eq!(window.due(&Lengths::default()), Some(at(2500)));
    }

    proptest! {
        #[test]
        fn nobody_waits_longer_than_the_longest_window(
            arrivals in proptest::collection::vec((0..20_u8, 0..3000_i64), 1..50)
        ) {
            let mut window = Window::default();
            let mut now = 0;
            let mut first = None;
            for (pod, gap) in arrivals {
                now += gap;
                if window.is_due(&Lengths::default(), at(now)) {
                    window.close();
                    first = None;
                }
                window.arrive(&pod.to_string(), at(now));
                let first = *first.get_or_insert(now);
                let due = window.due(&Lengths::default()).unwrap();
                prop_assert!(due <= at(first + 10_000), "however many follow");
                prop_assert!(due >= at(first + 1000), "nobody is decided alone who may have company");
            }
        }
    }
}
