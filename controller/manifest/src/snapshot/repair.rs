//! Unhealthy nodes: the conditions for which Karpenter's providers repair nodes.
//!
//! | condition | status | reason | tolerated | drain | action | of 1.14 |
//! |---|---|---|---|---|---|---|
//! | Ready | False, Unknown | any | 30 min | 10 min | replace | 30 min |
//! | AcceleratedHardwareReady | False | `XID` and a number of [`LOST`] | 10 min | 5 min | replace | 10 min |
//! | | | `XID` and a number of [`WEDGED`] | 10 min | 5 min | reboot | 10 min |
//! | | | any other | 30 min | 10 min | replace | 10 min |
//! | StorageReady, NetworkingReady, KernelReady, … | False | any | 30 min | 10 min | replace | 30 min |
//!
//! A reason with numbers of both asks for a replacement. Without the gate `RebootForRepair`, and by the policies of
//! 1.14, everything is replaced.
//!
//! Those other than Ready are set by the EKS node monitoring agent. Nodes that KWOK simulates are given 10 min with
//! Ready, as by Karpenter's provider for KWOK.

use jiff::{SignedDuration, Timestamp};
use muster_scheduling::disrupt::{RepairAction, RepairCondition};

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

/// Faults of a GPU (XID) that need a new instance.
const LOST: [&str; 5] = ["64", "74", "79", "119", "120"];
/// Faults of a GPU after which it does not recover by itself, and which a reboot might mend.
const WEDGED: [&str; 14] = ["46", "48", "54", "62", "63", "95", "109", "110", "136", "140", "143", "155", "156", "158"];

/// A fault that is grave is tolerated and drained for so many minutes.
const GRAVE_POLICY: (i64, i64) = (10, 5);
/// Any other is tolerated and drained for so many minutes.
const ANY_POLICY: (i64, i64) = (30, 10);

const KWOK: &str = "KWOKNodeClass";
/// Minutes for which Ready is tolerated on nodes that KWOK simulates.
const OF_KWOK: i64 = 10;

/// Policies by which nodes are repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairPolicy {
    /// True for the policies of Karpenter 1.14, which do not bound the drain.
    pub is_legacy: bool,
    /// True if nodes may be rebooted.
    pub reboots: bool,
}

/// Returns the conditions of a node with a class of this kind that are to be repaired, the first to be due first. No
/// condition has stood for longer than since `rebooted`, the end of the node's last reboot.
pub(super) fn repair_conditions(
    node: &Node,
    class_kind: &str,
    policy: RepairPolicy,
    rebooted: Option<Timestamp>,
) -> Vec<RepairCondition> {
    let is_legacy = policy.is_legacy;
    let mut found: Vec<RepairCondition> = node
        .conditions
        .iter()
        .filter_map(|condition| {
            let Condition { kind, status, reason, .. } = condition;
            let known = |(of, is, _): &&(&str, &str, i64)| *of == &**kind && *is == &**status;
            let &(_, _, of_1_14) = CONDITIONS.iter().find(known)?;
            let is_of_kwok = class_kind == KWOK && &**kind == READY;
            let is_grave = &**kind == ACCELERATED_HARDWARE_READY && (names(reason, &LOST) || names(reason, &WEDGED));
            let (tolerated, drain) = if is_grave { GRAVE_POLICY } else { ANY_POLICY };
            let is_mended = is_grave && !names(reason, &LOST) && can_reboot(class_kind, policy);
            Some(RepairCondition {
                condition: format!("{kind}={status}").into(),
                reason: reason.clone(),
                // A condition that does not say since when it holds has held since the node was created.
                since: moment(condition.since.as_deref().or(node.meta.created.as_deref())).max(rebooted)?,
                tolerated: SignedDuration::from_mins(match (is_of_kwok, is_legacy) {
                    (true, _) => OF_KWOK,
                    (false, true) => of_1_14,
                    (false, false) => tolerated,
                }),
                drain: (!is_legacy).then(|| SignedDuration::from_mins(drain)),
                action: if is_mended { RepairAction::Reboot } else { RepairAction::Replace },
            })
        })
        .collect();
    found.sort_by(|a, b| a.due().cmp(&b.due()).then_with(|| a.condition.cmp(&b.condition)));
    found
}

/// Returns true if the reason contains `XID` and one of the numbers. As in Karpenter, `XID480` counts as 48.
fn names(reason: &str, numbers: &[&str]) -> bool {
    reason.split("XID").skip(1).any(|rest| numbers.iter().any(|number| rest.starts_with(number)))
}

/// Returns true if nodes with a class of this kind may be rebooted. Those that KWOK simulates have nothing to reboot.
fn can_reboot(class_kind: &str, policy: RepairPolicy) -> bool {
    policy.reboots && !policy.is_legacy && class_kind != KWOK
}

/// Returns the conditions of `node`, which has a class of this kind, whose repair is due at `now`.
#[must_use]
pub fn conditions_due(node: &Node, class_kind: &str, policy: RepairPolicy, now: Timestamp) -> Vec<Condition> {
    let due = repair_conditions(node, class_kind, policy, None).into_iter().filter(|one| one.due() <= now);
    let names: Vec<_> = due.map(|one| one.condition).collect();
    let is_due = |one: &&Condition| names.iter().any(|name| **name == format!("{}={}", one.kind, one.status));
    node.conditions.iter().filter(is_due).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_gpus_are_told_apart_as_karpenter_does() {
        for (reason, is_lost, is_wedged) in [
            ("NvidiaXID79Error", true, false),
            ("NvidiaXID48Error", false, true),
            ("NvidiaXID640", true, false),
            ("NvidiaXID480", false, true),
            ("NvidiaXID13Error", false, false),
            ("NvidiaXID", false, false),
            ("79", false, false),
            ("XID1XID120", true, false),
            ("XID79XID48", true, true),
            ("", false, false),
        ] {
            assert_eq!((names(reason, &LOST), names(reason, &WEDGED)), (is_lost, is_wedged), "{reason}");
        }
    }

    #[test]
    fn nodes_are_rebooted_where_the_gate_the_policies_and_the_cloud_allow_it() {
        let policy = RepairPolicy { is_legacy: false, reboots: true };
        assert!(can_reboot("EC2NodeClass", policy));
        assert!(!can_reboot(KWOK, policy));
        assert!(!can_reboot("EC2NodeClass", RepairPolicy { is_legacy: true, ..policy }));
        assert!(!can_reboot("EC2NodeClass", RepairPolicy { reboots: false, ..policy }));
    }
}
