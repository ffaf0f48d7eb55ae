//! What becomes of a write.

use kube::core::Status;

use crate::step::Write;

/// Stands before the words of a budget that does not allow an eviction.
pub(super) const BUDGET: &str = "budget: ";

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is written, or was before.
    Done,
    /// What it is about does not exist any more.
    Gone,
    /// Its object has changed since it was seen, or is another one of the same name.
    Conflict,
    /// The API server refuses it, and will again; why.
    Refused(String),
    /// It may be written or not: the API server was not reached, or is in trouble; what is known.
    Unavailable(String),
    /// It was not sent, or nobody knows what became of it: this process may not write any more.
    Fenced,
}

// === impl Fate ===

impl Fate {
    /// The label of metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Gone => "gone",
            Self::Conflict => "conflict",
            Self::Refused(_) => "refused",
            Self::Unavailable(_) => "unavailable",
            Self::Fenced => "fenced",
        }
    }

    /// What an error means for a write.
    pub(super) fn of(write: &Write, error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Unavailable(root_cause(error)) };
        match status.code {
            404 => Self::Gone,
            409 if matches!(write, Write::CreateClaim(_)) && status.reason == "AlreadyExists" => Self::Done,
            // Deletions and evictions name a UID: what has that name now is something else.
            409 if matches!(write, Write::DeleteClaim { .. } | Write::DeleteNode { .. } | Write::DeletePod { .. }) => {
                Self::Gone
            }
            409 => Self::Conflict,
            // It has a node by now.
            422 if matches!(write, Write::Nominate { .. }) => Self::Gone,
            429 if matches!(write, Write::Evict(_)) => budget_of(status),
            // More than one budget.
            500 if matches!(write, Write::Evict(_)) => Self::Refused(status.message.clone()),
            429 | 500.. => Self::Unavailable(status.message.clone()),
            _ => Self::Refused(status.message.clone()),
        }
    }
}

/// A budget says no with the same code with which a busy server does.
fn budget_of(status: &Status) -> Fate {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let budget = causes.into_iter().find(|cause| cause.reason == "DisruptionBudget");
    match budget {
        Some(cause) => {
            // "The disruption budget web needs 3 healthy pods and has 3 currently": as sentences begin inside another.
            let words = cause.message.strip_prefix("The ").map(|rest| format!("the {rest}"));
            Fate::Refused(format!("{BUDGET}{}", words.unwrap_or_else(|| cause.message.clone())))
        }
        None => Fate::Unavailable(status.message.clone()),
    }
}

/// The innermost cause: the outer ones only say which library was used.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
