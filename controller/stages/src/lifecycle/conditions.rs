//! Conditions of a NodeClaim: reading them, and drafting a new status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use muster_api::NodeClaim;
use muster_api::conditions::{READY, nodeclaim, reason};
use muster_api::nodeclaim::NodeClaimStatus;

use super::seen::Seen;
use crate::step::Write;

/// Conditions that `Ready` depends on.
const DEPENDENTS: [&str; 3] = [nodeclaim::LAUNCHED, nodeclaim::REGISTERED, nodeclaim::INITIALIZED];

/// Returns the condition of the claim, if it is set.
#[must_use]
pub fn condition<'c>(claim: &'c NodeClaim, kind: &str) -> Option<&'c Condition> {
    claim.status.as_ref()?.conditions.iter().find(|one| one.type_ == kind)
}

/// Returns true if the claim has the condition and its status is `True`.
#[must_use]
pub fn is_true(claim: &NodeClaim, kind: &str) -> bool {
    condition(claim, kind).is_some_and(|one| one.status == Status::True.name())
}

/// Returns the time of the last transition of the condition, if its status is `True`.
pub(super) fn true_since(claim: &NodeClaim, kind: &str) -> Option<Timestamp> {
    condition(claim, kind).filter(|one| one.status == Status::True.name()).map(|one| one.last_transition_time.0)
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

/// A draft of the new status of a claim.
#[derive(Debug, Clone)]
pub(super) struct Draft<'a> {
    seen: &'a Seen<'a>,
    status: NodeClaimStatus,
    now: Timestamp,
}

/// Sets a condition in `all`; `lastTransitionTime` changes only with its status.
pub fn set(all: &mut Vec<Condition>, mut wanted: Condition) {
    match all.iter_mut().find(|one| one.type_ == wanted.type_) {
        Some(there) => {
            if there.status == wanted.status {
                wanted.last_transition_time = there.last_transition_time.clone();
            }
            *there = wanted;
        }
        None => {
            all.push(wanted);
            all.sort_by(|a, b| a.type_.cmp(&b.type_));
        }
    }
}

/// Returns a condition with `now` as its last transition, in whole seconds.
pub fn at(
    kind: &str,
    status: Status,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.name().to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: Time(whole_seconds(now)),
    }
}

/// Rounds down to whole seconds, the resolution of the API.
pub fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

// === impl Status ===

impl Status {
    /// Returns the value of `status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

// === impl Draft ===

impl<'a> Draft<'a> {
    /// Creates a draft from the current status, with missing conditions set to `Unknown`.
    pub(super) fn of(seen: &'a Seen<'a>, now: Timestamp) -> Self {
        let status = seen.claim.status.clone().unwrap_or_default();
        let mut draft = Self { seen, status, now };
        for kind in DEPENDENTS {
            if condition(seen.claim, kind).is_none() {
                draft.set(kind, Status::Unknown, reason::AWAITING_RECONCILIATION, "object is awaiting reconciliation");
            }
        }
        draft
    }

    /// Returns the other fields of the status.
    pub(super) fn fields(&mut self) -> &mut NodeClaimStatus {
        &mut self.status
    }

    pub(crate) fn set(&mut self, kind: &str, status: Status, reason: &str, message: &str) {
        let generation = self.seen.claim.metadata.generation;
        set(&mut self.status.conditions, at(kind, status, reason, message, generation, self.now));
    }

    /// Sets the condition to true, with its type as the reason and no message, as Karpenter does.
    pub(super) fn set_true(&mut self, kind: &str) {
        self.set(kind, Status::True, kind, "");
    }

    /// Returns true if the reason of the condition changes, in which case an event is published.
    pub(super) fn turns(&self, kind: &str) -> bool {
        let reason = |all: &[Condition]| all.iter().find(|one| one.type_ == kind).map(|one| one.reason.clone());
        reason(&self.status.conditions) != reason(self.seen.claim.status.as_ref().map_or(&[], |one| &one.conditions))
    }

    /// Returns the write, if anything changes. `Ready` is derived from the other conditions.
    pub(super) fn write(mut self) -> Option<Write> {
        self.judge_ready();
        let is_changed = self.seen.claim.status.as_ref() != Some(&self.status);
        is_changed.then(|| Write::ClaimStatus { name: self.seen.name(), status: Box::new(self.status) })
    }

    fn judge_ready(&mut self) {
        let is_true = |one: &&Condition| one.status == Status::True.name();
        let open: Vec<Condition> = DEPENDENTS
            .iter()
            .filter_map(|kind| self.status.conditions.iter().find(|one| one.type_ == *kind))
            .filter(|one| !is_true(one))
            .cloned()
            .collect();
        if open.is_empty() {
            self.set_true(READY);
            return;
        }
        let message: Vec<String> = open.iter().map(|one| format!("{}={}", one.type_, one.status)).collect();
        let (status, why) = if open.iter().any(|one| one.status == Status::False.name()) {
            (Status::False, reason::UNHEALTHY_DEPENDENTS)
        } else {
            (Status::Unknown, reason::RECONCILING_DEPENDENTS)
        };
        self.set(READY, status, why, &message.join(", "));
    }
}
