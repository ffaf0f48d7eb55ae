//! Node bootstrap: evaluates user data and predicts the node it produces, without a node.
//!
//! ```text
//!  bytes ──► userdata ──► families ──► ParsedBootstrap ──► rules ──► findings ──┐
//!            parts with   al2          cluster,                                 ├──► Report
//!            lines        al2023       argv ◄── words                           │
//!                         bottlerocket configuration ──► kubelet ────────► effective
//!                         windows      taints, labels
//!
//!  EC2NodeClass ──► node_class ──► bytes      the user data that Muster and Karpenter generate from it
//!  AgentConfig ◄──► agent_config              the agent's own settings, in the form of each family
//!  machine ──► image ──► findings             what a machine image must contain, and must not
//! ```
//!
//! This crate does no I/O, reads no clock and does not depend on the platform: the agent can judge a Linux document on
//! Windows. Every decision is a value; every problem is a [`Finding`](finding::Finding) with a code of [`verdicts`].

mod arch;
mod families;
mod likeness;
mod parsed;
mod printable;
mod rules;
mod script_commands;
mod severity;
mod tree;
mod validate;

pub mod agent_config;
pub mod family;
pub mod finding;
pub mod image;
pub mod input;
pub mod kubelet;
pub mod network;
pub mod node_class;
pub mod place;
pub mod report;
pub mod secrets;
pub mod userdata;
pub mod verdicts;
pub mod words;

pub use self::family::Family;
pub use self::input::BootstrapInput;
pub use self::printable::is_printable;
pub use self::report::Report;
pub use self::validate::{validate, validate_node_class};
