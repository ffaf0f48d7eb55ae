//! Library of the program `muster`: the command line, and the controller that runs in a cluster.
//!
//! ```text
//!  files ──────────────┐
//!  cluster ─► watch ───┴► muster_manifest ─► muster_scheduling ─► cli ─► text, JSON, YAML
//!                         objects, Problem   solve, bound,        plan, disrupt, explain, simulate
//!                                ▲           replay, disrupt,
//!                            muster_aws      validators
//!                            instance types
//! ```
//!
//! The controller works on a separate view of a running cluster. Decisions are made in `muster_stages`, which writes
//! nothing itself:
//!
//! ```text
//!  cluster ─► watch ─► muster_stages: state ─► stages ─► step ─► edge ─► cluster, cloud
//! ```
//!
//! `watch` keeps the state current, object by object. `edge` applies the steps of the stages, `ec2` and `kwok` are
//! `watch` keeps the state current, object by object. `edge` applies the steps of the stages, `ec2` and `kwok` are
//! clouds with the interface of `provider`, and `run` is the controller that drives all of them. `agents` serves the
//! node agents if that is enabled. Their reports, and the cloud's notices of interruption, become conditions of
//! NodeClaims (`facts`), which the stages read like any other condition. All of these need the feature `cluster`;
//! without it the program works on files.
//!
//! `muster_simulate` runs a cluster in virtual time with the same stages and an in-memory edge.
//!
//! Only [`cli`] touches the process: arguments, environment, terminal, signals, exit codes. Only `edge`, the Lease of
//! `run`, `facts`, and the keys and records of `agents` cause writes to a cluster; every other command writes its
//! output and nothing else.

#[cfg(feature = "cluster")]
pub mod agents;
#[cfg(feature = "cluster")]
mod buckets;
pub mod cli;
#[cfg(feature = "cluster")]
pub mod ec2;
#[cfg(feature = "cluster")]
pub mod edge;
#[cfg(feature = "cluster")]
mod facts;
#[cfg(feature = "cluster")]
pub mod kwok;
#[cfg(feature = "cluster")]
pub mod permissions;
#[cfg(feature = "cluster")]
pub mod provider;
#[cfg(feature = "cluster")]
pub mod run;
#[cfg(feature = "cluster")]
pub mod watch;
