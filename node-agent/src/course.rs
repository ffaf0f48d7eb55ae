//! A node's course into its cluster: what was observed so far, and the report that follows from it. Pure; the clock is an
//! argument, and nothing is forgotten that a later observation could explain.

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

/// How long pods of others (a CNI plugin, a device plugin, whoever takes off a taint) may take before it is a fault.
/// Karpenter gives a whole node 15 minutes; images of 1 GB come in less than a minute.
pub const PATIENCE_WITH_PODS: SignedDuration = SignedDuration::from_secs(90);
/// How long a line of the journal that may be said in a healthy boot counts after it was said last.
const LINE_COUNTS_FOR: SignedDuration = SignedDuration::from_secs(60);
/// How long the API server may be out of reach: one of its replicas ends, and the next connection goes to another.
const LOST_FOR: SignedDuration = SignedDuration::from_secs(2);
/// How long a kubelet may take from its start until its health port says ok. It takes under a second, on a busy machine
/// five.
const KUBELET_STARTS_IN: SignedDuration = SignedDuration::from_secs(15);
/// How long a first look at the Node takes at most. What an agent that has just started knows from before waits for it.
const LOOKS_IN: SignedDuration = SignedDuration::from_secs(5);
/// How long user data of Windows may take until the kubelet's service is there: the first start of an image runs for minutes
/// before it, and the script itself under two.
const SCRIPT_RUNS_IN: SignedDuration = SignedDuration::from_mins(6);

/// Something that was observed.
#[derive(Debug, Clone)]
pub enum Observation {
    /// The preflight was made, or made again.
    Preflight(Box<Preflight>),
    /// What the agent's own bootstrap came to.
    Native(Result<(), Box<Finding>>),
    /// How the units stand.
    Units(Vec<Unit>),
    /// A line of the journal.
    Line(Line),
    /// What the kubelet's health port says.
    Health(Health),
    /// The own Node; `None` if there is none.
    Node(Option<Box<NodeObject>>),
    /// The API server cannot be reached any more: how far one comes. `None`: it can.
    Lost(Option<Box<Way>>),
    /// Devices.
    Devices(Box<Sightings>),
    /// Whether the kubelet's unit was told to wait.
    Held(bool),
    /// EC2 takes the instance back, or advises to give it back.
    Notice(Notice),
}

/// What EC2 says of the instance's near end, in its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It ends in two minutes.
    Interruption(String),
    /// It is more likely than others to end soon.
    Rebalance(String),
}

impl Notice {
    /// How the first is told.
    pub const INTERRUPTION: &str = "EC2 takes the instance back";
    /// How the second is told.
    pub const REBALANCE: &str = "EC2 advises to replace the instance";

    /// Its words.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Interruption(words) | Self::Rebalance(words) => words,
        }
    }
}

/// What the kubelet's health port says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// 200.
    Well,
    /// Another status.
    Unwell,
    /// Nothing.
    Silent,
}

/// A signature that was seen in the journal, and when.
#[derive(Debug)]
struct Sighting {
    signature: &'static Signature,
    first: Timestamp,
    last: Timestamp,
    /// The same since the boot, if the log says.
    uptime: Option<Duration>,
    unit: String,
    text: String,
}

/// The course.
#[derive(Debug)]
pub struct Course {
    mode: Mode,
    report_only: bool,
    instance_id: Option<String>,
    platform: Platform,
    boot_id: String,
    started: Timestamp,
    preflight: Option<Preflight>,
    native: Option<Result<(), Finding>>,
    units: BTreeMap<String, Unit>,
    /// The restarts of the kubelet when it was last well.
    settled_restarts: u32,
    sightings: BTreeMap<&'static str, Sighting>,
    /// `None` until it was asked for the first time.
    health: Option<Health>,
    /// Since when the kubelet is not well although its unit is active.
    unwell_since: Option<Timestamp>,
    node: Option<NodeObject>,
    /// Whether anybody has looked for it, or could not.
    has_looked_for_node: bool,
    /// What the first Node object of this registration lacked.
    lost_taints: Vec<Finding>,
    has_registered: bool,
    /// Whether there has been a Node of this instance, as far as anyone remembers.
    has_joined: bool,
    ready_since: Option<Timestamp>,
    /// How far one comes to the API server of a Node that is there, and since when.
    lost: Option<(Way, Timestamp)>,
    devices: Option<Sightings>,
    held: bool,
    notice: Option<Notice>,
    /// When each stage could begin, and when it held for the first time.
    times: BTreeMap<Phase, (Option<Timestamp>, Option<Timestamp>)>,
    /// Since when each finding is there.
    since: BTreeMap<(&'static str, String), Timestamp>,
}

impl Course {
    /// The course of a node whose agent starts at `now`.
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
            sightings: BTreeMap::new(),
            health: None,
            unwell_since: None,
            node: None,
            has_looked_for_node: false,
            lost_taints: Vec::new(),
            has_registered: false,
            has_joined: false,
            ready_since: None,
            lost: None,
            devices: None,
            held: false,
            notice: None,
            times: BTreeMap::new(),
            since: BTreeMap::new(),
        }
    }

    /// Sets what is known of the node from the start: which instance it is and how the agent works on it.
    pub fn identify(&mut self, instance_id: Option<String>, mode: Mode, report_only: bool) {
        self.instance_id = instance_id.or(self.instance_id.take());
        (self.mode, self.report_only) = (mode, report_only);
    }

    /// The same on another platform than the one that this program was built for.
    #[must_use]
    pub fn on(self, platform: Platform) -> Self {
        Self { platform, ..self }
    }

    /// Takes an observation in.
    pub fn observe(&mut self, observation: Observation, now: Timestamp) {
        match observation {
            Observation::Preflight(preflight) => self.preflight = Some(*preflight),
            Observation::Native(outcome) => self.native = Some(outcome.map_err(|finding| *finding)),
            Observation::Units(units) => {
                self.units.extend(units.into_iter().map(|unit| (unit.name.clone(), unit)));
                self.reckon_health(now);
            }
            Observation::Line(line) => self.hear(line, now),
            Observation::Health(health) => {
                self.health = Some(health);
                self.reckon_health(now);
            }
            Observation::Node(node) => self.see_node(node.map(|node| *node), now),
            // While it lasts every try may fail in another way; the first one stays.
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
            self.unwell_since = None;
        } else if kubelet.is_active() {
            self.unwell_since.get_or_insert(now);
        } else {
            self.unwell_since = None;
        }
    }

    fn hear(&mut self, line: Line, now: Timestamp) {
        let Some(signature) = signatures::find(&line) else { return };
        // A clock that was set back since must not make it younger than now.
        let said = line.written.map_or(now, |it| it.at.min(now));
        let sighting = self.sightings.entry(signature.verdict.code).or_insert_with(|| Sighting {
            signature,
            first: said,
            last: said,
            uptime: None,
            unit: line.unit.clone(),
            text: line.text.clone(),
        });
        if said.duration_since(sighting.last) > LINE_COUNTS_FOR {
            sighting.first = said;
        }
        (sighting.last, sighting.uptime) = (said, line.written.map(|it| it.uptime));
        (sighting.unit, sighting.text) = (line.unit, line.text);
    }

    fn see_node(&mut self, node: Option<NodeObject>, now: Timestamp) {
        self.has_looked_for_node = true;
        let own = node.filter(|node| self.is_own(node));
        if let Some(node) = &own {
            if !self.has_registered {
                (self.has_registered, self.has_joined) = (true, true);
                let required = self.preflight.as_ref().map(|it| it.required_taints.clone()).unwrap_or_default();
                // Seen soon after it was made, its taints are those that it registered with.
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

    /// Whether a Node is this instance's, of this boot if it says so.
    fn is_own(&self, node: &NodeObject) -> bool {
        let is_of_instance = match (node.instance_id(), self.instance_id.as_deref()) {
            (Some(its), Some(own)) => its == own,
            // A Node without a provider ID, or an instance that is not known: its name must do.
            _ => true,
        };
        is_of_instance && (node.boot_id.is_empty() || self.boot_id.is_empty() || node.boot_id == self.boot_id)
    }

    /// Whether this agent, or the one before it, has seen the stage done.
    fn has_ended(&self, phase: Phase) -> bool {
        self.times.get(&phase).is_some_and(|(_, ended)| ended.is_some())
    }

    fn is_kubelet_well(&self) -> bool {
        self.health == Some(Health::Well) && self.units.get("kubelet").is_none_or(Unit::is_active)
    }

    fn expect(&self) -> Expectation {
        self.preflight.as_ref().map(|it| it.expect.clone()).unwrap_or_default()
    }

    /// The taints that the kubelet will register with, once that is known.
    #[must_use]
    pub fn effective_taints(&self) -> Option<&[Taint]> {
        self.preflight.as_ref().map(|it| it.effective.taints.as_slice())
    }

    /// The name of the Node, once it is known.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.preflight.as_ref().and_then(|it| it.node_name.as_deref())
    }

    /// The kubelet's health port, as its configuration says; 0 if it has none.
    #[must_use]
    pub fn health_port(&self) -> u16 {
        const DEFAULT: u16 = 10_248;
        let settings = self.preflight.as_ref().map(|it| &it.effective.kubelet_settings);
        let port = settings.and_then(|it| it.get("healthzPort")).and_then(serde_json::Value::as_u64);
        port.and_then(|port| port.try_into().ok()).unwrap_or(DEFAULT)
    }

    /// Resources that the node should offer, with their numbers.
    #[must_use]
    pub fn resources(&self) -> BTreeMap<String, u64> {
        self.expect().resources
    }

    /// Whether the last preflight warns of something, which may be gone by now.
    #[must_use]
    pub fn has_warning(&self) -> bool {
        self.preflight.iter().flat_map(|it| &it.findings).any(|it| it.severity == Severity::Warning)
    }

    /// The first error of the preflight that keeps the kubelet from starting.
    ///
    /// On the way to the API server and with credentials a node that has joined gets along as every kubelet does: its pods run
    /// on, and it tries again.
    #[must_use]
    pub fn fatal(&self) -> Option<&Finding> {
        let passes = |it: &Finding| ["NW", "AU", "ID"].iter().any(|area| it.verdict.code.starts_with(area));
        self.preflight.iter().flat_map(Preflight::errors).find(|it| !(self.has_joined && passes(it)))
    }

    /// Takes up what the agent before this one had seen since the boot.
    pub fn resume(&mut self, before: Option<&Report>) {
        let registered = before.and_then(|it| it.of(Phase::Registered));
        self.has_joined |= registered.is_some_and(|it| it.ended.is_some());
        let times = before.into_iter().flat_map(|it| &it.phases).map(|it| (it.name, (it.began, it.ended)));
        self.times.extend(times);
    }

    /// Whether there has been a Node of this instance, as far as anyone remembers: the agent before this one, the own Node
    /// that was watched, or a preflight that was shown it, which is taken in here. The one place that knows.
    pub fn has_joined(&mut self, facts: &Facts) -> bool {
        self.has_joined |= facts.has_own_node();
        self.has_joined
    }

    /// Whether nothing is ever held back.
    #[must_use]
    pub fn is_report_only(&self) -> bool {
        self.report_only
    }
}
