//! AL2023: NodeConfig documents that nodeadm merges.
//!
//! Source: nodeadm of awslabs/amazon-eks-ami, release v20260714: `internal/configprovider`, `internal/api`.

use crate::finding::{Findings, Severity};
use crate::input::BootstrapInput;
use crate::kubelet::config::{Form, Layer};
use crate::kubelet::schema::{FieldFault, FieldFaultKind, KUBELET, NODE_CONFIG};
use crate::parsed::{Argument, ParsedBootstrap, Stated};
use crate::place::{Place, line_text};
use crate::rules::scripts::is_nodeadm_init;
use crate::rules::{containerd, node_config};
use crate::script_commands::{bootstrap_call, commands_of};
use crate::tree::{self, Tree};
use crate::userdata::{NODE_CONFIG_TYPE, Part, PartKind, UserData};
use crate::verdicts;
use crate::words::shell::commands;
use crate::words::systemd::{environment_file, last, split_value};

const VARIABLE: &str = "NODEADM_KUBELET_ARGS";
/// Placeholder for the flags that nodeadm generates.
const OWN: &str = "--v=2";
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// Merged settings of all documents.
#[derive(Default)]
struct Merged {
    flags: Vec<(String, Place)>,
    has_proxy: bool,
    /// True if a document could not be decoded: then all documents are ignored.
    is_broken: bool,
    max_pods: Vec<Place>,
    /// Location where FIPS 140 endpoints are enabled.
    fips: Option<Place>,
}

/// Reads the documents.
pub(crate) fn read(
    input: &BootstrapInput,
    user_data: &UserData,
    bootstrap: &mut ParsedBootstrap,
    findings: &mut Findings,
) {
    let (mut found, mut nested, mut mistyped) = (Vec::new(), Vec::new(), Vec::new());
    for part in user_data.of_kind(PartKind::NodeConfig) {
        match part.depth {
            0 => found.push(part),
            1 if part.media_type == NODE_CONFIG_TYPE => found.push(part),
            1 => mistyped.push(part),
            _ => nested.push(part),
        }
    }
    for part in &nested {
        let message = format!("the NodeConfig of part {} is inside a multipart inside a multipart", part.number);
        findings.add(&verdicts::UD24, message, part.source.at(1), line_text(&part.text, 1));
    }
    let missing = severity_of_missing(input, user_data);
    for part in &mistyped {
        let named = if part.media_type.is_empty() { "none".to_owned() } else { format!("`{}`", part.media_type) };
        let message = format!("nodeadm skips part {}: its media type is {named}", part.number);
        let fix = "give the part that holds the NodeConfig `Content-Type: application/node.eks.aws`";
        let evidence = (part.source.at(1), line_text(&part.text, 1));
        findings.add_with_fix_as(missing, &verdicts::UD03, message, fix, evidence);
    }
    scripts(input, user_data, findings);
    if found.is_empty() {
        let is_explained = !nested.is_empty() || !mistyped.is_empty() || findings.has(&verdicts::UD10);
        if !is_explained && !findings.has(&verdicts::UD01) {
            let first = user_data.parts.first().map(|part| line_text(&part.text, 1)).unwrap_or_default();
            let message = "the user data holds no NodeConfig";
            findings.add_as(missing, &verdicts::UD03, message, user_data.anywhere(), first);
        }
        return;
    }
    bootstrap.configures_kubelet = true;
    let mut merged = Merged::default();
    for part in &found {
        document(part, bootstrap, &mut merged, findings);
    }
    if input.is_of_node_class && !merged.max_pods.is_empty() {
        // Karpenter's own document is the last one, and always sets maxPods.
        let places = &merged.max_pods[..merged.max_pods.len() - 1];
        if let Some(place) = places.first().or(merged.max_pods.first()) {
            let message = "maxPods of this NodeConfig is replaced by the one that Muster and Karpenter add";
            findings.add(&verdicts::KA30, message, place.clone(), "maxPods");
        }
    }
    if !merged.is_broken {
        required(bootstrap, user_data, findings);
    }
    fips(merged.fips.take(), bootstrap, findings);
    arguments(merged.flags, bootstrap, findings);
    proxies(user_data, merged.has_proxy, findings);
}

/// Returns the severity of a NodeConfig that is missing. A kubelet that is configured does without it, and so does a
/// script that calls nodeadm, possibly with a NodeConfig that it writes itself.
fn severity_of_missing(input: &BootstrapInput, user_data: &UserData) -> Severity {
    let is_configured = input.kubelet_command.is_some() || input.environment_file.is_some();
    let is_called = || user_data.parts.iter().any(|part| commands_of(part).iter().any(is_nodeadm_init));
    if is_configured || is_called() { Severity::Warning } else { verdicts::UD03.severity }
}

fn document(part: &Part, bootstrap: &mut ParsedBootstrap, merged: &mut Merged, findings: &mut Findings) {
    if let Some(line) = part.not_utf8 {
        merged.is_broken = true;
        let message = "the NodeConfig is not valid YAML: it has bytes that are not UTF-8";
        return findings.add(&verdicts::UD04, message, part.source.at(line), line_text(&part.text, line));
    }
    let tree = match tree::yaml(&part.text) {
        Ok(tree) if tree.is_map() => tree,
        Ok(tree) => {
            let message = format!("the NodeConfig must be a map, not {}", tree.describe());
            merged.is_broken = true;
            return findings.add(&verdicts::UD04, message, part.source.at(1), line_text(&part.text, 1));
        }
        Err(fault) => {
            let line = fault.line.unwrap_or(1);
            merged.is_broken = true;
            let message = format!("the NodeConfig is not valid YAML: {}", fault.reason);
            return findings.add(&verdicts::UD04, message, part.source.at(line), line_text(&part.text, line));
        }
    };
    let text = |key: &str| tree.get(key).and_then(Tree::text).unwrap_or_default();
    for (key, expected) in [("kind", "NodeConfig"), ("apiVersion", "node.eks.aws/v1alpha1")] {
        if text(key) != expected {
            merged.is_broken = true;
            let line = tree.entry(key).map_or(1, |(line, _)| line);
            let message = match tree.get(key) {
                Some(_) => format!("{key} is `{}`, not `{expected}`", text(key)),
                None => format!("{key} is missing: it must be `{expected}`"),
            };
            findings.add(&verdicts::UD05, message, part.source.at(line), line_text(&part.text, line));
        }
    }
    for fault in NODE_CONFIG.check(&tree, None) {
        field(&fault, part, merged, findings);
    }
    if let Some(line) = tree::ignored_document(&part.text) {
        node_config::second(line, part, findings);
    }
    let Some(spec) = tree.get("spec") else { return };
    cluster(spec, part, bootstrap);
    node_config::check(spec, part, findings);
    if let Some(containerd) = spec.at(&["containerd", "config"]) {
        containerd::check(containerd, part, bootstrap, findings);
    }
    if let Some((line, environment)) = spec.get("instance").and_then(|it| it.entry("environment")) {
        environment_of_services(environment, part.source.at(line), merged, findings);
    }
    let Some(kubelet) = spec.get("kubelet") else { return };
    if let Some(config) = kubelet.get("config") {
        if config.is_map() {
            merged.max_pods.extend(config.entry("maxPods").map(|(line, _)| part.source.at(line)));
            bootstrap.layers.push(Layer { tree: config.clone(), source: part.source.clone(), form: Form::Field });
        } else {
            merged.is_broken = true;
            let message = format!("field `spec.kubelet.config` must be a map, not {}", config.describe());
            let line = config.line.max(1);
            findings.add(&verdicts::UD04, message, part.source.at(line), line_text(&part.text, line));
        }
    }
    if let Some((line, value)) = kubelet.entry("maxPodsExpression")
        && let Some(text) = value.text().filter(|text| !text.is_empty())
    {
        bootstrap.max_pods_expression = Some(Stated { text: text.to_owned(), place: part.source.at(line) });
    }
    for flag in kubelet.get("flags").map(Tree::items).unwrap_or_default() {
        if let Some(text) = flag.text() {
            merged.flags.push((text.to_owned(), part.source.at(flag.line.max(1))));
        }
    }
}

fn field(fault: &FieldFault, part: &Part, merged: &mut Merged, findings: &mut Findings) {
    let place = part.source.at(fault.line.max(1));
    let shown = line_text(&part.text, fault.line.max(1));
    let path = &fault.path;
    let name = path.rsplit('.').next().unwrap_or(path);
    let is_of_kubelet = KUBELET.begins_with(name) && !matches!(name, "kind" | "apiVersion");
    match &fault.kind {
        FieldFaultKind::Unknown { .. } if is_of_kubelet => {
            let message =
                format!("nodeadm ignores field `{path}`: the kubelet's settings are in `spec.kubelet.config`");
            let fix = format!("write it as `spec.kubelet.config.{name}`");
            findings.add_with_fix(&verdicts::UD06, message, &fix, place, shown);
        }
        FieldFaultKind::Type { wanted, found } => {
            merged.is_broken = true;
            findings.add(&verdicts::UD04, format!("field `{path}` must be {wanted}, not {found}"), place, shown);
        }
        FieldFaultKind::Unknown { nearest: Some(nearest) } => {
            let message = format!("nodeadm ignores field `{path}`; did you mean `{nearest}`?");
            findings.add(&verdicts::UD06, message, place, shown);
        }
        FieldFaultKind::Unknown { nearest: None } | FieldFaultKind::OtherVersion { .. } => {
            let message = format!("nodeadm ignores field `{path}`");
            findings.add_as(Severity::Warning, &verdicts::UD06, message, place, shown);
        }
        FieldFaultKind::Twice => {
            let message = format!("field `{path}` occurs twice; the last one counts");
            findings.add_as(Severity::Warning, &verdicts::UD06, message, place, shown);
        }
    }
}

/// Reads the cluster settings. Scalars of later documents override earlier ones.
fn cluster(spec: &Tree, part: &Part, bootstrap: &mut ParsedBootstrap) {
    let Some(cluster) = spec.get("cluster") else { return };
    let stated = |key: &str| {
        let (line, value) = cluster.entry(key)?;
        let text = value.text().filter(|text| !text.is_empty())?.to_owned();
        Some(Stated { text, place: part.source.at(line) })
    };
    for (key, place) in [
        ("name", &mut bootstrap.cluster_name),
        ("apiServerEndpoint", &mut bootstrap.endpoint),
        ("certificateAuthority", &mut bootstrap.certificate_authority),
        ("cidr", &mut bootstrap.service_cidr),
    ] {
        if let Some(stated) = stated(key) {
            *place = Some(stated);
        }
    }
}

fn required(bootstrap: &ParsedBootstrap, user_data: &UserData, findings: &mut Findings) {
    for (what, field, stated) in [
        ("Name is missing in cluster configuration", "spec.cluster.name", &bootstrap.cluster_name),
        (
            "Apiserver endpoint is missing in cluster configuration",
            "spec.cluster.apiServerEndpoint",
            &bootstrap.endpoint,
        ),
        (
            "Certificate authority is missing in cluster configuration",
            "spec.cluster.certificateAuthority",
            &bootstrap.certificate_authority,
        ),
        ("CIDR is missing in cluster configuration", "spec.cluster.cidr", &bootstrap.service_cidr),
    ] {
        if stated.is_none() {
            findings.add_with_fix(
                &verdicts::UD07,
                format!("`{field}` is missing"),
                &format!("fill in `{field}` in the NodeConfig"),
                user_data.anywhere(),
                what,
            );
        }
    }
}

/// Reads the flags. nodeadm joins them with blanks, without quotes, into an environment file, which systemd reads.
/// Flags that nodeadm generates always come first, so a quote in these flags never begins the value, where the file
/// format would interpret it.
fn arguments(flags: Vec<(String, Place)>, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    let mut file = format!("{VARIABLE}={OWN}");
    let mut starts = Vec::new();
    for (flag, place) in &flags {
        file.push(' ');
        starts.push((file.len(), place.clone()));
        file.push_str(flag);
    }
    let place_of = |at: usize| {
        let index = starts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        starts.get(index).map(|(_, place)| place.clone())
    };
    // A trailing line end, as left by YAML's `|`, cuts off nothing.
    if let Some(cut) = file.trim_end().find(['\n', '\r']) {
        let lost = file.get(cut..).unwrap_or_default().trim();
        let message = format!("a line end in a flag loses `{}`", lost.split(['=', '\n']).next().unwrap_or_default());
        if let Some(place) = place_of(cut) {
            bootstrap.lose(lost, &place);
            findings.add(&verdicts::KA05, message, place, lost);
        }
    }
    let variables = environment_file(&file);
    let value = last(&variables, VARIABLE).map(|variable| variable.value.as_slice()).unwrap_or_default();
    for word in split_value(value).into_iter().skip(1) {
        if let Some(place) = place_of(word.at) {
            bootstrap.arguments.push(Argument { text: word.text, place, is_open: false });
        }
    }
}

/// Reports calls of bootstrap.sh. Scripts run after nodeadm has read its configuration.
fn scripts(input: &BootstrapInput, user_data: &UserData, findings: &mut Findings) {
    for part in &user_data.parts {
        let commands = commands_of(part);
        if let Some((words, at)) = commands.iter().find_map(bootstrap_call) {
            // With a NodeConfig, which Muster and Karpenter add, the node joins although the script fails.
            let is_configured = input.is_of_node_class || user_data.of_kind(PartKind::NodeConfig).next().is_some();
            let severity = if is_configured { Severity::Warning } else { Severity::Error };
            let place = part.source.at(words[at].line);
            findings.add_as(
                severity,
                &verdicts::UD10,
                "bootstrap.sh is called, which AL2023 does not have",
                place,
                &words[at].text,
            );
        }
    }
}

fn environment_of_services(environment: &Tree, place: Place, merged: &mut Merged, findings: &mut Findings) {
    let Some(default) = environment.get("default") else { return };
    let value = |name: &str| default.get(name).and_then(Tree::text);
    if value("AWS_USE_FIPS_ENDPOINT").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
        merged.fips = Some(place.clone());
    }
    merged.has_proxy |= PROXIES.iter().any(|name| value(name).is_some());
    let exceptions = value("NO_PROXY").or(value("no_proxy")).unwrap_or_default();
    let knows_metadata =
        exceptions.split(',').map(str::trim).any(|it| it == "*" || it.starts_with("169.254.") || it == "link-local");
    if merged.has_proxy && !knows_metadata {
        let message = "a proxy is set for all services, and `NO_PROXY` lacks `169.254.169.254`";
        findings.add(&verdicts::NW06, message, place, "spec.instance.environment.default");
    }
}

/// Regions with a FIPS 140 endpoint of EC2. In GovCloud regions all endpoints are FIPS endpoints. Source:
/// aws.amazon.com/compliance/fips.
const FIPS_REGIONS: [&str; 6] = ["us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "ca-west-1"];

/// Reports FIPS endpoints in a region without them: nodeadm calls EC2 with the environment of all services.
fn fips(asked: Option<Place>, bootstrap: &ParsedBootstrap, findings: &mut Findings) {
    let Some(place) = asked else { return };
    let Some(region) = bootstrap.endpoint.as_ref().and_then(|endpoint| region(&endpoint.text)) else { return };
    if !FIPS_REGIONS.contains(&region) && !region.starts_with("us-gov-") {
        let message = format!("EC2 has no FIPS endpoint in {region}");
        findings.add(&verdicts::ID10, message, place, "AWS_USE_FIPS_ENDPOINT: true");
    }
}

/// Returns the region in an EKS endpoint: `https://ID.gr7.REGION.eks.amazonaws.com`,
/// `https://ID.eks-cluster.REGION.api.aws`.
fn region(endpoint: &str) -> Option<&str> {
    let host = endpoint.split("://").nth(1)?.split(['/', ':']).next()?;
    let mut before = None;
    for label in host.split('.') {
        if matches!(label, "eks" | "api") {
            return before;
        }
        before = Some(label);
    }
    None
}

fn proxies(user_data: &UserData, has_proxy: bool, findings: &mut Findings) {
    for part in user_data.of_kind(PartKind::Shell).filter(|_| !has_proxy) {
        for command in commands(&part.text) {
            let Some((first, rest)) = command.words.split_first().filter(|(first, _)| first.text == "export") else {
                continue;
            };
            let name = |text: &str| text.split('=').next().is_some_and(|name| PROXIES.contains(&name));
            if let Some(word) = rest.iter().find(|word| name(&word.text)) {
                let variable = word.text.split('=').next().unwrap_or_default();
                let message = format!("`{variable}` is exported by a script, which nodeadm does not see");
                findings.add(&verdicts::ID09, message, part.source.at(first.line), format!("export {}", word.text));
            }
        }
    }
}
