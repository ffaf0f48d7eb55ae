//! Enrolment of nodes: the decision to admit a node, the parsers of its evidence, and the formats that agent and
//! controller share. It does no I/O.
//!
//! ```text
//!   the agent's message ─► Evidence ─┐
//!   its identity document ─► pkcs7 ─► Document (signed by AWS for this region) ─┐
//!   the connection's nonce ─► NonceSlot ─► Given ─┐                             │
//!   the controller's record of the instance ─► Launch ───┐                      │
//!                                                        ▼                      ▼
//!                          Case ─► examine ─► Question: a request to STS, an instance to describe   or Refusal
//!                                                        │  (the gateway asks both)
//!                                   sts::Caller, Described, peer address
//!                                                        ▼
//!                          Case + Answers ─► decide ─► Admission: the identity, the record to write   or Refusal
//! ```
//!
//! The node enrols with the key that its TLS handshake has proved: the caller passes its [`KeyHash`], and the nonce,
//! the proof of the role and the certificate are all bound to it. This bounds the AWS requests that an unknown client
//! can cause: `examine` refuses everything that can be refused before AWS is asked.

/// DNS name of the gateway's certificate, at every address: agents identify the gateway by its CA, which certifies no
/// other gateway.
pub const GATEWAY_NAME: &str = "gateway.muster.dev";

mod decide;
pub mod document;
mod hex;
mod identity;
mod key;
mod launch;
mod nonce;
mod pins;
mod refusal;
pub mod sts;
mod token;

pub use self::decide::{
    Admission, Answers, Case, Evidence, Policy, PreviousKey, Question, Unasked, check_nonce, decide, examine,
};
pub use self::identity::{NodeIdentity, UnknownIdentity};
pub use self::key::{KeyHash, P256_POINT_BYTES, p256_point};
pub use self::launch::{Described, Enrolled, Launch, SecretHash};
pub use self::nonce::{Given, NONCE_BYTES, NONCE_LIFE, Nonce, NonceSlot, again_message};
pub use self::pins::{Fingerprint, MOST_PINS, Pins};
pub use self::refusal::{Refusal, Remedy};
pub use self::token::{LAUNCH_KEY_BYTES, LaunchKey};
