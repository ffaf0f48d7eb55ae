//! What nodes say of themselves, on its way to their NodeClaims.
//!
//! ```text
//!   Secret `muster-agents` ──► keys ──┬─► gateway: 9443, health 8082          (every replica)
//!            ▲          (pure)        ├─► Vouch::tell: what launches put into user data
//!            └── keeper ◄─────────────┴── rotation, launch_keys: when they are replaced   (pure)
//!
//!   gateway ──► Sources ──┬─ launch ◄── Picture: NodeClaim, its class, its Node        launches (pure)
//!                         ├─ describe, ask_sts, roles ◄── Vouch: EC2, IAM, STS
//!                         ├─ record ──► annotation of the NodeClaim
//!                         ├─ keep ────► its conditions AgentReady and NodeVerdict      said (pure)
//!                         │                  ├─► the leader's stages: initialize, verdict
//!                         │                  └─► once it is ready: boot, how long its stages took
//!                         └─ wants_logs, bundle ──► records: slots in the controller's namespace (crate::archive)
//!
//!   gateway ──► Operators ─┬─ review ──► TokenReview, SubjectAccessReview
//!                          ├─ answer ◄── Picture, records: by what the commands do (crate::cli)
//!                          ├─ plan, launch, terminate ◄─► orders ◄─► Counter: the leader, where it is this replica (crate::fleet)
//!                          └─ rows ◄── Picture: who is there, as often as it changes and somebody watches
//!
//!   Picture, Fence ──► health ──► gateway: what is well, by name
//! ```
//!
//! Every replica serves agents and writes what they say, with a field manager of its own; what follows from it the leader decides.
//! Nothing is kept here that another replica would need.

use std::net::TcpListener;
use std::sync::Arc;

use muster_link::document::Certificates;

mod answered;
mod boot;
mod files;
mod health;
mod keeper;
mod keys;
mod launch_keys;
mod launches;
mod operators;
mod orders;
mod recorded;
mod records;
mod rotation;
mod rows;
mod said;
mod serve;
mod sources;
mod vouch;

pub(crate) use self::boot::Boots;
pub(crate) use self::keys::SECRET;
pub use self::operators::AUDIENCE;
pub(crate) use self::operators::Knowledge;
pub use self::rotation::Rotation;
pub use self::serve::{Address, AddressFault};
pub(crate) use self::serve::{Place, Served};
pub use self::vouch::{Asked, Home, Reachable, Vouch};

/// A port to serve on.
#[derive(Debug, Clone)]
pub enum Port {
    /// This one; 0 is any free one.
    Number(u16),
    /// One that somebody else has opened, such as in another network.
    Bound(Arc<TcpListener>),
}

/// How agents are served.
#[derive(Debug, Clone)]
pub struct Options {
    /// The port of their connections.
    pub port: Port,
    /// The port of health and reflection.
    pub health_port: Port,
    /// Where nodes reach the former.
    pub address: Address,
    /// What instance identity documents are verified with.
    pub certificates: Certificates,
    /// How the authority that agents believe is replaced.
    pub rotation: Rotation,
}

/// Who our changes are attributed to in `metadata.managedFields`: facts, not decisions.
pub const FIELD_MANAGER: &str = "muster-agents";
