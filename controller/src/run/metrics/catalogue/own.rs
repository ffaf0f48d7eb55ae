//! Metrics that Karpenter does not have.

use super::{Chapter, Kind, Metric, Presence, counter, gauge, metric};

pub(in crate::run) static LAUNCHES_HELD: Metric =
    gauge("muster_launches_held", &[], "Sets of pods whose launches are held because earlier ones were fruitless")
        .presence(Presence::Leading);
pub(in crate::run) static WRITES: Metric = counter("muster_writes_total", &["write", "fate"], "Writes, by result");
pub(in crate::run) static CLOUD_REFUSALS: Metric =
    counter("muster_cloud_refusals_total", &["offering", "reason"], "Unavailable offerings, by reason");
pub(in crate::run) static ZONE_SHIFTED_AWAY: Metric = gauge(
    "muster_zone_shifted_away",
    &["zone_id"],
    "1 for each zone that traffic is shifted away from; only with `--enable-zonal-shift`",
);
pub(in crate::run) static LEADING: Metric =
    metric("muster_leading", Kind::Gauge, &[], "1 while this replica writes", Presence::Always);
pub(in crate::run) static MISSING_PERMISSIONS: Metric = metric(
    "muster_missing_permissions",
    Kind::Gauge,
    &["group", "resource", "verb"],
    "1 for each permission that was missing at start",
    Presence::Once,
);
pub(in crate::run) static KNOWN_NODECLAIMS: Metric =
    metric("muster_nodeclaims", Kind::Gauge, &[], "NodeClaims that are known", Presence::Always);
pub(in crate::run) static UNBOUND_PODS: Metric =
    metric("muster_unbound_pods", Kind::Gauge, &[], "Pods without a node", Presence::Always);
pub(in crate::run) static PROMISED: Metric = gauge(
    "muster_consolidation_promised_usd_per_hour",
    &["nodepool"],
    "Savings that judged consolidation commands of a NodePool promised, since this replica leads",
)
.presence(Presence::Once);
pub(in crate::run) static DELIVERED: Metric = gauge(
    "muster_consolidation_delivered_usd_per_hour",
    &["nodepool"],
    "Savings that came of them, less what was launched again for their pods",
)
.presence(Presence::Once);
pub(in crate::run) static AGENT_REFUSALS: Metric =
    counter("muster_agent_refusals_total", &["reason"], "Rejected requests on the port for agents, by reason");
pub(in crate::run) static BOOT_PHASE: Metric = metric(
    "muster_node_boot_phase_seconds",
    Kind::Histogram,
    &["phase", "image"],
    "Duration of each stage of nodes' boots, as reported by their agents",
    Presence::Once,
)
.buckets(&[0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0]);
pub(in crate::run) static AWS_CALLS: Metric =
    counter("muster_aws_calls_total", &["operation", "result"], "AWS API calls, by result");
pub(in crate::run) static LAUNCHES_QUEUED: Metric = gauge(
    "muster_launches_queued",
    &[],
    "Launches that wait because the rate of CreateFleet is limited; only with `--cloud aws`",
)
.presence(Presence::Once);
pub(in crate::run) static TYPES_LEARNED: Metric = gauge(
    "muster_instance_types_learned",
    &[],
    "Instance types with values learned from their Nodes, for each image and class hash; only with `--cloud aws`",
)
.presence(Presence::Once);
pub(in crate::run) static TYPE_DOUBTS: Metric = counter(
    "muster_instance_type_doubts_total",
    &["resource", "reason"],
    "Values reported by Nodes and rejected as implausible, once for each type, image and class hash",
);
pub(in crate::run) static LEFT_OUT: Metric = metric(
    "muster_metrics_left_out",
    Kind::Gauge,
    &["metric"],
    "Objects or label sets without a series, because there are too many",
    Presence::Once,
);

pub(super) const OWN: Chapter = Chapter {
    title: "Muster's own",
    bound: "at most 2,000 for each metric, the least recent images of `boot_phase` are dropped after 50",
    metrics: &[
        &LEADING,
        &KNOWN_NODECLAIMS,
        &UNBOUND_PODS,
        &LAUNCHES_HELD,
        &WRITES,
        &CLOUD_REFUSALS,
        &MISSING_PERMISSIONS,
        &PROMISED,
        &DELIVERED,
        &AGENT_REFUSALS,
        &BOOT_PHASE,
        &AWS_CALLS,
        &LAUNCHES_QUEUED,
        &ZONE_SHIFTED_AWAY,
        &TYPES_LEARNED,
        &TYPE_DOUBTS,
        &LEFT_OUT,
    ],
};
