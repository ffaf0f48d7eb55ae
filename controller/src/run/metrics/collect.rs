//! Metrics collected on scrape: the cluster and the process.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::time::Duration;

use muster_aws::quantity;
use muster_gateway::Refusals;
use muster_scheduling::model::Resource;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

use crate::watch::ClusterCache;

/// State of the cluster.
#[derive(Debug)]
pub(super) struct ClusterMetrics(pub(super) ClusterCache);

/// This process.
#[derive(Debug)]
pub(super) struct Process;

/// Refused agent requests.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Refusals);

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
        let Ok(own) = sysinfo::get_current_pid() else { return Ok(()) };
        let Ok(mut system) = System::new() else { return Ok(()) };
        let kind = ProcessRefreshKind::nothing().without_tasks().with_cpu().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, kind);
        let Some(process) = system.process(own) else { return Ok(()) };
        let seconds = Duration::from_millis(process.accumulated_cpu_time()).as_secs_f64();
        let cpu = encoder.encode_descriptor("process_cpu_seconds", "CPU time", None, MetricType::Counter)?;
        ConstCounter::new(seconds).encode(cpu)?;
        gauge(&mut encoder, "process_resident_memory_bytes", "Memory", process.memory() as f64)?;
        gauge(&mut encoder, "process_virtual_memory_bytes", "Address space", process.virtual_memory() as f64)?;
        gauge(&mut encoder, "process_open_fds", "Open files", process.open_files().unwrap_or_default() as f64)
    }
}
