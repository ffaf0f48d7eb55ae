//! State machine of one node joining its cluster: collects observations and derives the report from them. Pure: the
//! current time is an argument. Observations are kept as long as a later one may need them.

mod conclude;
pub mod hold;
pub mod pace;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_bootstrap::agent_config::{Expectation, Mode};
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::kubelet::taints::Taint;

use crate::devices::chain::Sightings;
use crate::phase::Phase;
use crate::platform::Platform;
use crate::preflight::way::Way;
use crate::preflight::{Facts, Preflight};
use crate::report::Report;
use crate::watch::journal::Line;
use crate::watch::node_object::NodeObject;
use crate::watch::node_rules;
use crate::watch::signatures::{self, Signature};
use crate::watch::units::Unit;

/// Time after its last occurrence during which a journal line counts, if healthy boots log it too.
const LINE_COUNTS_FOR: SignedDuration = SignedDuration::from_secs(60);
/// Time that the API server may be unreachable before it is reported. While one of its replicas shuts down, the next
/// connection reaches another one.
const LOST_FOR: SignedDuration = SignedDuration::from_secs(2);
/// Time from the start of the kubelet's unit until its healthz port must return 200. It takes under a second, five on a
/// busy machine.
const KUBELET_STARTS_IN: SignedDuration = SignedDuration::from_secs(15);
/// Number of restarts after which the kubelet keeps exiting. One exit may heal: systemd and the Windows service manager
/// start it again after 5 s, and on Windows it may exit because containerd's pipe does not exist yet.
const MANY_RESTARTS: u32 = 2;
/// Upper bound on the first read of the Node after the agent's start. Findings that rest on earlier evidence are held
/// back until then.
const LOOKS_IN: SignedDuration = SignedDuration::from_secs(5);
/// Time from the agent's start until user data on Windows must have created the kubelet's service. The first boot of an
/// image takes minutes before the script runs; the script itself takes under two.
const SCRIPT_RUNS_IN: SignedDuration = SignedDuration::from_mins(6);

/// An observation of the node.
#[derive(Debug, Clone)]
pub enum Observation {
    /// Result of a preflight.
    Preflight(Box<Preflight>),
    /// Result of the native bootstrap.
    Native(Result<(), Box<Finding>>),
    /// States of the systemd units or Windows services.
    Units(Vec<Unit>),
    /// A line of the journal.
    Line(Line),
    /// Response of the kubelet's healthz port.
    Health(Health),
    /// This instance's Node; `None` if it does not exist.
    Node(Option<Box<NodeObject>>),
    /// State of the connection to the API server: the step that failed, or `None` if it is reachable again.
    Lost(Option<Box<Way>>),
    /// Device state, from the PCI bus to the device plugins.
    Devices(Box<Sightings>),
    /// True if the agent keeps the kubelet from starting.
    Held(bool),
    /// EC2 announces an interruption or recommends replacing the instance.
    Notice(Notice),
}

/// Notice from EC2 about the instance, with the text of the metadata response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Spot interruption: EC2 terminates, stops or hibernates the instance in two minutes.
    Interruption(String),
    /// Rebalance recommendation: the instance has an elevated risk of interruption.
    Rebalance(String),
}

impl Notice {
    /// Message of the finding for an interruption.
    pub const INTERRUPTION: &str = "EC2 takes the instance back";
    /// Message of the finding for a rebalance recommendation.
    pub const REBALANCE: &str = "EC2 advises to replace the instance";

    /// Returns the text of the metadata response.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Interruption(words) | Self::Rebalance(words) => words,
        }
    }
}

/// Response of the kubelet's healthz port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Status 200.
    Well,
    /// Any other status.
    Unwell,
    /// No response.
    Silent,
}

/// A signature found in the journal, with the times of its first and last occurrence.
#[derive(Debug)]
struct LogMatch {
    signature: &'static Signature,
    first: Timestamp,
    last: Timestamp,
    /// Time of the last occurrence since boot, if the log has it.
    uptime: Option<Duration>,
    unit: String,
    text: String,
}

/// State of one node joining its cluster.
#[derive(Debug)]
pub struct BootState {
    mode: Mode,
    report_only: bool,
    instance_id: Option<String>,
    platform: Platform,
    boot_id: String,
    started: Timestamp,
    preflight: Option<Preflight>,
    native: Option<Result<(), Finding>>,
    units: BTreeMap<String, Unit>,
    /// Restart count of the kubelet when it was last healthy.
    settled_restarts: u32,
    log_matches: BTreeMap<&'static str, LogMatch>,
    /// `None` until the first probe.
    health: Option<Health>,
    /// Time when the kubelet became unhealthy while its unit is active.
    unwell_since: Option<Timestamp>,
    /// Time when the kubelet was first seen to have exited since it was last healthy.
    exited_since: Option<Timestamp>,
    node: Option<NodeObject>,
    /// True once the Node was read, found absent, or could not be read.
    has_looked_for_node: bool,
    /// Findings about required taints that the Node lacked when it was first seen.
    lost_taints: Vec<Finding>,
    has_registered: bool,
    /// True if this instance has had a Node, also before the agent was restarted.
    has_joined: bool,
    ready_since: Option<Timestamp>,
    /// Failed step on the way to the API server, and the time of the failure. Reported only while the Node exists.
    lost: Option<(Way, Timestamp)>,
    devices: Option<Sightings>,
    /// Per resource that the Node lacks: the first broken link of its chain, and since when it is that one.
    broken_since: BTreeMap<String, (String, Timestamp)>,
    held: bool,
    notice: Option<Notice>,
    /// Per stage: the time when it could begin, and the time when it was done for the first time.
    times: BTreeMap<Phase, (Option<Timestamp>, Option<Timestamp>)>,
    /// Time when each finding appeared, by code and message.
    since: BTreeMap<(&'static str, String), Timestamp>,
}

impl BootState {
    /// Returns the state of a node whose agent starts at `now`.
    #[must_use]
    pub fn new(mode: Mode, report_only: bool, boot_id: String, now: Timestamp) -> Self {
        Self {
            mode,
            report_only,
            instance_id: None,
            platform: Platform::HERE,
            boot_id,
            started: now,
            preflight: None,
            native: None,
            units: BTreeMap::new(),
            settled_restarts: 0,
            log_matches: BTreeMap::new(),
            health: None,
            unwell_since: None,
            exited_since: None,
            node: None,
            has_looked_for_node: false,
            lost_taints: Vec::new(),
            has_registered: false,
            has_joined: false,
            ready_since: None,
            lost: None,
            devices: None,
            broken_since: BTreeMap::new(),
            held: false,
            notice: None,
            times: BTreeMap::new(),
            since: BTreeMap::new(),
        }
    }

    /// Sets the instance ID, the bootstrap mode and the report-only flag. `None` keeps a known instance ID.
    pub fn identify(&mut self, instance_id: Option<String>, mode: Mode, report_only: bool) {
        self.instance_id = instance_id.or(self.instance_id.take());
        (self.mode, self.report_only) = (mode, report_only);
    }

    /// Replaces the platform, which by default is the one that this program was built for.
    #[must_use]
    pub fn on(self, platform: Platform) -> Self {
        Self { platform, ..self }
    }

    /// Records an observation made at `now`.
    pub fn observe(&mut self, observation: Observation, now: Timestamp) {
        match observation {
            Observation::Preflight(preflight) => self.preflight = Some(*preflight),
            Observation::Native(outcome) => self.native = Some(outcome.map_err(|finding| *finding)),
            Observation::Units(units) => {
                self.units.extend(units.into_iter().map(|unit| (unit.name.clone(), unit)));
                self.reckon_health(now);
            }
            Observation::Line(line) => self.on_log_line(line, now),
            Observation::Health(health) => {
                self.health = Some(health);
                self.reckon_health(now);
            }
            Observation::Node(node) => self.see_node(node.map(|node| *node), now),
            // During an outage each attempt may fail in another way; the first failure is kept.
            Observation::Lost(way) => {
                self.has_looked_for_node |= way.is_some();
                self.lost = way.map(|way| self.lost.take().unwrap_or((*way, now)));
            }
            Observation::Devices(sightings) => self.devices = Some(*sightings),
            Observation::Held(held) => self.held = held,
            Observation::Notice(notice) => self.notice = Some(notice),
        }
    }

    fn reckon_health(&mut self, now: Timestamp) {
        let Some(kubelet) = self.units.get("kubelet") else { return };
        if self.is_kubelet_well() {
            self.settled_restarts = kubelet.restarts;
            (self.unwell_since, self.exited_since) = (None, None);
            return;
        }
        let has_exited = kubelet.has_failed() || kubelet.is_restarting() || kubelet.restarts > self.settled_restarts;
        self.unwell_since = kubelet.is_active().then(|| self.unwell_since.unwrap_or(now));
        self.exited_since = has_exited.then(|| self.exited_since.unwrap_or(now));
    }

    fn on_log_line(&mut self, line: Line, now: Timestamp) {
        let Some(signature) = signatures::find(&line) else { return };
        // If the clock was set back, `written` may lie in the future.
        let said = line.written.map_or(now, |it| it.at.min(now));
        let log_match = self.log_matches.entry(signature.verdict.code).or_insert_with(|| LogMatch {
            signature,
            first: said,
            last: said,
            uptime: None,
            unit: line.unit.clone(),
            text: line.text.clone(),
        });
        if said.duration_since(log_match.last) > LINE_COUNTS_FOR {
            log_match.first = said;
        }
        (log_match.last, log_match.uptime) = (said, line.written.map(|it| it.uptime));
        (log_match.unit, log_match.text) = (line.unit, line.text);
    }

    fn see_node(&mut self, node: Option<NodeObject>, now: Timestamp) {
        self.has_looked_for_node = true;
        let own = node.filter(|node| self.is_own(node));
        if let Some(node) = &own {
            if !self.has_registered {
                (self.has_registered, self.has_joined) = (true, true);
                let required = self.preflight.as_ref().map(|it| it.required_taints.clone()).unwrap_or_default();
                // A Node seen within 2 s of its creation still has the taints that it registered with.
                let is_new = node
                    .created
                    .is_some_and(|created| now.duration_since(created).abs() < SignedDuration::from_secs(2));
                self.lost_taints = if is_new {
                    node_rules::lost_taints(node, &required)
                } else if self.has_ended(Phase::Registered) {
                    Vec::new()
                } else {
                    node_rules::taints_lost_before(node, &required, &self.expect())
                };
            }
            if node.is("Ready", "True") {
                self.ready_since.get_or_insert(now);
            } else {
                self.ready_since = None;
            }
        }
        self.node = own;
    }

    /// Returns true if a Node belongs to this instance and, if the Node has a boot ID, to this boot.
    fn is_own(&self, node: &NodeObject) -> bool {
        let is_of_instance = match (node.instance_id(), self.instance_id.as_deref()) {
            (Some(its), Some(own)) => its == own,
            // Without a provider ID or a known instance ID, the name has to suffice.
            _ => true,
        };
        is_of_instance && (node.boot_id.is_empty() || self.boot_id.is_empty() || node.boot_id == self.boot_id)
    }

    /// Returns true if this agent, or its predecessor in this boot, saw the stage done.
    fn has_ended(&self, phase: Phase) -> bool {
        self.times.get(&phase).is_some_and(|(_, ended)| ended.is_some())
    }

    fn is_kubelet_well(&self) -> bool {
        self.health == Some(Health::Well) && self.units.get("kubelet").is_none_or(Unit::is_active)
    }

    fn expect(&self) -> Expectation {
        self.preflight.as_ref().map(|it| it.expect.clone()).unwrap_or_default()
    }

    /// Returns the taints that the kubelet will register with; `None` before the first preflight.
    #[must_use]
    pub fn effective_taints(&self) -> Option<&[Taint]> {
        self.preflight.as_ref().map(|it| it.effective.taints.as_slice())
    }

    /// Returns the name of the Node, if known.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.preflight.as_ref().and_then(|it| it.node_name.as_deref())
    }

    /// Returns the kubelet's `healthzPort` (default 10248); 0 if it is disabled.
    #[must_use]
    pub fn health_port(&self) -> u16 {
        const DEFAULT: u16 = 10_248;
        let settings = self.preflight.as_ref().map(|it| &it.effective.kubelet_settings);
        let port = settings.and_then(|it| it.get("healthzPort")).and_then(serde_json::Value::as_u64);
        port.and_then(|port| port.try_into().ok()).unwrap_or(DEFAULT)
    }

    /// Returns the extended resources that the node should offer, with their counts.
    #[must_use]
    pub fn resources(&self) -> BTreeMap<String, u64> {
        self.expect().resources
    }

    /// Returns true if the last preflight has a warning. It may be outdated.
    #[must_use]
    pub fn has_warning(&self) -> bool {
        self.preflight.iter().flat_map(|it| &it.findings).any(|it| it.severity == Severity::Warning)
    }

    /// Returns the first preflight error that must keep the kubelet from starting.
    ///
    /// Once the node has joined, errors of the network (NW), authorization (AU) and identity (ID) are ignored: its pods
    /// keep running, and the kubelet retries by itself.
    #[must_use]
    pub fn fatal(&self) -> Option<&Finding> {
        let passes = |it: &Finding| ["NW", "AU", "ID"].iter().any(|area| it.verdict.code.starts_with(area));
        self.preflight.iter().flat_map(Preflight::errors).find(|it| !(self.has_joined && passes(it)))
    }

    /// Restores stage times from the predecessor's report of this boot.
    pub fn resume(&mut self, before: Option<&Report>) {
        let registered = before.and_then(|it| it.of(Phase::Registered));
        self.has_joined |= registered.is_some_and(|it| it.ended.is_some());
        let times = before.into_iter().flat_map(|it| &it.phases).map(|it| (it.name, (it.began, it.ended)));
        self.times.extend(times);
    }

    /// Returns true if this instance has had a Node, according to the predecessor's report, the Node watch or the
    /// preflight. Records the preflight's answer. The only place that decides this.
    pub fn has_joined(&mut self, facts: &Facts) -> bool {
        self.has_joined |= facts.has_own_node();
        self.has_joined
    }

    /// Returns true if the agent only reports and never holds the kubelet back.
    #[must_use]
    pub fn is_report_only(&self) -> bool {
        self.report_only
    }
}
