//! Faults by rule. Two kinds:
//!
//! ```text
//!  a call ──► Calls (service, action, identity; first n, after m) ──► CallFault    error, throttled, late, cut, duplicated …
//!  a launch ► Pool  (type, zone, capacity type, subnet)           ──► LaunchFault  no capacity, subnet full, ends at once …
//! ```
//!
//! A rule decides by what is asked and by how often it has matched; where time plays a part it is the proxy's
//! [`Clock`](super::Clock). Rules are values: the Rust handle and the HTTP path `/_muster/faults` take the same ones.

mod errors;
mod rules;
mod select;
mod throttle;

pub(super) use errors::*;
pub(super) use rules::{Fate, Rules, Verdict};
pub(super) use select::Place;
pub use select::{Calls, CapacityType, Pool};
pub(super) use throttle::Buckets;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::shared::Shared;

/// Names a rule, to lift it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleId(pub u32);

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum CallFault {
    /// The caller's identity has no policy that allows the action: `UnauthorizedOperation` (EC2), `AccessDenied…` (others).
    /// An action that EC2 checks inside another one counts too: `CreateFleet` needs `RunInstances`.
    Unauthorized,
    /// The account asked too often: `RequestLimitExceeded` (EC2), `ThrottlingException` and its kin (others).
    Throttled,
    /// Any other error.
    Error {
        /// HTTP status; the SDK retries from 500 on.
        status: u16,
        /// AWS's error code.
        code: String,
        /// AWS's message.
        message: String,
    },
    /// The work starts later by this much.
    Latency(Duration),
    /// The work is done at once, its answer comes later by this much: two calls' answers change places.
    LateAnswer(Duration),
    /// The connection is closed, nothing is done.
    CutBefore,
    /// The work is done, the connection is closed, nobody hears of it.
    CutAfter,
    /// Every item of the answer's lists comes twice (instances, messages, images, …).
    Duplicated,
    /// The items of the answer's lists come in reverse.
    Reordered,
    /// The clocks differ: that of the service is ahead of the caller's by so much (behind, if negative). Its `Date` header
    /// says so, and signatures that are more than five minutes off are refused.
    Skewed {
        /// Seconds.
        ahead: i64,
    },
}

/// What happens to a launch from a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum LaunchFault {
    /// So many instances are left; 0 is `InsufficientInstanceCapacity` at once. Each launch takes one, none gives back.
    Capacity(u32),
    /// So many addresses are left in the pool's subnets; 0 is `InsufficientFreeAddressesInSubnet`.
    /// `DescribeSubnets` says so too.
    Addresses(u32),
    /// The pool answers this error.
    Refused {
        /// HTTP status when `RunInstances` is asked; in a fleet's answer there is none.
        status: u16,
        /// AWS's error code.
        code: String,
        /// AWS's message.
        message: String,
    },
    /// The launch succeeds, the instance is `terminated` at once with this `StateReason`.
    EndsAtOnce {
        /// `Client.VolumeLimitExceeded`, `Server.InternalError`, …
        code: String,
        /// The reason's message.
        message: String,
    },
    /// Eventual consistency: the instance exists, but no call finds it before the clock has moved on by this much.
    UnseenFor(Duration),
}

/// A rule as the HTTP path takes and lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, untagged)]
pub enum Rule {
    /// For calls.
    Call {
        /// Which ones.
        calls: Calls,
        /// What happens.
        fault: CallFault,
    },
    /// For launches.
    Launch {
        /// Which ones.
        pool: Pool,
        /// What happens.
        fault: LaunchFault,
    },
}

/// Sets and lifts the rules of one proxy.
#[derive(Debug, Clone)]
pub struct Faults {
    pub(super) shared: Arc<Shared>,
}

impl Faults {
    /// Adds a rule; it holds until it is lifted or has matched as often as it may.
    pub fn set(&self, rule: Rule) -> RuleId {
        self.shared.state().rules.add(rule)
    }

    /// Takes a rule away. No effect if it is gone already.
    pub fn lift(&self, id: RuleId) {
        self.shared.state().rules.remove(id);
    }

    /// Takes all rules away, and the token buckets.
    pub fn lift_all(&self) {
        let mut state = self.shared.state();
        state.rules = Rules::default();
        state.buckets = None;
    }

    /// No capacity in the pool.
    pub fn insufficient_capacity(&self, pool: Pool) -> RuleId {
        self.launch(pool, LaunchFault::Capacity(0))
    }

    /// `left` instances in the pool, then no capacity.
    pub fn capacity(&self, pool: Pool, left: u32) -> RuleId {
        self.launch(pool, LaunchFault::Capacity(left))
    }

    /// No address left in `subnet`.
    pub fn subnet_full(&self, subnet: &str) -> RuleId {
        self.launch(Pool::any().subnet(subnet), LaunchFault::Addresses(0))
    }

    /// Launches from the pool end at once with this `StateReason`.
    pub fn ends_at_once(&self, pool: Pool, code: &str, message: &str) -> RuleId {
        self.launch(pool, LaunchFault::EndsAtOnce { code: code.to_owned(), message: message.to_owned() })
    }

    /// Launches from the pool are found by no call before the clock has moved on by `delay`.
    pub fn unseen_for(&self, pool: Pool, delay: Duration) -> RuleId {
        self.launch(pool, LaunchFault::UnseenFor(delay))
    }

    /// The calls are refused for want of a policy.
    pub fn unauthorized(&self, calls: Calls) -> RuleId {
        self.call(calls, CallFault::Unauthorized)
    }

    /// The calls are refused as too many.
    pub fn throttled(&self, calls: Calls) -> RuleId {
        self.call(calls, CallFault::Throttled)
    }

    /// The calls answer an error.
    pub fn error(&self, calls: Calls, status: u16, code: &str, message: &str) -> RuleId {
        self.call(calls, CallFault::Error { status, code: code.to_owned(), message: message.to_owned() })
    }

    /// The calls' work starts later.
    pub fn latency(&self, calls: Calls, by: Duration) -> RuleId {
        self.call(calls, CallFault::Latency(by))
    }

    /// The calls' answers come later than their work is done.
    pub fn late_answer(&self, calls: Calls, by: Duration) -> RuleId {
        self.call(calls, CallFault::LateAnswer(by))
    }

    /// The connection closes before the work is done.
    pub fn cut_before(&self, calls: Calls) -> RuleId {
        self.call(calls, CallFault::CutBefore)
    }

    /// The connection closes after the work is done.
    pub fn cut_after(&self, calls: Calls) -> RuleId {
        self.call(calls, CallFault::CutAfter)
    }

    /// Items of the answers come twice.
    pub fn duplicated(&self, calls: Calls) -> RuleId {
        self.call(calls, CallFault::Duplicated)
    }

    /// Items of the answers come in reverse.
    pub fn reordered(&self, calls: Calls) -> RuleId {
        self.call(calls, CallFault::Reordered)
    }

    /// The service's clock is ahead of the caller's by so many seconds, or behind.
    pub fn skewed(&self, calls: Calls, ahead: i64) -> RuleId {
        self.call(calls, CallFault::Skewed { ahead })
    }

    /// Turns on EC2's token buckets, full, one for each action and region, refilled by the proxy's clock.
    pub fn token_buckets(&self) {
        self.shared.state().buckets = Some(Buckets::default());
    }

    fn call(&self, calls: Calls, fault: CallFault) -> RuleId {
        self.set(Rule::Call { calls, fault })
    }

    fn launch(&self, pool: Pool, fault: LaunchFault) -> RuleId {
        self.set(Rule::Launch { pool, fault })
    }
}
