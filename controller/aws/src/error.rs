//! Errors of this crate.

/// Reason why instance types are not available.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The region is not in the embedded table.
    #[error("region `{region}` is not in the embedded instance catalogue\n\nhint: {hint}")]
    UnknownRegion {
        /// Requested region.
        region: String,
        /// Hint on what to do instead.
        hint: String,
    },
    /// The embedded table is damaged: a defect of the build, not of the input.
    #[error("line {line} of the embedded instance catalogue: {problem}")]
    Embedded {
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        problem: String,
    },
}

/// An invalid setting of a NodeClass.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("`{field}`: {problem}")]
pub struct SettingError {
    /// Path of the field (`spec.kubelet.kubeReserved.cpu`).
    pub field: String,
    /// Description of the error.
    pub problem: String,
    /// Hint on valid values.
    pub hint: &'static str,
}

impl SettingError {
    pub(crate) fn new(field: impl Into<String>, problem: impl ToString, hint: &'static str) -> Self {
        Self { field: field.into(), problem: problem.to_string(), hint }
    }
}
