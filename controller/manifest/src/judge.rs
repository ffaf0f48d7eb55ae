//! Validation of Muster's kinds by their CRDs.

use std::borrow::Cow;

use muster_api::validation;
use serde_json::Value;

use super::field::{Fault, UnknownField};

/// Result of a CRD's validation of an object.
pub struct Judgement {
    /// Fields that are rejected.
    pub refusals: Vec<Fault>,
    /// Reason why the object would be stored but never become ready.
    pub never_ready: Option<String>,
    /// Warnings about selector terms that are ignored, each with the path of the empty field.
    pub ignored: Vec<(String, String)>,
    /// Unknown fields.
    pub(crate) unknown: Vec<UnknownField>,
    /// Object with its defaults.
    pub completed: Value,
}

/// Hint for errors of the CRD that have none.
pub(crate) const HINT: &str = "write a value that the CRD accepts; `muster crds` prints its schema";

/// Validates an object of Muster's kinds.
pub fn judge(object: &Value) -> Judgement {
    let checked = validation::check(object);
    let unknown = checked.warnings.into_iter();
    let (runtime, refusals): (Vec<_>, Vec<_>) = checked.errors.into_iter().partition(only_controller_notices);
    let never_ready = runtime.into_iter().next().map(fault);
    Judgement {
        refusals: refusals.into_iter().map(fault).collect(),
        never_ready: never_ready.map(|fault| format!("field `{}` {}", fault.path, fault.problem)),
        ignored: checked.ignored.into_iter().map(|term| (term.path.clone(), term.to_string())).collect(),
        unknown: unknown
            .map(|field| UnknownField { path: field.path, nearest: field.nearest.map(Cow::Owned) })
            .collect(),
        completed: checked.defaulted,
    }
}

/// Returns true for errors that only the controller detects. An object that cannot be decoded is rejected in any case.
fn only_controller_notices(error: &validation::FieldError) -> bool {
    error.is_runtime() && !error.path.is_empty()
}

fn fault(error: validation::FieldError) -> Fault {
    let (problem, hint) = error.message.split_once("\n\nhint: ").unwrap_or((&error.message, HINT));
    // The CRD's message begins with the name of the field, with which the path ends.
    let (_, name) = error.path.rsplit_once('.').unwrap_or(("", &error.path));
    let rest =
        problem.strip_prefix('`').and_then(|rest| rest.strip_prefix(name)).and_then(|rest| rest.strip_prefix("` "));
    let problem = match rest {
        Some(rest) => rest.to_owned(),
        None if error.path.is_empty() => problem.to_owned(),
        None => format!("is refused: {problem}"),
    };
    Fault { problem, hint: hint.to_owned(), path: error.path }
}
