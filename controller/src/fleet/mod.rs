//! Nodes that somebody orders, and ends: what is launched for an order, and why it is not. Pure.
//!
//! ```text
//!   muster.v1.Order ──► read ──► Order ─┐
//!   Round: problem, pools, pause, stops, caps, claims ─┐
//!                                       ▼              ▼
//!   who asks, and its ID: Ticket ──► launch: is it there already? may the pool launch? ──► demand: so many pods, one on a node,
//!                                       │                                                         and nothing that is there
//!                                       │   ┌── solve, validate, explain: those of provisioning ◄────┘
//!                                       ▼   ▼
//!                                    Decision: nodes, and the NodeClaims to write      or Refusal: what to do about it
//!
//!   TerminateRequest ──► terminate: which NodeClaim, is it this one, is it ours ──► Ending, or Refusal
//! ```
//!
//! An order is carried out as a whole or not at all. The names of its NodeClaims follow from who gave it and its ID, so an order that is
//! given again after a crash finds those that were made, and makes the others.

mod demand;
mod launch;
mod read;
mod terminate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures::future::BoxFuture;
use muster_api::{NodeClaim, likeness};
use muster_scheduling::model::{Requirements, Resources};
use sha2::{Digest, Sha256};

pub(crate) use self::launch::launch;
pub(crate) use self::read::read;
pub(crate) use self::terminate::{Ending, Termination, terminate};

/// Why a NodeClaim is deleted, as metrics name it.
pub(crate) const CAUSE: &str = "ordered";
/// Names that are offered when one is not found.
const SIMILAR: usize = 3;

/// Nodes of one NodePool that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// The NodePool.
    pub(crate) pool: String,
    /// How many.
    pub(crate) count: usize,
    /// What each must have room for.
    pub(crate) requests: Resources,
    /// What is required of their labels beyond what the pool requires.
    pub(crate) requirements: Requirements,
}

/// Who gives an order, and what they call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The user, as the API server knows them.
    pub(crate) by: String,
    /// The ID that they have chosen.
    pub(crate) id: String,
}

/// What an order comes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Decision {
    /// All nodes of the order.
    pub(crate) nodes: Vec<OrderedNode>,
    /// NodeClaims to create: of those nodes that are not there. None for an order without a ticket.
    pub(crate) claims: Vec<NodeClaim>,
    /// USD per hour of the nodes that are not there.
    pub(crate) hourly_price: f64,
}

/// One node of an order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrderedNode {
    /// Name of its NodeClaim; none for an order without a ticket.
    pub(crate) claim: Option<String>,
    /// UID of that, if it is there.
    pub(crate) uid: Option<String>,
    /// What it is to be; none if it is there.
    pub(crate) planned: Option<Planned>,
}

/// What a node is to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    /// What was ordered, and daemons, as Kubernetes writes it.
    pub(crate) requests: BTreeMap<String, String>,
    /// What it may be bought as, cheapest first.
    pub(crate) offerings: Vec<Bought>,
    /// How many types it may be launched as.
    pub(crate) types: usize,
    /// USD per hour.
    pub(crate) price: f64,
}

/// One way to buy a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bought {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    /// USD per hour.
    pub(crate) price: f64,
}

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    /// For people: what, and after a blank line a hint.
    pub(crate) message: String,
}

/// Sorts of refusals: what whoever asks can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A field is wrong.
    Invalid,
    /// There is no such object.
    NotFound,
    /// The ID is another order's.
    Taken,
    /// A limit or cap is reached.
    Exhausted,
    /// Something has to change first.
    Precondition,
    /// Not here, or not now.
    NotNow,
    /// A mistake of ours.
    Defect,
}

/// Where orders are taken: by every replica, and carried out by the one that leads.
pub(crate) trait Counter: Send + Sync {
    /// What an order would come to now. It takes as long as a plan does, on the thread of whoever asks.
    fn plan(&self, order: &Order, ticket: Option<&Ticket>) -> Result<Decision, Refusal>;

    /// Has an order carried out.
    fn launch(&self, order: Order, ticket: Ticket) -> BoxFuture<'_, Result<Decision, Refusal>>;

    /// Has a node ended.
    fn terminate(&self, termination: Termination) -> BoxFuture<'_, Result<Ended, Refusal>>;
}

/// A NodeClaim that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) uid: String,
    /// Whether it went before.
    pub(crate) was_ending: bool,
}

// === impl Order ===

impl Order {
    /// What tells orders with one ID apart: the same for what means the same, however it was written.
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
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// There is no object of that name; `others` are those that there are.
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
    /// The code of gRPC.
    pub(crate) const fn code(self) -> &'static str {
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
