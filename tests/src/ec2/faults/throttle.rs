//! EC2's request throttling: a token bucket for each action and region of the account.
//!
//! Sizes and refill rates are those of the EC2 Developer Guide, "Request throttling for the Amazon EC2 API".

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::parameters::Parameters;

/// The buckets, filled as asked.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Buckets {
    levels: BTreeMap<(String, String, Limit), Level>,
}

/// Size and refill rate, in requests and requests a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Limit {
    size: u32,
    refill: u32,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    tokens: f64,
    at: Timestamp,
}

const NON_MUTATING: Limit = Limit { size: 100, refill: 20 };
const UNFILTERED: Limit = Limit { size: 50, refill: 10 };
const MUTATING: Limit = Limit { size: 50, refill: 5 };
/// Instances asked for by `RunInstances`, `TerminateInstances`, …, beside the requests.
const RUN_INSTANCES: Limit = Limit { size: 1000, refill: 2 };
const TERMINATE_INSTANCES: Limit = Limit { size: 1000, refill: 20 };

impl Buckets {
    /// Takes what the call costs; `false` if a bucket does not have it, then nothing is taken.
    pub(in crate::ec2) fn take(&mut self, now: Timestamp, region: &str, action: &str, parameters: &Parameters) -> bool {
        let charges = charges(action, parameters);
        let mut levels = Vec::new();
        for (what, limit, cost) in charges {
            let key = (region.to_owned(), what.to_owned(), limit);
            let full = Level { tokens: f64::from(limit.size), at: now };
            let level = self.levels.get(&key).copied().unwrap_or(full);
            let elapsed = now.duration_since(level.at).as_secs_f64().max(0.0);
            let tokens = f64::from(limit.refill).mul_add(elapsed, level.tokens).min(f64::from(limit.size));
            levels.push((key, Level { tokens: tokens - f64::from(cost), at: now }));
        }
        let enough = levels.iter().all(|(_, level)| level.tokens >= 0.0);
        if enough {
            self.levels.extend(levels);
        }
        enough
    }
}

/// What a call takes from which bucket.
fn charges<'a>(action: &'a str, parameters: &Parameters) -> Vec<(&'a str, Limit, u32)> {
    let request = match action {
        "RunInstances" | "StartInstances" => Limit { size: 5, refill: 2 },
        "TerminateInstances" | "CreateLaunchTemplateVersion" => Limit { size: 100, refill: 5 },
        "CreateTags" => Limit { size: 100, refill: 10 },
        _ if action.starts_with("Describe") || action.starts_with("Get") || action.starts_with("List") => {
            let narrow = ["Filter.", "InstanceId.", "MaxResults", "NextToken"];
            let narrowed = parameters.query.keys().any(|name| narrow.iter().any(|start| name.starts_with(start)));
            let by_id = parameters.query.keys().any(|name| name.ends_with(".1") || name.ends_with("Name"));
            if narrowed || by_id { NON_MUTATING } else { UNFILTERED }
        }
        _ => MUTATING,
    };
    let mut charges = vec![(action, request, 1)];
    match action {
        "RunInstances" => charges.push(("instances run", RUN_INSTANCES, parameters.number("MaxCount").unwrap_or(1))),
        "TerminateInstances" => {
            let count = u32::try_from(parameters.list("InstanceId").len()).unwrap_or(u32::MAX);
            charges.push(("instances terminated", TERMINATE_INSTANCES, count));
        }
        _ => {}
    }
    charges
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_bucket_empties_by_requests_and_fills_by_the_clock() {
        let mut buckets = Buckets::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let none = Parameters::default();
        let mut take = |now| buckets.take(now, "us-east-1", "CreateFleet", &none);
        assert_eq!((0..60).filter(|_| take(now)).count(), 50);
        now += SignedDuration::from_secs(1);
        assert_eq!((0..60).filter(|_| take(now)).count(), 5);
        assert!(buckets.take(now, "eu-west-1", "CreateFleet", &none), "another region has its own");
        assert!(buckets.take(now, "us-east-1", "DeleteFleets", &none), "so has another action");
    }

    #[test]
    fn what_narrows_nothing_down_has_the_smaller_bucket() {
        let all = Parameters::default();
        let page = Parameters::from_form(b"MaxResults=5");
        let mut buckets = Buckets::default();
        let mut count = |parameters| {
            let take = |_: &u32| buckets.take(Timestamp::UNIX_EPOCH, "r", "DescribeInstances", parameters);
            (0..200).filter(take).count()
        };
        assert_eq!((count(&all), count(&page)), (50, 100));
    }
}
