//! The word of the CRDs on the kinds of ours.

use std::borrow::Cow;

use muster_api::validation;
use serde_json::Value;

use super::field::{Fault, UnknownField};

/// What a CRD says about an object.
pub(crate) struct Judgement {
    /// The first field that it refuses.
    pub(crate) refusal: Option<Fault>,
    /// Why the object would be stored but never become ready.
    pub(crate) never_ready: Option<String>,
    /// Fields that it does not know.
    pub(crate) unknown: Vec<UnknownField>,
    /// The object with its defaults.
    pub(crate) completed: Value,
}

/// What to do where the CRD itself gives no hint.
pub(crate) const HINT: &str = "write a value that the CRD accepts; `muster crds` prints its schema";

/// Judges an object of ours.
pub(crate) fn judge(object: &Value) -> Judgement {
    let checked = validation::check(object);
    let unknown = checked.warnings.into_iter();
    let (runtime, refusals): (Vec<_>, Vec<_>) = checked.errors.into_iter().partition(only_controller_notices);
    let never_ready = runtime.into_iter().next().map(fault);
    Judgement {
        refusal: refusals.into_iter().next().map(fault),
        never_ready: never_ready.map(|fault| format!("field `{}` {}", fault.path, fault.problem)),
        unknown: unknown
            .map(|field| UnknownField { path: field.path, nearest: field.nearest.map(Cow::Owned) })
            .collect(),
        completed: checked.defaulted,
    }
}

/// An object that cannot even be decoded is no use to anyone, whoever would notice it first.
fn only_controller_notices(error: &validation::FieldError) -> bool {
    error.is_runtime() && !error.path.is_empty()
}

fn fault(error: validation::FieldError) -> Fault {
    let (problem, hint) = error.message.split_once("\n\nhint: ").unwrap_or((&error.message, HINT));
    // The CRD begins with the name of the field, which the path ends with.
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
