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
    /// When the next would be due if there were no burst. Held for the length of a sum.
    due: Mutex<Option<Instant>>,
}

// === impl Pace ===

impl Pace {
    /// `qps` a second, `burst` at once; both at least 1.
    #[must_use]
    pub fn new(qps: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / qps.max(1);
        Self { interval, tolerance: interval * (burst.max(1) - 1), due: Mutex::new(None) }
    }

    /// Waits for one's turn; first come, first served.
    pub async fn turn(&self) {
        let now = Instant::now();
        let turn = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = due.filter(|due| *due > now).unwrap_or(now);
            *due = Some(mine + self.interval);
            mine.checked_sub(self.tolerance).filter(|turn| *turn > now)
        };
        if let Some(turn) = turn {
            sleep_until(turn).await;
        }
    }
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
}
