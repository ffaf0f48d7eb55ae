//! Interpretation of a running node's logs, unit states and Node object. Pure: the probes read, this module decides.
//!
//! ```text
//!  journal line ──► signatures ──► code, time for which a healthy boot may repeat it
//!  (Windows: events)
//!  systemctl show ──► units ────► state, number of restarts
//!  (Windows: services)
//!  Node object ──► node_object ─► taints, labels, conditions, remaining startup taints
//! ```

pub mod events;
pub mod journal;
pub mod node_object;
pub mod node_rules;
pub mod services;
pub mod signatures;
pub mod units;
