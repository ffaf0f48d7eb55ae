//! Errors of reading a cluster.

use muster_manifest::InputError;

/// Error of reading a cluster. `Display` has the whole message, including a hint.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig or the selected context is invalid.
    #[error("{reason}\n\nhint: {hint}")]
    Kubeconfig {
        /// Problem.
        reason: String,
        /// Suggested fix.
        hint: String,
    },
    /// The API server did not respond, or responded with an error.
    #[error("{reason}\n\nhint: {hint}")]
    Server {
        /// Problem.
        reason: String,
        /// Suggested fix.
        hint: String,
    },
    /// An object of the cluster does not match the schema of its kind.
    #[error(transparent)]
    Object(#[from] InputError),
}

/// Returns the innermost source of `error`: the outer ones only name the library.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
