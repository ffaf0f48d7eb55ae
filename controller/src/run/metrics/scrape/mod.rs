//! Gauges about the cluster, computed from the watch cache when they are asked for.
//!
//! The text of labels of an object is made once for all its series, and requests of a pod once for all pods of one
//! template. Beyond a number of objects the rest is left out, and counted, so that time and memory are bounded.

mod conditions;
mod nodes;
mod offers;
mod pods;

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_aws::quantity;
use muster_scheduling::model::{Catalogue, Resource};
use muster_stages::state::Cluster;

use super::catalogue::{self as names, Metric};
use super::observed::PodTimes;
use super::page::{Page, Rendered};

/// Maximum number of objects of a kind with series of their own.
const MOST_OBJECTS: usize = 5000;

/// Number of objects without series, by metric.
pub(super) type LeftOut = BTreeMap<&'static str, u64>;

/// Input of a scrape, in addition to the cluster.
pub(super) struct Scrape<'a> {
    pub(super) cluster: &'a Cluster,
    /// Times of pods that have not been ready yet.
    pub(super) times: &'a BTreeMap<std::sync::Arc<str>, PodTimes>,
    /// Instance types by class.
    pub(super) offers: &'a BTreeMap<String, Catalogue>,
    pub(super) now: Timestamp,
}

impl Scrape<'_> {
    /// Writes everything. Returns the number of objects that were left out.
    pub(super) fn write(&self, page: &mut Page) -> LeftOut {
        let mut left_out = LeftOut::new();
        pools(self.cluster, page);
        nodes::write(self, page, &mut left_out);
        pods::write(self, page, &mut left_out);
        conditions::write(self, page, &mut left_out);
        offers::write(self, page);
        left_out
    }
}

fn pools(cluster: &Cluster, page: &mut Page) {
    let mut usage = Vec::new();
    let mut limits = Vec::new();
    for pool in cluster.pools() {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let used = pool.status.iter().flat_map(|status| &status.resources);
        usage.extend(used.map(|(resource, amount)| (name, resource.as_str(), amount_of(resource, &amount.0))));
        let limit = pool.spec.limits.iter();
        limits.extend(limit.map(|(resource, amount)| (name, resource.as_str(), amount_of(resource, &amount.0))));
    }
    for (metric, all) in [(&names::NODEPOOLS_USAGE, usage), (&names::NODEPOOLS_LIMIT, limits)] {
        family(
            page,
            metric,
            all.into_iter().map(|(pool, resource, amount)| {
                let resource = resource_type(resource);
                (Rendered::new([("resource_type", resource.as_str()), ("nodepool", pool)]), amount)
            }),
        );
    }
}

/// Writes a metric with its samples, unless there are none.
fn family(page: &mut Page, metric: &Metric, samples: impl Iterator<Item = (Rendered, f64)>) {
    let mut samples = samples.peekable();
    if samples.peek().is_some() {
        page.declare(metric);
        samples.for_each(|(labels, value)| page.sample(metric, "", &[&labels], value));
    }
}

/// Returns the amount in the unit of the resource; for CPU, in cores.
fn amount_of(resource: &str, text: &str) -> f64 {
    let resource = Resource::new(resource);
    in_units(&resource, quantity::parse(&resource, text).unwrap_or(0))
}

/// Returns the value of the label `resource_type` for a resource, as in Karpenter.
fn resource_type(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn in_units(resource: &Resource, amount: i64) -> f64 {
    if *resource == Resource::Cpu { amount as f64 / 1000.0 } else { amount as f64 }
}

#[cfg(test)]
mod tests;
