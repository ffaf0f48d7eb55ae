//! Why a cluster cannot be read.

use crate::manifest::InputError;

/// Why a cluster cannot be read. `Display` is the whole message, hint included.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig, or what it says of the context, is wrong.
    #[error("{reason}\n\nhint: {hint}")]
    Kubeconfig {
        /// What is wrong.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// The API server did not answer, or not as it was asked to.
    #[error("{reason}\n\nhint: {hint}")]
    Server {
        /// What happened.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// An object of the cluster is not what its kind says.
    #[error(transparent)]
    Object(#[from] InputError),
}

/// The innermost cause of `error`: the outer ones only say which library was used.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
