//! Evaluation of a question into a report.

use crate::agent_config::AgentConfig;
use crate::families::environment_file::read as read_environment;
use crate::families::{al2, al2023, bottlerocket, windows};
use crate::family::Family;
use crate::finding::Findings;
use crate::image;
use crate::input::{BootstrapInput, File};
use crate::kubelet::arguments;
use crate::kubelet::config::{Form, Layer, merged, with_flags};
use crate::kubelet::instance::{FALLBACK, Figures, evaluate};
use crate::node_class::{self, Launch};
use crate::parsed::{Argument, ParsedBootstrap};
use crate::place::{Place, Source, line_text};
use crate::report::{Effective, Report};
use crate::rules;
use crate::secrets::Values;
use crate::tree;
use crate::userdata::{PartKind, UserData};
use crate::verdicts;

/// Validates documents. It is total: every document yields a report.
///
/// ```
/// use muster_bootstrap::userdata::UserData;
/// use muster_bootstrap::{BootstrapInput, Family, validate};
///
/// let script = b"#!/bin/bash\n/etc/eks/bootstrap.sh --kubelet-extra-args '--max-pods=20'\n";
/// let report = validate(&BootstrapInput {
///     user_data: Some(UserData::read(script, "user-data")),
///     family: Some(Family::Al2),
///     ..BootstrapInput::default()
/// });
/// assert!(!report.is_ok());
/// assert!(report.findings.iter().all(|finding| !finding.verdict.fix.is_empty()));
/// ```
#[must_use]
pub fn validate(input: &BootstrapInput) -> Report {
    let mut findings = Findings::without(secrets(input));
    let family = family(input);
    let bootstrap = parsed(input, family, &mut findings);
    let texts: Vec<&str> = bootstrap.arguments.iter().map(|argument| argument.text.as_str()).collect();
    let is_open = |index: usize| bootstrap.arguments.get(index).is_some_and(|argument: &Argument| argument.is_open);
    let parsed = arguments::parse(&texts, &is_open, &input.flags);
    let kubelet = Kubelet { config: merged(&bootstrap.layers), parsed };
    judge(input, family, &bootstrap, &kubelet, &mut findings);
    let node_name = rules::registration::name(&bootstrap, &kubelet.parsed, &mut findings);
    let effective = Effective { node_name, ..effective(input, family, &bootstrap, kubelet) };
    Report { findings: findings.into_sorted(), effective }
}

/// Configuration of the kubelet: its files and its flags.
struct Kubelet {
    config: serde_json::Map<String, serde_json::Value>,
    parsed: arguments::Parsed,
}

/// Parses all documents, in the order in which they take effect.
fn parsed(input: &BootstrapInput, family: Family, findings: &mut Findings) -> ParsedBootstrap {
    let mut bootstrap = ParsedBootstrap::default();
    if let Some(user_data) = &input.user_data {
        rules::agent::check(user_data, family, findings);
    }
    // Karpenter and Muster add the call of the bootstrap; if the kubelet is already configured, the bootstrap has run.
    let is_all = !input.is_of_node_class && input.kubelet_command.is_none() && input.environment_file.is_none();
    let is_told = input.family.is_some();
    if let Some(user_data) = &input.user_data
        && rules::envelope::check(user_data, family, findings)
        && (!is_all || rules::envelope::content(user_data, family, is_told, findings))
    {
        read(input, user_data, family, &mut bootstrap, findings);
        rules::scripts::check(user_data, family, is_all, findings);
        if let Some(arch) = input.arch {
            rules::architecture::check(user_data, arch, findings);
        }
    }
    if input.is_of_node_class {
        // The cluster is not known yet: the values in `launch` are placeholders and prove nothing.
        (bootstrap.cluster_name, bootstrap.endpoint, bootstrap.certificate_authority, bootstrap.service_cidr) =
            (None, None, None, None);
    }
    if let Some((found, path)) = &input.kubelet_arch
        && let Some(wanted) = input.arch
    {
        image::architecture(*found, wanted, path, findings);
    }
    if let Some(image) = &input.image {
        image::check(image, input.arch, findings);
        image::drivers(image, &wanted_drivers(input), findings);
    }
    if let Some(file) = &input.environment_file {
        read_environment(file, family, &mut bootstrap, findings);
    }
    if let Some((name, arguments)) = &input.kubelet_command {
        let place = Source::whole(name.as_str()).anywhere();
        bootstrap.configures_kubelet = true;
        bootstrap.has_all_arguments = true;
        bootstrap.is_of_one_machine = true;
        let argument = |text: &String| Argument { text: text.clone(), place: place.clone(), is_open: false };
        bootstrap.arguments = arguments.iter().map(argument).collect();
    }
    if input.kubelet_command.is_some() && !input.kubelet_config.is_empty() {
        // The files that the bootstrap has written apply, not the NodeConfig that they were generated from.
        bootstrap.layers.retain(|layer| layer.form != Form::Field);
    }
    read_configuration(&input.kubelet_config, &mut bootstrap, findings);
    bootstrap
}

/// Applies the rules that need all documents.
fn judge(
    input: &BootstrapInput,
    family: Family,
    bootstrap: &ParsedBootstrap,
    Kubelet { config, parsed }: &Kubelet,
    findings: &mut Findings,
) {
    rules::cluster::check(bootstrap, findings);
    rules::arguments::check(bootstrap, parsed, &input.flags, findings);
    rules::config::fields(bootstrap, input.flags.version, findings);
    if bootstrap.configures_kubelet {
        let (version, instance_type) = (input.flags.version, input.instance_type.as_deref());
        let target = rules::config::Target { family, version, instance_type };
        rules::config::whole(bootstrap, parsed, config, target, findings);
    }
    rules::containerd::version(bootstrap, input.containerd_version.as_deref(), findings);
    rules::pods::expression(bootstrap, input.instance_type.as_deref(), findings);
    if let Some(class) = &input.class {
        rules::class::check(class, findings);
    }
    rules::registration::check(input, bootstrap, parsed, config, findings);
}

/// Returns the configuration in effect, without the name of the node.
fn effective(
    input: &BootstrapInput,
    family: Family,
    bootstrap: &ParsedBootstrap,
    Kubelet { config, parsed }: Kubelet,
) -> Effective {
    let in_effect = with_flags(&config, &parsed);
    let max_pods = match &bootstrap.settings {
        Some(settings) => settings.max_pods,
        None => in_effect.get("maxPods").and_then(serde_json::Value::as_i64).map(|pods| match pods {
            0 if parsed.last("max-pods").is_none() => FALLBACK,
            pods => pods,
        }),
    };
    let max_pods = max_pods.or_else(|| pods_of_type(input, family, bootstrap.max_pods_expression.as_ref()));
    let text = |stated: Option<&crate::parsed::Stated>| stated.map(|stated| stated.text.clone());
    Effective {
        family,
        cluster_name: text(bootstrap.cluster_name.as_ref()),
        endpoint: text(bootstrap.endpoint.as_ref()),
        taints: rules::registration::effective_taints(bootstrap, &parsed, &config),
        labels: rules::registration::effective_labels(bootstrap, &parsed),
        service_cidr: text(bootstrap.service_cidr.as_ref()),
        certificate_authority: text(bootstrap.certificate_authority.as_ref()),
        flags: parsed
            .given
            .iter()
            .filter(|given| !bootstrap.arguments.get(given.index).is_some_and(|argument| argument.is_open))
            .map(|given| (given.name.clone(), given.value.clone()))
            .collect(),
        kubelet_settings: in_effect,
        // Values that are known only on the node do not reach the kubelet as they are written.
        kubelet_args: bootstrap
            .arguments
            .iter()
            .filter(|argument| !argument.is_open)
            .map(|argument| argument.text.clone())
            .collect(),
        kubelet_config: config,
        max_pods,
        needs_pod_table: bootstrap.needs_pod_table,
        node_name: None,
        secrets: secrets(input),
    }
}

/// Collects the values that the documents assign to secret names.
fn secrets(input: &BootstrapInput) -> Values {
    let mut secrets = Values::default();
    if let Some(user_data) = &input.user_data {
        secrets.gather(user_data.text());
        for part in &user_data.parts {
            secrets.gather(&part.text);
        }
    }
    for file in input.environment_file.iter().chain(&input.kubelet_config) {
        secrets.gather(&file.text);
    }
    secrets
}

/// Validates the user data that Muster and Karpenter generate from an EC2NodeClass. The cluster is not known at this
/// time, so its placeholders in `launch` are neither validated nor shown.
///
/// ```
/// use muster_bootstrap::node_class::Launch;
/// use muster_bootstrap::{BootstrapInput, Family, validate_node_class};
///
/// let input = BootstrapInput { family: Some(Family::Al2023), ..BootstrapInput::default() };
/// let launch = Launch {
///     cluster_name: "shop".to_owned(),
///     endpoint: "https://example.com".to_owned(),
///     service_cidr: "10.100.0.0/16".to_owned(),
///     ..Launch::default()
/// };
/// let report = validate_node_class(input, "default", "", &launch);
/// assert_eq!(report.effective.family, Family::Al2023);
/// ```
#[must_use]
pub fn validate_node_class(mut input: BootstrapInput, name: &str, custom: &str, launch: &Launch) -> Report {
    let source = format!("user data of EC2NodeClass `{name}`");
    let family = input.family.unwrap_or(Family::Custom);
    input.is_of_node_class = family != Family::Custom;
    input.family = Some(family);
    if rules::envelope::is_encoded(custom) {
        let mut findings = Findings::default();
        let place = Place { source: source.as_str().into(), line: Some(1) };
        let message = "the user data is base64, which Muster and Karpenter take for the text itself";
        findings.add(&verdicts::UD37, message, place, "");
        // Settings that are missing for this reason need no findings of their own.
        (input.user_data, input.required_taints, input.required_labels) = (None, Vec::new(), Vec::new());
        let mut report = validate(&input);
        report.findings.splice(0..0, findings.into_sorted());
        return report;
    }
    let fault = match node_class::user_data(family, custom, launch) {
        Ok(text) => {
            input.user_data = Some(UserData::read(text.as_bytes(), &source));
            return validate(&input);
        }
        Err(fault) => fault,
    };
    // User data that cannot be merged is judged as it is, so that the faulty line is found.
    input.user_data = Some(UserData::read(custom.as_bytes(), &source));
    input.required_taints.clear();
    let mut report = validate(&input);
    if report.is_ok() {
        let mut findings = Findings::default();
        let place = Place { source: source.as_str().into(), line: None };
        findings.add(&verdicts::UD02, format!("no launch is possible: {fault}"), place, "");
        report.findings.splice(0..0, findings.into_sorted());
    }
    report
}

/// Returns the drivers that the instance type or the resources in the agent's `expect` require, each with its origin.
fn wanted_drivers(input: &BootstrapInput) -> Vec<(&'static str, String)> {
    let mut wanted = Vec::new();
    if let Some((name, driver)) = input.instance_type.as_deref().and_then(|it| Some((it, Figures::of(it)?.driver?))) {
        wanted.push((driver, name.to_owned()));
    }
    let config = input.user_data.as_ref().and_then(|user_data| AgentConfig::find(user_data).ok().flatten());
    for name in config.iter().flat_map(|config| config.spec.expect.resources.keys()) {
        let driver = match name.split('/').next() {
            Some("nvidia.com") => "nvidia",
            Some("aws.amazon.com") if name.contains("/neuron") => "neuron",
            _ => continue,
        };
        wanted.push((driver, name.clone()));
    }
    wanted
}

/// Returns the number of pods that nodeadm sets by default.
fn pods_of_type(input: &BootstrapInput, family: Family, expression: Option<&crate::parsed::Stated>) -> Option<i64> {
    let figures = Figures::of(input.instance_type.as_deref().filter(|_| family == Family::Al2023)?)?;
    let own = expression.and_then(|stated| evaluate(&stated.text, figures).ok());
    Some(own.unwrap_or_else(|| figures.pods()))
}

fn family(input: &BootstrapInput) -> Family {
    let detected = input.user_data.as_ref().map(Family::detect);
    input.family.or(detected).unwrap_or(Family::Custom)
}

/// Reads the document in the format of its family. For a Custom image the format is detected from the document.
fn read(
    input: &BootstrapInput,
    user_data: &UserData,
    family: Family,
    bootstrap: &mut ParsedBootstrap,
    findings: &mut Findings,
) {
    let has = |kind| user_data.of_kind(kind).next().is_some();
    match family {
        Family::Al2 => al2::read(user_data, bootstrap, findings),
        Family::Al2023 => al2023::read(input, user_data, bootstrap, findings),
        Family::Bottlerocket => bottlerocket::read(input, user_data, bootstrap, findings),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => {
            windows::read(user_data, bootstrap, findings)
        }
        Family::Custom if has(PartKind::NodeConfig) => al2023::read(input, user_data, bootstrap, findings),
        Family::Custom if has(PartKind::Toml) => bottlerocket::read(input, user_data, bootstrap, findings),
        Family::Custom if has(PartKind::PowerShell) => windows::read(user_data, bootstrap, findings),
        Family::Custom => al2::read(user_data, bootstrap, findings),
    }
}

fn read_configuration(files: &[File], bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    for (index, file) in files.iter().enumerate() {
        let source = Source::whole(file.name.as_str());
        let form = Form::of(index, &file.name);
        bootstrap.configures_kubelet = true;
        match tree::yaml(&file.text) {
            Ok(tree) if tree.is_map() => bootstrap.layers.push(Layer { tree, source, form }),
            Ok(tree) => {
                let message = format!("the kubelet's configuration must be a map, not {}", tree.describe());
                findings.add(form.unreadable(), message, source.at(1), line_text(&file.text, 1));
            }
            Err(fault) => {
                let line = fault.line.unwrap_or(1);
                let message = format!("the kubelet's configuration is not YAML or JSON: {}", fault.reason);
                findings.add(form.unreadable(), message, source.at(line), line_text(&file.text, line));
            }
        }
    }
}
