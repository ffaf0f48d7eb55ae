//! Circuit breaker of a NodeClass: stops launches that repeatedly fail for the same reason, until the class changes, an
//! operator resets it, or a trial succeeds.
//!
//! ```text
//!   failure of a claim ──► count: annotation muster.dev/launch-failures {hash, reason, claims, at}  ──► 3 claims: open
//!   15, 30, 60, 60 … minutes after the last failure ──► half open: one trial launch
//!                                                         fails ──► count: annotation {.., at, trials + 1} ──► open
//!   initialized node ────► succeed: annotation removed                                         ──► closed
//!   class changed, annotation muster.dev/reset-breaker ──► judge: annotation removed           ──► closed
//! ```
//!
//! Without the trial a class whose fault was elsewhere (a registry, an endpoint, a quota) would stay blocked: no node
//! could show that the fault is fixed. A trial costs one instance for the time until it fails.
//!
//! Failed claims are counted by UID, so that a failure counted again after a crash counts once. A failure is that of
//! the trial if its launch began after trials were allowed. Launches that were in progress when launches stopped do not
//! extend the wait.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::{nodeclaim, nodeclass};
use muster_api::{NodeClaim, annotations, events};
use muster_cloud::after;
use serde::{Deserialize, Serialize};

use super::conditions::{Status, at, is_true, true_since, whole_seconds};
use super::seen::{Class, Seen};
use crate::step::{Event, EventType, MetaChange, Step, Subject, Write};

/// Number of consecutive failed claims that opens the breaker.
pub const MOST_FAILURES: usize = 3;

/// Shortest and longest wait before a trial launch; it doubles with each trial. The shortest equals the registration
/// timeout: earlier, the outcome of the previous launches would not be known.
const WAIT: (Duration, Duration) = (Duration::from_secs(15 * 60), Duration::from_secs(60 * 60));

/// Maximum length of the stored message, in characters: annotations are for machines, and all of them together may have
/// 256 KiB.
const LONGEST_MESSAGE: usize = 1000;

/// State of the circuit breaker of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breaker {
    /// Launches are allowed.
    Closed,
    /// Launches are blocked.
    Open {
        /// Reason that all the failures have in common.
        reason: String,
        /// Message of the last failure.
        message: String,
        /// Time of the trial launch.
        until: Timestamp,
    },
    /// One trial launch is allowed.
    HalfOpen {
        /// Time since which it is allowed.
        since: Timestamp,
        /// Reason that all the failures have in common.
        reason: String,
        /// Message of the last failure.
        message: String,
    },
}

/// Consecutive failures, as stored in the annotation of the class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Failures {
    hash: String,
    reason: String,
    message: String,
    /// UIDs of the claims, in the order in which they failed.
    claims: Vec<String>,
    /// Time of the last failure.
    at: Timestamp,
    /// Number of failed trial launches.
    #[serde(default)]
    trials: u32,
}

/// Reconciles the breaker of a class: executes a requested reset, and sets the condition that shows the state.
#[must_use]
pub fn judge(class: &Class, now: Timestamp) -> Step {
    let mut writes = Vec::new();
    let there = class.annotation(annotations::LAUNCH_FAILURES);
    if class.annotation(annotations::RESET_BREAKER).is_some() {
        let change = MetaChange::default()
            .without_annotation(annotations::LAUNCH_FAILURES)
            .without_annotation(annotations::RESET_BREAKER);
        if there.is_some() {
            writes.push(told(
                class,
                EventType::Normal,
                events::LAUNCHES_RESUMED,
                "launches are resumed: a reset was requested",
            ));
        }
        writes.push(Write::ClassMeta(change.against(&class.meta)));
        return Step::act(writes);
    }
    if there.is_some() && Failures::of(class).is_none() {
        // It belongs to an earlier version of the class, or was not written by this controller.
        let change = MetaChange::default().without_annotation(annotations::LAUNCH_FAILURES);
        writes.push(Write::ClassMeta(change.against(&class.meta)));
        return Step::act(writes);
    }
    let generation = class.meta.generation;
    let kind = nodeclass::LAUNCHES_SUCCEED;
    let before = class.conditions.iter().find(|one| one.type_ == kind);
    // The condition does not change while a trial is in progress.
    let wanted = match Failures::of(class).filter(Failures::are_enough) {
        None => at(kind, Status::True, kind, "", generation, now),
        Some(failures) => {
            let message = stopped(&class.reference.name, &failures.reason, &failures.message, failures.until());
            at(kind, Status::False, &failures.reason, &message, generation, now)
        }
    };
    // A class without any failure has no condition.
    if before.is_none() && wanted.status == Status::True.name() {
        return Step::rest();
    }
    let is_news = before.is_none_or(|before| before.status != wanted.status);
    if before.is_some_and(|before| before.status == wanted.status && before.message == wanted.message) {
        return Step::rest();
    }
    if is_news && wanted.status == Status::False.name() {
        writes.push(told(class, EventType::Warning, events::LAUNCHES_STOPPED, &wanted.message));
    }
    writes.push(Write::ClassCondition(wanted));
    Step::act(writes)
}

/// Returns the write that counts the failure of a claim at `now`, or `None` if it is already counted or does not count.
pub(super) fn count(seen: &Seen<'_>, reason: &str, message: &str, now: Timestamp) -> Option<Write> {
    let class = seen.class;
    if is_of_another_hash(seen) {
        return None;
    }
    let there = Failures::of(class);
    let mut failures = match there {
        Some(there) if there.are_enough() => {
            let begun_at = true_since(seen.claim, nodeclaim::LAUNCHED).unwrap_or(now);
            if begun_at < there.until() {
                return None;
            }
            let trials = there.trials.saturating_add(1);
            Failures { reason: reason.to_owned(), trials, ..there }
        }
        Some(there) if there.reason == reason => {
            let uid = seen.uid();
            if there.claims.contains(&uid) {
                return None;
            }
            Failures { claims: there.claims.into_iter().chain([uid]).collect(), ..there }
        }
        _ => Failures {
            hash: class.hash.clone(),
            reason: reason.to_owned(),
            message: String::new(),
            claims: vec![seen.uid()],
            at: now,
            trials: 0,
        },
    };
    failures.at = whole_seconds(now);
    failures.message = message.chars().take(LONGEST_MESSAGE).collect();
    let text = serde_json::to_string(&failures).ok()?;
    Some(Write::ClassMeta(MetaChange::default().annotation(annotations::LAUNCH_FAILURES, text)))
}

/// Returns the write that resets the failures after a success, if there are any.
pub(super) fn succeed(seen: &Seen<'_>) -> Option<Write> {
    if is_of_another_hash(seen) {
        return None;
    }
    let change = MetaChange::default().without_annotation(annotations::LAUNCH_FAILURES).against(&seen.class.meta);
    (!change.is_empty()).then_some(Write::ClassMeta(change))
}

/// Returns true if the claim was launched with an earlier version of the class, so that its outcome does not count.
fn is_of_another_hash(seen: &Seen<'_>) -> bool {
    seen.annotation(annotations::EC2NODECLASS_HASH).is_some_and(|hash| hash != seen.class.hash)
}

/// Returns true if the claim is a trial, launched since `since` or not launched yet, whose outcome is unknown.
#[must_use]
pub fn is_trial(claim: &NodeClaim, since: Timestamp) -> bool {
    claim.metadata.deletion_timestamp.is_none()
        && !is_true(claim, nodeclaim::INITIALIZED)
        && true_since(claim, nodeclaim::LAUNCHED).is_none_or(|launched_at| launched_at >= since)
}

/// Returns the message for launches blocked by the breaker.
pub(super) fn stopped(class: &str, reason: &str, message: &str, until: Timestamp) -> String {
    format!(
        "nothing is launched with NodeClass `{class}`: the last {MOST_FAILURES} launches failed with {reason}, the last \
         one with: {message}; one node is tried at {until}\n\nhint: change the class, or `kubectl annotate` it with \
         {}=true",
        annotations::RESET_BREAKER
    )
}

fn told(class: &Class, kind: EventType, reason: &'static str, message: &str) -> Write {
    let about = Subject {
        kind: class.reference.kind.clone(),
        namespace: None,
        name: class.reference.name.clone(),
        uid: class.meta.uid.clone().unwrap_or_default(),
    };
    Write::Event(Event { about, kind, reason, message: message.to_owned() })
}

// === impl Breaker ===

impl Breaker {
    /// Returns the state of the breaker at `now`.
    #[must_use]
    pub fn of(class: &Class, now: Timestamp) -> Self {
        let is_reset = class.annotation(annotations::RESET_BREAKER).is_some();
        let Some(failures) = Failures::of(class).filter(|failures| failures.are_enough() && !is_reset) else {
            return Self::Closed;
        };
        let until = failures.until();
        let Failures { reason, message, .. } = failures;
        if now < until {
            Self::Open { reason, message, until }
        } else {
            Self::HalfOpen { since: until, reason, message }
        }
    }
}

// === impl Failures ===

impl Failures {
    /// Returns the failures of the current version of the class.
    fn of(class: &Class) -> Option<Self> {
        let text = class.annotation(annotations::LAUNCH_FAILURES)?;
        let failures: Self = serde_json::from_str(text).ok()?;
        (failures.hash == class.hash).then_some(failures)
    }

    /// Returns true if the failures open the breaker.
    fn are_enough(&self) -> bool {
        self.claims.len() >= MOST_FAILURES
    }

    /// Returns the time of the next trial launch.
    fn until(&self) -> Timestamp {
        let factor = 1_u32.checked_shl(self.trials).unwrap_or(u32::MAX);
        after(self.at, WAIT.0.saturating_mul(factor).min(WAIT.1))
    }
}
