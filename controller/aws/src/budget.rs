//! How many calls of a kind may be made: a bucket of tokens for each family of calls that AWS limits together.
//!
//! AWS's limits belong to the account and the region, so other programs draw on them too, and an account may have other
//! limits than the documented ones. Hence the rate is a guess that adapts: a refusal for its rate halves it and empties the
//! bucket, and every success raises it a little, up to four times what is documented.
//!
//! Whoever would wait too long is told when to come again, each a turn later than the one before: of a thousand launches
//! none stands in another's way, and each is tried once its turn has come.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

/// Calls that share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `ec2:CreateFleet`.
    CreateFleet,
    /// `ec2:TerminateInstances`.
    TerminateInstances,
    /// `ec2:CreateTags`.
    CreateTags,
    /// Other calls of EC2 that change something: launch templates.
    ChangeEc2,
    /// Calls of EC2 that change nothing.
    DescribeEc2,
    /// EKS.
    Eks,
    /// Systems Manager's parameters.
    Parameters,
    /// The Price List.
    Prices,
    /// Identity and Access Management, which is one for all regions.
    Iam,
}

/// What AWS documents: how many calls at once, and how many more each second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Limit {
    burst: f64,
    per_second: f64,
}

impl Family {
    /// EC2: Developer Guide, "Request throttling for the Amazon EC2 API". Systems Manager: quota of GetParameter, standard
    /// throughput. Price List, EKS and IAM do not document theirs; a fraction of what is commonly seen.
    const fn limit(self) -> Limit {
        match self {
            Self::CreateFleet | Self::ChangeEc2 => Limit { burst: 50.0, per_second: 5.0 },
            Self::TerminateInstances => Limit { burst: 100.0, per_second: 5.0 },
            Self::CreateTags => Limit { burst: 100.0, per_second: 10.0 },
            Self::DescribeEc2 => Limit { burst: 100.0, per_second: 20.0 },
            Self::Parameters => Limit { burst: 40.0, per_second: 40.0 },
            Self::Prices => Limit { burst: 10.0, per_second: 10.0 },
            Self::Eks | Self::Iam => Limit { burst: 10.0, per_second: 5.0 },
        }
    }

    /// How long a call waits for its turn. What is called for each node comes again instead: thousands that wait would keep
    /// other nodes from being looked at.
    const fn patience(self) -> Duration {
        match self {
            Self::CreateFleet | Self::CreateTags => Duration::from_secs(1),
            _ => Duration::from_secs(20),
        }
    }
}

/// The rate may rise to so many times the documented one, and fall to this part of it.
const MOST: f64 = 4.0;
const LEAST: f64 = 0.1;
/// A success raises the rate by this part of the documented one.
const RISE: f64 = 0.02;

/// The buckets of all families.
#[derive(Debug, Clone, Default)]
pub struct Budgets(BTreeMap<Family, Budget>);

#[derive(Debug, Clone, Copy)]
struct Budget {
    per_second: f64,
    /// Below zero are calls that wait.
    tokens: f64,
    at: Timestamp,
    /// The last turn that somebody was told to come for.
    promised: Timestamp,
    /// When the rate was lowered last.
    lowered: Option<Timestamp>,
}

// === impl Budgets ===

impl Budgets {
    /// Takes a call's token. The caller waits as long as is said before it calls; whoever comes later waits longer.
    ///
    /// # Errors
    /// If that is more than a call of the family waits, nothing is taken; in how long to come again.
    pub fn take(&mut self, family: Family, now: Timestamp) -> Result<Duration, Duration> {
        let budget = self.of(family, now);
        let tokens = budget.tokens - 1.0;
        let wait = duration(-tokens / budget.per_second);
        if wait <= family.patience() {
            budget.tokens = tokens;
            return Ok(wait);
        }
        let turn = duration(1.0 / budget.per_second);
        budget.promised = after(now, wait).max(after(budget.promised, turn));
        Err(Duration::try_from(budget.promised.duration_since(now)).unwrap_or(wait))
    }

    /// AWS has refused a call for its rate, which was sent at that moment.
    pub fn throttled(&mut self, family: Family, sent: Timestamp, now: Timestamp) {
        let least = family.limit().per_second * LEAST;
        let budget = self.of(family, now);
        if budget.tokens > 0.0 {
            budget.tokens = 0.0;
        }
        // Of many that were on their way together, one teaches: the others were sent at the rate that is known to be wrong.
        if budget.lowered.is_none_or(|lowered| lowered <= sent) {
            budget.per_second = (budget.per_second / 2.0).max(least);
            budget.lowered = Some(now);
        }
    }

    /// A call went through.
    pub fn succeeded(&mut self, family: Family, now: Timestamp) {
        let limit = family.limit();
        let budget = self.of(family, now);
        budget.per_second = RISE.mul_add(limit.per_second, budget.per_second).min(limit.per_second * MOST);
    }

    /// Calls a second that are believed to be allowed.
    #[must_use]
    pub fn rate(&self, family: Family) -> f64 {
        self.0.get(&family).map_or(family.limit().per_second, |budget| budget.per_second)
    }

    /// The bucket, filled up to `now`.
    fn of(&mut self, family: Family, now: Timestamp) -> &mut Budget {
        let limit = family.limit();
        let full = Budget { per_second: limit.per_second, tokens: limit.burst, at: now, promised: now, lowered: None };
        let budget = self.0.entry(family).or_insert(full);
        let elapsed = now.duration_since(budget.at).as_secs_f64().max(0.0);
        budget.tokens = budget.per_second.mul_add(elapsed, budget.tokens).min(limit.burst);
        budget.at = budget.at.max(now);
        budget
    }
}

/// So many seconds; none if it is less.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn fifty_at_once_then_five_a_second_then_each_comes_in_its_turn() {
        let mut budgets = Budgets::default();
        let answers: Vec<Result<Duration, Duration>> =
            (0..1000).map(|_| budgets.take(Family::CreateFleet, at(0))).collect();
        assert!(answers[..50].iter().all(|answer| *answer == Ok(Duration::ZERO)));
        assert_eq!((answers[50], answers[54]), (Ok(Duration::from_millis(200)), Ok(Duration::from_secs(1))));
        assert_eq!((answers[55], answers[56]), (Err(Duration::from_millis(1200)), Err(Duration::from_millis(1400))));
        assert_eq!(answers[999], Err(Duration::from_secs(190)));
        assert_eq!(budgets.take(Family::CreateTags, at(0)), Ok(Duration::ZERO), "others have their own");
        for turn in 0..945 {
            let moment = at(1200 + turn * 200);
            assert!(
                budgets.take(Family::CreateFleet, moment).is_ok(),
                "whoever comes in its turn is let through: {turn}"
            );
        }
    }

    #[test]
    fn what_is_asked_for_all_nodes_together_waits_longer() {
        let mut budgets = Budgets::default();
        let waits: Vec<_> = (0..700).map(|_| budgets.take(Family::DescribeEc2, at(0))).collect();
        assert_eq!(waits[499], Ok(Duration::from_secs(20)));
        assert!(waits[500].is_err());
    }

    #[test]
    fn the_rate_halves_with_refusals_and_rises_with_successes() {
        let mut budgets = Budgets::default();
        budgets.take(Family::CreateFleet, at(0)).unwrap();
        budgets.throttled(Family::CreateFleet, at(0), at(10));
        assert_eq!(budgets.rate(Family::CreateFleet), 2.5);
        budgets.throttled(Family::CreateFleet, at(5), at(20));
        assert_eq!(budgets.rate(Family::CreateFleet), 2.5, "it was on its way when the first one was refused");
        assert_eq!(budgets.take(Family::CreateFleet, at(20)), Ok(Duration::from_millis(400)));
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
