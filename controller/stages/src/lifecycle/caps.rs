//! Limits on launches: their rate and their total price.

use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

/// Window in which launches are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Limits set by the operator.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Caps {
    /// Maximum number of launches in any minute; `None` is unlimited.
    pub launches_per_minute: Option<u32>,
    /// Maximum price of all existing claims, in USD per hour; `None` is unlimited.
    pub hourly_price: Option<f64>,
}

/// Usage of the limits, as the claims show it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spent {
    /// Creation times of claims, ascending. Those older than a minute do not count.
    pub made_at: Vec<Timestamp>,
    /// Price of all claims, including those being deleted, in USD per hour.
    pub hourly_price: f64,
}

/// Result of checking the limits for one more claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Admission {
    /// The claim may be created.
    Now,
    /// The claim may be created at this time at the earliest.
    NotBefore(Timestamp),
    /// The claim would exceed the price limit by this amount, in USD per hour. It may be created only after another
    /// claim is gone or the limit is raised.
    TooDear(f64),
}

impl Caps {
    /// Checks whether a claim of that price may be created now. The caller adds it to `spent` before the next check.
    #[must_use]
    pub fn admit(&self, spent: &Spent, price: f64, now: Timestamp) -> Admission {
        if let Some(cap) = self.hourly_price {
            let over = spent.hourly_price + price - cap;
            // A price that is NaN is not known to be within the limit.
            if over > 0.0 || over.is_nan() {
                return Admission::TooDear(over);
            }
        }
        let Some(cap) = self.launches_per_minute else { return Admission::Now };
        let recent: Vec<Timestamp> =
            spent.made_at.iter().copied().filter(|made_at| now < after(*made_at, WINDOW)).collect();
        let cap = usize::try_from(cap).unwrap_or(usize::MAX);
        if recent.len() < cap {
            return Admission::Now;
        }
        // With a limit of zero no earlier launch determines the time.
        let first = recent.get(recent.len() - cap).copied().unwrap_or(now);
        Admission::NotBefore(after(first, WINDOW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn launches_are_counted_over_a_sliding_minute() {
        let caps = Caps { launches_per_minute: Some(2), hourly_price: None };
        let spent = |seconds: &[i64]| Spent { made_at: seconds.iter().copied().map(at).collect(), hourly_price: 0.0 };
        assert_eq!(caps.admit(&spent(&[0]), 1.0, at(1)), Admission::Now);
        assert_eq!(caps.admit(&spent(&[0, 10]), 1.0, at(20)), Admission::NotBefore(at(60)));
        assert_eq!(caps.admit(&spent(&[0, 10]), 1.0, at(60)), Admission::Now);
        assert_eq!(caps.admit(&spent(&[0, 10, 15]), 1.0, at(20)), Admission::NotBefore(at(70)));
        let none = Caps { launches_per_minute: Some(0), hourly_price: None };
        assert_eq!(none.admit(&spent(&[]), 1.0, at(20)), Admission::NotBefore(at(80)));
    }

    #[test]
    fn a_price_may_reach_the_cap_and_not_pass_it() {
        let caps = Caps { launches_per_minute: None, hourly_price: Some(10.0) };
        let spent = Spent { made_at: Vec::new(), hourly_price: 9.5 };
        assert_eq!(caps.admit(&spent, 0.5, at(0)), Admission::Now);
        assert_eq!(caps.admit(&spent, 1.0, at(0)), Admission::TooDear(0.5));
        assert!(matches!(caps.admit(&spent, f64::NAN, at(0)), Admission::TooDear(_)));
    }
}
