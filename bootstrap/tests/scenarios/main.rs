//! Scenarios: a document that leads to a verdict, and the same document mended.
//!
//! Each file `cases/<code>….yaml` says in prose what it is about, and holds two documents: `fail`, which must lead to
//! the verdict of its name, and `pass`, which must not, and must be without any error. In both, `@CLUSTER@` stands for the
//! cluster block of a NodeConfig, `@CA@` for a certificate authority, and `@NC@` for the first lines of a NodeConfig.
//! What is found is in the snapshot beside it. In `good/` are documents of which nothing must be found.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use muster_bootstrap::finding::Severity;
use muster_bootstrap::image::{Image, LINUX, WINDOWS};
use muster_bootstrap::input::{Arch, ClassSettings, File};
use muster_bootstrap::kubelet::arguments::FlagSet;
use muster_bootstrap::kubelet::taints::Taint;
use muster_bootstrap::node_class::Launch;
use muster_bootstrap::userdata::{UserData, to_base64};
use muster_bootstrap::{BootstrapInput, Report, validate, validate_node_class, verdicts};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Scenario {
    description: String,
    #[serde(default)]
    family: Option<String>,
    #[serde(default)]
    kubelet_version: Option<String>,
    #[serde(default)]
    arch: Option<String>,
    #[serde(default)]
    require_taints: Vec<String>,
    #[serde(default)]
    require_labels: Vec<String>,
    /// The documents are `userData` of an EC2NodeClass.
    #[serde(default)]
    node_class: bool,
    #[serde(default)]
    instance_type: Option<String>,
    #[serde(default)]
    containerd_version: Option<String>,
    fail: Documents,
    pass: Documents,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Documents {
    #[serde(default)]
    user_data: Option<String>,
    /// Repeats the user data, for documents that are too long to be written down.
    #[serde(default)]
    times: Option<usize>,
    /// Puts these bytes before it.
    #[serde(default)]
    prefix: Vec<u8>,
    #[serde(default)]
    environment_file: Option<String>,
    #[serde(default)]
    kubelet_config: Option<String>,
    #[serde(default)]
    kubelet_version: Option<String>,
    #[serde(default)]
    image: Option<ImageDocument>,
    /// Beside the user data of an EC2NodeClass.
    #[serde(default)]
    class: Option<ClassDocument>,
}

/// Fields of an EC2NodeClass.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClassDocument {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    instance_profile: Option<String>,
    #[serde(default)]
    hop_limit: Option<i64>,
    #[serde(default)]
    has_no_metadata: bool,
}

impl ClassDocument {
    fn settings(&self) -> ClassSettings {
        ClassSettings {
            role: self.role.clone(),
            instance_profile: self.instance_profile.clone(),
            hop_limit: self.hop_limit,
            has_no_metadata: self.has_no_metadata,
        }
    }
}

/// What was seen of a machine.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ImageDocument {
    /// An image of Windows.
    #[serde(default)]
    windows: bool,
    /// Files that are there and should not be.
    #[serde(default)]
    leftovers: Vec<String>,
    /// Programs that are not there.
    #[serde(default)]
    missing: Vec<String>,
    /// Drivers of accelerators that it has.
    #[serde(default)]
    drivers: Vec<String>,
    /// Programs that cannot be executed.
    #[serde(default)]
    refused: Vec<String>,
}

impl ImageDocument {
    fn image(&self) -> Image {
        let places = if self.windows { &WINDOWS } else { &LINUX };
        let is_named = |names: &[String], path: &str| names.iter().any(|name| name == path);
        let binary = |path: &&'static str| (*path, (!is_named(&self.missing, path)).then_some(Some(Arch::Amd64)));
        let leftovers = places.leftovers.iter().map(|(path, _)| *path);
        Image {
            places: Some(places),
            leftovers: leftovers.filter(|path| is_named(&self.leftovers, path)).collect(),
            binaries: places.binaries.iter().map(binary).collect(),
            drivers: places.drivers.iter().map(|(name, _)| *name).filter(|it| is_named(&self.drivers, it)).collect(),
            refused: places
                .binaries
                .iter()
                .filter(|it| is_named(&self.refused, it))
                .map(|it| (*it, "mode 0644".to_owned()))
                .collect(),
        }
    }
}

/// A configuration of the agent that expects a device.
const NEURON: &str =
    "apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {expect: {resources: {aws.amazon.com/neuron: 1}}}\n";

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "scenarios", "cases"].iter().collect()
}

fn certificate_authority() -> String {
    to_base64(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
}

fn filled(text: &str) -> String {
    let cluster = "cluster: {name: shop, apiServerEndpoint: 'https://abc.gr7.eu-west-1.eks.amazonaws.com', \
                   certificateAuthority: '@CA@', cidr: 10.100.0.0/16}";
    text.replace("@NC@", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig")
        .replace("@CLUSTER@", cluster)
        .replace("@NEURON@", &to_base64(NEURON.as_bytes()))
        .replace("@CA@", &certificate_authority())
}

fn report(scenario: &Scenario, documents: &Documents) -> Report {
    let family = scenario.family.as_ref().map(|family| family.parse().unwrap());
    let text = documents.user_data.as_ref().map(|text| filled(text).repeat(documents.times.unwrap_or(1)));
    let bytes = text.as_ref().map(|text| [documents.prefix.as_slice(), text.as_bytes()].concat());
    let file = |name: &str, text: &Option<String>| {
        text.as_ref().map(|text| File { name: name.to_owned(), text: filled(text) })
    };
    let version = documents.kubelet_version.as_ref().or(scenario.kubelet_version.as_ref());
    let mut required_taints: Vec<Taint> = scenario.require_taints.iter().map(|it| it.parse().unwrap()).collect();
    required_taints.extend(scenario.node_class.then(Taint::unregistered));
    let input = BootstrapInput {
        user_data: bytes.map(|bytes| UserData::read(&bytes, "user-data")),
        family,
        is_of_node_class: scenario.node_class,
        flags: FlagSet { version: version.map(|it| it.parse().unwrap()), of_binary: None },
        arch: scenario.arch.as_ref().map(|it| it.parse().unwrap()),
        kubelet_arch: None,
        image: documents.image.as_ref().map(ImageDocument::image),
        required_taints,
        required_labels: scenario.require_labels.iter().map(|it| it.parse().unwrap()).collect(),
        kubelet_command: None,
        environment_file: file("env-file", &documents.environment_file),
        kubelet_config: file("kubelet-config", &documents.kubelet_config).into_iter().collect(),
        instance_type: scenario.instance_type.clone(),
        containerd_version: scenario.containerd_version.clone(),
        class: documents.class.as_ref().map(ClassDocument::settings),
    };
    match text.filter(|_| scenario.node_class) {
        Some(text) => validate_node_class(input, "general", &text, &launch()),
        None => validate(&input),
    }
}

fn launch() -> Launch {
    Launch {
        cluster_name: "shop".to_owned(),
        endpoint: "https://abc.gr7.eu-west-1.eks.amazonaws.com".to_owned(),
        certificate_authority: certificate_authority(),
        service_cidr: "10.100.0.0/16".to_owned(),
        cluster_dns: Some("10.100.0.10".to_owned()),
        labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "general".to_owned())]),
        ..Launch::default()
    }
}

fn shown(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        writeln!(text, "{} {}: {}", finding.severity, finding.verdict.code, finding.message).unwrap();
        if let Some(evidence) = &finding.evidence {
            writeln!(text, "  {}: {}", evidence.place, evidence.text).unwrap();
        }
        writeln!(text, "  fix: {}", finding.fix).unwrap();
    }
    let effective = &report.effective;
    writeln!(text, "family {}", effective.family).unwrap();
    let arguments: Vec<_> = effective.kubelet_args.iter().map(|argument| effective.secrets.hide(argument)).collect();
    writeln!(text, "arguments {arguments:?}").unwrap();
    let taints: Vec<String> = effective.taints.iter().map(ToString::to_string).collect();
    writeln!(text, "taints {taints:?}").unwrap();
    text
}

#[test]
fn every_case_fails_and_passes() {
    let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|it| it == "yaml")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let code = name[..4].to_uppercase();
        let text = std::fs::read_to_string(path).unwrap();
        let scenario: Scenario = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(scenario.description.len() > 30, "{name} does not say what it is about");
        let (failing, passing) = (report(&scenario, &scenario.fail), report(&scenario, &scenario.pass));
        if !failing.findings.iter().any(|finding| finding.verdict.code == code) {
            wrong.push(format!("{name} does not lead to {code}:\n{}", shown(&failing)));
        }
        if !passing.is_ok() || passing.findings.iter().any(|finding| finding.verdict.code == code) {
            wrong.push(format!("{name}, mended, is not right:\n{}", shown(&passing)));
        }
        for finding in failing.findings.iter().chain(&passing.findings) {
            assert!(finding.severity != Severity::Error || !finding.fix.is_empty(), "{name}");
        }
        seen.insert(code);
        let mut settings = insta::Settings::clone_current();
        settings.set_description(scenario.description.trim());
        settings.set_omit_expression(true);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_snapshot_path(folder().join("../snapshots"));
        let both = format!("{}\nmended\n{}", shown(&failing), shown(&passing));
        settings.bind(|| insta::assert_snapshot!(name, both));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let codes: BTreeSet<String> = verdicts::of_documents().iter().map(|verdict| verdict.code.to_owned()).collect();
    assert_eq!(seen, codes, "every verdict on documents has a case, and every case a verdict");
}

/// Documents in the shape of those in the documentation of EKS images, Bottlerocket and Karpenter: nothing is wrong with any.
#[test]
fn good_documents_are_good() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "scenarios", "good"].iter().collect();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15);
    for path in files {
        let text = filled(&std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n"));
        for version in [None, Some("1.30"), Some("1.32"), Some("1.34")] {
            let report = validate(&BootstrapInput {
                user_data: Some(UserData::read(text.as_bytes(), "user-data")),
                flags: FlagSet { version: version.map(|it| it.parse().unwrap()), of_binary: None },
                ..BootstrapInput::default()
            });
            assert!(report.findings.is_empty(), "{} {version:?}: {}", path.display(), shown(&report));
            assert!(
                report.effective.cluster_name.is_some() || path.ends_with("al2-condition.sh"),
                "{}",
                path.display()
            );
        }
    }
}

/// Nobody nests like this but by accident or on purpose; readers recurse, and the stack of a thread is small.
#[test]
fn nesting_has_an_end() {
    const DEPTH: usize = 10_000;
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(DEPTH), close.repeat(DEPTH));
    let node_config = |inner: &str| format!("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {inner}");
    let toml = |inner: &str| format!("[settings.kubernetes]\n{inner}");
    let steps = "a.".repeat(DEPTH);
    let containerd = |inner: &str| node_config(&format!("{{containerd: {{config: '{inner}'}}}}"));
    let blocks: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth + 1))).collect();
    let agent = |inner: &str| format!("apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {inner}");
    for (code, text) in [
        ("UD04", node_config(&nested("{a: ", "}"))),
        ("UD04", node_config(&nested("[", "]"))),
        ("UD04", node_config(&format!("\n{blocks}"))),
        ("UD04", format!("{{\"apiVersion\":\"node.eks.aws/v1alpha1\",\"spec\":{}}}", nested("{\"a\":", "}"))),
        ("UD25", toml(&format!("a = {}", nested("[", "]")))),
        ("UD25", toml(&format!("a = {}", nested("{a=", "}")))),
        ("UD25", toml(&format!("{steps}b = 1"))),
        ("UD25", toml(&format!("[{steps}b]\nx = 1"))),
        ("CR01", containerd(&format!("a = {}", nested("[", "]")))),
        ("CR01", containerd(&format!("{steps}b = 1"))),
        ("UD31", agent(&nested("{a: ", "}"))),
        ("UD33", format!("#!/bin/bash\necho {}", nested("$(", ")"))),
        ("UD33", format!("#!/bin/bash\necho {}", nested("${a:-", "}"))),
        ("WN12", format!("<powershell>\n$(x) {}\n</powershell>", nested("$(", ")"))),
        ("WN12", format!("<powershell>\n& x\n$a = {}\n</powershell>", nested("(", ")"))),
        ("WN12", format!("<powershell>\n& x\n$a = {}\n</powershell>", nested("@(", ")"))),
        ("WN12", format!("<powershell>\n& x\n$a = {}\n</powershell>", nested("@{a=", "}"))),
        ("WN12", format!("<powershell>\n& x\n$a = {}\n</powershell>", nested("[string]", ""))),
        ("WN12", format!("<powershell>\n& x\n{}\n</powershell>", nested("(", ""))),
        ("WN12", format!("<powershell>\n& x\n{}\n</powershell>", nested("@{a=", ""))),
    ] {
        let input = BootstrapInput {
            user_data: Some(UserData::read(text.as_bytes(), "user-data")),
            ..BootstrapInput::default()
        };
        let report = validate(&input);
        let start: String = text.chars().take(90).collect();
        assert!(report.findings.iter().any(|it| it.verdict.code == code), "{start}: {}", shown(&report));
    }
    let text = nested("{\"a\":", "}");
    let file = File { name: "kubelet.json".to_owned(), text };
    let report = validate(&BootstrapInput { kubelet_config: vec![file], ..BootstrapInput::default() });
    let messages: Vec<_> = report.findings.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(messages, ["the kubelet's configuration is not YAML or JSON: it is nested deeper than 24 levels"]);
}
