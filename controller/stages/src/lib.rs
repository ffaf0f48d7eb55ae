//! Decisions of the controller. Pure: each stage is a function of a snapshot and a time, and returns a [`step`] of
//! writes for the caller to carry out.
//!
//! ```text
//!   objects of a cluster ──► state: one view, kept object by object ──┬─► provision   NodeClaims for pending pods
//!                                                                     ├─► lifecycle   a NodeClaim, launch to deletion
//!                                                                     ├─► disruption  which nodes go
//!                                                                     ├─► pools, classes, overlays, buffers   status
//!                                                                     ├─► fleet       what operators order
//!                                                                     └─► notices     events about what is not done
//!                                                                             │
//!                                                                             ▼
//!                                                                           step: writes, and when to decide again
//! ```
//!
//! [`driver`] says which of these decisions is due while the controller runs.
//! [`provision`] and [`disruption`] solve the problems that `muster_manifest::snapshot` assembles. [`roster`] lists the
//! nodes for people and programs: the phase of each node and the report of its agent. [`archive`] defines the records
//! that are kept of nodes that failed to join the cluster. [`notice_log`] bounds the events about objects with
//! mistakes.

pub mod archive;
pub mod buffers;
pub mod classes;
mod deletion_cause;
pub mod disruption;
pub mod driver;
pub mod fleet;
pub mod lifecycle;
pub mod node;
pub mod notice_log;
pub mod notices;
pub mod overlays;
pub mod pools;
pub mod provision;
pub mod roster;
pub mod state;
pub mod step;
