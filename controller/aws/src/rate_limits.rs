//! Client-side rate limits: a token bucket for each family of calls that AWS throttles together.
//!
//! The limits of AWS apply per account and region, so other programs consume them too, and an account may have limits
//! other than the documented ones. The rate is therefore an estimate that adapts: a throttled call halves it and
//! empties the bucket, and every success raises it a little, up to four times the documented rate.
//!
//! A caller that would wait too long is queued and gets the time of its next attempt. A thousand launches therefore do
//! not block each other, and they are made in the order of their requests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

/// Calls that share a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `ec2:CreateFleet`.
    CreateFleet,
    /// `ec2:TerminateInstances`.
    TerminateInstances,
    /// `ec2:CreateTags`.
    CreateTags,
    /// Other mutating EC2 calls: launch templates.
    ChangeEc2,
    /// Read-only EC2 calls.
    DescribeEc2,
    /// EKS.
    Eks,
    /// Systems Manager parameters.
    Parameters,
    /// AWS Price List.
    Prices,
    /// SQS.
    Queue,
    /// IAM, which is global.
    Iam,
    /// Application Recovery Controller.
    ZonalShifts,
}

/// Documented rate limit: burst size, and refill rate per second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Limit {
    burst: f64,
    per_second: f64,
}

impl Family {
    /// Sources: EC2 Developer Guide, "Request throttling for the Amazon EC2 API"; Systems Manager quota of GetParameter
    /// at standard throughput. Price List, EKS, IAM and ARC do not document their limits; a fraction of what is
    /// commonly seen. SQS has practically none; the limit bounds what a failing queue is asked.
    const fn limit(self) -> Limit {
        match self {
            Self::CreateFleet | Self::ChangeEc2 => Limit { burst: 50.0, per_second: 5.0 },
            Self::TerminateInstances => Limit { burst: 100.0, per_second: 5.0 },
            Self::CreateTags => Limit { burst: 100.0, per_second: 10.0 },
            Self::DescribeEc2 => Limit { burst: 100.0, per_second: 20.0 },
            Self::Parameters => Limit { burst: 40.0, per_second: 40.0 },
            Self::Prices => Limit { burst: 10.0, per_second: 10.0 },
            Self::Queue => Limit { burst: 200.0, per_second: 200.0 },
            Self::Eks | Self::Iam | Self::ZonalShifts => Limit { burst: 10.0, per_second: 5.0 },
        }
    }

    /// Maximum time that a call waits for a token. Per-node calls are retried later instead: thousands of waiting calls
    /// would block the reconciliation of other nodes.
    const fn patience(self) -> Duration {
        match self {
            Self::CreateFleet | Self::CreateTags => Duration::from_secs(1),
            _ => Duration::from_secs(20),
        }
    }
}

/// Bounds of the rate, as multiples of the documented rate.
const MOST: f64 = 4.0;
const LEAST: f64 = 0.1;
/// Increase of the rate on a success, as a fraction of the documented rate.
const RISE: f64 = 0.02;

/// Time after its turn at which a queued caller that did not return loses its place.
const LATE: Duration = Duration::from_secs(60);

/// Token buckets of all families.
#[derive(Debug, Clone, Default)]
pub struct Budgets(BTreeMap<Family, Budget>);

#[derive(Debug, Clone)]
struct Budget {
    per_second: f64,
    /// Negative while calls wait.
    tokens: f64,
    at: Timestamp,
    /// Time at which the rate was last lowered.
    lowered: Option<Timestamp>,
    /// Queued callers.
    line: VecDeque<Place>,
}

/// A queued caller.
#[derive(Debug, Clone)]
struct Place {
    who: String,
    /// Time of its next attempt.
    turn: Timestamp,
}

// === impl Place ===

impl Place {
    fn is_held(&self, now: Timestamp) -> bool {
        now < after(self.turn, LATE)
    }
}

// === impl Budgets ===

impl Budgets {
    /// Takes a token for a call and returns the time to wait before the call; later callers wait longer.
    ///
    /// # Errors
    /// If the wait exceeds the maximum of the family, nothing is taken, and the error is the time until the next
    /// attempt. A caller that passes `who` keeps its place in the queue until then, however often it asks.
    pub fn take(&mut self, family: Family, who: Option<&str>, now: Timestamp) -> Result<Duration, Duration> {
        let budget = self.of(family, now);
        budget.line.retain(|place| place.is_held(now));
        let place = who.and_then(|who| budget.line.iter().position(|place| place.who == who));
        let ahead = place.unwrap_or(budget.line.len());
        let wait = budget.wait(ahead);
        if wait <= family.patience() {
            if let Some(place) = place {
                budget.line.remove(place);
            }
            let wait = budget.wait(0);
            budget.tokens -= 1.0;
            return Ok(wait);
        }
        let turn = after(now, wait);
        match place.and_then(|place| budget.line.get_mut(place)) {
            Some(place) => place.turn = turn,
            None => budget.line.extend(who.map(|who| Place { who: who.to_owned(), turn })),
        }
        Err(wait)
    }

    /// Removes queued callers for which `stays` returns false, so that no caller waits behind abandoned ones.
    pub fn keep(&mut self, family: Family, stays: impl Fn(&str) -> bool) {
        if let Some(budget) = self.0.get_mut(&family) {
            budget.line.retain(|place| stays(&place.who));
        }
    }

    /// Returns the number of queued callers.
    #[must_use]
    pub fn waiting(&self, family: Family, now: Timestamp) -> usize {
        let line = self.0.get(&family).into_iter().flat_map(|budget| &budget.line);
        line.filter(|place| place.is_held(now)).count()
    }

    /// Records that AWS throttled a call that was sent at `sent`.
    pub fn throttled(&mut self, family: Family, sent: Timestamp, now: Timestamp) {
        let least = family.limit().per_second * LEAST;
        let budget = self.of(family, now);
        if budget.tokens > 0.0 {
            budget.tokens = 0.0;
        }
        // Of several concurrent calls only one lowers the rate: the others were sent at the rate that is known to be
        // wrong.
        if budget.lowered.is_none_or(|lowered| lowered <= sent) {
            budget.per_second = (budget.per_second / 2.0).max(least);
            budget.lowered = Some(now);
        }
    }

    /// Records a successful call.
    pub fn succeeded(&mut self, family: Family, now: Timestamp) {
        let limit = family.limit();
        let budget = self.of(family, now);
        budget.per_second = RISE.mul_add(limit.per_second, budget.per_second).min(limit.per_second * MOST);
    }

    /// Returns the estimated rate limit in calls per second.
    #[must_use]
    pub fn rate(&self, family: Family) -> f64 {
        self.0.get(&family).map_or(family.limit().per_second, |budget| budget.per_second)
    }

    /// Returns the bucket, refilled up to `now`.
    fn of(&mut self, family: Family, now: Timestamp) -> &mut Budget {
        let limit = family.limit();
        let full =
            Budget { per_second: limit.per_second, tokens: limit.burst, at: now, lowered: None, line: VecDeque::new() };
        let budget = self.0.entry(family).or_insert(full);
        let elapsed = now.duration_since(budget.at).as_secs_f64().max(0.0);
        budget.tokens = budget.per_second.mul_add(elapsed, budget.tokens).min(limit.burst);
        budget.at = budget.at.max(now);
        budget
    }
}

// === impl Budget ===

impl Budget {
    /// Returns the time until a token is available for a caller with `ahead` callers before it.
    #[expect(clippy::cast_precision_loss, reason = "a line is no longer than a cluster")]
    fn wait(&self, ahead: usize) -> Duration {
        let missing = ahead as f64 + 1.0 - self.tokens;
        Duration::try_from_secs_f64((missing / self.per_second).max(0.0)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn fifty_at_once_then_five_a_second_in_the_order_in_which_they_came() {
        let mut budgets = Budgets::default();
        let mut ask = |who: usize, milliseconds: i64| {
            budgets.take(Family::CreateFleet, Some(&who.to_string()), at(milliseconds)).map_err(|wait| wait.as_millis())
        };
        let answers: Vec<_> = (0..1000).map(|who| ask(who, 0)).collect();
        assert!(answers[..50].iter().all(|answer| *answer == Ok(Duration::ZERO)));
        assert_eq!((answers[50], answers[54]), (Ok(Duration::from_millis(200)), Ok(Duration::from_secs(1))));
        assert_eq!((answers[55], answers[56], answers[999]), (Err(1200), Err(1400), Err(190_000)));
        // A caller that asks too early keeps its place, and a new caller is queued last.
        assert_eq!((ask(999, 100), ask(56, 100), ask(1000, 100)), (Err(189_900), Err(1300), Err(190_100)));
        for who in 55..=1000 {
            let turn = i64::try_from(who - 49).unwrap() * 200;
            assert!(ask(who, turn).is_ok(), "whoever comes in their turn is let through: {who}");
        }
    }

    #[test]
    fn whoever_does_not_come_back_loses_their_place() {
        let mut budgets = Budgets::default();
        let mut ask =
            |who: &str, seconds: i64| budgets.take(Family::CreateFleet, Some(who), at(seconds * 1000)).is_ok();
        (0..55).for_each(|who| assert!(ask(&who.to_string(), 0)));
        (55..1000).for_each(|who| assert!(!ask(&who.to_string(), 0)));
        assert!(!ask("new", 60), "50 tokens and 945 ahead");
        assert!(ask("new", 310));
    }

    #[test]
    fn nobody_waits_behind_those_who_have_gone() {
        let (mut budgets, family) = (Budgets::default(), Family::CreateFleet);
        let ask =
            |budgets: &mut Budgets, who: &str| budgets.take(family, Some(who), at(0)).map_err(|it| it.as_millis());
        (0..55).for_each(|who| assert!(ask(&mut budgets, &who.to_string()).is_ok()));
        (55..1000).for_each(|who| assert!(ask(&mut budgets, &who.to_string()).is_err()));
        assert_eq!((budgets.waiting(family, at(0)), ask(&mut budgets, "999")), (945, Err(190_000)));
        budgets.keep(family, |who| who == "998" || who == "999");
        assert_eq!(budgets.waiting(family, at(0)), 2);
        assert_eq!((ask(&mut budgets, "999"), ask(&mut budgets, "new")), (Err(1400), Err(1600)));
        // They stay queued for a minute after their turn.
        assert_eq!((budgets.waiting(family, at(61_000)), budgets.waiting(family, at(251_000))), (3, 0));
        assert_eq!(budgets.waiting(Family::CreateTags, at(0)), 0);
    }

    #[test]
    fn what_is_asked_for_all_nodes_together_waits_longer_and_others_have_their_own() {
        let mut budgets = Budgets::default();
        let waits: Vec<_> = (0..700).map(|_| budgets.take(Family::DescribeEc2, None, at(0))).collect();
        assert_eq!(waits[499], Ok(Duration::from_secs(20)));
        assert!(waits[500].is_err());
        assert_eq!(budgets.take(Family::CreateTags, None, at(0)), Ok(Duration::ZERO));
    }

    #[test]
    fn the_rate_halves_with_refusals_and_rises_with_successes() {
        let mut budgets = Budgets::default();
        budgets.take(Family::CreateFleet, None, at(0)).unwrap();
        budgets.throttled(Family::CreateFleet, at(0), at(10));
        assert_eq!(budgets.rate(Family::CreateFleet), 2.5);
        budgets.throttled(Family::CreateFleet, at(5), at(20));
        assert_eq!(budgets.rate(Family::CreateFleet), 2.5, "it was on its way when the first one was refused");
        assert_eq!(budgets.take(Family::CreateFleet, None, at(20)), Ok(Duration::from_millis(400)));
        for turn in 1..100 {
            budgets.throttled(Family::CreateFleet, at(20 * turn), at(20 * turn));
        }
        assert_eq!(budgets.rate(Family::CreateFleet), 0.5, "it never stands still");
        for _ in 0..1000 {
            budgets.succeeded(Family::CreateFleet, at(2000));
        }
        assert_eq!(budgets.rate(Family::CreateFleet), 20.0);
    }
}
