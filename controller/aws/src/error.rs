//! What can go wrong.

/// Why no instance types could be given.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The region is not in the embedded table.
    #[error("region `{region}` is not in the embedded instance catalogue\n\nhint: {hint}")]
    UnknownRegion {
        /// What was asked for.
        region: String,
        /// What to do instead.
        hint: String,
    },
    /// The embedded table is damaged: a defect of the build, not of any input.
    #[error("line {line} of the embedded instance catalogue: {problem}")]
    Embedded {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// A setting of a NodeClass that cannot be used.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("`{field}`: {problem}")]
pub struct SettingError {
    /// Path of the field (`spec.kubelet.kubeReserved.cpu`).
    pub field: String,
    /// What is wrong with its value.
    pub problem: String,
    /// What to write instead.
    pub hint: &'static str,
}

impl SettingError {
    pub(crate) fn new(field: impl Into<String>, problem: impl ToString, hint: &'static str) -> Self {
        Self { field: field.into(), problem: problem.to_string(), hint }
    }
}
