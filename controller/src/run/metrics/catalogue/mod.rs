//! All metrics: names, types, labels.
//!
//! A value is recorded under an entry of these tables, with values for the labels that it lists: `docs/metrics.md`,
//! which is written from them, lists what there is. Names that begin with `karpenter_`, `operator_`,
//! `controller_runtime_` or `workqueue_` are those that Karpenter's dashboards and alerts read.

mod cloud;
mod disruption;
mod nodes;
mod own;
mod pods;
mod runtime;
mod scheduler;
mod status;

pub(in crate::run) use crate::buckets::{BATCH_SIZES, DURATIONS};
pub(in crate::run) use cloud::*;
pub(in crate::run) use disruption::*;
pub(in crate::run) use nodes::*;
pub(in crate::run) use own::*;
pub(in crate::run) use pods::*;
pub(in crate::run) use runtime::*;
pub(in crate::run) use scheduler::*;
pub(in crate::run) use status::*;

/// A metric.
#[derive(Debug)]
pub(in crate::run) struct Metric {
    /// Its name, as it is sampled.
    pub(in crate::run) name: &'static str,
    pub(in crate::run) kind: Kind,
    /// Names of its labels. A label whose value is empty is left out, which means the same to Prometheus.
    pub(in crate::run) labels: &'static [&'static str],
    pub(in crate::run) help: &'static str,
    /// Upper bounds of the buckets of a histogram.
    pub(in crate::run) buckets: &'static [f64],
    pub(in crate::run) presence: Presence,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Replica and time at which a metric has series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Presence {
    /// On each replica, always.
    Always,
    /// On the replica that leads, as long as there are objects of its kind.
    Leading,
    /// On the replica that led when it happened, from the first time on.
    Once,
}

/// Metrics of one chapter of the documentation.
pub(in crate::run) struct Chapter {
    pub(in crate::run) title: &'static str,
    /// Number of series, in words.
    pub(in crate::run) bound: &'static str,
    pub(in crate::run) metrics: &'static [&'static Metric],
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Buckets of reboots, in seconds: Karpenter's.
pub(super) const REBOOTS: &[f64] = &[10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0];

/// Buckets of the lives of nodes, in seconds: Karpenter's.
pub(super) const LIVES: &[f64] = &[
    15.0 * MINUTE,
    30.0 * MINUTE,
    45.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    6.0 * HOUR,
    8.0 * HOUR,
    10.0 * HOUR,
    12.0 * HOUR,
    16.0 * HOUR,
    20.0 * HOUR,
    DAY,
    2.0 * DAY,
    3.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    15.0 * DAY,
    20.0 * DAY,
    25.0 * DAY,
    30.0 * DAY,
];

/// Quantiles of a summary.
pub(super) const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    presence: Presence,
) -> Metric {
    Metric { name, kind, labels, help, buckets: DURATIONS, presence }
}

/// A counter that begins with the first event.
const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    metric(name, Kind::Counter, labels, help, Presence::Once)
}

/// A gauge of the replica that leads.
const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    metric(name, Kind::Gauge, labels, help, Presence::Leading)
}

/// A histogram of durations that begins with the first event.
const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    metric(name, Kind::Histogram, labels, help, Presence::Once)
}

/// A summary that begins with the first event.
const fn summary(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    metric(name, Kind::Summary, labels, help, Presence::Once)
}

impl Metric {
    const fn buckets(mut self, buckets: &'static [f64]) -> Self {
        self.buckets = buckets;
        self
    }

    const fn presence(mut self, presence: Presence) -> Self {
        self.presence = presence;
        self
    }
}

impl Kind {
    /// Its name in the text format.
    pub(in crate::run) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// All metrics.
pub(in crate::run) static CHAPTERS: &[Chapter] = &[
    NODEPOOLS,
    NODECLAIMS,
    NODES,
    PODS,
    SCHEDULER,
    DISRUPTION,
    DELETION_COSTS,
    CLUSTER,
    CLOUDPROVIDER,
    INTERRUPTION,
    STATUS,
    RUNTIME,
    PROCESS,
    OWN,
];
