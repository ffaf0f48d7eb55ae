//! What can be known before the kubelet starts, and what it means. Pure: `probes` gather the facts side by side.
//!
//! ```text
//!  metadata   ─► identity ─┐
//!  user data  ─┐           │
//!  argv, files ┴► muster_bootstrap::judge ─┤
//!  /proc, /sys ─► machine ─┼──► Preflight: findings, effective settings
//!  DNS TCP TLS ─► way ─────┤
//!  token, Node ─► standing ┘
//! ```
//!
//! The same facts are judged again whenever the kubelet's unit is about to start: what counts then is what stands in its
//! files at that moment.

pub mod command;
pub mod containerd;
pub mod identity;
pub mod machine;
pub mod network;
pub mod proxy;
pub mod standing;
pub mod way;
mod windows;

use jiff::Timestamp;
use muster_bootstrap::agent_config::{AgentConfig, AgentConfigFault, Expectation};
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::kubelet::arguments::FlagSet;
use muster_bootstrap::kubelet::taints::Taint;
use muster_bootstrap::place::Source;
use muster_bootstrap::question::{Arch, File, RequiredLabel};
use muster_bootstrap::report::Effective;
use muster_bootstrap::userdata::UserData;
use muster_bootstrap::{Family, Question, judge, verdicts};

use self::identity::Metadata;
use self::machine::Machine;
use self::standing::{OwnNode, Standing};
use self::way::Way;
use crate::devices::chain::{self, Sightings};
use crate::watch::units::Unit;

/// Everything that was found out.
#[derive(Debug, Clone)]
pub struct Facts {
    /// When.
    pub now: Timestamp,
    /// The family that the image's programs tell of.
    pub family: Option<Family>,
    /// The machine's architecture.
    pub arch: Option<Arch>,
    /// What instance metadata says.
    pub metadata: Metadata,
    /// The kubelet's version and flags.
    pub flags: FlagSet,
    /// The architecture of the kubelet's program, and its path.
    pub kubelet_arch: Option<(Arch, String)>,
    /// The kubelet's command line as systemd will pass it, once its files are written.
    pub command: Option<(String, Vec<String>)>,
    /// The files of the kubelet's configuration, in the order in which it reads them.
    pub config: Vec<File>,
    /// Files that the command line or the configuration names and that are not there.
    pub missing: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// The way to the API server; `None` while its address is not known.
    pub way: Option<Way>,
    /// Whether the kubelet goes by a proxy of a kind that the agent does not.
    pub has_proxy: bool,
    /// Who the node is to the API server; `None` if it could not be asked.
    pub standing: Option<Standing>,
    /// Devices.
    pub devices: Sightings,
    /// The image of pod sandboxes; `None` while containerd does not say.
    pub sandbox: Option<containerd::Sandbox>,
    /// How systemd's units stand.
    pub units: Vec<Unit>,
    /// Whether there has been a Node of this instance: what [`crate::course::Course::has_joined`] says.
    pub has_joined: bool,
    /// Whether the kubelet runs: then its ports are its own, and its files have been read.
    pub is_kubelet_active: bool,
    /// Whether the bootstrap is over, so that what is not there will not come.
    pub is_bootstrapped: bool,
}

impl Facts {
    /// Whether the API server shows a Node of this very instance, as after a reboot or a restart of its kubelet.
    #[must_use]
    pub fn has_own_node(&self) -> bool {
        let Some(Standing::Known { node: OwnNode::Present(node), .. }) = &self.standing else { return false };
        let own = self.metadata.instance().map(|it| it.id.as_str());
        own.is_some() && node.instance_id() == own
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Preflight {
    /// Errors first.
    pub findings: Vec<Finding>,
    /// What the kubelet will be told.
    pub effective: Effective,
    /// What the node must come to.
    pub expect: Expectation,
    /// The taints that the node must register with.
    pub required_taints: Vec<Taint>,
    /// The name that the node will have, as far as it is known.
    pub node_name: Option<String>,
}

impl Preflight {
    /// What a kubelet should not start with.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// The first of them.
    #[must_use]
    pub fn fatal(&self) -> Option<&Finding> {
        self.errors().next()
    }
}

/// Judges what was found out.
#[must_use]
pub fn examine(facts: &Facts) -> Preflight {
    let mut findings = Vec::new();
    let user_data = facts.metadata.user_data().map(|bytes| UserData::read(bytes, "user-data"));
    // What of it cannot be used is among the findings of the judge.
    let config = agent_config(user_data.as_ref()).ok().flatten();
    let expect = config.as_ref().map(|config| config.spec.expect.clone()).unwrap_or_default();
    let required_taints: Vec<Taint> = expect.taints.iter().filter_map(|text| text.parse().ok()).collect();
    let question = Question {
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
    let report = judge(&question);
    // A newer controller may say more than this agent knows: no reason to lose the node.
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
    // The agent goes straight then, so it cannot know what the kubelet meets.
    findings.extend(on_the_way.map(|it| if facts.has_proxy { it.with_severity(Severity::Warning) } else { it }));
    findings.extend(windows::check(facts));
    let minor = facts.flags.version;
    findings.extend(facts.standing.iter().flat_map(|it| standing::check(it, node_name.as_deref(), facts, minor)));
    for (name, wanted) in &expect.resources {
        // Only what is there before any pod runs: bus, driver, file.
        let hardware = Sightings {
            has_no_view: facts.devices.has_no_view,
            files: facts.devices.files.clone(),
            functions: facts.devices.functions.clone(),
            instance_type: facts.devices.instance_type.clone(),
            ..Sightings::default()
        };
        findings.extend(chain::follow(name, *wanted, &hardware, false).1);
    }
    findings.extend(fabric(facts));
    if matches!(facts.standing, Some(Standing::Known { .. })) {
        // Whom the API server knows has credentials, wherever they come from.
        for finding in findings.iter_mut().filter(|it| matches!(it.verdict.code, "ID01" | "ID02" | "ID04")) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    Preflight { findings, effective, expect, required_taints, node_name }
}

/// The agent's own document in the user data.
///
/// # Errors
/// It is there and cannot be used.
pub fn agent_config(user_data: Option<&UserData>) -> Result<Option<AgentConfig>, AgentConfigFault> {
    user_data.map_or(Ok(None), AgentConfig::find)
}

/// GPUs behind an NVSwitch are of no use before its manager runs.
fn fabric(facts: &Facts) -> Option<Finding> {
    // Bridges of NVIDIA's that are no display controllers.
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

/// The name that the kubelet gives itself: the flag, else the host's name.
fn node_name(facts: &Facts, effective: &Effective) -> Option<String> {
    let of_flag = effective.flags.get("hostname-override").map(|name| name.trim().to_lowercase());
    of_flag.or_else(|| facts.command.is_some().then(|| facts.machine.host_name.to_lowercase()))
}

#[cfg(test)]
mod coverage;
#[cfg(test)]
pub(crate) mod tests;
