//! Token buckets: an average rate with bursts.

use std::time::Duration;

use tokio::time::Instant;

/// Rate: a burst at once, then one per interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Maximum number at once.
    pub burst: u32,
    /// Interval after which another one is admitted.
    pub every: Duration,
}

impl Rate {
    /// Creates a rate.
    #[must_use]
    pub const fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every }
    }
}

/// Token bucket. It is full at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    left: u32,
    counted: Instant,
}

impl Bucket {
    pub(crate) const fn full(rate: Rate, now: Instant) -> Self {
        Self { left: rate.burst, counted: now }
    }

    /// Takes one; returns false if none is left.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> bool {
        self.regain(rate, now);
        let has_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_one
    }

    /// Gives one back that was taken.
    pub(crate) fn give_back(&mut self, rate: Rate) {
        self.left = self.left.saturating_add(1).min(rate.burst);
    }

    /// Returns true if nothing is missing, so that a new bucket would be the same.
    pub(crate) fn is_full(&mut self, rate: Rate, now: Instant) -> bool {
        self.regain(rate, now);
        self.left >= rate.burst
    }

    fn regain(&mut self, rate: Rate, now: Instant) {
        let since = now.saturating_duration_since(self.counted);
        let every = rate.every.as_nanos().max(1);
        let regained = u32::try_from(since.as_nanos() / every).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(regained);
        // The rest of an interval counts towards the next token, unless the bucket is full.
        self.counted = if self.left < rate.burst { self.counted + rate.every * regained } else { now };
        self.left = self.left.min(rate.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::new(64, Duration::from_millis(500));

    #[test]
    fn a_bucket_is_emptied_and_fills_with_time() {
        let Rate { burst, every } = RATE;
        let start = Instant::now();
        let mut bucket = Bucket::full(RATE, start);
        assert!((0..burst).all(|_| bucket.take(RATE, start)));
        assert!(!bucket.take(RATE, start));
        assert!(bucket.take(RATE, start + every));
        assert!(!bucket.take(RATE, start + every));
        let uneven = every + every / 2;
        let taken = (1..=10).filter(|turn| bucket.take(RATE, start + every + uneven * *turn)).count();
        assert_eq!(taken, 10);
        assert!((11..=15).all(|_| bucket.take(RATE, start + every + uneven * 10)), "the halves add up");
        assert!(!bucket.take(RATE, start + every + uneven * 10));
        bucket.give_back(RATE);
        assert!(bucket.take(RATE, start + every + uneven * 10));
        let later = start + every * 10_000;
        assert!(bucket.is_full(RATE, later));
        assert!((0..burst).all(|_| bucket.take(RATE, later)));
        assert!(!bucket.take(RATE, later) && !bucket.is_full(RATE, later), "no more than a burst is saved");
    }
}
