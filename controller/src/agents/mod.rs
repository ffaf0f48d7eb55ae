//! Server for agents and operators, and the path from agents' reports to their NodeClaims.
//!
//! ```text
//!   Secret `muster-agents` ──► keys ──┬─► gateway: 9443, health 8082          (every replica)
//!            ▲          (pure)        ├─► Vouch::tell: connection data for user data
//!            └── keeper ◄─────────────┴── rotation, launch_keys: steps of their rotation   (pure)
//!
//!   gateway ──► Sources ──┬─ launch ◄── ClusterCache: NodeClaim, its class, its Node   launches (pure)
//!                         ├─ describe, ask_sts, roles ◄── Vouch: EC2, IAM, STS
//!                         ├─ record ──► annotation of the NodeClaim
//!                         ├─ keep ────► its conditions AgentReady and NodeVerdict      said (pure)
//!                         │                  ├─► the leader's stages: initialize, verdict
//!                         │                  └─► once it is ready: boot, duration of its phases
//!                         └─ wants_logs, bundle ──► records (muster_stages::archive): slots in a namespace
//!
//!   gateway ──► Operators ─┬─ review ──► TokenReview, SubjectAccessReview
//!                          ├─ answer ◄── ClusterCache, records, by the functions of the commands (Documents)
//!                          ├─ plan, launch, terminate ◄─► orders ◄─► Counter (muster_stages::fleet), on the leader
//!                          └─ rows ◄── ClusterCache: rows of nodes, updated while there are watches
//!
//!   ClusterCache, Fence ──► health ──► gateway: serving status by name
//! ```
//!
//! Every replica serves agents and writes their reports, with a field manager of its own; the leader decides what
//! follows. Replicas keep no state here that another replica would need.

use std::net::TcpListener;
use std::sync::Arc;

use muster_link::document::Certificates;

mod boot;
mod counter;
mod documents;
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

pub use crate::facts::FIELD_MANAGER;

pub(crate) use self::boot::Boots;
pub(crate) use self::counter::Counter;
pub use self::documents::{Answer, Documents, Given, Of, Unanswered};
pub use self::operators::AUDIENCE;
pub(crate) use self::operators::Knowledge;
pub use self::rotation::Rotation;
pub use self::serve::{Address, AddressFault};
pub(crate) use self::serve::{Place, Served};
pub use self::vouch::{Asked, ClusterIdentity, Reachable, Vouch};

/// Port to serve on.
#[derive(Debug, Clone)]
pub enum Port {
    /// Port number; 0 is any free one.
    Number(u16),
    /// Socket that the caller has opened, such as in another network.
    Bound(Arc<TcpListener>),
}

/// Options of the server for agents.
#[derive(Debug, Clone)]
pub struct Options {
    /// Port for agents and operators.
    pub port: Port,
    /// Port of health and reflection.
    pub health_port: Port,
    /// Address at which nodes reach `port`.
    pub address: Address,
    /// Certificates that verify instance identity documents.
    pub certificates: Certificates,
    /// Rotation of the CA that agents trust.
    pub rotation: Rotation,
    /// Documents that answer operators.
    pub documents: Documents,
}
