//! Result of a simulation.

use jiff::Timestamp;
use serde::Serialize;

use super::Glance;
use super::trace::{Entry, Event};

/// See the module.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Start time.
    pub start: Timestamp,
    /// End time.
    pub end: Timestamp,
    /// Events.
    pub trace: Vec<Entry>,
    /// Nodes that are left at the end.
    pub nodes: Vec<NodeAtEnd>,
    /// Figures at the end.
    pub glance: Glance,
    /// Number of writes by the controller.
    pub writes: u64,
    /// Number of calls to the cloud.
    pub calls: usize,
    /// Number of problems solved for waiting pods by the controller since it last started.
    pub solved: usize,
    /// Cost of the instances, in USD.
    pub paid: f64,
    /// Lower bound of the cost of the pods that ran, in USD.
    pub bound: f64,
    /// Total instance hours.
    pub node_hours: f64,
    /// Maximum number of instances at one time.
    pub most_nodes: usize,
    /// Maximum price in USD per hour.
    pub dearest_hour: f64,
    /// Total time that pods were without a node, in seconds.
    pub waited_seconds: f64,
}

/// A node at the end of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAtEnd {
    /// Name of its NodeClaim.
    pub(crate) claim: String,
    /// Name of its Node, if it has joined.
    pub(crate) node: Option<String>,
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// Capacity type.
    pub capacity_type: String,
    /// Price in USD per hour.
    pub price: f64,
    /// Number of pods on it, including daemons.
    pub pods: usize,
}

// === impl Outcome ===

impl Outcome {
    /// Returns the violated invariants.
    pub fn broken(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().filter_map(|entry| match &entry.event {
            Event::Broken { what } => Some(what.as_str()),
            _ => None,
        })
    }
}
