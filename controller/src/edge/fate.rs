//! Outcome of a write.

use kube::core::Status;
use muster_stages::step::Write;

/// Prefix of the message of a PodDisruptionBudget that does not allow an eviction.
pub(crate) const BUDGET: &str = "budget: ";

/// Outcome of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The write succeeded, now or before.
    Done,
    /// The object does not exist any more.
    Gone,
    /// The object has changed since it was observed, or is another one of the same name.
    Conflict,
    /// The API server rejects the write and will reject it again; with the reason.
    Refused(String),
    /// Unknown whether the write succeeded: the API server was not reached, or is overloaded; with the reason.
    Unavailable(String),
    /// Not sent, or its result is unknown: this process may not write any more.
    Fenced,
}

// === impl Fate ===

impl Fate {
    /// Returns the value of the metric label.
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

    /// Returns the outcome that an error means for a write.
    pub(super) fn of(write: &Write, error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Unavailable(root_cause(error)) };
        match status.code {
            404 => Self::Gone,
            409 if matches!(write, Write::CreateClaim(_)) && status.reason == "AlreadyExists" => Self::Done,
            // Deletions carry a UID as precondition: the name belongs to another object now.
            409 if matches!(write, Write::DeleteClaim { .. } | Write::DeleteNode { .. } | Write::DeletePod { .. }) => {
                Self::Gone
            }
            409 => Self::Conflict,
            // The pod has been bound.
            422 if matches!(write, Write::Nominate { .. }) => Self::Gone,
            429 if matches!(write, Write::Evict(_)) => budget_of(status),
            // More than one budget covers the pod.
            500 if matches!(write, Write::Evict(_)) => Self::Refused(status.message.clone()),
            429 | 500.. => Self::Unavailable(status.message.clone()),
            _ => Self::Refused(status.message.clone()),
        }
    }
}

/// Distinguishes a budget from an overloaded server, which return the same code.
fn budget_of(status: &Status) -> Fate {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let budget = causes.into_iter().find(|cause| cause.reason == "DisruptionBudget");
    match budget {
        Some(cause) => {
            // "The disruption budget web needs 3 healthy pods and has 3 currently": lower case, since it continues a
            // sentence.
            let words = cause.message.strip_prefix("The ").map(|rest| format!("the {rest}"));
            Fate::Refused(format!("{BUDGET}{}", words.unwrap_or_else(|| cause.message.clone())))
        }
        None => Fate::Unavailable(status.message.clone()),
    }
}

/// Returns the innermost cause: the outer ones only name the library.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
