//! Unhealthy nodes: the conditions for which Karpenter's AWS provider replaces nodes.

use std::cmp::Reverse;

use jiff::SignedDuration;
use muster_scheduling::disrupt::RepairCondition;

use super::disruption::moment;
use crate::Condition;

/// Condition, status, and tolerated duration in minutes. Those other than Ready are set by the EKS node monitoring
/// agent.
const POLICIES: [(&str, &str, i64); 7] = [
    ("Ready", "False", 30),
    ("Ready", "Unknown", 30),
    ("AcceleratedHardwareReady", "False", 10),
    ("StorageReady", "False", 30),
    ("NetworkingReady", "False", 30),
    ("KernelReady", "False", 30),
    ("ContainerRuntimeReady", "False", 30),
];

/// Returns the condition whose tolerated duration ends first.
pub(super) fn repair_condition(conditions: &[Condition]) -> Option<RepairCondition> {
    let repair_conditions = POLICIES.iter().filter_map(|&(kind, status, minutes)| {
        let condition = conditions.iter().find(|one| &*one.kind == kind && &*one.status == status)?;
        Some(RepairCondition {
            condition: format!("{kind}={status}").into(),
            since: moment(condition.since.as_deref())?,
            tolerated: SignedDuration::from_mins(minutes),
        })
    });
    repair_conditions.max_by_key(|repair_condition| {
        Reverse(repair_condition.since.checked_add(repair_condition.tolerated).unwrap_or(repair_condition.since))
    })
}
