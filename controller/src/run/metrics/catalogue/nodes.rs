//! NodePools, NodeClaims, Nodes, and the cluster as a whole.

use super::{Chapter, LIVES, Metric, Presence, REBOOTS, counter, gauge, histogram, summary};

/// Labels of a node: those that instance types define, by their last part, and which node it is.
macro_rules! labels_of_nodes {
    ($($more:literal),*) => {
        &[
            "arch",
            "capacity_reservation_id",
            "capacity_reservation_interruptible",
            "capacity_reservation_type",
            "capacity_type",
            "instance_accelerator_count",
            "instance_accelerator_manufacturer",
            "instance_accelerator_name",
            "instance_capability_flex",
            "instance_category",
            "instance_cpu",
            "instance_cpu_manufacturer",
            "instance_cpu_sustained_clock_speed_mhz",
            "instance_ebs_bandwidth",
            "instance_encryption_in_transit_supported",
            "instance_family",
            "instance_generation",
            "instance_gpu_count",
            "instance_gpu_manufacturer",
            "instance_gpu_memory",
            "instance_gpu_name",
            "instance_hypervisor",
            "instance_local_nvme",
            "instance_memory",
            "instance_network_bandwidth",
            "instance_size",
            "instance_tenancy",
            "instance_type",
            "managed",
            "node_name",
            "nodepool",
            "os",
            "phase",
            "placement_group_id",
            "placement_group_partition",
            "region",
            "windows_build",
            "zone",
            "zone_id",
            $($more),*
        ]
    };
}

const NODE_LABELS: &[&str] = labels_of_nodes!();
const NODE_RESOURCE: &[&str] = labels_of_nodes!("resource_type");

pub(in crate::run) static NODEPOOLS_ALLOWED_DISRUPTIONS: Metric = gauge(
    "karpenter_nodepools_allowed_disruptions",
    &["nodepool", "reason"],
    "Nodes that the budgets of a NodePool allow to disrupt now, by reason",
);
pub(in crate::run) static NODEPOOLS_NODES_CONSUMING_BUDGETS: Metric = gauge(
    "karpenter_nodepools_nodes_consuming_budgets",
    &["nodepool", "reason"],
    "Nodes that count against the budgets of a NodePool now, by reason",
);
pub(in crate::run) static NODEPOOLS_USAGE: Metric =
    gauge("karpenter_nodepools_usage", &["resource_type", "nodepool"], "Resources of the nodes of a NodePool");
pub(in crate::run) static NODEPOOLS_LIMIT: Metric =
    gauge("karpenter_nodepools_limit", &["resource_type", "nodepool"], "Limits of a NodePool");
pub(in crate::run) static NODEPOOLS_COST: Metric = gauge(
    "karpenter_nodepools_cost_total",
    &["nodepool"],
    "Price of the nodes of a NodePool, in USD per hour, as far as it is known",
);

pub(super) const NODEPOOLS: Chapter = Chapter {
    title: "NodePools",
    bound: "NodePools times reasons, or times resources",
    metrics: &[
        &NODEPOOLS_ALLOWED_DISRUPTIONS,
        &NODEPOOLS_NODES_CONSUMING_BUDGETS,
        &NODEPOOLS_USAGE,
        &NODEPOOLS_LIMIT,
        &NODEPOOLS_COST,
    ],
};

pub(in crate::run) static NODECLAIMS_CREATED: Metric = counter(
    "karpenter_nodeclaims_created_total",
    &["nodepool", "reason", "min_values_relaxed"],
    "Created NodeClaims, by reason",
);
pub(in crate::run) static NODECLAIMS_TERMINATED: Metric = counter(
    "karpenter_nodeclaims_terminated_total",
    &["nodepool", "capacity_type", "zone"],
    "NodeClaims of which nothing is left",
);
pub(in crate::run) static NODECLAIMS_DISRUPTED: Metric = counter(
    "karpenter_nodeclaims_disrupted_total",
    &["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
    "NodeClaims deleted by the controller, by reason",
);
pub(in crate::run) static NODECLAIMS_UNHEALTHY_DISRUPTED: Metric = counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    &["condition", "nodepool", "capacity_type", "image_id", "termination_mode"],
    "NodeClaims deleted because their Node is unhealthy, by its condition",
);
pub(in crate::run) static NODECLAIMS_TERMINATION_DURATION: Metric = histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    &["nodepool"],
    "Time from the request to delete a NodeClaim until nothing of it is left",
);
pub(in crate::run) static NODECLAIMS_INSTANCE_TERMINATION_DURATION: Metric = histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    &["nodepool"],
    "Time from the request to terminate an instance until it is gone",
);

pub(super) const NODECLAIMS: Chapter = Chapter {
    title: "NodeClaims",
    bound: "NodePools times reasons, zones, capacity types and modes that have occurred, at most 2,000 for each metric",
    metrics: &[
        &NODECLAIMS_CREATED,
        &NODECLAIMS_TERMINATED,
        &NODECLAIMS_DISRUPTED,
        &NODECLAIMS_UNHEALTHY_DISRUPTED,
        &NODECLAIMS_TERMINATION_DURATION,
        &NODECLAIMS_INSTANCE_TERMINATION_DURATION,
    ],
};

pub(in crate::run) static NODES_CREATED: Metric =
    counter("karpenter_nodes_created_total", &["nodepool", "zone"], "Nodes that have registered");
pub(in crate::run) static NODES_TERMINATED: Metric =
    counter("karpenter_nodes_terminated_total", &["nodepool", "zone"], "Nodes that are gone");
pub(in crate::run) static NODES_DRAINED: Metric =
    counter("karpenter_nodes_drained_total", &["nodepool"], "Nodes whose pods have all left");
pub(in crate::run) static NODES_REBOOTS: Metric =
    counter("karpenter_nodes_reboots_total", &["result"], "Reboots of nodes that have ended, by their result");
pub(in crate::run) static NODES_REBOOT_DURATION: Metric = histogram(
    "karpenter_nodes_reboot_duration_seconds",
    &["result"],
    "Time from the request to reboot a node until it is ready again, or has failed",
)
.buckets(REBOOTS);
pub(in crate::run) static NODES_REBOOT_RECOVERY: Metric = histogram(
    "karpenter_nodes_reboot_recovery_duration_seconds",
    &[],
    "Time from when the cloud accepts the reboot of a node until it is ready again",
)
.buckets(REBOOTS);
pub(in crate::run) static NODES_LIFETIME_DURATION: Metric =
    histogram("karpenter_nodes_lifetime_duration_seconds", &["nodepool"], "Age of nodes at their end").buckets(LIVES);
pub(in crate::run) static NODES_TERMINATION_DURATION: Metric = summary(
    "karpenter_nodes_termination_duration_seconds",
    &["nodepool"],
    "Time from the request to delete a Node until it is gone",
);
pub(in crate::run) static NODES_ALLOCATABLE: Metric =
    gauge("karpenter_nodes_allocatable", NODE_RESOURCE, "Resources that a node has for pods");
pub(in crate::run) static NODES_POD_REQUESTS: Metric = gauge(
    "karpenter_nodes_total_pod_requests",
    NODE_RESOURCE,
    "Requests of the pods of a node, those of DaemonSets included",
);
pub(in crate::run) static NODES_POD_LIMITS: Metric = gauge(
    "karpenter_nodes_total_pod_limits",
    NODE_RESOURCE,
    "Limits of the pods of a node, those of DaemonSets included",
);
pub(in crate::run) static NODES_DAEMON_REQUESTS: Metric =
    gauge("karpenter_nodes_total_daemon_requests", NODE_RESOURCE, "Requests of the pods of DaemonSets of a node");
pub(in crate::run) static NODES_DAEMON_LIMITS: Metric =
    gauge("karpenter_nodes_total_daemon_limits", NODE_RESOURCE, "Limits of the pods of DaemonSets of a node");
pub(in crate::run) static NODES_SYSTEM_OVERHEAD: Metric =
    gauge("karpenter_nodes_system_overhead", NODE_RESOURCE, "Resources that a node has and pods cannot use");
pub(in crate::run) static NODES_CURRENT_LIFETIME: Metric =
    gauge("karpenter_nodes_current_lifetime_seconds", NODE_LABELS, "Age of a node");

pub(super) const NODES: Chapter = Chapter {
    title: "Nodes",
    bound: "The gauges have one series for each node and resource (for `current_lifetime`, for each node), of at most \
            5,000 nodes; the others NodePools times zones",
    metrics: &[
        &NODES_CREATED,
        &NODES_TERMINATED,
        &NODES_DRAINED,
        &NODES_REBOOTS,
        &NODES_REBOOT_DURATION,
        &NODES_REBOOT_RECOVERY,
        &NODES_LIFETIME_DURATION,
        &NODES_TERMINATION_DURATION,
        &NODES_ALLOCATABLE,
        &NODES_POD_REQUESTS,
        &NODES_POD_LIMITS,
        &NODES_DAEMON_REQUESTS,
        &NODES_DAEMON_LIMITS,
        &NODES_SYSTEM_OVERHEAD,
        &NODES_CURRENT_LIFETIME,
    ],
};

pub(in crate::run) static CLUSTER_UTILIZATION: Metric = gauge(
    "karpenter_cluster_utilization_percent",
    &["resource_type"],
    "Share of what all nodes have for pods that pods request",
);
pub(in crate::run) static CLUSTER_STATE_NODE_COUNT: Metric =
    gauge("karpenter_cluster_state_node_count", &[], "Nodes that are known").presence(Presence::Always);
pub(in crate::run) static CLUSTER_STATE_SYNCED: Metric =
    gauge("karpenter_cluster_state_synced", &[], "1 once everything has been listed").presence(Presence::Always);
pub(in crate::run) static CLUSTER_STATE_UNSYNCED_TIME: Metric = gauge(
    "karpenter_cluster_state_unsynced_time_seconds",
    &[],
    "Time since the start of this process in which not everything has been listed; 0 once it has",
)
.presence(Presence::Always);

pub(super) const CLUSTER: Chapter = Chapter {
    title: "Cluster",
    bound: "one series, or one for each resource that nodes have",
    metrics: &[&CLUSTER_UTILIZATION, &CLUSTER_STATE_NODE_COUNT, &CLUSTER_STATE_SYNCED, &CLUSTER_STATE_UNSYNCED_TIME],
};
