//! User data that Muster and Karpenter generate from an EC2NodeClass.
//!
//! Source: aws/karpenter-provider-aws, `pkg/providers/amifamily` and its golden files. Where Karpenter's output depends
//! on the order of a Go map, this output is sorted.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::family::Family;
use crate::kubelet::taints::Taint;
use crate::userdata::{NODE_CONFIG_TYPE, OutgoingPart, multipart};

/// Cluster and node settings that are known when the user data is generated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Launch {
    /// Name of the cluster.
    pub cluster_name: String,
    /// URL of its API server.
    pub endpoint: String,
    /// Certificate authority of the cluster: PEM in base64.
    pub certificate_authority: String,
    /// Service CIDR of the cluster.
    pub service_cidr: String,
    /// IP address of cluster DNS. `clusterDNS` of the class takes precedence.
    pub cluster_dns: Option<String>,
    /// Labels that the node registers with. Labels that a kubelet may not set are left out.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with; `karpenter.sh/unregistered:NoExecute` is added if it is missing.
    pub taints: Vec<Taint>,
    /// `spec.kubelet` of the class, with the field names of KubeletConfiguration; has `maxPods` once the instance type
    /// is known.
    pub kubelet: Map<String, Value>,
    /// True if `instanceStorePolicy` is `RAID0`.
    pub uses_instance_store: bool,
}

/// Reason why no user data can be generated for a class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeFault {
    /// The user data begins like MIME but is not multipart.
    #[error("the user data is MIME and not multipart")]
    NotMultipart,
    /// The user data is not TOML.
    #[error("the user data is not TOML: {0}")]
    NotToml(String),
    /// The user data for Windows has no script in `<powershell>`.
    #[error("the user data has no `<powershell>`")]
    NotPowerShell,
}

/// Generates the user data of a node, before base64 encoding.
///
/// ```
/// use muster_bootstrap::Family;
/// use muster_bootstrap::node_class::{Launch, user_data};
///
/// let launch = Launch { cluster_name: "shop".to_owned(), ..Launch::default() };
/// let document = user_data(Family::Al2023, "", &launch)?;
/// assert!(document.contains("NodeConfig") && document.contains("karpenter.sh/unregistered"));
/// # Ok::<(), muster_bootstrap::node_class::MergeFault>(())
/// ```
///
/// # Errors
/// Returns an error if the user data of the class cannot be merged: a launch would fail.
pub fn user_data(family: Family, custom: &str, launch: &Launch) -> Result<String, MergeFault> {
    let mut launch = launch.clone();
    if !launch.taints.iter().any(|taint| *taint == Taint::unregistered()) {
        launch.taints.push(Taint::unregistered());
    }
    launch.labels.retain(|key, _| !is_synced(key));
    match family {
        Family::Al2 => parts(custom, false).map(|parts| with(parts, al2(&launch))),
        Family::Al2023 => parts(custom, true).map(|parts| with(parts, al2023(&launch))),
        Family::Bottlerocket => bottlerocket(custom, &launch),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => Ok(windows(custom, &launch)),
        Family::Custom => Ok(custom.to_owned()),
    }
}

/// Returns true for labels that are set when the node registers, because its kubelet may not set them.
fn is_synced(key: &str) -> bool {
    let domain = key.split('/').next().filter(|_| key.contains('/')).unwrap_or_default();
    ["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"]
        .iter()
        .any(|it| domain == *it || domain.ends_with(&format!(".{it}")))
}

fn with(mut parts: Vec<OutgoingPart>, own: OutgoingPart) -> String {
    parts.push(own);
    multipart(&parts)
}

/// Splits the class's own user data: MIME into its parts, any other format into one part.
pub(crate) fn parts(custom: &str, takes_node_config: bool) -> Result<Vec<OutgoingPart>, MergeFault> {
    let trimmed = custom.trim();
    if trimmed.is_empty() {
        return Ok(Vec::new());
    }
    if trimmed.starts_with("MIME-Version:") || trimmed.starts_with("Content-Type:") {
        return outer_parts(trimmed).ok_or(MergeFault::NotMultipart);
    }
    let is_map = takes_node_config && crate::tree::yaml(trimmed).is_ok_and(|tree| tree.is_map());
    let media_type = if is_map { NODE_CONFIG_TYPE } else { "text/x-shellscript; charset=\"us-ascii\"" };
    Ok(vec![OutgoingPart { media_type: media_type.to_owned(), text: custom.to_owned() }])
}

/// Splits the outermost multipart at its boundaries. The headers of the parts are kept as they are.
fn outer_parts(text: &str) -> Option<Vec<OutgoingPart>> {
    let text = text.replace('\r', "");
    let (headers, body) = text.split_once("\n\n")?;
    let at = headers.find("boundary=")? + "boundary=".len();
    let boundary = headers[at..].trim_start_matches('"').split(['"', ';', '\n']).next()?.trim();
    if boundary.is_empty() || !headers.to_ascii_lowercase().contains("multipart/") {
        return None;
    }
    let opening = format!("--{boundary}");
    let mut parts: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in body.lines() {
        if line.trim_end() == format!("{opening}--") {
            break;
        }
        if line.trim_end() == opening {
            parts.push(String::new());
            is_inside = true;
        } else if let Some(part) = parts.last_mut().filter(|_| is_inside) {
            part.push_str(line);
            part.push('\n');
        }
    }
    let part = |text: String| {
        let (headers, body) = text.split_once("\n\n").unwrap_or((&text, ""));
        let media_type = headers.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
        });
        // The other headers stay with the media type: they state how the body is encoded.
        let others: Vec<&str> =
            headers.lines().filter(|line| !line.to_ascii_lowercase().starts_with("content-type:")).collect();
        let mut media_type = media_type.unwrap_or_else(|| "text/plain".to_owned());
        for line in others {
            let _ = write!(media_type, "\n{line}");
        }
        OutgoingPart { media_type, text: body.to_owned() }
    };
    Some(parts.into_iter().map(part).collect())
}

fn labels(launch: &Launch) -> String {
    launch.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns the kubelet flags, in Karpenter's order.
fn flags(launch: &Launch) -> String {
    let mut flags = Vec::new();
    if !launch.labels.is_empty() {
        flags.push(format!("--node-labels=\"{}\"", labels(launch)));
    }
    let taints: Vec<String> = launch.taints.iter().map(ToString::to_string).collect();
    flags.push(format!("--register-with-taints=\"{}\"", taints.join(",")));
    for (field, flag, by) in [
        ("maxPods", "--max-pods", None),
        ("podsPerCore", "--pods-per-core", None),
        ("systemReserved", "--system-reserved", Some('=')),
        ("kubeReserved", "--kube-reserved", Some('=')),
        ("evictionHard", "--eviction-hard", Some('<')),
        ("evictionSoft", "--eviction-soft", Some('<')),
        ("evictionSoftGracePeriod", "--eviction-soft-grace-period", Some('=')),
        ("evictionMaxPodGracePeriod", "--eviction-max-pod-grace-period", None),
        ("imageGCHighThresholdPercent", "--image-gc-high-threshold", None),
        ("imageGCLowThresholdPercent", "--image-gc-low-threshold", None),
        ("cpuCFSQuota", "--cpu-cfs-quota", None),
    ] {
        let Some(value) = launch.kubelet.get(field) else { continue };
        match (value, by) {
            (Value::Object(pairs), Some(by)) => {
                let pair = |(key, value): (&String, &Value)| format!("{key}{by}{}", plain(value));
                let pairs: Vec<String> = pairs.iter().map(pair).collect();
                if !pairs.is_empty() {
                    flags.push(format!("{flag}=\"{}\"", pairs.join(",")));
                }
            }
            (value, _) => flags.push(format!("{flag}={}", plain(value))),
        }
    }
    flags.join(" ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn dns(launch: &Launch) -> Option<String> {
    let of_class = launch.kubelet.get("clusterDNS").and_then(Value::as_array).and_then(|list| list.first());
    of_class.and_then(Value::as_str).map(ToOwned::to_owned).or_else(|| launch.cluster_dns.clone())
}

/// In single quotes, the shell and PowerShell interpret only a single quote.
fn quoted(text: &str, quote: &str) -> String {
    format!("'{}'", text.replace('\'', quote))
}

fn al2(launch: &Launch) -> OutgoingPart {
    let shell = |text: &str| quoted(text, "'\\''");
    let mut words = vec![format!(
        "/etc/eks/bootstrap.sh {} --apiserver-endpoint {} --b64-cluster-ca {}",
        shell(&launch.cluster_name),
        shell(&launch.endpoint),
        shell(&launch.certificate_authority)
    )];
    if let Some(dns) = dns(launch) {
        if dns.contains(':') {
            words.push("--ip-family ipv6".to_owned());
        }
        words.push(format!("--dns-cluster-ip {}", shell(&dns)));
    }
    if launch.kubelet.contains_key("maxPods") {
        words.push("--use-max-pods false".to_owned());
    }
    words.push(format!("--kubelet-extra-args {}", shell(&flags(launch))));
    if launch.uses_instance_store {
        words.push("--local-disks raid0".to_owned());
    }
    let text = format!(
        "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n{}\n",
        words.join(" \\\n")
    );
    OutgoingPart { media_type: "text/x-shellscript; charset=\"us-ascii\"".to_owned(), text }
}

fn al2023(launch: &Launch) -> OutgoingPart {
    let mut config = launch.kubelet.clone();
    if let Some(dns) = launch.cluster_dns.as_ref().filter(|_| !config.contains_key("clusterDNS")) {
        config.insert("clusterDNS".to_owned(), json!([dns]));
    }
    let taint = |taint: &Taint| {
        let mut fields = json!({"key": taint.key, "effect": taint.effect});
        if !taint.value.is_empty() {
            fields["value"] = json!(taint.value);
        }
        fields
    };
    config.insert("registerWithTaints".to_owned(), launch.taints.iter().map(taint).collect());
    let mut spec = json!({
        "cluster": {
            "name": launch.cluster_name,
            "apiServerEndpoint": launch.endpoint,
            "certificateAuthority": launch.certificate_authority,
            "cidr": launch.service_cidr,
        },
        "kubelet": {"config": config},
    });
    if !launch.labels.is_empty() {
        spec["kubelet"]["flags"] = json!([format!("--node-labels=\"{}\"", labels(launch))]);
    }
    if launch.uses_instance_store {
        spec["instance"] = json!({"localStorage": {"strategy": "RAID0"}});
    }
    let document = json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec});
    // JSON is YAML without quoting rules.
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    OutgoingPart { media_type: NODE_CONFIG_TYPE.to_owned(), text }
}

fn bottlerocket(custom: &str, launch: &Launch) -> Result<String, MergeFault> {
    let mut document: toml::Table =
        custom.parse().map_err(|error: toml::de::Error| MergeFault::NotToml(error.message().to_owned()))?;
    let settings = table(&mut document, "settings");
    if launch.uses_instance_store {
        let mut command = toml::Table::new();
        let bind = ["apiclient", "ephemeral-storage", "bind"];
        command
            .insert("commands".to_owned(), vec![vec!["apiclient", "ephemeral-storage", "init"], bind.to_vec()].into());
        command.insert("essential".to_owned(), true.into());
        command.insert("mode".to_owned(), "always".into());
        table(settings, "bootstrap-commands").insert("000-mount-instance-storage".to_owned(), command.into());
    }
    let kubernetes = table(settings, "kubernetes");
    // Karpenter drops keys that its own table does not have.
    kubernetes.retain(|key, _| crate::kubelet::schema::BOTTLEROCKET.has(key));
    for (key, value) in [
        ("api-server", &launch.endpoint),
        ("cluster-certificate", &launch.certificate_authority),
        ("cluster-name", &launch.cluster_name),
    ] {
        kubernetes.insert(key.to_owned(), value.as_str().into());
    }
    if let Some(dns) = dns(launch) {
        kubernetes.insert("cluster-dns-ip".to_owned(), dns.into());
    }
    let mut taints = toml::Table::new();
    for taint in &launch.taints {
        let text = toml::Value::from(format!("{}:{}", taint.value, taint.effect));
        match taints.entry(taint.key.as_str()) {
            toml::map::Entry::Occupied(mut list) => {
                if let Some(list) = list.get_mut().as_array_mut() {
                    list.push(text);
                }
            }
            toml::map::Entry::Vacant(list) => drop(list.insert(vec![text].into())),
        }
    }
    kubernetes.insert("node-taints".to_owned(), taints.into());
    let labels = table(kubernetes, "node-labels");
    labels.extend(launch.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    for (field, setting) in [
        ("maxPods", "max-pods"),
        ("systemReserved", "system-reserved"),
        ("kubeReserved", "kube-reserved"),
        ("evictionHard", "eviction-hard"),
        ("evictionSoft", "eviction-soft"),
        ("evictionSoftGracePeriod", "eviction-soft-grace-period"),
        ("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"),
        ("imageGCHighThresholdPercent", "image-gc-high-threshold-percent"),
        ("imageGCLowThresholdPercent", "image-gc-low-threshold-percent"),
        ("cpuCFSQuota", "cpu-cfs-quota-enforced"),
    ] {
        let Some(value) = launch.kubelet.get(field) else { continue };
        // The two thresholds are strings in Bottlerocket's model.
        let value = if field.starts_with("imageGC") { json!(plain(value)) } else { value.clone() };
        if let Ok(value) = toml::Value::try_from(value) {
            kubernetes.insert(setting.to_owned(), value);
        }
    }
    Ok(document.to_string())
}

/// Returns the table under `key`; a value of another type is replaced.
pub(crate) fn table<'t>(parent: &'t mut toml::Table, key: &str) -> &'t mut toml::Table {
    if !parent.get(key).is_some_and(toml::Value::is_table) {
        parent.insert(key.to_owned(), toml::Table::new().into());
    }
    match parent.get_mut(key) {
        Some(toml::Value::Table(table)) => table,
        _ => unreachable!("it was put there two lines above"),
    }
}

fn windows(custom: &str, launch: &Launch) -> String {
    let shell = |text: &str| quoted(text, "''");
    let mut text = String::from("<powershell>\n");
    if !custom.is_empty() {
        let _ = writeln!(text, "{}", custom.trim_end_matches('\n'));
    }
    let _ = write!(
        text,
        "[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n& \
         $EKSBootstrapScriptFile -EKSClusterName {} -APIServerEndpoint {} -Base64ClusterCA {} -KubeletExtraArgs {}",
        shell(&launch.cluster_name),
        shell(&launch.endpoint),
        shell(&launch.certificate_authority),
        shell(&flags(launch))
    );
    if let Some(dns) = dns(launch) {
        let _ = write!(text, " -DNSClusterIP {}", shell(&dns));
    }
    text.push_str("\n</powershell>\n");
    text
}
