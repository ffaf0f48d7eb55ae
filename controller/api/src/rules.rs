//! CEL rules of the schemas, each with the message for its violation.
//!
//! The API server and [`crate::validation`] evaluate the same text. Rules that mention `oldSelf` compare an object with
//! its previous version; only the API server, which has it, can evaluate them.

mod aws;
mod core;

pub(crate) use self::aws::*;
pub(crate) use self::core::*;

use serde_json::{Value, json};

/// A CEL expression over `self`, and the message if it is not true.
pub(crate) type Rule = (&'static str, &'static str);

/// Returns the rules in the form of the schema extension `x-kubernetes-validations`.
pub(crate) fn cel(rules: &[Rule]) -> Value {
    rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect()
}
