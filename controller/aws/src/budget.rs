//! How many calls of a kind may be made: a bucket of tokens for each family of calls that AWS limits together.
//!
//! AWS's limits belong to the account and the region, so other programs draw on them too, and an account may have other
//! limits than the documented ones. Hence the rate is a guess that adapts: a refusal for its rate halves it and empties the
//! bucket, and every success raises it a little, up to four times what is documented.
//!
//! Whoever would wait too long has a place in a line, and is told when to come again: of a thousand launches none stands in
//! another's way, and they are made in the order in which they were asked for.

use std::collections::{BTreeMap, VecDeque};
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

/// Whoever does not come back for so long after their turn has lost their place.
const LATE: Duration = Duration::from_secs(60);

/// The buckets of all families.
#[derive(Debug, Clone, Default)]
pub struct Budgets(BTreeMap<Family, Budget>);

#[derive(Debug, Clone)]
struct Budget {
    per_second: f64,
    /// Below zero are calls that wait.
    tokens: f64,
    at: Timestamp,
    /// When the rate was lowered last.
    lowered: Option<Timestamp>,
    /// Those who were told to come again.
    line: VecDeque<Place>,
}

/// A place in a line.
#[derive(Debug, Clone)]
struct Place {
    who: String,
    /// When they were told to come.
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
    /// Takes a call's token. The caller waits as long as is said before it calls; whoever comes later waits longer.
    ///
    /// # Errors
    /// If that is more than a call of the family waits, nothing is taken; in how long to come again. Whoever says who they are
    /// keeps their place in the line until then, however often they ask.
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

    /// Only who `stays` keeps a place in the line: nobody waits behind those who have gone.
    pub fn keep(&mut self, family: Family, stays: impl Fn(&str) -> bool) {
        if let Some(budget) = self.0.get_mut(&family) {
            budget.line.retain(|place| stays(&place.who));
        }
    }

    /// How many have a place in the line.
    #[must_use]
    pub fn waiting(&self, family: Family, now: Timestamp) -> usize {
        let line = self.0.get(&family).into_iter().flat_map(|budget| &budget.line);
        line.filter(|place| place.is_held(now)).count()
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
    /// How long it takes until there is a token for whoever has so many ahead of them.
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
        // Whoever asks too soon keeps their place, and whoever comes new has none before anybody.
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
        // They stay for a minute after their turn.
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
