//! What a live cluster holds.
//!
//! ```text
//!  kubeconfig ──► connection ──┬─► once ──► manifest                         a command that answers a question
//!  or service      a client    │     every kind, a page at a time
//!  account                     │
//!                              └─► streams ──► picture (state::Cluster) ──► Changed: what is to be looked at again
//!                                    a task for each kind: list, then what happens to it, and again
//! ```
//!
//! `kinds` says which kinds. Their objects are taken in as the API server's own text. Nothing here writes to the cluster.

mod connection;
mod error;
mod health;
pub(crate) mod kinds;
mod once;
mod picture;
mod records;
mod streams;

pub use connection::connect_to_follow;
pub use error::ClusterError;
pub use health::{Health, Standing};
pub use once::{Question, Scope, read_once};
pub use picture::{Glance, Picture};
pub use records::read_records;
pub use streams::{Following, follow};
