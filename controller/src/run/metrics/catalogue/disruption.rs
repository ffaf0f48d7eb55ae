//! Decisions about nodes, and interruptions.

use super::{Chapter, Metric, Presence, counter, gauge, histogram};

pub(in crate::run) static DISRUPTION_DECISIONS: Metric = counter(
    "karpenter_voluntary_disruption_decisions_total",
    &["decision", "reason", "consolidation_type"],
    "Started disruption commands, by decision, reason and method",
);
pub(in crate::run) static DISRUPTION_DECISIONS_BY_NODEPOOL: Metric = counter(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    &["nodepool", "decision", "reason", "consolidation_type"],
    "The same, for each NodePool with a node of the command",
);
pub(in crate::run) static DISRUPTION_EVALUATION_DURATION: Metric = histogram(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    &["reason", "consolidation_type"],
    "Time from the snapshot of the cluster to the decision. One decision is about all reasons and methods, so both labels \
     are empty",
);
pub(in crate::run) static DISRUPTION_ELIGIBLE_NODES: Metric = gauge(
    "karpenter_voluntary_disruption_eligible_nodes",
    &["reason"],
    "Nodes that nothing but budgets and prices keeps from being disrupted, by reason",
);
pub(in crate::run) static DISRUPTION_TIMEOUTS: Metric = counter(
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    &["consolidation_type"],
    "Always 0: decisions about consolidation have no time limit",
)
.presence(Presence::Leading);
pub(in crate::run) static DISRUPTION_FAILED_VALIDATIONS: Metric = counter(
    "karpenter_voluntary_disruption_failed_validations_total",
    &["consolidation_type"],
    "Choices of which nothing was left when they were decided again. A choice may have several methods, so the label is \
     empty",
);
pub(in crate::run) static DISRUPTION_QUEUE_FAILURES: Metric = counter(
    "karpenter_voluntary_disruption_queue_failures_total",
    &["decision", "reason", "consolidation_type"],
    "Disruption commands that were rolled back, also partly",
);

pub(super) const DISRUPTION: Chapter = Chapter {
    title: "Disruption",
    bound: "reasons times decisions and methods, for `by_nodepool` times NodePools",
    metrics: &[
        &DISRUPTION_DECISIONS,
        &DISRUPTION_DECISIONS_BY_NODEPOOL,
        &DISRUPTION_EVALUATION_DURATION,
        &DISRUPTION_ELIGIBLE_NODES,
        &DISRUPTION_TIMEOUTS,
        &DISRUPTION_FAILED_VALIDATIONS,
        &DISRUPTION_QUEUE_FAILURES,
    ],
};

pub(in crate::run) static DELETION_COST_WRITES: Metric = counter(
    "karpenter_pod_deletion_cost_pod_annotation_writes_total",
    &["result"],
    "Writes of the deletion cost of pods, by result; what is unchanged is not written",
);
pub(in crate::run) static DELETION_COST_NODES: Metric = gauge(
    "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes",
    &["nodepool"],
    "Nodes whose pods got another deletion cost in the last pass",
)
.presence(Presence::Once);

pub(super) const DELETION_COSTS: Chapter = Chapter {
    title: "Pod deletion cost",
    bound: "NodePools, and one series for each result; only with the feature gate PodDeletionCostManagement",
    metrics: &[&DELETION_COST_WRITES, &DELETION_COST_NODES],
};

pub(in crate::run) static INTERRUPTION_RECEIVED: Metric = counter(
    "karpenter_interruption_received_messages_total",
    &["message_type"],
    "Messages of the interruption queue, by kind; `no_op` is about nothing that matters here",
);
pub(in crate::run) static INTERRUPTION_DELETED: Metric = counter(
    "karpenter_interruption_deleted_messages_total",
    &[],
    "Messages of the interruption queue that were deleted, as they were acted upon, of no interest or malformed",
);
pub(in crate::run) static INTERRUPTION_QUEUE_DURATION: Metric =
    histogram("karpenter_interruption_message_queue_duration_seconds", &[], "Time from a notice to its reception");
pub(in crate::run) static INTERRUPTION_UNHEALTHY: Metric = counter(
    "karpenter_interruption_instance_status_unhealthy_total",
    &["category"],
    "Instances of NodeClaims that began to fail a status check or have a scheduled event",
);
pub(in crate::run) static INTERRUPTED: Metric = counter(
    "muster_nodeclaims_interrupted_total",
    &["reason"],
    "NodeClaims that the queue, an agent, a status check or the end of a capacity block has set the condition `Interrupted` on, \
     by its reason",
);

pub(super) const INTERRUPTION: Chapter = Chapter {
    title: "Interruption",
    bound: "one series for each kind of notice",
    metrics: &[
        &INTERRUPTION_RECEIVED,
        &INTERRUPTION_DELETED,
        &INTERRUPTION_QUEUE_DURATION,
        &INTERRUPTION_UNHEALTHY,
        &INTERRUPTED,
    ],
};
