//! The kubelet's configuration.

use serde_json::{Map, Value};

use crate::facts::Facts;
use crate::family::Family;
use crate::finding::Findings;
use crate::kubelet::arguments::Parsed;
use crate::kubelet::config::{self, Form, Layer, duration, flag_of, quantity};
use crate::kubelet::gates;
use crate::kubelet::schema::{FieldFaultKind, KUBELET};
use crate::kubelet::version::Minor;
use crate::network::Network;
use crate::place::Place;
use crate::rules::arguments::gate_message;
use crate::rules::pods;
use crate::verdicts;

/// Judges the fields of each document against the version.
pub(crate) fn fields(facts: &Facts, version: Option<Minor>, findings: &mut Findings) {
    for layer in &facts.layers {
        identity(layer, findings);
        for fault in KUBELET.check(&layer.tree, version) {
            let place = layer.source.at(fault.line.max(1));
            let path = &fault.path;
            match &fault.kind {
                FieldFaultKind::Type { wanted, found } => {
                    let message = format!("field `{path}` must be {wanted}, not {found}");
                    findings.add(layer.form.unreadable(), message, place, path);
                }
                FieldFaultKind::Unknown { nearest } => {
                    let meant = nearest.as_ref().map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
                    findings.add(&verdicts::KA13, format!("no kubelet reads field `{path}`{meant}"), place, path);
                }
                FieldFaultKind::OtherVersion { from, to } => {
                    let message = match version.filter(|version| version < from) {
                        Some(_) => format!("field `{path}` comes with {from}"),
                        None => format!("field `{path}` is gone since {}", Minor(to.0.saturating_add(1))),
                    };
                    findings.add(&verdicts::KA13, message, place, path);
                }
                FieldFaultKind::Twice => {
                    findings.add(
                        &verdicts::KA13,
                        format!("field `{path}` stands twice; the last one counts"),
                        place,
                        path,
                    );
                }
            }
        }
        for (name, line, value) in layer.tree.get("featureGates").map(crate::tree::Tree::entries).unwrap_or_default() {
            if let Some(fault) = value.boolean().and_then(|value| gates::fault(name, value, version)) {
                findings.add(&verdicts::KA10, gate_message(name, fault), layer.source.at((*line).max(1)), name);
            }
        }
    }
}

/// A file says what it is; a field of another document has no need to.
fn identity(layer: &Layer, findings: &mut Findings) {
    if layer.form == Form::Field {
        return;
    }
    let text = |key: &str| layer.tree.get(key).and_then(crate::tree::Tree::text).unwrap_or_default();
    for (key, expected) in [("apiVersion", "kubelet.config.k8s.io/v1beta1"), ("kind", "KubeletConfiguration")] {
        if text(key) != expected {
            let line = layer.tree.entry(key).map_or(1, |(line, _)| line);
            let message = format!("{key} must be `{expected}`");
            let (place, fix) = (layer.source.at(line.max(1)), format!("write `{key}: {expected}`"));
            findings.add_with_fix(&verdicts::KA12, message, &fix, place, format!("{key}: {}", text(key)));
        }
    }
}

/// What the rules about the whole see: the merged configuration with the flags over it.
struct Whole<'f> {
    facts: &'f Facts,
    parsed: &'f Parsed,
    values: Map<String, Value>,
}

impl Whole<'_> {
    fn text(&self, field: &str) -> Option<&str> {
        self.values.get(field).and_then(Value::as_str)
    }

    fn number(&self, field: &str) -> Option<i64> {
        self.values.get(field).and_then(Value::as_i64)
    }

    fn boolean(&self, field: &str) -> Option<bool> {
        self.values.get(field).and_then(Value::as_bool)
    }

    /// Where a field gets its value: the flag that stands over it, else the last document that has it.
    fn place(&self, field: &str) -> (Place, String) {
        let flag = flag_of(field).and_then(|flag| self.parsed.last(flag));
        if let Some(argument) = flag.and_then(|given| self.facts.arguments.get(given.index)) {
            return (argument.place.clone(), argument.text.clone());
        }
        let value = self.values.get(field).map(ToString::to_string).unwrap_or_default();
        let of_layer = |layer: &Layer| layer.tree.entry(field).map(|(line, _)| layer.source.at(line.max(1)));
        let place = self.facts.layers.iter().rev().find_map(of_layer);
        let place = place.unwrap_or_else(|| Place { source: "kubelet".into(), line: None });
        (place, format!("{field}: {value}"))
    }

    fn refuse(
        &self,
        verdict: &'static verdicts::Verdict,
        field: &str,
        message: impl AsRef<str>,
        findings: &mut Findings,
    ) {
        let (place, text) = self.place(field);
        findings.add(verdict, message, place, text);
    }
}

/// Bounds that the kubelet checks: field, least, most.
/// Source: `pkg/kubelet/apis/config/validation/validation.go`, the same in 1.29 to 1.37.
const BOUNDS: [(&str, i64, i64); 17] = [
    ("containerLogMaxFiles", 2, i64::MAX),
    ("containerLogMaxWorkers", 1, i64::MAX),
    ("eventBurst", 0, i64::MAX),
    ("eventRecordQPS", 0, i64::MAX),
    ("healthzPort", 0, 65_535),
    ("imageGCHighThresholdPercent", 0, 100),
    ("imageGCLowThresholdPercent", 0, 100),
    ("kubeAPIBurst", 0, i64::MAX),
    ("kubeAPIQPS", 0, i64::MAX),
    ("maxOpenFiles", 0, i64::MAX),
    ("maxParallelImagePulls", 1, i64::MAX),
    ("maxPods", 0, i64::MAX),
    ("nodeStatusMaxImages", -1, i64::MAX),
    ("oomScoreAdj", -1000, 1000),
    ("podsPerCore", 0, i64::MAX),
    ("readOnlyPort", 0, 65_535),
    ("registryBurst", 0, i64::MAX),
];

/// Fields of which the kubelet knows all values.
const CHOICES: [(&str, &[&str]); 4] = [
    ("hairpinMode", &["promiscuous-bridge", "hairpin-veth", "none"]),
    ("topologyManagerPolicy", &["none", "best-effort", "restricted", "single-numa-node"]),
    ("topologyManagerScope", &["container", "pod"]),
    ("cgroupDriver", &["cgroupfs", "systemd"]),
];

/// What `enforceNodeAllocatable` can hold, and the field that it needs.
const ENFORCEMENTS: [(&str, &str); 6] = [
    ("none", ""),
    ("pods", ""),
    ("system-reserved", "systemReservedCgroup"),
    ("system-reserved-compressible", "systemReservedCgroup"),
    ("kube-reserved", "kubeReservedCgroup"),
    ("kube-reserved-compressible", "kubeReservedCgroup"),
];

/// Judges the configuration as a whole.
pub(crate) fn whole(
    facts: &Facts,
    parsed: &Parsed,
    merged: &Map<String, Value>,
    family: Family,
    version: Option<Minor>,
    instance_type: Option<&str>,
    findings: &mut Findings,
) {
    let mut values = config::with_flags(merged, parsed);
    // What EKS images have where a document is silent. Source: nodeadm/internal/kubelet/config.go.
    if family == Family::Al2023 {
        for (field, value) in
            [("kubeReservedCgroup", "/runtime"), ("systemReservedCgroup", "/system"), ("cgroupDriver", "systemd")]
        {
            values.entry(field).or_insert_with(|| value.into());
        }
    }
    let whole = Whole { facts, parsed, values };
    bounds(&whole, findings);
    reservations(&whole, findings);
    evictions(&whole, findings);
    identity_of_node(&whole, findings);
    if let Some(version) = version.filter(|version| *version >= Minor(35))
        && family == Family::Al2
        && whole.boolean("failCgroupV1") != Some(false)
    {
        let message = format!("AL2 has cgroup v1, which kubelet {version} refuses");
        whole.refuse(&verdicts::KA18, "failCgroupV1", message, findings);
    }
    cgroup_driver(&whole, findings);
    cluster_dns(&whole, findings);
    if let (Some(instance_type), Some(pods), false) = (instance_type, whole.number("maxPods"), family.is_windows()) {
        pods::addresses(pods, whole.place("maxPods"), instance_type, findings);
    }
}

fn bounds(whole: &Whole<'_>, findings: &mut Findings) {
    for (field, least, most) in BOUNDS {
        let Some(value) = whole.number(field).filter(|value| !(least..=most).contains(value)) else { continue };
        let range = if most == i64::MAX { format!("{least} or more") } else { format!("from {least} to {most}") };
        whole.refuse(&verdicts::KA14, field, format!("`{field}` is {value}; it must be {range}"), findings);
    }
    for (field, choices) in CHOICES {
        if let Some(value) = whole.text(field).filter(|value| !choices.contains(value)) {
            let message = format!("`{field}` is `{value}`; it must be one of {}", choices.join(", "));
            whole.refuse(&verdicts::KA14, field, message, findings);
        }
    }
    let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
    // The kubelet's defaults are 85 and 80.
    if let (Some(high), Some(low)) = (whole.number(high).or(Some(85)), whole.number(low).or(Some(80)))
        && low >= high
    {
        let message = format!("image garbage collection would stop at {low} % and start at {high} %");
        let field = if whole.values.contains_key("imageGCLowThresholdPercent") {
            "imageGCLowThresholdPercent"
        } else {
            "imageGCHighThresholdPercent"
        };
        whole.refuse(&verdicts::KA14, field, message, findings);
    }
    if whole.boolean("serializeImagePulls") == Some(true)
        && whole.number("maxParallelImagePulls").is_some_and(|it| it > 1)
    {
        let message = "`maxParallelImagePulls` above 1 needs `serializeImagePulls: false`";
        whole.refuse(&verdicts::KA14, "maxParallelImagePulls", message, findings);
    }
    let grace = |field: &str| whole.text(field).and_then(duration).unwrap_or(0);
    if whole.values.contains_key("shutdownGracePeriod")
        && grace("shutdownGracePeriodCriticalPods") > grace("shutdownGracePeriod")
    {
        let message = "`shutdownGracePeriodCriticalPods` is longer than `shutdownGracePeriod`";
        whole.refuse(&verdicts::KA14, "shutdownGracePeriodCriticalPods", message, findings);
    }
}

fn reservations(whole: &Whole<'_>, findings: &mut Findings) {
    const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
    for field in ["kubeReserved", "systemReserved"] {
        for (resource, amount) in whole.values.get(field).and_then(Value::as_object).into_iter().flatten() {
            let text = amount.as_str().unwrap_or_default();
            if !RESERVABLE.contains(&resource.as_str()) && !resource.starts_with("hugepages-") {
                whole.refuse(&verdicts::KA14, field, format!("`{field}` cannot reserve `{resource}`"), findings);
            } else if amount.is_string() && quantity(text).is_none_or(|amount| amount < 0.0) {
                let message = format!("`{text}` of `{field}.{resource}` is not an amount");
                whole.refuse(&verdicts::KA14, field, message, findings);
            }
        }
    }
    let is_set = |field: &str| whole.text(field).is_some_and(|text| !text.is_empty());
    if is_set("reservedSystemCPUs") && (is_set("systemReservedCgroup") || is_set("kubeReservedCgroup")) {
        let message = "`reservedSystemCPUs` is set beside `systemReservedCgroup` or `kubeReservedCgroup`";
        whole.refuse(&verdicts::KA15, "reservedSystemCPUs", message, findings);
    }
    let field = "enforceNodeAllocatable";
    let enforced = whole.values.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for value in enforced.iter().filter_map(Value::as_str) {
        match ENFORCEMENTS.iter().find(|(name, _)| *name == value) {
            None => whole.refuse(&verdicts::KA14, field, format!("`{field}` cannot hold `{value}`"), findings),
            Some(("none", _)) if enforced.len() > 1 => {
                whole.refuse(&verdicts::KA14, field, format!("`none` must be alone in `{field}`"), findings);
            }
            Some((_, needed)) if !needed.is_empty() && !is_set(needed) => {
                whole.refuse(&verdicts::KA14, field, format!("`{value}` in `{field}` needs `{needed}`"), findings);
            }
            Some(_) => {}
        }
    }
}

/// The signals of evictions. Source: `pkg/kubelet/eviction/api`.
const SIGNALS: [&str; 10] = [
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
    "allocatablePid.available",
];

fn evictions(whole: &Whole<'_>, findings: &mut Findings) {
    for field in ["evictionHard", "evictionSoft"] {
        for (signal, value) in whole.values.get(field).and_then(Value::as_object).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let is_share =
                text.strip_suffix('%').is_some_and(|it| it.parse::<f64>().is_ok_and(|it| (0.0..=100.0).contains(&it)));
            if !SIGNALS.contains(&signal.as_str()) {
                whole.refuse(&verdicts::KA14, field, format!("`{field}` knows no signal `{signal}`"), findings);
            } else if !is_share && quantity(text).is_none_or(|amount| amount < 0.0) {
                let message = format!("`{text}` of `{field}` is neither an amount nor a share such as 10%");
                whole.refuse(&verdicts::KA14, field, message, findings);
            } else if field == "evictionSoft" {
                let grace = whole.values.get("evictionSoftGracePeriod").and_then(|it| it.get(signal));
                if grace.is_none() {
                    let message = format!("`evictionSoft` of `{signal}` needs an `evictionSoftGracePeriod`");
                    whole.refuse(&verdicts::KA14, field, message, findings);
                }
            }
        }
    }
}

fn identity_of_node(whole: &Whole<'_>, findings: &mut Findings) {
    if whole.boolean("registerNode") == Some(false) {
        whole.refuse(&verdicts::KA31, "registerNode", "the kubelet is told not to register the node", findings);
    }
    if whole.facts.has_all_arguments && whole.parsed.last("kubeconfig").is_none_or(|given| given.value.is_empty()) {
        let place = whole.facts.arguments.first().map(|argument| argument.place.clone());
        let place = place.unwrap_or_else(|| Place { source: "kubelet".into(), line: None });
        findings.add(&verdicts::KA31, "the kubelet has no `--kubeconfig`", place, "");
    }
    let is_by_hand = whole.text("providerID").is_some_and(|text| !text.is_empty());
    if is_by_hand && !whole.facts.has_all_arguments && !whole.facts.layers.iter().any(|layer| layer.form != Form::Field)
    {
        let message = "the provider ID is set, and every instance has another one";
        whole.refuse(&verdicts::AU14, "providerID", message, findings);
    }
}

fn cgroup_driver(whole: &Whole<'_>, findings: &mut Findings) {
    let Some(driver) = whole.text("cgroupDriver") else { return };
    let (containerd, stated) = match &whole.facts.systemd_cgroup {
        Some((systemd, stated)) => (*systemd, Some(stated)),
        None => (true, None),
    };
    if (driver == "systemd") != containerd {
        let message =
            format!("the kubelet has cgroup driver `{driver}`, containerd has `SystemdCgroup = {containerd}`");
        match stated {
            Some(stated) => findings.add(&verdicts::CR03, message, stated.place.clone(), &stated.text),
            None => whole.refuse(&verdicts::CR03, "cgroupDriver", message, findings),
        }
    }
}

fn cluster_dns(whole: &Whole<'_>, findings: &mut Findings) {
    let Some(network) = whole.facts.service_cidr.as_ref().and_then(|cidr| Network::read(&cidr.text)) else { return };
    let servers = whole.values.get("clusterDNS").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for text in servers.iter().filter_map(Value::as_str) {
        let Ok(address) = text.parse() else {
            whole.refuse(&verdicts::KA29, "clusterDNS", format!("`{text}` is not an address"), findings);
            continue;
        };
        // NodeLocal DNSCache listens on a link-local address.
        let is_local = matches!(address, std::net::IpAddr::V4(it) if it.is_link_local());
        if !is_local && !network.contains(address) {
            let message = format!("cluster DNS `{text}` is not in the service network");
            whole.refuse(&verdicts::KA29, "clusterDNS", message, findings);
        }
    }
}
