//! A class with which launches fail for one reason is not launched with any more, until it or somebody's mind changes.
//!
//! ```text
//!   failure of a claim ──► count: annotation muster.dev/launch-failures {hash, reason, claims}  ──► 3 claims: open
//!   initialized node ────► succeed: annotation gone                                             ──► closed
//!   class changed, annotation muster.dev/reset-breaker ──► judge: annotation gone               ──► closed
//! ```
//!
//! What is counted are claims, by UID: a failure that is counted again after a crash counts once.

use jiff::Timestamp;
use muster_api::conditions::nodeclass;
use muster_api::{annotations, events};
use serde::{Deserialize, Serialize};

use super::conditions::{Status, at};
use super::seen::{Class, Seen};
use crate::step::{Event, EventType, MetaChange, Step, Subject, Write};

/// Claims in a row after which nothing more is launched.
pub const MOST_FAILURES: usize = 3;

/// Longest message that is kept: annotations are for machines, and all of them together may have 256 KiB.
const LONGEST_MESSAGE: usize = 1000;

/// Whether anything is launched with a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breaker {
    /// It is.
    Closed,
    /// It is not.
    Open {
        /// What all the failures have in common.
        reason: String,
        /// What was said of the last one.
        message: String,
    },
}

/// Failures in a row, as the class's annotation keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Failures {
    hash: String,
    reason: String,
    message: String,
    /// UIDs of the claims, in the order in which they failed.
    claims: Vec<String>,
}

/// What is to be done about a class: a reset that was asked for, and the condition that says how it stands.
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
                "launches are resumed: a reset was asked for",
            ));
        }
        writes.push(Write::ClassMeta(change.against(&class.meta)));
        return Step::act(writes);
    }
    if there.is_some() && Failures::of(class).is_none() {
        // Of an earlier state of the class, or nothing that we wrote.
        let change = MetaChange::default().without_annotation(annotations::LAUNCH_FAILURES);
        writes.push(Write::ClassMeta(change.against(&class.meta)));
        return Step::act(writes);
    }
    let generation = class.meta.generation;
    let kind = nodeclass::LAUNCHES_SUCCEED;
    let before = class.conditions.iter().find(|one| one.type_ == kind);
    let wanted = match Breaker::of(class) {
        Breaker::Closed => at(kind, Status::True, kind, "", generation, now),
        Breaker::Open { reason, message } => {
            let message = stopped(&class.reference.name, &reason, &message);
            at(kind, Status::False, &reason, &message, generation, now)
        }
    };
    // A class with which nothing ever failed says nothing.
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

/// Takes note that a claim failed, if that is new.
pub(super) fn count(seen: &Seen<'_>, reason: &str, message: &str) -> Option<Write> {
    let class = seen.class;
    if is_of_another_hash(seen) {
        return None;
    }
    let uid = seen.uid();
    let mut failures = Failures::of(class).filter(|there| there.reason == reason).unwrap_or_else(|| Failures {
        hash: class.hash.clone(),
        reason: reason.to_owned(),
        message: String::new(),
        claims: Vec::new(),
    });
    if failures.claims.len() >= MOST_FAILURES || failures.claims.contains(&uid) {
        return None;
    }
    failures.claims.push(uid);
    failures.message = message.chars().take(LONGEST_MESSAGE).collect();
    let text = serde_json::to_string(&failures).ok()?;
    Some(Write::ClassMeta(MetaChange::default().annotation(annotations::LAUNCH_FAILURES, text)))
}

/// Takes note that a claim succeeded, if any failed before.
pub(super) fn succeed(seen: &Seen<'_>) -> Option<Write> {
    if is_of_another_hash(seen) {
        return None;
    }
    let change = MetaChange::default().without_annotation(annotations::LAUNCH_FAILURES).against(&seen.class.meta);
    (!change.is_empty()).then_some(Write::ClassMeta(change))
}

/// Whether the claim was launched with an earlier state of the class, and so says nothing about this one.
fn is_of_another_hash(seen: &Seen<'_>) -> bool {
    seen.annotation(annotations::EC2NODECLASS_HASH).is_some_and(|hash| hash != seen.class.hash)
}

/// What is said wherever launches do not happen because of this.
pub(super) fn stopped(class: &str, reason: &str, message: &str) -> String {
    format!(
        "nothing is launched with NodeClass `{class}`: the last {MOST_FAILURES} launches failed with {reason}, the last \
         one with: {message}\n\nhint: change the class, or `kubectl annotate` it with {}=true",
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
    /// How it stands with the class as it is now.
    #[must_use]
    pub fn of(class: &Class) -> Self {
        let is_reset = class.annotation(annotations::RESET_BREAKER).is_some();
        match Failures::of(class).filter(|failures| failures.claims.len() >= MOST_FAILURES && !is_reset) {
            Some(failures) => Self::Open { reason: failures.reason, message: failures.message },
            None => Self::Closed,
        }
    }

    /// Whether nothing may be launched.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

// === impl Failures ===

impl Failures {
    /// Those of the class as it is now.
    fn of(class: &Class) -> Option<Self> {
        let text = class.annotation(annotations::LAUNCH_FAILURES)?;
        let failures: Self = serde_json::from_str(text).ok()?;
        (failures.hash == class.hash).then_some(failures)
    }
}
