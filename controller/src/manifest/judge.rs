//! The word of the CRDs on the kinds of ours.

use serde_json::Value;

use super::field::UnknownField;

/// What a CRD says about an object.
pub(crate) struct Judgement {
    /// The way to each field it refuses, and why.
    pub(crate) refusals: Vec<(String, String)>,
    /// Fields that the CRD does not know.
    pub(crate) unknown: Vec<UnknownField>,
    /// The object with the CRD's defaults.
    pub(crate) completed: Value,
}

/// Judges an object of ours.
pub(crate) fn judge(object: Value) -> Judgement {
    Judgement { refusals: Vec::new(), unknown: Vec::new(), completed: object }
}
