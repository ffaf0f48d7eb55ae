//! Metrics collected on scrape: the cluster and the process.

use std::collections::BTreeMap;
use std::fmt::Error;

use muster_aws::quantity;
use muster_gateway::Refusals;
use muster_scheduling::model::Resource;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::watch::ClusterCache;

/// State of the cluster.
#[derive(Debug)]
pub(super) struct ClusterMetrics(pub(super) ClusterCache);

/// This process, from `/proc/self`.
#[derive(Debug)]
pub(super) struct Process;

/// Refused agent requests.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Refusals);

/// Clock ticks per second in `/proc`: fixed since Linux 2.6.
const TICKS: f64 = 100.0;
/// Page size in bytes on all supported machines.
const PAGE: u64 = 4096;

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> Result<(), Error> {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let Self(cluster_cache) = self;
        let synced = if cluster_cache.is_synced() { 1.0 } else { 0.0 };
        let (nodes, claims, waiting, amounts) = {
            let cluster = cluster_cache.read();
            let mut amounts: BTreeMap<(&'static str, String, String), f64> = BTreeMap::new();
            for pool in cluster.pools() {
                let name = pool.metadata.name.clone().unwrap_or_default();
                let usage = pool.status.iter().flat_map(|status| &status.resources);
                let usage = usage.map(|(resource, amount)| ("usage", resource, amount));
                let limits = pool.spec.limits.iter().map(|(resource, amount)| ("limit", resource, amount));
                for (what, resource, amount) in usage.chain(limits) {
                    amounts.insert((what, name.clone(), resource.clone()), number(resource, &amount.0));
                }
            }
            (cluster.nodes().len(), cluster.claims().len(), cluster.count_unbound(), amounts)
        };
        let count = |count: usize| count as f64;
        gauge(&mut encoder, "karpenter_cluster_state_node_count", "Nodes that are known", count(nodes))?;
        gauge(&mut encoder, "karpenter_cluster_state_synced", "1 once everything has been listed", synced)?;
        gauge(&mut encoder, "muster_nodeclaims", "NodeClaims that are known", count(claims))?;
        gauge(&mut encoder, "muster_unbound_pods", "Pods without a node", count(waiting))?;
        for (what, help) in [("usage", "Resources of the nodes of a NodePool"), ("limit", "Limits of a NodePool")] {
            let name = format!("karpenter_nodepools_{what}");
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            for ((_, pool, resource), amount) in amounts.iter().filter(|((of, ..), _)| *of == what) {
                let labels = [("nodepool", pool.clone()), ("resource_type", resource.clone())];
                ConstGauge::new(*amount).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Returns the amount in the unit of the resource; for CPU, in cores.
fn number(resource: &str, text: &str) -> f64 {
    let resource = Resource::new(resource);
    let amount = quantity::parse(&resource, text).unwrap_or(0) as f64;
    if resource == Resource::Cpu { amount / 1000.0 } else { amount }
}

impl Collector for Refused {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Rejected requests on the port for agents, by reason";
        let mut family = encoder.encode_descriptor("muster_agent_refusals", help, None, MetricType::Counter)?;
        for (code, count) in self.0.counted() {
            ConstCounter::new(count).encode(family.encode_family(&[("reason", code)])?)?;
        }
        Ok(())
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let stat = read("stat");
        // The program name, in parentheses, may contain spaces.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let seconds = (field(14) + field(15)) as f64 / TICKS;
        let cpu = encoder.encode_descriptor("process_cpu_seconds", "CPU time", None, MetricType::Counter)?;
        ConstCounter::new(seconds).encode(cpu)?;
        let statm = read("statm");
        let resident = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
        let bytes = |pages: u64| (pages * PAGE) as f64;
        gauge(&mut encoder, "process_resident_memory_bytes", "Memory", bytes(resident))?;
        gauge(&mut encoder, "process_virtual_memory_bytes", "Address space", field(23) as f64)?;
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        gauge(&mut encoder, "process_open_fds", "Open files", files as f64)
    }
}
