//! How fast the API server is written to: Karpenter's `--kube-client-qps` and `--kube-client-burst`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Lets so many pass a second, and so many more at once after a rest.
#[derive(Debug)]
pub struct Pace {
    /// Between two, when nothing is left of the burst.
    interval: Duration,
    /// How far ahead of that the burst may be.
    tolerance: Duration,
    /// Held for the length of a sum.
    due: Mutex<Due>,
}

/// When the next would be due if there were no burst.
#[derive(Debug, Default)]
struct Due {
    /// Of all.
    any: Option<Instant>,
    /// Of those that go first, which only wait for each other.
    first: Option<Instant>,
}

// === impl Pace ===

impl Pace {
    /// `qps` a second, `burst` at once; both at least 1.
    #[must_use]
    pub fn new(qps: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / qps.max(1);
        Self { interval, tolerance: interval * (burst.max(1) - 1), due: Mutex::default() }
    }

    /// Waits for one's turn; first come, first served.
    pub async fn turn(&self) {
        self.wait(|due, now, interval| take(&mut due.any, now, interval)).await;
    }

    /// Waits for a turn before all that wait for theirs: what is late is of no use. Those wait as much longer.
    pub async fn turn_first(&self) {
        self.wait(|due, now, interval| {
            take(&mut due.any, now, interval);
            take(&mut due.first, now, interval)
        })
        .await;
    }

    async fn wait(&self, take: impl FnOnce(&mut Due, Instant, Duration) -> Instant) {
        let now = Instant::now();
        let mine = take(&mut self.due.lock().unwrap_or_else(PoisonError::into_inner), now, self.interval);
        if let Some(turn) = mine.checked_sub(self.tolerance).filter(|turn| *turn > now) {
            sleep_until(turn).await;
        }
    }
}

fn take(due: &mut Option<Instant>, now: Instant, interval: Duration) -> Instant {
    let mine = due.filter(|due| *due > now).unwrap_or(now);
    *due = Some(mine + interval);
    mine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_and_then_one_after_the_other() {
        let pace = Pace::new(10, 3);
        let start = Instant::now();
        let mut passed = Vec::new();
        for _ in 0..5 {
            pace.turn().await;
            passed.push(start.elapsed().as_millis());
        }
        assert_eq!(passed, [0, 0, 0, 100, 200]);
        tokio::time::advance(Duration::from_secs(10)).await;
        let rested = Instant::now();
        for _ in 0..3 {
            pace.turn().await;
        }
        assert!(rested.elapsed().is_zero(), "a rest gives the burst back");
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_first_waits_for_none_of_the_others_and_they_wait_for_it() {
        let pace = Pace::new(10, 3);
        let start = Instant::now();
        let passed = || start.elapsed().as_millis();
        // Five that have come before: the burst, and one after the other.
        let mut others: Vec<_> = (0..5).map(|_| Box::pin(pace.turn())).collect();
        for other in &mut others {
            let _ = futures::poll!(other);
        }
        for _ in 0..4 {
            pace.turn_first().await;
        }
        assert_eq!(passed(), 100, "a burst of their own, and one after the other");
        pace.turn().await;
        assert_eq!(passed(), 700, "behind five, and four that went first");
    }
}
