//! The packing engine: computes the cheapest set of nodes for the pending pods in a snapshot of a cluster.
//!
//! ```text
//!  Problem ──► compile ──► pack ──────────────────────► Solution ──► validate   (shares only `model` with packing)
//!  (model)     classes,    existing nodes, zones,          │     ──► replay     (what kube-scheduler would do with it)
//!              shapes,     fluid prices, fill,             │     ──► explain    (why a pod is pending, or on its node)
//!              rules       exact endgame                   ▼
//!                                                        bound                  (no plan can cost less)
//!
//!  nominations that do not hold ──► exchange            (permutes the nodes of the pods, without launching any)
//!
//!  DisruptionInput ──► disrupt ──► Decision ──► validate_disruption   (nodes to remove, and new places of their pods)
//! ```
//!
//! Everything here is a total, synchronous function of its arguments: no clock, no random number, no I/O, and no order
//! that depends on a hash. A pod that cannot be placed is a value with reasons, not an error.

mod bound;
mod compile;
pub mod disrupt;
mod exchange;
pub mod explain;
pub mod labels;
mod logarithm;
pub mod model;
pub mod overlay;
mod pack;
mod replay;
mod second_round;
mod solution;
mod validate;

pub use bound::{lower_bound, lower_bound_of};
pub use exchange::{Exchange, Move, exchange};
pub use pack::solve;
pub use replay::{Nominated, Replay, Waiting, nominations_that_hold, replay, schedule};
pub use solution::{NewNode, PoolVerdict, Reason, Solution, Unschedulable};
pub use validate::{Place, Promise, Violation, validate, validate_disruption};
