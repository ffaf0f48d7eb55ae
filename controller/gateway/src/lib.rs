//! Where agents speak to the controller, and operators ask and order.
//!
//! ```text
//!  9443  TLS 1.3; nodes with a client certificate, operators with a token    8082  plaintext
//!    │                                                                         └─► health: Check, List, Watch; reflection
//!    ▼
//!  listen ─► limits of connections, handshakes, age ─► trust: which key, which node ─► Peer
//!                                                                                        │
//!  rules: a row for each RPC that the descriptors have ─► admit: may this peer call it? ─┤
//!                                                                                        ▼
//!                        enrolment ─► muster_link::{examine, decide} ◄─► Sources: launches, EC2, STS, records
//!                        reports ───► one stream a node, its latest report ─► Sources::keep
//!                        operators ─► Operators::review: may whoever has this token? ─┬► Operators::answer
//!                        fleet ◄──────────────────────────────────────────────────────┴► Operators::plan, launch, terminate
//!                          └► rows: what a watch has told, and what there is ◄── Operators::rows
//!                        reflection ─► DESCRIPTORS, for operators here and for anybody in plaintext
//! ```
//!
//! Whoever calls is who their own certificate says, at the address that it was given to: no message names a node, so none can be
//! about another's. Any replica answers; what has to outlive it is written through [`Sources`] before it is answered.

mod admit;
mod authority;
mod enrolment;
mod fleet;
pub mod health;
mod limits;
mod listen;
mod operators;
mod peer;
mod read;
mod reflection;
mod refusals;
mod reports;
mod rows;
mod rules;
mod secured;
mod sources;
mod trust;

pub use self::authority::{AUTHORITY_LIFE, Authority, AuthorityFault, Material, NODE_LIFE, Pair};
pub use self::limits::Limits;
pub use self::listen::{Gateway, serve};
pub use self::operators::{Access, Operators, Question, Unanswered};
pub use self::peer::Peer;
pub use self::read::{
    Finding, LogBundle, Message, Notice, NoticeKind, Phase, PhaseState, Progress, Report, Resource, Severity,
};
pub use self::reflection::DESCRIPTORS;
pub use self::refusals::Refusals;
pub use self::rows::{Row, Rows};
pub use self::rules::{Rule, Verb, rule, rules, services};
pub use self::sources::{Recorded, Sources, Unavailable, Wanted};
