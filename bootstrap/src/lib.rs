//! Node bootstrap: what user data makes of a node, decided without a node.
//!
//! ```text
//!  bytes ──► userdata ──► families ──► Facts ──► rules ──► findings ──┐
//!            parts with   al2          cluster,                       ├──► Report
//!            lines        al2023       argv ◄── words                 │
//!                         bottlerocket configuration ──► kubelet ──► effective
//!                         windows      taints, labels
//!
//!  EC2NodeClass ──► node_class ──► bytes      what Muster and Karpenter make of its user data
//!  AgentConfig ◄──► agent_config              the agent's own settings, in a form for each family
//!  machine ──► image ──► findings             what a machine that becomes an image must have, and must not
//! ```
//!
//! Nothing here does I/O, looks at a clock or depends on the platform: the agent judges a Linux document on Windows.
//! Every decision is a value; what is wrong is a [`Finding`](finding::Finding) with a code of [`verdicts`].

mod facts;
mod families;
mod judge;
mod likeness;
mod rules;
mod tree;

pub mod agent_config;
pub mod family;
pub mod finding;
pub mod image;
pub mod kubelet;
pub mod network;
pub mod node_class;
pub mod place;
pub mod question;
pub mod report;
pub mod secrets;
pub mod userdata;
pub mod verdicts;
pub mod words;

pub use self::family::Family;
pub use self::judge::{judge, judge_node_class};
pub use self::question::Question;
pub use self::report::Report;
