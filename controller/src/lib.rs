//! The library behind the program `muster`: what is read, what it means together, and the commands that show it.
//!
//! ```text
//!  files ────────────┐
//!  cluster ─► watch ─┴► manifest ─► snapshot ─► muster_scheduling ─► cli ─► text, JSON, YAML
//!                       objects,    Problem,    solve, bound,        plan, disrupt, explain
//!                       checked by  Custody     replay, disrupt,
//!                       muster_api     ▲        validators
//!                                      │
//!                                  muster_aws   instance types of each NodeClass
//! ```
//!
//! What decides on a cluster that runs looks at another picture of it, and writes nothing itself:
//!
//! ```text
//!  cluster ─► watch ─► state ─┬─► manifest, snapshot ─► provision, disruption ─┐
//!                             └─► lifecycle, pools, classes ───────────────────┴─► step ─► edge ─► cluster, cloud
//! ```
//!
//! [`watch`] keeps [`state`] up, object by object. [`provision`] decides which NodeClaims are made for pods that wait,
//! [`lifecycle`] what becomes of a NodeClaim from its launch to its end, [`disruption`] what becomes of a command that
//! takes nodes away, [`pools`] and [`classes`] what NodePools and NodeClasses say of themselves. Each gives a [`step`].
//! [`edge`] carries it out, [`ec2`] and [`kwok`] are clouds, and [`run`] is the controller that drives all of them.
//!
//! [`agents`] serves the agents of nodes, where it is asked to: what they say becomes conditions of their NodeClaims, which the
//! stages look at like at everything else.
//!
//! `fleet` decides what is launched, and ended, because somebody orders it.
//!
//! [`roster`] says for people and programs who is there, how far each node has come, and what its agent says.
//!
//! [`archive`] says what is kept of nodes that could not become any.
//!
//! [`simulate`] plays a cluster in virtual time with all of these stages, and an edge in memory.
//!
//! [`convert`] rewrites objects of earlier APIs, and is used by nothing else.
//!
//! Only [`cli`] touches the process: arguments, environment, terminal, signals, exit codes. Only what goes through [`edge`],
//! the Lease of [`run`], and what [`agents`] hears, is ever written to a cluster; every other command writes its output and nothing else.

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
