//! Proof of an IAM role: a `GetCallerIdentity` request that the instance has signed and the controller sends.
//!
//! The agent hands in three headers; the controller writes everything else itself: host, path, body, and the headers
//! that bind the request to this cluster, nonce and key. STS refuses a signature for other values. An agent can
//! therefore choose nothing of the request but its own credentials and signature.

mod answer;
mod partition;
mod proof;
mod sign;

pub use self::answer::{Caller, LONGEST_ANSWER, read};
pub use self::partition::{host, is_host};
pub use self::proof::{RoleFault, RoleProof, SignedRequest};
pub use self::sign::Credentials;

/// Reason why the signer is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallerFault {
    /// STS refuses the request with this error code, such as `SignatureDoesNotMatch`.
    #[error("STS refuses the proof of the role: {0}")]
    Refused(String),
    /// STS did not answer, is overloaded or throttles.
    #[error("STS cannot be asked: {0}")]
    Unavailable(String),
    /// The answer cannot be parsed.
    #[error("the answer of STS cannot be read")]
    Unreadable,
}
