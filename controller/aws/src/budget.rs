//! How many calls of a kind may be made: a bucket of tokens for each family of calls that AWS limits together.
//!
//! AWS's limits belong to the account and the region, so other programs draw on them too, and an account may have other
//! limits than the documented ones. Hence the rate is a guess that adapts: a refusal for its rate halves it and empties the
//! bucket, and every success raises it a little, up to four times what is documented.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

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
}

// === impl Budgets ===

impl Budgets {
    /// Takes a call's token. The caller waits as long as is said before it calls; whoever comes later waits longer. If that
    /// is more than `patience`, nothing is taken.
    pub fn take(&mut self, family: Family, now: Timestamp, patience: Duration) -> Option<Duration> {
        let budget = self.of(family, now);
        let tokens = budget.tokens - 1.0;
        let wait = Duration::try_from_secs_f64((-tokens / budget.per_second).max(0.0)).unwrap_or(Duration::MAX);
        if wait > patience {
            return None;
        }
        budget.tokens = tokens;
        Some(wait)
    }

    /// AWS has refused a call for its rate.
    pub fn throttled(&mut self, family: Family, now: Timestamp) {
        let least = family.limit().per_second * LEAST;
        let budget = self.of(family, now);
        // Of many that were on their way together, the first teaches; the others find the bucket empty already.
        if budget.tokens > 0.0 {
            budget.tokens = 0.0;
        }
        budget.per_second = (budget.per_second / 2.0).max(least);
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
        let full = Budget { per_second: limit.per_second, tokens: limit.burst, at: now };
        let budget = self.0.entry(family).or_insert(full);
        let elapsed = now.duration_since(budget.at).as_secs_f64().max(0.0);
        budget.tokens = budget.per_second.mul_add(elapsed, budget.tokens).min(limit.burst);
        budget.at = budget.at.max(now);
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn fifty_at_once_then_five_a_second_then_nobody_waits_that_long() {
        let mut budgets = Budgets::default();
        let waits: Vec<Option<Duration>> =
            (0..200).map(|_| budgets.take(Family::CreateFleet, at(0), PATIENCE)).collect();
        assert_eq!(waits.iter().filter(|wait| **wait == Some(Duration::ZERO)).count(), 50);
        assert_eq!(waits[50], Some(Duration::from_millis(200)));
        assert_eq!(waits[149], Some(Duration::from_secs(20)));
        assert_eq!(waits[150], None);
        assert_eq!(budgets.take(Family::CreateTags, at(0), PATIENCE), Some(Duration::ZERO), "others have their own");
        assert_eq!(
            budgets.take(Family::CreateFleet, at(20_200), PATIENCE),
            Some(Duration::ZERO),
            "all have been served"
        );
    }

    #[test]
    fn the_rate_halves_with_refusals_and_rises_with_successes() {
        let mut budgets = Budgets::default();
        budgets.take(Family::CreateFleet, at(0), PATIENCE);
        budgets.throttled(Family::CreateFleet, at(0));
        assert_eq!(budgets.rate(Family::CreateFleet), 2.5);
        assert_eq!(budgets.take(Family::CreateFleet, at(0), PATIENCE), Some(Duration::from_millis(400)));
        for _ in 0..100 {
            budgets.throttled(Family::CreateFleet, at(0));
        }
        assert_eq!(budgets.rate(Family::CreateFleet), 0.5, "it never stands still");
        for _ in 0..1000 {
            budgets.succeeded(Family::CreateFleet, at(0));
        }
        assert_eq!(budgets.rate(Family::CreateFleet), 20.0);
    }
}
