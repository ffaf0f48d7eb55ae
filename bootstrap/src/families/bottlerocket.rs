//! Bottlerocket: settings in TOML.

use crate::finding::{Findings, Severity};
use crate::input::BootstrapInput;
use crate::kubelet::labels::is_label_value;
use crate::kubelet::schema::{BOTTLEROCKET, FieldFaultKind};
use crate::kubelet::taints::{EFFECTS, Taint};
use crate::likeness;
use crate::parsed::{ParsedBootstrap, Settings, Stated};
use crate::place::{Source, line_text};
use crate::tree::{self, Tree};
use crate::userdata::UserData;
use crate::verdicts;

/// Reads the settings. The whole user data is one TOML document, without parts.
pub(crate) fn read(
    input: &BootstrapInput,
    user_data: &UserData,
    bootstrap: &mut ParsedBootstrap,
    findings: &mut Findings,
) {
    let source = Source::whole(user_data.anywhere().source);
    let text = user_data.text();
    let tree = match tree::toml(text) {
        Ok(tree) => tree,
        Err(fault) => {
            let line = fault.line.unwrap_or(1);
            let message = format!("the settings are not TOML: {}", fault.reason);
            return findings.add(&verdicts::UD25, message, source.at(line), line_text(text, line));
        }
    };
    names(&tree, &source, text, findings);
    types(&tree, &mut |path, wanted, found, line| {
        let message = format!("`{path}` must be {wanted}, not {found}");
        let fix = format!("write {wanted}");
        findings.add_with_fix(&verdicts::UD25, message, &fix, source.at(line), line_text(text, line));
    });
    let Some(kubernetes) = tree.at(&["settings", "kubernetes"]) else {
        if !input.is_of_node_class {
            missing(user_data, findings, "settings.kubernetes");
        }
        return;
    };
    bootstrap.configures_kubelet = true;
    fields(kubernetes, &source, text, findings);
    values(kubernetes, &mut |key, wanted, line| {
        let message = format!("`settings.kubernetes.{key}` must be {wanted}");
        let fix = format!("write {wanted}");
        findings.add_with_fix(&verdicts::UD25, message, &fix, source.at(line), line_text(text, line));
    });
    if let Some((line, _)) = kubernetes.entry("provider-id") {
        let message = "the provider ID is set, and every instance has another one";
        let fix = "remove `provider-id`: Bottlerocket sets it itself";
        findings.add_with_fix(&verdicts::AU14, message, fix, source.at(line), line_text(text, line));
    }
    let stated = |key: &str| {
        let (line, value) = kubernetes.entry(key)?;
        Some(Stated { text: value.text()?.to_owned(), place: source.at(line) })
    };
    bootstrap.cluster_name = stated("cluster-name");
    bootstrap.endpoint = stated("api-server");
    bootstrap.certificate_authority = stated("cluster-certificate");
    let is_standalone = kubernetes.get("standalone-mode").and_then(Tree::boolean) == Some(true);
    for key in ["cluster-name", "api-server", "cluster-certificate"] {
        if kubernetes.get(key).is_none() && !is_standalone {
            missing(user_data, findings, &format!("settings.kubernetes.{key}"));
        }
    }
    let mut settings = Settings {
        max_pods: kubernetes.get("max-pods").and_then(Tree::integer),
        hostname: stated("hostname-override"),
        ..Settings::default()
    };
    labels_and_taints(kubernetes, &source, text, &mut settings, findings);
    bootstrap.settings = Some(settings);
}

/// Reports tables that no version has.
fn names(tree: &Tree, source: &Source, text: &str, findings: &mut Findings) {
    for (key, line, _) in tree.get("settings").map(Tree::entries).unwrap_or_default() {
        if TABLES.contains(&key.as_str()) {
            continue;
        }
        let nearest = likeness::nearest(key, TABLES);
        let meant = nearest.map(|it| format!("; did you mean `settings.{it}`?")).unwrap_or_default();
        // A table that exists in a newer Bottlerocket version is an error only on older versions.
        let severity = if nearest.is_some() { Severity::Error } else { Severity::Warning };
        let message = format!("no setting is named `settings.{key}`{meant}");
        findings.add_as(severity, &verdicts::UD06, message, source.at(*line), line_text(text, *line));
    }
    for (key, line, _) in tree.entries().iter().filter(|(key, ..)| key != "settings") {
        let message = format!("Bottlerocket only takes settings below `settings`, not `{key}`");
        findings.add(&verdicts::UD06, message, source.at(*line), line_text(text, *line));
    }
}

/// Reports Kubernetes settings of a wrong type, or that no version has.
fn fields(kubernetes: &Tree, source: &Source, text: &str, findings: &mut Findings) {
    for fault in BOTTLEROCKET.check(kubernetes, None) {
        let path = format!("settings.kubernetes.{}", fault.path);
        let (place, shown) = (source.at(fault.line), line_text(text, fault.line));
        match fault.kind {
            FieldFaultKind::Type { wanted, found } => {
                findings.add(&verdicts::UD25, format!("`{path}` must be {wanted}, not {found}"), place, shown);
            }
            FieldFaultKind::Unknown { nearest } => {
                let meant = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
                // A setting that exists in a newer Bottlerocket version is an error only on older versions.
                let severity = if meant.is_empty() { Severity::Warning } else { Severity::Error };
                findings.add_as(
                    severity,
                    &verdicts::UD06,
                    format!("no setting is named `{path}`{meant}"),
                    place,
                    shown,
                );
            }
            FieldFaultKind::OtherVersion { .. } | FieldFaultKind::Twice => {}
        }
    }
}

/// Reads the labels and taints of the node.
fn labels_and_taints(kubernetes: &Tree, source: &Source, text: &str, settings: &mut Settings, findings: &mut Findings) {
    for (key, line, value) in kubernetes.get("node-labels").map(Tree::entries).unwrap_or_default() {
        let Some(value) = value.text() else { continue };
        if !is_label_value(value) {
            let message = format!("label `{key}` has an invalid value");
            findings.add(&verdicts::KA06, message, source.at(*line), line_text(text, *line));
        }
        settings.labels.push((key.clone(), value.to_owned(), source.at(*line)));
    }
    for (key, line, value) in kubernetes.get("node-taints").map(Tree::entries).unwrap_or_default() {
        taints(key, value, settings, &mut |verdict, message: String| {
            findings.add(verdict, message, source.at(*line), line_text(text, *line));
        });
    }
}

/// Tables below `settings`. Source: bottlerocket-os/bottlerocket, documentation of the settings, 1.20 and later.
const TABLES: [&str; 25] = [
    "autoscaling",
    "aws",
    "boot",
    "bootstrap-commands",
    "bootstrap-containers",
    "cloudformation",
    "container-registry",
    "container-runtime",
    "container-runtime-plugins",
    "dns",
    "ecs",
    "host-containers",
    "kernel",
    "kubelet-device-plugins",
    "kubelet-device-plugin",
    "kubernetes",
    "metrics",
    "motd",
    "network",
    "ntp",
    "nvidia-container-runtime",
    "oci-defaults",
    "oci-hooks",
    "pki",
    "updates",
];

/// Kubernetes settings with a fixed set of values. Source: settings-sdk, modeled-types/src/kubernetes.rs.
const CHOICES: [(&str, &[&str]); 4] = [
    ("cpu-manager-policy", &["none", "static"]),
    ("memory-manager-policy", &["None", "Static"]),
    ("topology-manager-policy", &["none", "restricted", "best-effort", "single-numa-node"]),
    ("topology-manager-scope", &["container", "pod"]),
];
/// Keys of the eviction tables. Source: settings-sdk, modeled-types/src/kubernetes.rs, `KubernetesEvictionKey`.
const EVICTIONS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];

/// Checks values whose type is more specific than string or number. `refuse` receives setting, expected value and line.
fn values(kubernetes: &Tree, refuse: &mut dyn FnMut(&str, &str, usize)) {
    if let Some((line, pods)) = kubernetes.entry("max-pods")
        && pods.integer().is_some_and(|pods| u32::try_from(pods).is_err())
    {
        refuse("max-pods", "a whole number from 0 to 4294967295", line);
    }
    for (key, choices) in CHOICES {
        if let Some((line, value)) = kubernetes.entry(key)
            && value.text().is_some_and(|text| !choices.contains(&text))
        {
            let wanted = choices.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(" or ");
            refuse(key, &wanted, line);
        }
    }
    if let Some((line, value)) = kubernetes.entry("cluster-dns-ip") {
        let is_address = |it: &Tree| it.text().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok());
        let is_list = !value.items().is_empty() && value.items().iter().all(is_address);
        if !is_address(value) && !is_list {
            refuse("cluster-dns-ip", "an IP address, or a list of them", line);
        }
    }
    for table in ["eviction-hard", "eviction-soft", "eviction-soft-grace-period"] {
        for (signal, line, _) in kubernetes.get(table).map(Tree::entries).unwrap_or_default() {
            if !EVICTIONS.contains(&signal.as_str()) {
                let meant = likeness::nearest(signal, EVICTIONS).unwrap_or("memory.available");
                refuse(&format!("{table}.{signal}"), &format!("a signal such as `{meant}`"), *line);
            }
        }
    }
}

/// Settings outside `kubernetes` whose type is often wrong: the table, the name in each of its tables (in `kernel`, in
/// the table itself), and the type. Source: bottlerocket-core-kit, settings-extensions host-containers, kernel,
/// network, ntp.
const TYPES: [(&str, &str, Type); 9] = [
    ("host-containers", "enabled", Type::Bool),
    ("host-containers", "superpowered", Type::Bool),
    ("host-containers", "source", Type::Text),
    ("host-containers", "user-data", Type::Text),
    ("bootstrap-containers", "essential", Type::Bool),
    ("bootstrap-containers", "source", Type::Text),
    ("bootstrap-containers", "mode", Type::Text),
    ("bootstrap-containers", "user-data", Type::Text),
    ("kernel", "sysctl", Type::Texts),
];

#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    /// A table of strings.
    Texts,
}

/// Checks the types of [`TYPES`]. `refuse` receives path, expected type, actual type and line.
fn types(tree: &Tree, refuse: &mut dyn FnMut(&str, &str, &str, usize)) {
    for (table, name, kind) in TYPES {
        let Some(table_of) = tree.at(&["settings", table]) else { continue };
        let mut fault = |path: &str, wanted: &str, value: &Tree, line: usize| {
            refuse(&format!("settings.{table}.{path}"), wanted, value.describe(), line);
        };
        if let Type::Texts = kind {
            for (key, line, value) in table_of.get(name).map(Tree::entries).unwrap_or_default() {
                if value.text().is_none() {
                    fault(&format!("{name}.{key}"), "text in quotes", value, *line);
                }
            }
            continue;
        }
        for (container, _, settings) in table_of.entries() {
            let Some((line, value)) = settings.entry(name) else { continue };
            let path = format!("{container}.{name}");
            match kind {
                Type::Bool if value.boolean().is_none() => fault(&path, "true or false without quotes", value, line),
                Type::Text if value.text().is_none() => fault(&path, "text in quotes", value, line),
                _ => {}
            }
        }
    }
}

fn missing(user_data: &UserData, findings: &mut Findings, setting: &str) {
    let fix = format!("add `{setting}`");
    findings.add_with_fix(&verdicts::UD07, format!("`{setting}` is missing"), &fix, user_data.anywhere(), "");
}

/// Reads a taint: a list of `value:Effect` under its key, or one string in older documents.
fn taints(
    key: &str,
    value: &Tree,
    settings: &mut Settings,
    refuse: &mut dyn FnMut(&'static verdicts::Verdict, String),
) {
    let texts: Option<Vec<&str>> = match value.text() {
        Some(text) => Some(vec![text]),
        None if value.items().is_empty() => None,
        None => value.items().iter().map(Tree::text).collect(),
    };
    let Some(texts) = texts else {
        return refuse(&verdicts::UD25, format!("taint `{key}` must be a list of texts `value:Effect`"));
    };
    for text in texts {
        let Some((value, effect)) = text.split_once(':') else {
            refuse(&verdicts::UD25, format!("taint `{key}` must have the form `value:Effect`"));
            continue;
        };
        let taint = Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() };
        match taint.check() {
            Ok(()) => settings.taints.push(taint),
            // Bottlerocket checks only the format, so this taint reaches the kubelet, which exits.
            Err(_) if !EFFECTS.contains(&effect) => {
                refuse(&verdicts::KA03, format!("taint `{key}` has effect `{effect}`, which does not exist"));
            }
            Err(fault) => refuse(&verdicts::KA03, fault.to_string()),
        }
    }
}
