//! Unhealthy nodes: the conditions for which Karpenter's providers replace nodes.
//!
//! | condition | status | reason | tolerated | drain | of 1.14 |
//! |---|---|---|---|---|---|
//! | Ready | False, Unknown | any | 30 min | 10 min | 30 min |
//! | AcceleratedHardwareReady | False | `XID` and a number of [`GRAVE`] | 10 min | 5 min | 10 min |
//! | | | any other | 30 min | 10 min | 10 min |
//! | StorageReady, NetworkingReady, KernelReady, ContainerRuntimeReady | False | any | 30 min | 10 min | 30 min |
//!
//! Those other than Ready are set by the EKS node monitoring agent. Nodes that KWOK simulates are given 10 min with
//! Ready, as by Karpenter's provider for KWOK.

use jiff::{SignedDuration, Timestamp};
use muster_scheduling::disrupt::RepairCondition;

use super::disruption::moment;
use crate::{Condition, Node};

/// Condition and status, with the minutes for which 1.14 tolerates them.
const CONDITIONS: [(&str, &str, i64); 7] = [
    (READY, "False", 30),
    (READY, "Unknown", 30),
    (ACCELERATED_HARDWARE_READY, "False", 10),
    ("StorageReady", "False", 30),
    ("NetworkingReady", "False", 30),
    ("KernelReady", "False", 30),
    ("ContainerRuntimeReady", "False", 30),
];

const READY: &str = "Ready";
const ACCELERATED_HARDWARE_READY: &str = "AcceleratedHardwareReady";

/// Faults of a GPU (XID) after which it does not recover: those that need a new instance, and those that a reboot might
/// mend, for which a new instance is the other remedy.
const GRAVE: [&str; 19] = [
    "64", "74", "79", "119", "120", "46", "48", "54", "62", "63", "95", "109", "110", "136", "140", "143", "155",
    "156", "158",
];

/// A fault that is grave is tolerated and drained for so many minutes.
const GRAVE_POLICY: (i64, i64) = (10, 5);
/// Any other is tolerated and drained for so many minutes.
const ANY_POLICY: (i64, i64) = (30, 10);

const KWOK: &str = "KWOKNodeClass";
/// Minutes for which Ready is tolerated on nodes that KWOK simulates.
const OF_KWOK: i64 = 10;

/// Returns the conditions of a node with a class of this kind that are to be repaired, the first to be due first.
/// `is_legacy`: by the policies of Karpenter 1.14, which do not bound the drain.
pub(super) fn repair_conditions(node: &Node, class_kind: &str, is_legacy: bool) -> Vec<RepairCondition> {
    let mut found: Vec<RepairCondition> = node
        .conditions
        .iter()
        .filter_map(|condition| {
            let Condition { kind, status, reason, .. } = condition;
            let known = |(of, is, _): &&(&str, &str, i64)| *of == &**kind && *is == &**status;
            let &(_, _, of_1_14) = CONDITIONS.iter().find(known)?;
            let is_of_kwok = class_kind == KWOK && &**kind == READY;
            let (tolerated, drain) =
                if &**kind == ACCELERATED_HARDWARE_READY && is_grave(reason) { GRAVE_POLICY } else { ANY_POLICY };
            Some(RepairCondition {
                condition: format!("{kind}={status}").into(),
                reason: reason.clone(),
                // A condition that does not say since when it holds has held since the node was created.
                since: moment(condition.since.as_deref().or(node.meta.created.as_deref()))?,
                tolerated: SignedDuration::from_mins(match (is_of_kwok, is_legacy) {
                    (true, _) => OF_KWOK,
                    (false, true) => of_1_14,
                    (false, false) => tolerated,
                }),
                drain: (!is_legacy).then(|| SignedDuration::from_mins(drain)),
            })
        })
        .collect();
    found.sort_by(|a, b| a.due().cmp(&b.due()).then_with(|| a.condition.cmp(&b.condition)));
    found
}

/// Returns true if the reason contains `XID` and one of the numbers. As in Karpenter, `XID480` counts as 48.
fn is_grave(reason: &str) -> bool {
    reason.split("XID").skip(1).any(|rest| GRAVE.iter().any(|number| rest.starts_with(number)))
}

/// Returns the conditions of `node`, which has a class of this kind, whose repair is due at `now`.
#[must_use]
pub fn conditions_due(node: &Node, class_kind: &str, is_legacy: bool, now: Timestamp) -> Vec<Condition> {
    let due = repair_conditions(node, class_kind, is_legacy).into_iter().filter(|one| one.due() <= now);
    let names: Vec<_> = due.map(|one| one.condition).collect();
    let is_due = |one: &&Condition| names.iter().any(|name| **name == format!("{}={}", one.kind, one.status));
    node.conditions.iter().filter(is_due).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_gpus_are_told_apart_as_karpenter_does() {
        for (reason, expected) in [
            ("NvidiaXID79Error", true),
            ("NvidiaXID48Error", true),
            ("NvidiaXID640", true),
            ("NvidiaXID13Error", false),
            ("NvidiaXID", false),
            ("79", false),
            ("XID1XID120", true),
            ("", false),
        ] {
            assert_eq!(is_grave(reason), expected, "{reason}");
        }
    }
}
