//! In-memory state of the cluster, updated object by object.
//!
//! ```text
//!  text of an object ──► read ──► cluster ──┬─► manifests() ──► snapshot::assemble ──► engine
//!  (watch, simulate)     once     indexes   ├─► around(claim) ─► Seen ──► lifecycle::decide
//!                                    │      ├─► moment() ──► PlacementView ──► provision
//!                                    │      └─► claims(), pools(), unbound() … ──► pools, classes
//!                                    └─► Changed: what to reconcile
//! ```
//!
//! This module does no I/O and does not depend on the time. The state is a function of the last text of each object:
//! neither the order of events nor earlier versions have any effect. An invalid object results in a note, and the
//! cluster is used without the parts that could not be read; only Nodes and NodeClaims keep their last valid version,
//! because the controller would act on their absence.
//!
//! Pods are stored in compact form ([`LivePod`]): data that replicas share is stored once. Nodes, NodeClaims and
//! NodePools are also stored in typed form, without unused fields.

mod changed;
mod claim_inputs;
mod class;
mod cluster;
mod crowded;
mod index;
mod kind;
mod manifests;
mod milestone;
mod moved;
mod names;
mod pod;
mod read;
mod round_input;
mod storage;
#[cfg(test)]
mod tests;

pub use changed::{Changed, Kinds};
pub use claim_inputs::{ClaimInputs, Surroundings};
pub use class::LiveClass;
pub use cluster::{Cluster, LiveBuffer, LiveOverlay};
pub use kind::Kind;
pub use milestone::{ConditionChange, Milestone, NodeLabels, NodeStart, Removal};
pub use pod::{LivePod, Phase};
pub use round_input::Moment;
