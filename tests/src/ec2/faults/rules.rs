//! The rules in force, and what they say of one call or one launch.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

use super::select::Place;
use super::{ApiError, CallFault, LaunchFault, Rule, RuleId, errors};

/// All rules, oldest first.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Rules {
    rules: BTreeMap<RuleId, Kept>,
    next: u32,
}

#[derive(Debug)]
struct Kept {
    rule: Rule,
    matched: u32,
}

/// What the rules say of a call.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Verdict {
    pub(in crate::ec2) faults: Vec<(RuleId, CallFault)>,
}

/// What the rules say of a pool before anything is launched.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Supply {
    /// So many can be launched; `None`: as many as one likes.
    pub(in crate::ec2) left: Option<u32>,
    /// Why not more.
    pub(in crate::ec2) short_of: Option<ApiError>,
}

/// What the rules say of one instance that was launched.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::ec2) struct Fate {
    /// `StateReason` code and message.
    pub(in crate::ec2) ends: Option<(String, String)>,
    pub(in crate::ec2) unseen_for: Option<Duration>,
}

impl Rules {
    pub(in crate::ec2) fn add(&mut self, rule: Rule) -> RuleId {
        self.next += 1;
        let id = RuleId(self.next);
        self.rules.insert(id, Kept { rule, matched: 0 });
        id
    }

    pub(in crate::ec2) fn remove(&mut self, id: RuleId) {
        self.rules.remove(&id);
    }

    /// Rules in force and how often each has matched.
    pub(in crate::ec2) fn iter(&self) -> impl Iterator<Item = (RuleId, &Rule, u32)> {
        self.rules.iter().map(|(id, kept)| (*id, &kept.rule, kept.matched))
    }

    /// Counts the call and says what happens to it.
    pub(in crate::ec2) fn on_call(&mut self, service: &str, action: &str, identity: &str) -> Verdict {
        let mut verdict = Verdict::default();
        for (id, kept) in &mut self.rules {
            let Rule::Call { calls, fault } = &kept.rule else { continue };
            if !calls.selects(service, action, identity) {
                continue;
            }
            kept.matched += 1;
            let turn = kept.matched - 1;
            if turn >= calls.after && calls.times.is_none_or(|times| turn - calls.after < times) {
                verdict.faults.push((*id, fault.clone()));
            }
        }
        verdict
    }

    /// What can be launched at `place`; changes nothing.
    pub(in crate::ec2) fn supply(&self, place: &Place<'_>) -> Supply {
        let mut supply = Supply::default();
        for kept in self.rules.values() {
            let Rule::Launch { pool, fault } = &kept.rule else { continue };
            if !pool.selects(place) {
                continue;
            }
            let (left, error) = match fault {
                LaunchFault::Capacity(left) => (*left, errors::insufficient_capacity(place)),
                LaunchFault::Addresses(left) => (*left, errors::no_free_addresses(place.subnet)),
                LaunchFault::Refused { status, code, message } => (0, ApiError::new(*status, code, message)),
                LaunchFault::EndsAtOnce { .. } | LaunchFault::UnseenFor(_) => continue,
            };
            if supply.left.is_none_or(|least| left < least) {
                supply = Supply { left: Some(left), short_of: Some(error) };
            }
        }
        supply
    }

    /// Takes one instance out of the supply and says what becomes of it.
    pub(in crate::ec2) fn on_launch(&mut self, place: &Place<'_>) -> Fate {
        let mut fate = Fate::default();
        for kept in self.rules.values_mut() {
            let Rule::Launch { pool, fault } = &mut kept.rule else { continue };
            if !pool.selects(place) || pool.times.is_some_and(|times| kept.matched >= times) {
                continue;
            }
            kept.matched += 1;
            match fault {
                LaunchFault::Capacity(left) | LaunchFault::Addresses(left) => *left = left.saturating_sub(1),
                LaunchFault::EndsAtOnce { code, message } => fate.ends = Some((code.clone(), message.clone())),
                LaunchFault::UnseenFor(delay) => fate.unseen_for = Some(*delay),
                LaunchFault::Refused { .. } => {}
            }
        }
        fate
    }

    /// The addresses that rules leave in `subnet`.
    pub(in crate::ec2) fn addresses_left(&self, subnet: &str) -> Option<u32> {
        let of_rule = |kept: &Kept| match &kept.rule {
            Rule::Launch { pool, fault: LaunchFault::Addresses(left) } if pool.subnet.as_deref() == Some(subnet) => {
                Some(*left)
            }
            _ => None,
        };
        self.rules.values().filter_map(of_rule).min()
    }
}

impl Verdict {
    pub(in crate::ec2) fn ids(&self) -> Vec<RuleId> {
        self.faults.iter().map(|(id, _)| *id).collect()
    }

    pub(in crate::ec2) fn has(&self, fault: &CallFault) -> bool {
        self.faults.iter().any(|(_, is)| is == fault)
    }

    /// The error that the call gets, the first that a rule gives.
    pub(in crate::ec2) fn error(&self, service: &str, iam_action: &str, arn: &str) -> Option<ApiError> {
        self.faults.iter().find_map(|(_, fault)| match fault {
            CallFault::Unauthorized => Some(errors::unauthorized(service, iam_action, arn)),
            CallFault::Throttled => Some(errors::throttled(service)),
            CallFault::Error { status, code, message } => Some(ApiError::new(*status, code, message)),
            _ => None,
        })
    }

    /// How far the service's clock is ahead of the caller's, if a rule says so.
    pub(in crate::ec2) fn skew(&self) -> Option<SignedDuration> {
        self.faults.iter().find_map(|(_, fault)| match fault {
            CallFault::Skewed { ahead } => Some(SignedDuration::from_secs(*ahead)),
            _ => None,
        })
    }

    /// How long before the work, and how long after it.
    pub(in crate::ec2) fn delays(&self) -> (Duration, Duration) {
        self.faults.iter().fold((Duration::ZERO, Duration::ZERO), |(before, after), (_, fault)| match fault {
            CallFault::Latency(by) => (before + *by, after),
            CallFault::LateAnswer(by) => (before, after + *by),
            _ => (before, after),
        })
    }
}
