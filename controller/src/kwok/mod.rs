//! A cloud whose instances are Node objects that KWOK brings to life: for trials, for tests of scale, and for suites that
//! were written for Karpenter's provider of that name, whose rules these are.
//!
//! ```text
//!   catalogue   instance types: by rule, or from Karpenter's file          LaunchRequest ──► node ──► Node object
//!                        │                                                                    │          │ KWOK: Ready,
//!                        ▼                                                                    │          │ pods run
//!             types of every NodePool                                Instance ◄───────────────┴── cloud ◄┘
//! ```
//!
//! The Node is the instance: who deletes it ends it, and one that is being deleted counts as gone. Its name follows from
//! the token of the launch, so a launch that is repeated finds the Node that it made.

mod catalogue;
mod cloud;
mod file;
mod node;

pub use self::catalogue::instance_types;
pub use self::cloud::Kwok;
pub use self::file::{FileError, read};

/// Begin of every provider ID.
const SCHEME: &str = "kwok://";
