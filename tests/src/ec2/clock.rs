//! The clock of one proxy: throttling, eventual consistency, spot prices and answers that come late all read this one, so a
//! test can hold it and move it by hand.

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::lock;

/// Runs like the machine's clock until it is held. Cheap to clone; all clones are one clock.
#[derive(Debug, Clone)]
pub struct Clock {
    state: Arc<Mutex<State>>,
    /// Counts the changes, so that who waits looks again.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// While held: the time. While running: what is added to the machine's clock.
    held: Option<Timestamp>,
    offset: SignedDuration,
}

impl Clock {
    pub(super) fn running() -> Self {
        let state = State { held: None, offset: SignedDuration::ZERO };
        Self { state: Arc::new(Mutex::new(state)), changes: watch::Sender::new(0) }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        lock(&self.state).now()
    }

    /// Stops the clock where it is.
    pub fn hold(&self) {
        let mut state = lock(&self.state);
        state.held = Some(state.now());
    }

    /// Moves the clock forward, held or not.
    pub fn advance(&self, by: std::time::Duration) {
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        {
            let mut state = lock(&self.state);
            match &mut state.held {
                Some(held) => *held = later(*held, by),
                None => state.offset = state.offset.saturating_add(by),
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until the clock has moved on by `by`: real time while it runs, [`Clock::advance`] while it is held.
    pub(super) async fn sleep(&self, by: std::time::Duration) {
        let mut changes = self.changes.subscribe();
        let due = later(self.now(), SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX));
        loop {
            changes.borrow_and_update();
            let (now, held) = {
                let state = lock(&self.state);
                (state.now(), state.held.is_some())
            };
            let Ok(left) = std::time::Duration::try_from(due.duration_since(now)) else { return };
            if left.is_zero() {
                return;
            }
            let moved = changes.changed();
            if held {
                if moved.await.is_err() {
                    return;
                }
            } else if let Ok(Err(_)) = tokio::time::timeout(left, moved).await {
                return;
            }
        }
    }
}

impl State {
    /// The one place that reads the machine's clock.
    fn now(&self) -> Timestamp {
        self.held.unwrap_or_else(|| later(Timestamp::now(), self.offset))
    }
}

/// `at + by`, or the end of time.
pub(super) fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_held_clock_moves_only_by_hand() {
        let clock = Clock::running();
        clock.hold();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        let mut sleep = std::pin::pin!(clock.sleep(Duration::from_hours(1)));
        for minutes in [0, 59] {
            clock.advance(Duration::from_mins(minutes));
            tokio::select! {
                biased;
                () = &mut sleep => panic!("woke early"),
                () = std::future::ready(()) => {}
            }
        }
        clock.advance(Duration::from_mins(1));
        sleep.await;
        assert_eq!(clock.now().duration_since(start), SignedDuration::from_hours(1));
    }
}
