//! Library of the program `muster`: inputs, the model built from them, and the commands that print results.
//!
//! ```text
//!  files ────────────┐
//!  cluster ─► watch ─┴► manifest ─► snapshot ─► muster_scheduling ─► cli ─► text, JSON, YAML
//!                       objects,    Problem,    solve, bound,        plan, disrupt, explain
//!                       checked by  managed     replay, disrupt,
//!                       muster_api  nodes       validators
//!                                      ▲
//!                                  muster_aws   instance types of each NodeClass
//! ```
//!
//! The controller works on a separate view of a running cluster. Its decision code does not write anything itself:
//!
//! ```text
//!  cluster ─► watch ─► state ─┬─► manifest, snapshot ─► provision, disruption ─┐
//!                             └─► lifecycle, pools, classes ───────────────────┴─► step ─► edge ─► cluster, cloud
//! ```
//!
//! [`watch`] keeps [`state`] current, object by object. [`provision`] decides which NodeClaims are created for pending
//! pods, [`lifecycle`] manages a NodeClaim from its launch to its deletion, [`disruption`] runs commands that remove
//! nodes, [`pools`] and [`classes`] maintain the status of NodePools and NodeClasses. Each returns a [`step`]. [`edge`]
//! applies it, [`ec2`] and [`kwok`] are clouds, and [`run`] is the controller that drives all of them.
//!
//! [`agents`] serves the node agents if that is enabled: their reports become conditions of their NodeClaims, which the
//! stages read like any other condition.
//!
//! `fleet` decides which instances are launched and terminated on an operator's request.
//!
//! [`roster`] lists the nodes for people and programs: the phase of each node and the report of its agent.
//!
//! [`archive`] defines the records that are kept of nodes that failed to join the cluster.
//!
//! [`simulate`] runs a cluster in virtual time with all of these stages and an in-memory edge.
//!
//! [`convert`] rewrites objects of earlier APIs. No other module uses it.
//!
//! Only [`cli`] touches the process: arguments, environment, terminal, signals, exit codes. Only [`edge`], the Lease of
//! [`run`] and the reports that [`agents`] receives cause writes to a cluster; every other command writes its output
//! and nothing else.

pub mod agents;
pub mod archive;
pub mod classes;
pub mod cli;
pub mod convert;
pub mod disruption;
pub mod ec2;
pub mod edge;
mod fleet;
pub mod kwok;
pub mod lifecycle;
pub mod manifest;
pub mod node;
pub mod permissions;
pub mod pools;
pub mod provision;
pub mod roster;
pub mod run;
pub mod simulate;
pub mod snapshot;
pub mod state;
pub mod step;
pub mod watch;
