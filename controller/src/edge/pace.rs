//! Rate limit of writes to the API server: at most Karpenter's `--kube-client-qps` and `--kube-client-burst`, and less
//! while the API server is overloaded.
//!
//! ```text
//!   429, 5xx, timeout, or an answer after more than a second ──► half the rate, at most once a second, minimum 5/s
//!   an answer in time ──► 1 % of the maximum rate more
//! ```
//!
//! Additive increase, multiplicative decrease, as in TCP congestion control.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A longer response time indicates an overloaded API server.
const SLOW: Duration = Duration::from_secs(1);
/// Minimum interval between two reductions: requests that were in flight at the first one carry no new information.
const BETWEEN_CUTS: Duration = Duration::from_secs(1);
/// Minimum rate, per second, unless the operator allows less.
const LEAST: f64 = 5.0;
/// Fraction of the maximum rate by which an answer in time raises the rate.
const RAISE: f64 = 0.01;

/// Rate limiter with a burst.
#[derive(Debug)]
pub struct Pace {
    /// Maximum rate, per second.
    most: f64,
    burst: f64,
    /// Locked briefly, never across an `await`.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Current rate, per second.
    rate: f64,
    /// Time of the next request at a constant rate, without burst.
    due: Option<Instant>,
    cut_at: Option<Instant>,
}

/// Health of the API server, as one write shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The server answered after this time.
    Answered(Duration),
    /// The server reported overload, or did not answer.
    InTrouble,
}

// === impl Pace ===

impl Pace {
    /// Creates a limiter for `qps` requests per second with a burst of `burst`; both are at least 1.
    #[must_use]
    pub fn new(qps: u32, burst: u32) -> Self {
        let most = f64::from(qps.max(1));
        let state = Mutex::new(State { rate: most, due: None, cut_at: None });
        Self { most, burst: f64::from(burst.max(1)), state }
    }

    /// Waits for a slot, first come, first served.
    pub async fn turn(&self) {
        let now = Instant::now();
        let turn = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let interval = Duration::from_secs_f64(state.rate.recip());
            // The burst shrinks with the rate.
            let tolerance = interval.mul_f64((self.burst * state.rate / self.most - 1.0).max(0.0));
            let mine = state.due.filter(|due| *due > now).unwrap_or(now);
            state.due = Some(mine + interval);
            mine.checked_sub(tolerance).filter(|turn| *turn > now)
        };
        if let Some(turn) = turn {
            sleep_until(turn).await;
        }
    }

    /// Adapts the rate to the outcome of a write.
    pub fn heed(&self, health: Health) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match health {
            Health::Answered(after) if after <= SLOW => {
                state.rate = RAISE.mul_add(self.most, state.rate).min(self.most);
            }
            Health::Answered(_) | Health::InTrouble => {
                if state.cut_at.is_some_and(|cut| now < cut + BETWEEN_CUTS) {
                    return;
                }
                state.rate = (state.rate / 2.0).max(LEAST.min(self.most));
                state.cut_at = Some(now);
            }
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

    async fn passed_in_a_second(pace: &Pace) -> u32 {
        let end = Instant::now() + Duration::from_secs(1);
        let mut passed = 0;
        loop {
            pace.turn().await;
            if Instant::now() > end {
                return passed;
            }
            passed += 1;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rate_falls_by_half_in_trouble_and_comes_back_slowly() {
        let pace = Pace::new(200, 1);
        for health in [Health::InTrouble, Health::InTrouble, Health::Answered(Duration::from_secs(2))] {
            pace.heed(health);
        }
        let passed = passed_in_a_second(&pace).await;
        assert!((98..=102).contains(&passed), "what is said at once counts once: {passed}");
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(1)).await;
            pace.heed(Health::InTrouble);
        }
        let passed = passed_in_a_second(&pace).await;
        assert!((4..=6).contains(&passed), "some always pass: {passed}");
        (0..100).for_each(|_| pace.heed(Health::Answered(Duration::from_millis(20))));
        tokio::time::advance(Duration::from_secs(1)).await;
        let passed = passed_in_a_second(&pace).await;
        assert!((195..=205).contains(&passed), "{passed}");
    }
}
