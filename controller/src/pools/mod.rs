//! What a NodePool says of itself: how much it has, whether it may launch, and of which template its claims are.
//!
//! ```text
//!   Look: pool, class, claims, Nodes, Outcomes
//!     │
//!     ├─► hash: claims of another hash version ──► the pool      annotations, so that no version ever drifts a node
//!     └─► count, judge: ValidationSucceeded, NodeClassReady ─► Ready; NodeRegistrationHealthy,     status
//!                       ConsolidationDelivers
//! ```
//!
//! As in [`crate::lifecycle`], a look at what a step has left gives the next one, and in the end none. Counts change with
//! every Node: whoever drives this looks at a pool no more often than every five seconds, or as soon as its spec or class
//! changes.

mod count;
mod hash;
mod judge;
mod outcomes;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use muster_api::NodePool;

pub(crate) use self::count::amounts;
pub use self::outcomes::{Edition, Health, Outcomes};
use crate::disruption::Rest;
use crate::lifecycle::Class;
use crate::node::Node;
use crate::provision::Claimed;
use crate::step::{Step, Write};

/// How often counts are written at most: Karpenter's figure.
pub const EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Everything that is known about one NodePool.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The pool.
    pub pool: &'a NodePool,
    /// Its NodeClass; none if there is none of its name.
    pub class: Option<&'a Class>,
    /// Its claims, with their Nodes.
    pub claims: &'a [Claimed<'a>],
    /// Nodes with its label that have no claim.
    pub unclaimed: &'a [&'a Node],
    /// How its last launches ended.
    pub outcomes: &'a Outcomes,
    /// The last rest of its consolidation, which may be over.
    pub rest: Option<Rest>,
}

/// What is to be written about the pool.
#[must_use]
pub fn decide(look: &Look<'_>, now: Timestamp) -> Step {
    if look.pool.metadata.deletion_timestamp.is_some() {
        return Step::rest();
    }
    let mut writes = hash::stamp(look);
    let status = judge::judge(look, now);
    writes.extend(judge::told(look, &status));
    if look.pool.status.as_ref() != Some(&status) {
        writes.push(Write::PoolStatus { name: look.name(), status: Box::new(status) });
    }
    Step { writes, again: look.rest.map(|rest| rest.until).filter(|until| now < *until) }
}

// === impl Look ===

impl Look<'_> {
    fn name(&self) -> String {
        self.pool.metadata.name.clone().unwrap_or_default()
    }
}
