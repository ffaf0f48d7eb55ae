//! Document of `muster simulate`.

use muster_simulate::trace::Entry;
use muster_simulate::{NodeAtEnd, Outcome};
use serde::Serialize;

use super::super::prices::PriceWords;

/// Simulated day.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SimulationDocument {
    api_version: &'static str,
    kind: &'static str,
    /// Seed of everything that the script leaves open.
    pub(crate) seed: u64,
    /// Start of the day, in RFC 3339.
    pub(crate) start: String,
    /// End of the day, in RFC 3339.
    pub(crate) end: String,
    /// Events, in order.
    pub(crate) trace: Vec<Entry>,
    /// Nodes that exist at the end.
    pub(crate) nodes: Vec<NodeAtEnd>,
    pub(crate) bill: Bill,
    pub(crate) summary: Summary,
}

/// Cost of the day, in USD.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bill {
    /// Price of all instances from launch to termination.
    pub(crate) paid: f64,
    /// Proven lower bound on the cost of running the pods that ran.
    pub(crate) lower_bound: f64,
    /// Cost of the same day with a Karpenter-like policy; absent if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) karpenter_like: Option<f64>,
    /// Source of the prices.
    pub(crate) price_source: String,
    /// The same with the age of the prices, which depends on the time of the command.
    #[serde(skip)]
    pub(crate) aged_price_source: String,
}

/// Summary of the day in figures.
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
    /// Total time that pods waited for a node, in hours.
    pub(crate) waited_hours: f64,
    pub(crate) writes: u64,
    pub(crate) cloud_calls: usize,
    pub(crate) broken_rules: usize,
}

// === impl SimulationDocument ===

impl SimulationDocument {
    pub(crate) fn new(outcome: &Outcome, rival: Option<&Outcome>, seed: u64, price_source: PriceWords) -> Self {
        use muster_simulate::trace::Event;
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
                price_source: price_source.plain,
                aged_price_source: price_source.aged,
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

/// Rounds to hundredths of a cent, which is precise enough for a day and the same on every machine.
fn cents(amount: f64) -> f64 {
    (amount * 10_000.0).round() / 10_000.0
}
