//! Checks before the kubelet starts. Pure: `probes` collect the facts in parallel.
//!
//! ```text
//!  metadata   ─► identity ────────────────────┐
//!  user data  ─┐                              │
//!  argv, files ┴► muster_bootstrap::validate ─┤
//!  /proc, /sys ─► machine ────────────────────┼──► Preflight: findings, effective settings
//!  DNS TCP TLS ─► way ────────────────────────┤
//!  token, Node ─► standing ───────────────────┘
//! ```
//!
//! The checks are repeated whenever the kubelet's unit is about to start. The files as they are at that moment decide.

pub mod command;
pub mod containerd;
pub mod credentials;
pub mod identity;
pub mod machine;
pub mod network;
pub mod proxy;
pub mod way;
mod windows;

use jiff::{SignedDuration, Timestamp};
use muster_bootstrap::agent_config::{AgentConfig, AgentConfigFault, Expectation};
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::input::{Arch, File, RequiredLabel};
use muster_bootstrap::kubelet::arguments::FlagSet;
use muster_bootstrap::kubelet::taints::Taint;
use muster_bootstrap::place::Source;
use muster_bootstrap::report::Effective;
use muster_bootstrap::userdata::UserData;
use muster_bootstrap::{BootstrapInput, Family, validate, verdicts};

use self::credentials::{CredentialCheck, OwnNode};
use self::identity::Metadata;
use self::machine::Machine;
use self::way::Way;
use crate::devices::chain::{self, Sightings};
use crate::watch::units::Unit;

/// All facts collected by the probes.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Time of collection.
    pub now: Timestamp,
    /// AMI family, detected from programs in the image.
    pub family: Option<Family>,
    /// CPU architecture of the machine.
    pub arch: Option<Arch>,
    /// Instance metadata.
    pub metadata: Metadata,
    /// Version and flags of the kubelet.
    pub flags: FlagSet,
    /// Architecture of the kubelet binary, and its path.
    pub kubelet_arch: Option<(Arch, String)>,
    /// Source and arguments of the kubelet's command line, as systemd will pass it; `None` until its files are written.
    pub command: Option<(String, Vec<String>)>,
    /// Files of the kubelet's configuration, in the order in which the kubelet reads them.
    pub config: Vec<File>,
    /// Files named by the command line or the configuration that do not exist.
    pub missing: Vec<String>,
    /// State of the machine.
    pub machine: Machine,
    /// Result of connecting to the API server; `None` while its address is unknown.
    pub way: Option<Way>,
    /// True if the kubelet uses a kind of proxy that the agent does not support.
    pub has_proxy: bool,
    /// Identity of the node in the API server; `None` if it could not be determined.
    pub standing: Option<CredentialCheck>,
    /// Device state.
    pub devices: Sightings,
    /// State of the sandbox image; `None` while containerd does not answer.
    pub sandbox: Option<containerd::Sandbox>,
    /// States of the systemd units.
    pub units: Vec<Unit>,
    /// True if this instance has had a Node, see [`crate::boot_state::BootState::has_joined`].
    pub has_joined: bool,
    /// True if the kubelet runs: it owns its ports, and has read its files.
    pub is_kubelet_active: bool,
    /// True if the bootstrap has finished, so that missing files will not be written any more.
    pub is_bootstrapped: bool,
}

impl Facts {
    /// Returns true if the API server has a Node of this instance, as after a reboot or a kubelet restart.
    #[must_use]
    pub fn has_own_node(&self) -> bool {
        let Some(CredentialCheck::Known { node: OwnNode::Present(node), .. }) = &self.standing else { return false };
        let own = self.metadata.instance().map(|it| it.id.as_str());
        own.is_some() && node.instance_id() == own
    }
}

/// Result of the checks.
#[derive(Debug, Clone)]
pub struct Preflight {
    /// Findings, errors first.
    pub findings: Vec<Finding>,
    /// Effective settings of the kubelet.
    pub effective: Effective,
    /// Expected result of the join.
    pub expect: Expectation,
    /// Taints that the node must register with.
    pub required_taints: Vec<Taint>,
    /// Name that the node will have, if known.
    pub node_name: Option<String>,
}

impl Preflight {
    /// Returns the errors, which should keep the kubelet from starting.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// Returns the first error.
    #[must_use]
    pub fn fatal(&self) -> Option<&Finding> {
        self.errors().next()
    }
}

/// Runs all checks.
#[must_use]
pub fn examine(facts: &Facts) -> Preflight {
    let mut findings = Vec::new();
    let user_data = facts.metadata.user_data().map(|bytes| UserData::read(bytes, "user-data"));
    // `validate` reports errors in it.
    let config = agent_config(user_data.as_ref()).ok().flatten();
    let expect = config.as_ref().map(|config| config.spec.expect.clone()).unwrap_or_default();
    let required_taints: Vec<Taint> = expect.taints.iter().filter_map(|text| text.parse().ok()).collect();
    let input = BootstrapInput {
        user_data: user_data.filter(|it| it.size > 0),
        family: facts.family,
        is_of_node_class: false,
        flags: facts.flags.clone(),
        arch: facts.arch,
        kubelet_arch: facts.kubelet_arch.clone(),
        required_taints: required_taints.clone(),
        required_labels: expect.labels.iter().map(label).collect(),
        environment_file: None,
        kubelet_command: facts.command.clone(),
        kubelet_config: facts.config.clone(),
        image: None,
        instance_type: facts.metadata.instance().map(|it| it.instance_type.clone()),
        containerd_version: facts.machine.containerd_version.clone(),
        class: None,
    };
    let is_configured = facts.command.is_some();
    let report = validate(&input);
    // A newer controller may use fields that this agent does not know; that must not cost the node.
    findings.extend(report.findings.into_iter().map(|it| match it.verdict.code {
        "UD31" => it.with_severity(Severity::Warning),
        _ => it,
    }));
    let effective = report.effective;
    let node_name = node_name(facts, &effective);
    findings.extend(identity::check(&facts.metadata, facts.family, is_configured));
    findings.extend(network::check(facts, &effective));
    findings.extend(machine::check(facts, &effective));
    findings.extend(containerd::check(facts));
    let on_the_way = facts.way.iter().flat_map(|way| way::check(way, facts.now));
    // The agent then connects directly, so its result may differ from the kubelet's.
    findings.extend(on_the_way.map(|it| if facts.has_proxy { it.with_severity(Severity::Warning) } else { it }));
    findings.extend(windows::check(facts));
    let minor = facts.flags.version;
    findings.extend(facts.standing.iter().flat_map(|it| credentials::check(it, node_name.as_deref(), facts, minor)));
    for (name, wanted) in &expect.resources {
        // Only links that exist before any pod runs: bus, driver, file.
        let hardware = Sightings {
            has_no_view: facts.devices.has_no_view,
            files: facts.devices.files.clone(),
            functions: facts.devices.functions.clone(),
            instance_type: facts.devices.instance_type.clone(),
            ..Sightings::default()
        };
        let finding = chain::follow(name, *wanted, &hardware, |_| SignedDuration::ZERO).1;
        // The kubelet registers without a driver, which may come later.
        let is_of_driver = |it: &Finding| chain::OF_DRIVERS.contains(&it.verdict.code);
        findings.extend(finding.map(|it| if is_of_driver(&it) { it.with_severity(Severity::Warning) } else { it }));
    }
    findings.extend(fabric(facts));
    if matches!(facts.standing, Some(CredentialCheck::Known { .. })) {
        // A node that the API server knows has credentials, wherever they come from.
        for finding in findings.iter_mut().filter(|it| matches!(it.verdict.code, "ID01" | "ID02" | "ID04")) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    Preflight { findings, effective, expect, required_taints, node_name }
}

/// Returns the AgentConfig in the user data.
///
/// # Errors
/// It exists but is not valid.
pub fn agent_config(user_data: Option<&UserData>) -> Result<Option<AgentConfig>, AgentConfigFault> {
    user_data.map_or(Ok(None), AgentConfig::find)
}

/// Checks that the fabric manager runs if the machine has NVSwitches: without it the GPUs are not usable.
fn fabric(facts: &Facts) -> Option<Finding> {
    // NVIDIA bridges, which are not display controllers.
    let switches = facts.devices.functions.iter().filter(|it| it.vendor == "10de" && it.class.starts_with("0680"));
    let (count, unit) = (switches.count(), facts.units.iter().find(|it| it.name == "nvidia-fabricmanager"));
    let is_down = unit.is_none_or(|unit| !unit.exists || unit.has_failed());
    if count == 0 || !is_down {
        return None;
    }
    let text = unit.map_or("not-found", |unit| if unit.exists { unit.active.as_str() } else { "not-found" });
    let message = format!("{count} NVSwitches, and nvidia-fabricmanager does not run");
    Some(Finding::new(&verdicts::GP15, &message, Some((Source::whole("unit nvidia-fabricmanager").anywhere(), text))))
}

fn label((key, value): (&String, &String)) -> RequiredLabel {
    RequiredLabel { key: key.clone(), value: Some(value.clone()) }
}

/// Returns the name that the kubelet will register: `--hostname-override`, else the host name.
fn node_name(facts: &Facts, effective: &Effective) -> Option<String> {
    let of_flag = effective.flags.get("hostname-override").map(|name| name.trim().to_lowercase());
    of_flag.or_else(|| facts.command.is_some().then(|| facts.machine.host_name.to_lowercase()))
}

#[cfg(test)]
mod coverage;
#[cfg(test)]
pub(crate) mod tests;
