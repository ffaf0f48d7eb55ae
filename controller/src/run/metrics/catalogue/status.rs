//! Status conditions and deletions of objects, by kind.

use super::{Chapter, Metric, counter, gauge, histogram};

const CONDITION: &[&str] = &["namespace", "name", "type", "status", "reason"];

/// Metrics of one kind of objects.
#[derive(Debug)]
pub(in crate::run) struct OfKind {
    pub(in crate::run) count: Metric,
    pub(in crate::run) current: Metric,
    pub(in crate::run) transitions: Metric,
    pub(in crate::run) transition: Metric,
    pub(in crate::run) terminating: Metric,
    pub(in crate::run) termination: Metric,
}

macro_rules! of_kind {
    ($kind:literal) => {
        OfKind {
            count: gauge(
                concat!("operator_", $kind, "_status_condition_count"),
                CONDITION,
                "1 for each status condition of an object",
            ),
            current: gauge(
                concat!("operator_", $kind, "_status_condition_current_status_seconds"),
                CONDITION,
                "Time since a status condition changed its status",
            ),
            transitions: counter(
                concat!("operator_", $kind, "_status_condition_transitions_total"),
                &["type", "status", "reason"],
                "Changes of status conditions",
            ),
            transition: histogram(
                concat!("operator_", $kind, "_status_condition_transition_seconds"),
                &["type", "status", "to_status"],
                "Time that status conditions had their status before they changed it",
            ),
            terminating: gauge(
                concat!("operator_", $kind, "_termination_current_time_seconds"),
                &["namespace", "name"],
                "Time since the request to delete an object that is still there",
            )
            .presence(super::Presence::Once),
            termination: histogram(
                concat!("operator_", $kind, "_termination_duration_seconds"),
                &[],
                "Time from the request to delete an object until it is gone",
            ),
        }
    };
}

pub(in crate::run) static OF_NODECLAIMS: OfKind = of_kind!("nodeclaim");
pub(in crate::run) static OF_NODEPOOLS: OfKind = of_kind!("nodepool");
pub(in crate::run) static OF_NODES: OfKind = of_kind!("node");
pub(in crate::run) static OF_EC2_CLASSES: OfKind = of_kind!("ec2nodeclass");
pub(in crate::run) static OF_KWOK_CLASSES: OfKind = of_kind!("kwoknodeclass");

macro_rules! all {
    ($($kind:ident),*) => {
        &[$(&$kind.count, &$kind.current, &$kind.transitions, &$kind.transition, &$kind.terminating, &$kind.termination),*]
    };
}

pub(super) const STATUS: Chapter = Chapter {
    title: "Status conditions",
    bound: "The gauges have one series for each condition of an object, of at most 5,000 objects of a kind; the others \
            types times statuses and reasons, at most 2,000",
    metrics: all!(OF_NODECLAIMS, OF_NODEPOOLS, OF_NODES, OF_EC2_CLASSES, OF_KWOK_CLASSES),
};
