//! Resources that are reserved from pods: quantities, CPUs, memory, and the cgroups that enforce the reservation.
//!
//! Source: `pkg/kubelet/apis/config/validation`, `cmd/kubelet/app/server.go` (parseResourceList).

use std::collections::BTreeSet;

use serde_json::Value;

use super::Whole;
use crate::finding::Findings;
use crate::kubelet::config::quantity;
use crate::kubelet::version::Minor;
use crate::verdicts;

/// Values of `enforceNodeAllocatable`, each with the field that it requires and the first version that accepts it.
const ENFORCEMENTS: [(&str, &str, Minor); 6] = [
    ("none", "", Minor::OLDEST),
    ("pods", "", Minor::OLDEST),
    ("system-reserved", "systemReservedCgroup", Minor::OLDEST),
    ("system-reserved-compressible", "systemReservedCgroup", Minor(32)),
    ("kube-reserved", "kubeReservedCgroup", Minor::OLDEST),
    ("kube-reserved-compressible", "kubeReservedCgroup", Minor(32)),
];

/// Judges the reservations.
pub(super) fn check(whole: &Whole<'_>, version: Option<Minor>, findings: &mut Findings) {
    const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
    for field in ["kubeReserved", "systemReserved"] {
        for (resource, amount) in whole.values.get(field).and_then(Value::as_object).into_iter().flatten() {
            let text = amount.as_str().unwrap_or_default();
            if !RESERVABLE.contains(&resource.as_str()) {
                whole.refuse(&verdicts::KA14, field, format!("`{field}` cannot reserve `{resource}`"), findings);
            } else if amount.is_string() && quantity(text).is_none_or(|amount| amount < 0.0) {
                let message = format!("`{text}` of `{field}.{resource}` is not an amount");
                whole.refuse(&verdicts::KA14, field, message, findings);
            }
        }
    }
    if whole.is_set("reservedSystemCPUs")
        && (whole.is_set("systemReservedCgroup") || whole.is_set("kubeReservedCgroup"))
    {
        let message = "`reservedSystemCPUs` is set together with `systemReservedCgroup` or `kubeReservedCgroup`";
        whole.refuse(&verdicts::KA15, "reservedSystemCPUs", message, findings);
    }
    enforcements(whole, version, findings);
    processors(whole, findings);
    memory(whole, findings);
}

fn enforcements(whole: &Whole<'_>, version: Option<Minor>, findings: &mut Findings) {
    let field = "enforceNodeAllocatable";
    let enforced: Vec<&str> = whole.items(field).iter().filter_map(Value::as_str).collect();
    for (index, value) in enforced.iter().copied().enumerate() {
        let compressible = format!("{value}-compressible");
        let message = match ENFORCEMENTS.iter().find(|(name, ..)| *name == value) {
            None => format!("`{field}` cannot hold `{value}`"),
            Some((_, _, from)) if version.is_some_and(|version| version < *from) => {
                format!("`{value}` in `{field}` is available from {from}")
            }
            Some(("none", ..)) if enforced.len() > 1 => format!("`none` must be alone in `{field}`"),
            Some(("none", ..)) => continue,
            Some((_, needed, _)) if !needed.is_empty() && !whole.is_set(needed) => {
                format!("`{value}` in `{field}` needs `{needed}`")
            }
            Some(_) if enforced[..index].contains(&value) && version.is_none_or(|it| it >= Minor(31)) => {
                format!("`{value}` occurs twice in `{field}`")
            }
            Some(_) if enforced.contains(&compressible.as_str()) => {
                format!("`{value}` and `{compressible}` exclude each other in `{field}`")
            }
            Some(_) if whole.boolean("cgroupsPerQOS") == Some(false) => {
                format!("`{value}` in `{field}` needs `cgroupsPerQOS: true`")
            }
            Some(_) => continue,
        };
        whole.refuse(&verdicts::KA14, field, message, findings);
    }
}

/// Returns the quantity of a resource that both fields reserve together; `None` if the bootstrap adds an unknown
/// quantity.
fn reserved(whole: &Whole<'_>, resource: &str) -> Option<f64> {
    let of = |field: &str| whole.values.get(field).and_then(|it| it.get(resource)).and_then(Value::as_str);
    let of_kubelet = of("kubeReserved");
    if of_kubelet.is_none() && !whole.is_complete() {
        return None;
    }
    let amount = |text: Option<&str>| text.map_or(Some(0.0), quantity);
    Some(amount(of_kubelet)? + amount(of("systemReserved"))?)
}

/// Checks the static policy of the CPU manager. It separates exclusive CPUs from reserved CPUs, so some CPU must be
/// reserved. Source: `pkg/kubelet/cm/cpumanager/cpu_manager.go`.
fn processors(whole: &Whole<'_>, findings: &mut Findings) {
    let field = "cpuManagerPolicy";
    if whole.text(field) == Some("static")
        && !whole.is_set("reservedSystemCPUs")
        && reserved(whole, "cpu").is_some_and(|amount| amount <= 0.0)
    {
        let message = "the static policy of the CPU manager needs CPU in `kubeReserved`, `systemReserved` or \
                       `reservedSystemCPUs`";
        whole.refuse(&verdicts::KA14, field, message, findings);
    }
}

/// Checks the static policy of the memory manager. It requires the NUMA nodes of the reserved memory, and an exact sum.
/// Source: `pkg/kubelet/cm/memorymanager/{memory_manager,policy_static}.go`.
fn memory(whole: &Whole<'_>, findings: &mut Findings) {
    let (policy, field) = ("memoryManagerPolicy", "reservedMemory");
    let is_open = whole.parsed.last("reserved-memory").is_some();
    let nodes = whole.items(field);
    let mut seen = BTreeSet::new();
    let mut sum = Some(0.0);
    for node in nodes {
        let number = node.get("numaNode").and_then(Value::as_i64).unwrap_or_default();
        for (resource, amount) in node.get("limits").and_then(Value::as_object).into_iter().flatten() {
            let amount = match amount {
                Value::String(text) => quantity(text),
                other => other.as_f64(),
            };
            if resource == "memory" {
                sum = sum.zip(amount).map(|(sum, amount)| sum + amount);
            } else if !resource.starts_with("hugepages-") {
                let message = format!("`{field}` can hold `memory` and `hugepages-…`, not `{resource}`");
                whole.refuse(&verdicts::KA14, field, message, findings);
            }
            if amount.is_none_or(|amount| amount <= 0.0) {
                let message = format!("`{resource}` of NUMA node {number} in `{field}` must be an amount above zero");
                whole.refuse(&verdicts::KA14, field, message, findings);
            }
            if !seen.insert((number, resource.as_str())) {
                let message = format!("`{resource}` of NUMA node {number} occurs twice in `{field}`");
                whole.refuse(&verdicts::KA14, field, message, findings);
            }
        }
    }
    if whole.text(policy) != Some("Static") || is_open {
        return;
    }
    if nodes.is_empty() {
        return whole.refuse(&verdicts::KA14, policy, format!("`{policy}: Static` needs `{field}`"), findings);
    }
    let (Some(sum), Some(reserved), Some(evicted)) = (sum, reserved(whole, "memory"), eviction(whole)) else { return };
    if (sum - reserved - evicted).abs() >= 1.0 {
        let message = format!(
            "the memory of `{field}` is {}, and that of `kubeReserved`, `systemReserved` and `evictionHard` together {}",
            mebibytes(sum),
            mebibytes(reserved + evicted)
        );
        whole.refuse(&verdicts::KA14, field, message, findings);
    }
}

fn mebibytes(bytes: f64) -> String {
    format!("{} Mi", (bytes / 1_048_576.0 * 100.0).round() / 100.0)
}

/// Returns the memory that hard eviction keeps free, in bytes; `None` if it is a percentage. The default of the kubelet
/// and of EKS images is 100Mi. A configuration of other signals replaces it, unless the settings are merged.
fn eviction(whole: &Whole<'_>) -> Option<f64> {
    let signals = whole.values.get("evictionHard").and_then(Value::as_object);
    let is_default =
        signals.is_none() || !whole.is_complete() || whole.boolean("mergeDefaultEvictionSettings") == Some(true);
    match signals.and_then(|signals| signals.get("memory.available")).and_then(Value::as_str) {
        Some(text) => quantity(text),
        None if is_default => quantity("100Mi"),
        None => Some(0.0),
    }
}
