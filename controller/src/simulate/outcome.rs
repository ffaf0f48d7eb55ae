//! Result of a simulation.

use jiff::Timestamp;
use serde::Serialize;

use super::Glance;
use super::trace::{Entry, Event};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Start time.
    pub(crate) start: Timestamp,
    /// End time.
    pub(crate) end: Timestamp,
    /// Events.
    pub(crate) trace: Vec<Entry>,
    /// Nodes that are left at the end.
    pub(crate) nodes: Vec<NodeAtEnd>,
    /// Figures at the end.
    pub(crate) glance: Glance,
    /// Number of writes by the controller.
    pub(crate) writes: u64,
    /// Number of calls to the cloud.
    pub(crate) calls: usize,
    /// Cost of the instances, in USD.
    pub(crate) paid: f64,
    /// Lower bound of the cost of the pods that ran, in USD.
    pub(crate) bound: f64,
    /// Total instance hours.
    pub(crate) node_hours: f64,
    /// Maximum number of instances at one time.
    pub(crate) most_nodes: usize,
    /// Maximum price in USD per hour.
    pub(crate) dearest_hour: f64,
    /// Total time that pods were without a node, in seconds.
    pub(crate) waited_seconds: f64,
}

/// A node at the end of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeAtEnd {
    /// Name of its NodeClaim.
    pub(crate) claim: String,
    /// Name of its Node, if it has joined.
    pub(crate) node: Option<String>,
    /// Instance type.
    pub(crate) instance_type: String,
    /// Zone.
    pub(crate) zone: String,
    /// Capacity type.
    pub(crate) capacity_type: String,
    /// Price in USD per hour.
    pub(crate) price: f64,
    /// Number of pods on it, including daemons.
    pub(crate) pods: usize,
}

// === impl Outcome ===

impl Outcome {
    /// Returns the violated invariants.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().filter_map(|entry| match &entry.event {
            Event::Broken { what } => Some(what.as_str()),
            _ => None,
        })
    }
}
