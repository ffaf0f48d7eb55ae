//! The rules that the schemas state in CEL, next to the message a user sees when one is broken.
//!
//! An API server and [`crate::validation`] evaluate the very same text. Rules that mention `oldSelf` compare an object
//! with its predecessor; only an API server, which has it, can evaluate those.

mod aws;
mod core;

pub(crate) use self::aws::*;
pub(crate) use self::core::*;

use serde_json::{Value, json};

/// A CEL expression over `self`, and what to say when it is not true.
pub(crate) type Rule = (&'static str, &'static str);

/// The rules in the form of the schema extension `x-kubernetes-validations`.
pub(crate) fn cel(rules: &[Rule]) -> Value {
    rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect()
}
