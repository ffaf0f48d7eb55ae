//! Pods.

use super::{Chapter, Metric, counter, gauge, histogram, summary};

const NAMED: &[&str] = &["name", "namespace"];
const NAMED_WITH_RESOURCES: &[&str] = &["name", "namespace", "dynamic_resources"];

pub(in crate::run) static PODS_STATE: Metric = gauge(
    "karpenter_pods_state",
    &[
        "name",
        "namespace",
        "owner",
        "node",
        "scheduled",
        "nodepool",
        "zone",
        "arch",
        "capacity_type",
        "instance_type",
        "phase",
        "ready",
        "managed",
    ],
    "1 for each pod that has not ended, with its node",
);
pub(in crate::run) static PODS_STARTUP_DURATION: Metric =
    summary("karpenter_pods_startup_duration_seconds", &[], "Time from the creation of a pod until it is ready");
pub(in crate::run) static PODS_BOUND_DURATION: Metric = histogram(
    "karpenter_pods_bound_duration_seconds",
    &["dynamic_resources"],
    "Time from the creation of a pod until it is bound",
);
pub(in crate::run) static PODS_UNBOUND_TIME: Metric =
    gauge("karpenter_pods_unbound_time_seconds", NAMED_WITH_RESOURCES, "Age of a pod that is not bound");
pub(in crate::run) static PODS_UNSTARTED_TIME: Metric =
    gauge("karpenter_pods_unstarted_time_seconds", NAMED, "Age of a pod that has not been ready yet");
pub(in crate::run) static PODS_PROVISIONING_BOUND_DURATION: Metric = histogram(
    "karpenter_pods_provisioning_bound_duration_seconds",
    &["dynamic_resources"],
    "Time from the decision that gave a pod a node until it is bound",
);
pub(in crate::run) static PODS_PROVISIONING_UNBOUND_TIME: Metric = gauge(
    "karpenter_pods_provisioning_unbound_time_seconds",
    NAMED_WITH_RESOURCES,
    "Time since the decision that gave a pod a node, while it is not bound",
);
pub(in crate::run) static PODS_PROVISIONING_STARTUP_DURATION: Metric = histogram(
    "karpenter_pods_provisioning_startup_duration_seconds",
    &[],
    "Time from the decision that gave a pod a node until it is ready",
);
pub(in crate::run) static PODS_PROVISIONING_UNSTARTED_TIME: Metric = gauge(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    NAMED,
    "Time since the decision that gave a pod a node, while it has not been ready yet",
);
pub(in crate::run) static PODS_UNDECIDED_TIME: Metric = gauge(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    NAMED,
    "Time since a pod without a node was seen, while nothing has been decided about it",
);
pub(in crate::run) static PODS_DECISION_DURATION: Metric = histogram(
    "karpenter_pods_scheduling_decision_duration_seconds",
    &[],
    "Time from when a pod without a node is seen until the first decision about it",
);
pub(in crate::run) static PODS_DISRUPTION_INITIATED: Metric = counter(
    "karpenter_pods_disruption_initiated_total",
    &["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
    "Pods that have to move because their nodes are disrupted",
);
pub(in crate::run) static PODS_EVICTION_REQUESTS: Metric = counter(
    "karpenter_pods_eviction_requests_total",
    &["code"],
    "Requests to evict a pod, by status code of the answer",
);
pub(in crate::run) static PODS_DRAINED: Metric = counter(
    "karpenter_pods_drained_total",
    &["reason"],
    "Pods evicted or deleted while their nodes were terminated, by the reason of the disruption",
);

pub(super) const PODS: Chapter = Chapter {
    title: "Pods",
    bound: "The gauges have one series for each pod, of at most 25,000 pods (`state`) or 5,000 (the others); where there \
            are more, each namespace has an equal share. The others: fewer than 2,000",
    metrics: &[
        &PODS_STATE,
        &PODS_STARTUP_DURATION,
        &PODS_BOUND_DURATION,
        &PODS_UNBOUND_TIME,
        &PODS_UNSTARTED_TIME,
        &PODS_PROVISIONING_BOUND_DURATION,
        &PODS_PROVISIONING_UNBOUND_TIME,
        &PODS_PROVISIONING_STARTUP_DURATION,
        &PODS_PROVISIONING_UNSTARTED_TIME,
        &PODS_UNDECIDED_TIME,
        &PODS_DECISION_DURATION,
        &PODS_DISRUPTION_INITIATED,
        &PODS_EVICTION_REQUESTS,
        &PODS_DRAINED,
    ],
};
