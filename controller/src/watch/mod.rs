//! What a live cluster holds.
//!
//! ```text
//!  kubeconfig ──► connection ──► once ──► manifest
//!  or service      a client       every kind, a page at a time, as the API server's own text
//!  account                        (`kinds` says which)
//! ```
//!
//! Nothing here writes to the cluster.

mod connection;
mod error;
mod kinds;
mod once;

pub use error::ClusterError;
pub use once::{Question, Scope, read_once};
