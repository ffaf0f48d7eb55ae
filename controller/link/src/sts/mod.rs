//! The proof of a role: a request for `GetCallerIdentity` that the instance has signed and the controller sends.
//!
//! The agent hands in three headers; everything else the controller writes itself: host, path, body, and the headers that bind the
//! request to this cluster, this nonce and this key. What was signed for another of them STS refuses, so nothing is sent on that
//! an agent could have chosen but its own credentials and signature.

mod answer;
mod proof;
mod sign;

pub use self::answer::{Caller, LONGEST_ANSWER, read};
pub use self::proof::{RoleFault, RoleProof, SignedRequest, host};
pub use self::sign::Credentials;

/// Why nothing is known of who signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallerFault {
    /// STS refuses the request; the code is its own, as `SignatureDoesNotMatch`.
    #[error("STS refuses the proof of the role: {0}")]
    Refused(String),
    /// It did not answer, or asks for patience.
    #[error("STS cannot be asked: {0}")]
    Unavailable(String),
    /// It answers something else.
    #[error("the answer of STS cannot be read")]
    Unreadable,
}
