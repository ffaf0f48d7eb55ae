//! How fast the API server is written to: Karpenter's `--kube-client-qps` and `--kube-client-burst` at most, and less for as
//! long as it is in trouble.
//!
//! ```text
//!   429, 5xx, no answer, an answer after more than a second ──► half the rate, at most once a second, down to 5 a second
//!   an answer in time ──► a hundredth of the highest rate more
//! ```
//!
//! Additive increase, multiplicative decrease: the rule by which TCP shares a line.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// An answer that takes longer says that the API server has more to do than it can.
const SLOW: Duration = Duration::from_secs(1);
/// Between two cuts of the rate: what was on its way when the first was made says nothing new.
const BETWEEN_CUTS: Duration = Duration::from_secs(1);
/// Writes a second that are always allowed, unless the operator allows fewer.
const LEAST: f64 = 5.0;
/// Part of the highest rate by which an answer in time raises it.
const RAISE: f64 = 0.01;

/// Lets so many pass a second, and so many more at once after a rest.
#[derive(Debug)]
pub struct Pace {
    /// The highest rate, a second.
    most: f64,
    burst: f64,
    /// Held for the length of a sum.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The rate, a second.
    rate: f64,
    /// When the next would be due if there were no burst.
    due: Option<Instant>,
    cut_at: Option<Instant>,
}

/// How the API server has taken a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It has answered after so long.
    Answered(Duration),
    /// It has said that it is overloaded, or nothing at all.
    InTrouble,
}

// === impl Pace ===

impl Pace {
    /// `qps` a second, `burst` at once; both at least 1.
    #[must_use]
    pub fn new(qps: u32, burst: u32) -> Self {
        let most = f64::from(qps.max(1));
        let state = Mutex::new(State { rate: most, due: None, cut_at: None });
        Self { most, burst: f64::from(burst.max(1)), state }
    }

    /// Waits for one's turn; first come, first served.
    pub async fn turn(&self) {
        let now = Instant::now();
        let turn = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let interval = Duration::from_secs_f64(state.rate.recip());
            // At a lower rate the burst is smaller, too.
            let tolerance = interval.mul_f64((self.burst * state.rate / self.most - 1.0).max(0.0));
            let mine = state.due.filter(|due| *due > now).unwrap_or(now);
            state.due = Some(mine + interval);
            mine.checked_sub(tolerance).filter(|turn| *turn > now)
        };
        if let Some(turn) = turn {
            sleep_until(turn).await;
        }
    }

    /// Takes note of how the API server has taken a write.
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
