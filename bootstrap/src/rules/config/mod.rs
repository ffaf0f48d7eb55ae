//! The kubelet's configuration.
//!
//! ```text
//!  mod           each document: fields, gates, kind; then the whole: registration, cgroups, DNS, pods
//!  limits        values that the kubelet refuses, by the table; and pairs of fields
//!  reservations  reserved resources for system and kubelet: quantities, CPUs, memory, cgroups
//!  evictions     thresholds, grace periods, minimum reclaims
//! ```

mod evictions;
mod limits;
mod reservations;

use serde_json::{Map, Value};

use crate::family::Family;
use crate::finding::{Findings, Severity};
use crate::kubelet::arguments::{Given, Parsed, boolean};
use crate::kubelet::config::{self, Form, Layer, flag_of};
use crate::kubelet::gates;
use crate::kubelet::instance::FALLBACK;
use crate::kubelet::schema::{FieldFaultKind, KUBELET};
use crate::kubelet::version::Minor;
use crate::network::Network;
use crate::parsed::ParsedBootstrap;
use crate::place::Place;
use crate::rules::arguments::gate_message;
use crate::rules::pods;
use crate::verdicts;

/// Judges the fields of each document against the version.
pub(crate) fn fields(bootstrap: &ParsedBootstrap, version: Option<Minor>, findings: &mut Findings) {
    for layer in &bootstrap.layers {
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
                        Some(_) => format!("field `{path}` is available from {from}"),
                        None => format!("field `{path}` was removed in {}", Minor(to.0.saturating_add(1))),
                    };
                    findings.add(&verdicts::KA13, message, place, path);
                }
                FieldFaultKind::Twice => {
                    findings.add(
                        &verdicts::KA13,
                        format!("field `{path}` occurs twice; the last one counts"),
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

/// Checks `apiVersion` and `kind` of a file; a field of another document does not need them.
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

/// Input of the rules about the whole configuration: the merged configuration with the flags applied.
struct Whole<'f> {
    bootstrap: &'f ParsedBootstrap,
    parsed: &'f Parsed,
    family: Family,
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

    /// Returns the value at the end of a path.
    fn at(&self, path: &str) -> Option<&Value> {
        let mut steps = path.split('.');
        let first = self.values.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step))
    }

    /// Returns the items of a list.
    fn items(&self, field: &str) -> &[Value] {
        self.values.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns true if the field is a string that is not empty.
    fn is_set(&self, field: &str) -> bool {
        self.text(field).is_some_and(|text| !text.is_empty())
    }

    /// Returns true if a feature gate is enabled, `None` if that is unknown. The flag takes precedence over the
    /// configuration.
    fn gate(&self, name: &str, version: Option<Minor>) -> Option<bool> {
        let of_flag = self.parsed.map("feature-gates").get(name).and_then(|value| boolean(value));
        let of_config = || self.values.get("featureGates")?.get(name)?.as_bool();
        gates::enabled(name, of_flag.or_else(of_config), version)
    }

    /// Returns true if the configuration is complete. If it is a field of user data, the settings that the bootstrap
    /// adds are missing.
    fn is_complete(&self) -> bool {
        self.bootstrap.layers.iter().any(|layer| layer.form == Form::File)
    }

    /// Returns the location of a field's value: the flag that overrides it, else the last document that sets it.
    fn place(&self, field: &str) -> (Place, String) {
        let flag = flag_of(field).and_then(|flag| self.parsed.last(flag));
        if let Some(argument) = flag.and_then(|given| self.bootstrap.arguments.get(given.index)) {
            return (argument.place.clone(), argument.text.clone());
        }
        let value = self.at(field).map(ToString::to_string).unwrap_or_default();
        let of_layer = |layer: &Layer| {
            let (way, last) = field.rsplit_once('.').map_or(("", field), |(way, last)| (way, last));
            let steps: Vec<&str> = way.split('.').filter(|step| !step.is_empty()).collect();
            layer.tree.at(&steps)?.entry(last).map(|(line, _)| layer.source.at(line.max(1)))
        };
        let place = self.bootstrap.layers.iter().rev().find_map(of_layer);
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

/// The node that a configuration is for.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) family: Family,
    /// Version of the kubelet, if it is known.
    pub(crate) version: Option<Minor>,
    pub(crate) instance_type: Option<&'a str>,
}

/// Judges the configuration as a whole.
pub(crate) fn whole(
    bootstrap: &ParsedBootstrap,
    parsed: &Parsed,
    merged: &Map<String, Value>,
    Target { family, version, instance_type }: Target<'_>,
    findings: &mut Findings,
) {
    let mut values = config::with_flags(merged, parsed);
    // Defaults of EKS images. Source: nodeadm/internal/kubelet/config.go.
    if family == Family::Al2023 {
        for (field, value) in
            [("kubeReservedCgroup", "/runtime"), ("systemReservedCgroup", "/system"), ("cgroupDriver", "systemd")]
        {
            values.entry(field).or_insert_with(|| value.into());
        }
    }
    // Values that are known only on the node cannot be judged.
    let is_open = |given: &Given| bootstrap.arguments.get(given.index).is_some_and(|argument| argument.is_open);
    for (flag, field, accumulates) in config::over() {
        let has_open = if accumulates { parsed.all(flag).any(is_open) } else { parsed.last(flag).is_some_and(is_open) };
        if has_open {
            values.remove(field);
        }
    }
    let whole = Whole { bootstrap, parsed, family, values };
    limits::check(&whole, version, findings);
    reservations::check(&whole, version, findings);
    evictions::check(&whole, findings);
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
    if whole.number("maxPods") == Some(0) {
        no_pods(&whole, findings);
    }
    if let (Some(instance_type), Some(pods), false) = (instance_type, whole.number("maxPods"), family.is_windows()) {
        pods::addresses(pods, whole.place("maxPods"), instance_type, findings);
    }
}

/// Judges `maxPods: 0`. In the configuration, zero counts as absent; only the flag sets zero. Source:
/// `pkg/kubelet/apis/config/v1beta1/defaults.go`, which runs after all files are merged.
fn no_pods(whole: &Whole<'_>, findings: &mut Findings) {
    let (place, text) = whole.place("maxPods");
    if whole.parsed.last("max-pods").is_some() {
        let message = "`--max-pods=0`: the node joins and takes no pod";
        let fix = "remove the flag, or give the number of pods that the node has addresses for";
        findings.add_with_fix_as(Severity::Error, &verdicts::KA30, message, fix, (place, text));
    } else {
        let message = format!("`maxPods: 0` counts as not set, and the kubelet takes {FALLBACK} pods");
        let fix = "remove the field, or give the number of pods that the node has addresses for";
        findings.add_with_fix(&verdicts::KA30, message, fix, place, text);
    }
}

fn identity_of_node(whole: &Whole<'_>, findings: &mut Findings) {
    if whole.boolean("registerNode") == Some(false) {
        whole.refuse(&verdicts::KA31, "registerNode", "the kubelet is configured not to register the node", findings);
    }
    if whole.bootstrap.has_all_arguments && whole.parsed.last("kubeconfig").is_none_or(|given| given.value.is_empty()) {
        let place = whole.bootstrap.arguments.first().map(|argument| argument.place.clone());
        let place = place.unwrap_or_else(|| Place { source: "kubelet".into(), line: None });
        findings.add(&verdicts::KA31, "the kubelet has no `--kubeconfig`", place, "");
    }
    let is_by_hand = whole.text("providerID").is_some_and(|text| !text.is_empty());
    if is_by_hand
        && !whole.bootstrap.is_of_one_machine
        && !whole.bootstrap.layers.iter().any(|layer| layer.form != Form::Field)
    {
        let message = "the provider ID is set, and every instance has another one";
        whole.refuse(&verdicts::AU14, "providerID", message, findings);
    }
}

fn cgroup_driver(whole: &Whole<'_>, findings: &mut Findings) {
    let Some(driver) = whole.text("cgroupDriver") else { return };
    let (containerd, stated) = match &whole.bootstrap.systemd_cgroup {
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
    let Some(network) = whole.bootstrap.service_cidr.as_ref().and_then(|cidr| Network::read(&cidr.text)) else {
        return;
    };
    let servers = whole.values.get("clusterDNS").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for message in servers.iter().filter_map(Value::as_str).filter_map(|text| dns_fault(text, network)) {
        whole.refuse(&verdicts::KA29, "clusterDNS", message, findings);
    }
}

/// Returns the fault of a cluster DNS address in this service CIDR, if any.
pub(crate) fn dns_fault(text: &str, network: Network) -> Option<String> {
    let Ok(address) = text.parse() else { return Some(format!("`{text}` is not an address")) };
    // NodeLocal DNSCache listens on a link-local address.
    let is_local = matches!(address, std::net::IpAddr::V4(it) if it.is_link_local());
    (!is_local && !network.contains(address)).then(|| format!("cluster DNS `{text}` is not in the service network"))
}
