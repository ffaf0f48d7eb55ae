//! What a node shows while it runs, and what it means. Pure: the probes read, this decides.
//!
//! ```text
//!  journal line ──► signatures ──► code, how long it may be said in a healthy boot
//!  (Windows: events)
//!  systemctl show ──► units ────► which runs, how often it was restarted
//!  (Windows: services)
//!  Node object ──► node_object ─► taints, labels, conditions, what somebody still has to take off
//! ```

pub mod events;
pub mod journal;
pub mod node_object;
pub mod node_rules;
pub mod services;
pub mod signatures;
pub mod units;
