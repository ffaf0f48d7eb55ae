//! What has come of a day.

use jiff::Timestamp;
use serde::Serialize;

use super::Glance;
use super::trace::{Entry, Event};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// When it began.
    pub(crate) start: Timestamp,
    /// When it was over.
    pub(crate) end: Timestamp,
    /// What happened.
    pub(crate) trace: Vec<Entry>,
    /// What is left.
    pub(crate) nodes: Vec<NodeAtEnd>,
    /// The same in figures.
    pub(crate) glance: Glance,
    /// How often the controller wrote.
    pub(crate) writes: u64,
    /// How often it asked the cloud.
    pub(crate) calls: usize,
    /// USD that instances cost.
    pub(crate) paid: f64,
    /// USD that the pods that ran could not have been run for less.
    pub(crate) bound: f64,
    /// Hours of all instances together.
    pub(crate) node_hours: f64,
    /// The most instances at once.
    pub(crate) most_nodes: usize,
    /// The most USD per hour.
    pub(crate) dearest_hour: f64,
    /// Seconds that pods were without a node, all together.
    pub(crate) waited_seconds: f64,
}

/// A node at the end of the day.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeAtEnd {
    /// Its NodeClaim.
    pub(crate) claim: String,
    /// Its Node, if it has become one.
    pub(crate) node: Option<String>,
    /// What was bought.
    pub(crate) instance_type: String,
    /// Where.
    pub(crate) zone: String,
    /// How.
    pub(crate) capacity_type: String,
    /// USD per hour.
    pub(crate) price: f64,
    /// Pods on it, daemons included.
    pub(crate) pods: usize,
}

// === impl Outcome ===

impl Outcome {
    /// Rules that were broken.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().filter_map(|entry| match &entry.event {
            Event::Broken { what } => Some(what.as_str()),
            _ => None,
        })
    }
}
