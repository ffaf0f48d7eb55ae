//! Reads and watches a live cluster.
//!
//! ```text
//!  kubeconfig ──► connection ──┬─► once ──► manifest                         for commands that run once
//!  or service      a client    │     every kind, page by page
//!  account                     │
//!                              └─► streams ──► cluster_cache (state::Cluster) ──► Changed: what to reconcile
//!                                    a task per kind: list, then watch, and again
//! ```
//!
//! `kinds` lists the kinds. Their objects are parsed from the API server's JSON text. This module never writes to a
//! cluster.

mod cluster_cache;
mod connection;
mod error;
mod health;
pub(crate) mod kinds;
mod once;
mod records;
mod streams;

pub(crate) use cluster_cache::MilestoneObserver;
pub use cluster_cache::{ClusterCache, ClusterRead};
pub use connection::connect_to_follow;
pub use error::ClusterError;
pub use health::{Health, WatchState};
pub use once::{Question, Scope, read_once};
pub use records::read_records;
pub use streams::{Extras, Following, follow};
