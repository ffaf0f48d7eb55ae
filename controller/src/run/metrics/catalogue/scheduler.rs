//! Decisions about pods without a node.

use super::{Chapter, Metric, gauge, histogram};

/// Controller that decides about pods.
pub(in crate::run) const PROVISIONER: &str = "provisioner";

pub(in crate::run) static SCHEDULING_DURATION: Metric = histogram(
    "karpenter_scheduler_scheduling_duration_seconds",
    &["controller"],
    "Time from the snapshot of the cluster to the decision",
);
pub(in crate::run) static SCHEDULER_QUEUE_DEPTH: Metric =
    gauge("karpenter_scheduler_queue_depth", &["controller", "scheduling_id"], "Pods of the last decision");
pub(in crate::run) static SCHEDULER_UNFINISHED_WORK: Metric = gauge(
    "karpenter_scheduler_unfinished_work_seconds",
    &["controller", "scheduling_id"],
    "Time since the beginning of the decision in progress; 0 between decisions",
);
pub(in crate::run) static SCHEDULER_UNSCHEDULABLE_PODS: Metric = gauge(
    "karpenter_scheduler_unschedulable_pods_count",
    &["controller"],
    "Pods of the last decision that are unschedulable",
);
pub(in crate::run) static SCHEDULER_IGNORED_PODS: Metric =
    gauge("karpenter_scheduler_ignored_pods_count", &[], "Pods that ask for nodes of no pool");
pub(in crate::run) static SCHEDULER_PENDING_BY_ZONE: Metric = gauge(
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    &["controller", "zone"],
    "Pods without a node, by the zone that their node selectors and affinities leave: its name, `flexible`, or `none`",
);

pub(super) const SCHEDULER: Chapter = Chapter {
    title: "Scheduler",
    bound: "one series, or one for each zone that pods name, at most 100; `scheduling_id` is empty, since each decision \
            would make another series",
    metrics: &[
        &SCHEDULING_DURATION,
        &SCHEDULER_QUEUE_DEPTH,
        &SCHEDULER_UNFINISHED_WORK,
        &SCHEDULER_UNSCHEDULABLE_PODS,
        &SCHEDULER_IGNORED_PODS,
        &SCHEDULER_PENDING_BY_ZONE,
    ],
};
