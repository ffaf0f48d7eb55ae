//! Nodes that operators order and terminate: what to launch for an order, or the reason for a refusal. Pure.
//!
//! ```text
//!   WrittenOrder ──► read ──► Order ────┐
//!   Round: problem, pools, pause, stops, caps, claims ─┐
//!                                       ▼              ▼
//!   user and ID: Ticket ──────────► launch: does it exist? may the pool launch? ──► demand: one pod per node,
//!                                       │                                             in an empty cluster
//!                                       │   ┌── solve, validate, explain of provisioning ◄────┘
//!                                       ▼   ▼
//!                                    Decision: nodes, and NodeClaims to create      or Refusal, with a hint
//!
//!   TerminateRequest ──► terminate: find the NodeClaim, compare UID and kind of class ──► Ending, or Refusal
//! ```
//!
//! An order is fulfilled completely or not at all. The names of its NodeClaims are derived from its user and ID, so
//! that an order that is repeated after a crash finds the existing ones and creates the others.

mod demand;
mod launch;
mod read;
mod terminate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_api::{NodeClaim, likeness};
use muster_scheduling::model::{Requirements, Resources};
use sha2::{Digest, Sha256};

pub use self::launch::launch;
pub use self::read::read;
pub use self::terminate::{Ending, Termination, terminate};

/// Maximum number of suggestions for an unknown name.
const SIMILAR: usize = 3;

/// Order of identical nodes of one NodePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The NodePool.
    pub pool: String,
    /// Number of nodes.
    pub(crate) count: usize,
    /// Resource requests that each node must fit.
    pub(crate) requests: Resources,
    /// Requirements on node labels, in addition to those of the pool.
    pub(crate) requirements: Requirements,
}

/// Order as its author wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WrittenOrder {
    /// The NodePool.
    pub node_pool: String,
    /// Number of nodes.
    pub count: u32,
    /// Kubernetes quantities by resource.
    pub requests: BTreeMap<String, String>,
    /// Requirements on node labels.
    pub requirements: Vec<WrittenRequirement>,
}

/// Requirement on a node label as its author wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRequirement {
    /// Label.
    pub key: String,
    /// Operator, such as `In`.
    pub operator: String,
    /// Values of the operator.
    pub values: Vec<String>,
}

/// User and ID of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Name of the user, as authenticated by the API server.
    pub by: String,
    /// ID chosen by the user.
    pub id: String,
}

/// Result of an order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// All nodes of the order.
    pub nodes: Vec<OrderedNode>,
    /// NodeClaims to create, for the nodes that do not exist yet. Empty for an order without a ticket.
    pub claims: Vec<NodeClaim>,
    /// Price of the nodes that do not exist yet, in USD per hour.
    pub hourly_price: f64,
}

/// One node of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedNode {
    /// Name of its NodeClaim; none for an order without a ticket.
    pub claim: Option<String>,
    /// UID of the NodeClaim, if it exists.
    pub uid: Option<String>,
    /// Plan of the node; none if it exists.
    pub planned: Option<Planned>,
}

/// Plan of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Requests of the order and of daemons, as Kubernetes quantities.
    pub requests: BTreeMap<String, String>,
    /// Offerings that it may be launched as, cheapest first.
    pub offerings: Vec<Bought>,
    /// Number of instance types that it may be launched as.
    pub types: usize,
    /// Price in USD per hour.
    pub price: f64,
}

/// Offering of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Bought {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// Capacity type.
    pub capacity_type: String,
    /// Price in USD per hour.
    pub price: f64,
}

/// Refusal of an order or termination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Kind.
    pub kind: Kind,
    /// Message for the user, with a hint after a blank line.
    pub message: String,
}

/// Kind of a refusal, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A field is invalid.
    Invalid,
    /// The object does not exist.
    NotFound,
    /// The ID belongs to another order.
    Taken,
    /// A limit or cap is reached.
    Exhausted,
    /// Something else has to change first.
    Precondition,
    /// Another replica or a later call may succeed.
    NotNow,
    /// Internal error.
    Defect,
}

/// NodeClaim that is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its UID.
    pub uid: String,
    /// True if it was already being deleted.
    pub was_ending: bool,
}

// === impl Order ===

impl Order {
    /// Returns a hash that distinguishes orders with one ID, independent of how their requirements were written.
    pub(crate) fn fingerprint(&self) -> String {
        let Self { pool, count, requests, requirements } = self;
        let mut text = format!("{pool}\n{count}\n");
        for (resource, amount) in requests.iter() {
            let _ = writeln!(text, "{resource}={amount}");
        }
        for (key, requirement) in requirements.iter() {
            let _ = writeln!(text, "{key} {requirement}");
        }
        Sha256::digest(text).iter().take(16).fold(String::new(), |mut all, byte| {
            let _ = write!(all, "{byte:02x}");
            all
        })
    }
}

// === impl Refusal ===

impl Refusal {
    /// Returns a refusal with this message.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns the refusal for an unknown name; `others` are the existing names.
    fn not_found<'n>(what: &str, name: &str, others: impl Iterator<Item = &'n str> + Clone) -> Self {
        let similar = likeness::similar(others.clone(), name).into_iter().take(SIMILAR);
        let similar: Vec<String> = similar.map(|other| format!("`{other}`")).collect();
        let first: Vec<String> = others.clone().take(SIMILAR).map(|other| format!("`{other}`")).collect();
        let hint = match (similar.is_empty(), first.is_empty()) {
            (false, _) => format!("did you mean {}?", similar.join(", ")),
            (true, true) => format!("there is no {what}"),
            (true, false) => {
                let more = if others.count() > SIMILAR { ", …" } else { "" };
                format!("there is {}{more}", first.join(", "))
            }
        };
        Self::new(Kind::NotFound, format!("there is no {what} `{name}`\n\nhint: {hint}"))
    }
}

// === impl Kind ===

impl Kind {
    /// Returns the gRPC status code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID_ARGUMENT",
            Self::NotFound => "NOT_FOUND",
            Self::Taken => "ALREADY_EXISTS",
            Self::Exhausted => "RESOURCE_EXHAUSTED",
            Self::Precondition => "FAILED_PRECONDITION",
            Self::NotNow => "UNAVAILABLE",
            Self::Defect => "INTERNAL",
        }
    }
}
