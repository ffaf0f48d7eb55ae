//! The one picture of the cluster, kept up object by object.
//!
//! ```text
//!  text of an object ──► read ──► cluster ──┬─► manifests() ──► snapshot::assemble ──► engine
//!  (watch, simulate)     once     indexes   ├─► around(claim) ─► Seen ──► lifecycle::decide
//!                                    │      ├─► moment() ──► Scene ──► provision
//!                                    │      └─► claims(), pools(), unbound() … ──► pools, classes
//!                                    └─► Changed: what is to be looked at again
//! ```
//!
//! Nothing here does I/O or knows the time. The picture is a function of the last text of each object: in which order
//! they came, and what they said before, shows nowhere. One object that makes no sense is a note about that object, and
//! the cluster goes on without what could not be read of it; only a Node or a NodeClaim keeps what it said before, since
//! one that seems gone would be acted on.
//!
//! Pods are kept in compact form ([`LivePod`]): what is the same in all replicas is held once. Nodes, NodeClaims and
//! NodePools are kept in their typed form besides, without what nobody reads.

mod around;
mod changed;
mod class;
mod cluster;
mod crowded;
mod devices;
mod index;
mod keep;
mod kind;
mod manifests;
mod moment;
mod moved;
mod names;
mod pod;
mod read;
#[cfg(test)]
mod tests;

pub use around::{Held, Surroundings};
pub use changed::{Changed, Kinds};
pub use class::LiveClass;
pub use cluster::Cluster;
pub use kind::Kind;
pub use moment::Moment;
pub use pod::LivePod;
