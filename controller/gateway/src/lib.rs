//! gRPC server for node agents and operators.
//!
//! ```text
//!  9443  TLS 1.3; nodes with a client certificate, operators with a token    8082 plaintext
//!    │                                                                         └─► health; reflection
//!    ▼
//!  arrivals ─► listen: handshakes, age ─► peer: which key, which node ──► Peer
//!    (rate and number by source)                                             │
//!  access: a row for each RPC that the descriptors have ─► admit: may this peer call it? ─┤
//!                                                                                        ▼
//!                        enrolment ─► muster_link::{examine, decide} ◄─► Sources: launches, EC2, STS, records
//!                        reports ───► one stream per node, its latest report ─► Sources::keep
//!                        operators ─► Operators::review: may this token's user call? ─┬► Operators::answer
//!                        fleet ◄──────────────────────────────────────────────────────┴► plan, launch, terminate
//!                          └► rows: changes since what a watch was sent ◄── Operators::rows
//!                        reflection ─► DESCRIPTORS, for operators here and for any client in plaintext
//! ```
//!
//! A caller is identified by its own certificate, which is valid only from the addresses that it was issued for.
//! Messages do not name a node, so a node cannot act for another. Any replica can answer; state that must outlive the
//! replica is written through [`Sources`] before the call is answered.

mod access;
mod admit;
mod arrivals;
mod bucket;
mod certificate_authority;
mod client_certificates;
mod enrolment;
mod fleet;
#[cfg(test)]
#[path = "../../../bootstrap/tests/mutations/growth.rs"]
mod growth;
pub mod health;
mod limits;
mod listen;
#[cfg(test)]
#[path = "../../../bootstrap/tests/mutations/mutate.rs"]
mod mutate;
mod operators;
mod peer;
pub mod plaintext;
mod read;
mod recent;
mod reflection;
mod refusal_counters;
mod reports;
mod reviews;
mod rows;
mod secured;
mod sources;
mod streams;

pub use self::access::{Rule, Verb, rule, rules, services};
pub use self::bucket::Rate;
pub use self::certificate_authority::{AUTHORITY_LIFE, Authority, AuthorityFault, Material, NODE_LIFE, Pair};
pub use self::limits::Limits;
pub use self::listen::{Gateway, serve};
pub use self::operators::{Access, Operators, Question, Unanswered};
pub use self::peer::Peer;
pub use self::read::{
    Finding, LogBundle, Message, Notice, NoticeKind, Phase, PhaseState, Progress, Report, Resource, Severity,
};
pub use self::reflection::DESCRIPTORS;
pub use self::refusal_counters::Refusals;
pub use self::rows::{Row, Rows};
pub use self::sources::{Recorded, Sources, Unavailable, Wanted};
