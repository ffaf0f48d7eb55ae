//! The packing engine: from a snapshot of a cluster to the cheapest set of nodes that holds its pending pods.
//!
//! ```text
//!  Problem ──► compile ──► pack ──────────────────────► Solution ──► validate   (shares only `model` with the packer)
//!  (model)     classes,    existing nodes, zones,          │     ──► replay     (what kube-scheduler would make of it)
//!              shapes,     fluid prices, fill,             │     ──► explain    (why a pod is pending, or is where it is)
//!              rules       exact endgame                   ▼
//!                                                        bound                  (no plan can cost less)
//!
//!  places that do not hold ──► exchange                       (who takes whose, so that all have one and nothing is bought)
//!
//!  Estate ──► disrupt ──► Decision ──► validate_disruption      (which nodes go, and where their pods go; by the packer)
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
