//! The document of `muster simulate`.

use serde::Serialize;

use crate::simulate::trace::Entry;
use crate::simulate::{NodeAtEnd, Outcome};

/// A day that was played.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SimulationDocument {
    api_version: &'static str,
    kind: &'static str,
    /// What is not said by the script.
    pub(crate) seed: u64,
    /// When the day begins, RFC 3339.
    pub(crate) start: String,
    /// When it ends.
    pub(crate) end: String,
    /// What happened, in order.
    pub(crate) trace: Vec<Entry>,
    /// The nodes that are there at the end.
    pub(crate) nodes: Vec<NodeAtEnd>,
    pub(crate) bill: Bill,
    pub(crate) summary: Summary,
}

/// What the day costs, in USD.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bill {
    /// All instances, from their launch until they were told to end.
    pub(crate) paid: f64,
    /// Proven: the pods that ran could not have been run for less.
    pub(crate) lower_bound: f64,
    /// The same day decided by a Karpenter-like policy; absent if it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) karpenter_like: Option<f64>,
    /// Where the prices come from.
    pub(crate) price_source: String,
}

/// The day in figures.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) launches: usize,
    pub(crate) most_nodes: usize,
    pub(crate) node_hours: f64,
    pub(crate) dearest_hour: f64,
    pub(crate) hourly_price: f64,
    pub(crate) pods: usize,
    pub(crate) waiting: usize,
    /// How long pods were without a node, all together.
    pub(crate) waited_hours: f64,
    pub(crate) writes: u64,
    pub(crate) cloud_calls: usize,
    pub(crate) broken_rules: usize,
}

// === impl SimulationDocument ===

impl SimulationDocument {
    pub(crate) fn new(outcome: &Outcome, rival: Option<&Outcome>, seed: u64, price_source: &str) -> Self {
        use crate::simulate::trace::Event;
        let launches = outcome.trace.iter().filter(|entry| matches!(entry.event, Event::Launched { .. })).count();
        Self {
            api_version: "muster.dev/v1",
            kind: "SimulatedDay",
            seed,
            start: outcome.start.to_string(),
            end: outcome.end.to_string(),
            trace: outcome.trace.clone(),
            nodes: outcome.nodes.clone(),
            bill: Bill {
                paid: cents(outcome.paid),
                lower_bound: cents(outcome.bound),
                karpenter_like: rival.map(|rival| cents(rival.paid)),
                price_source: price_source.to_owned(),
            },
            summary: Summary {
                launches,
                most_nodes: outcome.most_nodes,
                node_hours: cents(outcome.node_hours),
                dearest_hour: cents(outcome.dearest_hour),
                hourly_price: cents(outcome.glance.price),
                pods: outcome.glance.placed,
                waiting: outcome.glance.waiting,
                waited_hours: cents(outcome.waited_seconds / 3600.0),
                writes: outcome.writes,
                cloud_calls: outcome.calls,
                broken_rules: outcome.broken().count(),
            },
        }
    }
}

/// Hundredths of cents are enough for a day, and the same on every machine.
fn cents(amount: f64) -> f64 {
    (amount * 10_000.0).round() / 10_000.0
}
