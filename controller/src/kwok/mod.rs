//! Cloud whose instances are Node objects simulated by KWOK: for trials, for scale tests, and for test suites of
//! Karpenter's KWOK provider, whose behavior it follows.
//!
//! ```text
//!   catalogue   instance types: generated, or from Karpenter's file      LaunchRequest ──► node ──► Node object
//!                        │                                                                  │          │ KWOK: Ready,
//!                        ▼                                                                  │          │ pods run
//!             types of every NodePool                                  Instance ◄───────────┴── cloud ◄┘
//! ```
//!
//! The Node is the instance: deleting it terminates the instance, and a Node that is being deleted counts as gone. Its
//! name is derived from the launch token, so that a repeated launch finds the Node that it created.

mod catalogue;
mod cloud;
mod file;
mod node;

pub use self::catalogue::instance_types;
pub use self::cloud::Kwok;
pub use self::file::{FileError, read};

/// Prefix of every provider ID.
const SCHEME: &str = "kwok://";
