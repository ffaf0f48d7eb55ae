//! The report as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use muster_bootstrap::Report;
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::secrets::clean;
use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::Failure;

/// `BootstrapReport` of `muster.dev/v1`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'r> {
    api_version: &'static str,
    kind: &'static str,
    ok: bool,
    findings: Vec<FindingDocument<'r>>,
    effective: EffectiveDocument<'r>,
}

#[derive(Serialize)]
struct FindingDocument<'r> {
    code: &'static str,
    severity: Severity,
    message: &'r str,
    cause: &'static str,
    fix: &'r str,
    evidence: Option<EvidenceDocument<'r>>,
    link: String,
}

#[derive(Serialize)]
struct EvidenceDocument<'r> {
    source: String,
    text: &'r str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EffectiveDocument<'r> {
    ami_family: &'static str,
    cluster_name: Option<&'r str>,
    api_server_endpoint: Option<&'r str>,
    taints: Vec<String>,
    labels: BTreeMap<&'r str, Cow<'r, str>>,
    kubelet_args: Vec<String>,
    kubelet_config: Map<String, Value>,
    max_pods: Option<i64>,
    node_name: Option<&'r str>,
}

/// Writes the report as one JSON document.
pub(super) fn write(out: &mut dyn Write, report: &Report) -> Result<(), Failure> {
    let effective = &report.effective;
    let secrets = &effective.secrets;
    let document = Document {
        api_version: "muster.dev/v1",
        kind: "BootstrapReport",
        ok: report.is_ok(),
        findings: report.findings.iter().map(finding).collect(),
        effective: EffectiveDocument {
            ami_family: effective.family.name(),
            cluster_name: effective.cluster_name.as_deref(),
            api_server_endpoint: effective.endpoint.as_deref(),
            taints: effective.taints.iter().map(ToString::to_string).collect(),
            labels: effective.labels.iter().map(|(key, value)| (key.as_str(), secrets.hide(value))).collect(),
            kubelet_args: effective.kubelet_args.iter().map(|argument| shown(&secrets.hide(argument))).collect(),
            kubelet_config: shown_config(&effective.kubelet_config),
            max_pods: effective.max_pods,
            node_name: effective.node_name.as_deref(),
        },
    };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

fn finding(finding: &Finding) -> FindingDocument<'_> {
    let evidence = finding.evidence.as_ref();
    FindingDocument {
        code: finding.verdict.code,
        severity: finding.severity,
        message: &finding.message,
        cause: finding.verdict.cause,
        fix: &finding.fix,
        evidence: evidence.map(|it| EvidenceDocument { source: it.place.to_string(), text: &it.text }),
        link: finding.verdict.link(),
    }
}

/// Returns an argument for display, with credentials hidden.
pub(super) fn shown(argument: &str) -> String {
    match argument.split_once('=') {
        // The name of the header is arbitrary, so that its value is hidden as well.
        Some((name, _)) if name == "--manifest-url-header" => format!("{name}=[hidden]"),
        _ if argument.contains("manifest-url") || argument.contains("://") => clean(argument),
        _ => argument.to_owned(),
    }
}

/// Returns the configuration for display, with credentials hidden.
fn shown_config(config: &Map<String, Value>) -> Map<String, Value> {
    let mut config = config.clone();
    if let Some(headers) = config.get_mut("staticPodURLHeader") {
        *headers = "[hidden]".into();
    }
    if let Some(url) = config.get_mut("staticPodURL") {
        *url = clean(url.as_str().unwrap_or_default()).into();
    }
    config
}
