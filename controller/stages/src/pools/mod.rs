//! Status of NodePools: total resources, readiness, and the template hash of their claims; and the surplus of static
//! pools.
//!
//! ```text
//!   PoolInput: pool, class, claims, Nodes, Outcomes
//!     │
//!     ├─► hash: claims of another hash version ──► the pool      annotations, so that no version ever drifts a node
//!     └─► count, judge: ValidationSucceeded, NodeClassReady ─► Ready; NodeRegistrationHealthy,     status
//!                       ConsolidationDelivers, LaunchesDeliver, ReplicasKept, BudgetsReadable
//!
//!   SurplusInput ─► shrink: claims that a static pool has too many of ─► deletions
//! ```
//!
//! As in [`crate::lifecycle`], applying a step and deciding again gives the next step, until none is left. Counts
//! change with every Node: the caller calls [`decide`] for a pool at most every five seconds, or as soon as its spec or
//! class changes.

mod conditions;
mod count;
mod hash;
mod outcomes;
mod surplus;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use muster_api::NodePool;

pub use self::outcomes::{Edition, Health, Outcomes};
pub use self::surplus::{SurplusInput, shrink};
use crate::disruption::Rest;
use crate::lifecycle::Class;
use crate::node::Node;
use crate::provision::{ClaimAndNode, LaunchHold};
use crate::step::{Step, Write};

/// Minimum interval between status updates of the counts, as in Karpenter.
pub const EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Input of [`decide`] about one NodePool.
#[derive(Debug, Clone, Copy)]
pub struct PoolInput<'a> {
    /// The pool.
    pub pool: &'a NodePool,
    /// Its NodeClass; none if it does not exist.
    pub class: Option<&'a Class>,
    /// Its claims, with their Nodes.
    pub claims: &'a [ClaimAndNode<'a>],
    /// Nodes with the pool's label but without a claim.
    pub unclaimed: &'a [&'a Node],
    /// Results of its last launches.
    pub outcomes: &'a Outcomes,
    /// The last rest of its consolidation, which may be over.
    pub rest: Option<Rest>,
    /// The last hold on its launches, which may be over.
    pub hold: Option<&'a LaunchHold>,
    /// Gate `StaticCapacity`: without it, the `replicas` of a pool have no effect.
    pub keeps_replicas: bool,
}

/// Returns the writes about the pool.
#[must_use]
pub fn decide(input: &PoolInput<'_>, now: Timestamp) -> Step {
    if input.pool.metadata.deletion_timestamp.is_some() {
        return Step::rest();
    }
    let mut writes = hash::stamp(input);
    let status = conditions::judge(input, now);
    writes.extend(conditions::told(input, &status));
    if input.pool.status.as_ref() != Some(&status) {
        writes.push(Write::PoolStatus { name: input.name(), status: Box::new(status) });
    }
    let ends = input.rest.map(|rest| rest.until).into_iter().chain(input.hold.map(|hold| hold.until));
    Step { writes, again: ends.filter(|end| now < *end).min() }
}

// === impl PoolInput ===

impl PoolInput<'_> {
    fn name(&self) -> String {
        self.pool.metadata.name.clone().unwrap_or_default()
    }
}
