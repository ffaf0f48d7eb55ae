//! Who a node is: the decision to admit it, the readers of what it hands in, and what both sides of the link must write alike. Pure: nothing here waits or asks.
//!
//! ```text
//!   the agent's message ─► Evidence ─┐
//!   its identity document ─► pkcs7 ─► Document (signed by AWS for this region) ─┐
//!   the nonce that it names ─► Nonces ─► Given ─┐                               │
//!   what the controller knows of the instance ─► Launch ─┐                      │
//!                                                        ▼                      ▼
//!                          Case ─► examine ─► Question: a request to STS, an instance to describe   or Refusal
//!                                                        │  (the gateway asks both)
//!                                   sts::Caller, Described, peer address
//!                                                        ▼
//!                          Case + Answers ─► decide ─► Admission: the identity, what to write down   or Refusal
//! ```
//!
//! The key that the node enrols with is the one that its TLS handshake has proved: the caller hands in its [`KeyHash`], and
//! nonce, proof of the role and certificate are all bound to it. What an unknown caller can make the controller ask of AWS is
//! bounded by that: `examine` refuses all that can be refused before anybody is asked.

/// What the gateway's certificate is for, wherever it is reached: agents know it by its authority, which certifies no other gateway.
pub const GATEWAY_NAME: &str = "gateway.muster.dev";

mod decide;
pub mod document;
mod identity;
mod key;
mod launch;
mod nonce;
mod pins;
mod refusal;
pub mod sts;
mod token;

pub use self::decide::{
    Admission, Answers, Case, Evidence, Policy, PreviousKey, Proofs, Question, Unasked, decide, examine,
};
pub use self::identity::{NodeIdentity, UnknownIdentity};
pub use self::key::{KeyHash, P256_POINT_BYTES, again_message, p256_point};
pub use self::launch::{Described, Enrolled, Launch, SecretHash};
pub use self::nonce::{Given, NONCE_BYTES, NONCE_LIFE, Nonce, Nonces, TooMany};
pub use self::pins::{Fingerprint, MOST_PINS, Pins};
pub use self::refusal::{Refusal, Remedy};
pub use self::token::{LAUNCH_KEY_BYTES, LaunchKey};
