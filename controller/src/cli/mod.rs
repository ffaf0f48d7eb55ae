//! The command line of `muster`.
//!
//! ```text
//!  usage ──► arguments ──► settings ──► wiring ──► inputs ──► plan, disrupt, explain ─► document ─► JSON, YAML
//!    │       words         meaning      one file   manifests   solve, bound,       └──────► text
//!    │       typed                      that uses  catalogue   validate, replay
//!    └─► failure                        all of it
//! ```
//!
//! Results go to stdout, everything else to stderr. A document is built first and printed after: tables and programs
//! use the same values, so they cannot disagree.

#[cfg(feature = "cluster")]
mod answers;
mod arguments;
mod convert;
mod crds;
mod disrupt;
#[cfg(feature = "cluster")]
mod dry_run;
mod explain;
mod failure;
mod grid;
mod iam_policy;
mod input_warnings;
mod inputs;
mod live_cluster;
mod live_prices;
mod nodes;
mod output;
mod palette;
mod plan;
mod prices;
mod printable;
mod progress;
mod quantity;
mod refused;
#[cfg(feature = "cluster")]
mod run;
mod settings;
mod simulate;
mod types;
mod usage;
mod verdicts;
mod wiring;

#[cfg(test)]
mod reference;

#[cfg(feature = "cluster")]
pub use answers::DOCUMENTS;
pub use wiring::main;
