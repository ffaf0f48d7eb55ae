//! The report: what every reader gets, be it a file, a person, the console or a health check.

use jiff::Timestamp;
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::finding::{Finding, Severity};
use serde::{Deserialize, Serialize};

use crate::phase::{Phase, Progress};

/// `NodeReport` of `muster.dev/v1`, the content of `status.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `muster.dev/v1`.
    pub api_version: String,
    /// `NodeReport`.
    pub kind: String,
    /// Name of the Node, once it is known.
    pub node: Option<String>,
    /// As `i-0123456789abcdef0`, once it is known.
    pub instance_id: Option<String>,
    /// Who runs the bootstrap.
    pub mode: Mode,
    /// Whether nothing is ever held back.
    pub report_only: bool,
    /// The first stage that is not done; the last one if all are.
    pub phase: Phase,
    /// All stages, in order.
    pub phases: Vec<PhaseReport>,
    /// The finding that matters most, if there is one.
    pub verdict: Option<Verdict>,
    /// All findings, those that matter most first.
    pub findings: Vec<Verdict>,
    /// Whether the kubelet is kept from starting.
    pub held: bool,
    /// What the first stage that is not done waits for; nothing is known to be wrong with it.
    pub waiting_for: Option<String>,
    /// The resources that the node should offer.
    pub devices: Vec<Resource>,
    /// The boot that this is about, as Nodes name it; empty if it is not known.
    #[serde(default)]
    pub boot_id: String,
    /// What the agent does not look at or do on this platform: no fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_on_this_platform: Vec<String>,
    /// When a part of this other than this time changed last.
    pub changed: Timestamp,
}

/// A stage and its times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseReport {
    /// Which.
    pub name: Phase,
    /// How it stands.
    pub state: Progress,
    /// When it could begin.
    pub began: Option<Timestamp>,
    /// When it held for the first time.
    pub ended: Option<Timestamp>,
}

/// A finding about this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// A code of `docs/verdicts.md`.
    pub code: String,
    /// How much it matters.
    pub severity: Weight,
    /// The stage that it concerns.
    pub phase: Phase,
    /// What is wrong, in one line.
    pub message: String,
    /// Why.
    pub cause: String,
    /// What to do.
    pub fix: String,
    /// What it rests on.
    pub evidence: Option<EvidenceReport>,
    /// Where more stands.
    pub link: String,
    /// Since when.
    pub since: Timestamp,
}

/// A severity that can be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The node does not join, or joins wrong.
    Error,
    /// It joins, and something does not work.
    Warning,
    /// Worth knowing.
    Info,
}

/// Where a finding comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceReport {
    /// Where it stands.
    pub source: String,
    /// What stands there.
    pub text: String,
}

/// A resource and the chain from the bus to the Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// As `nvidia.com/gpu`.
    pub name: String,
    /// How many the node was launched for.
    pub wanted: u64,
    /// How many the Node offers, if it is known.
    pub allocatable: Option<u64>,
    /// The first broken link; absent if none is.
    pub broken: Option<String>,
    /// The links, in order.
    pub links: Vec<Link>,
}

/// A link of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Whether it holds; absent if it cannot be known yet.
    pub holds: Option<bool>,
    /// What was seen.
    pub seen: String,
}

impl From<Severity> for Weight {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Error => Self::Error,
            Severity::Warning => Self::Warning,
            Severity::Info => Self::Info,
        }
    }
}

impl From<Weight> for Severity {
    fn from(weight: Weight) -> Self {
        match weight {
            Weight::Error => Self::Error,
            Weight::Warning => Self::Warning,
            Weight::Info => Self::Info,
        }
    }
}

impl Verdict {
    /// A finding as a report has it.
    #[must_use]
    pub fn new(finding: &Finding, phase: Phase, since: Timestamp) -> Self {
        let evidence = finding.evidence.as_ref();
        Self {
            code: finding.verdict.code.to_owned(),
            severity: finding.severity.into(),
            phase,
            message: finding.message.clone(),
            cause: finding.verdict.cause.to_owned(),
            fix: finding.fix.clone(),
            evidence: evidence.map(|it| EvidenceReport { source: it.place.to_string(), text: it.text.clone() }),
            link: finding.verdict.link(),
            since,
        }
    }
}

impl Report {
    /// The stage of this name.
    #[must_use]
    pub fn of(&self, phase: Phase) -> Option<&PhaseReport> {
        self.phases.iter().find(|it| it.name == phase)
    }

    /// Whether something is wrong that keeps the node from being one.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.findings.iter().any(|verdict| verdict.severity == Weight::Error)
    }

    /// The same at another time.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { changed: self.changed, ..other.clone() }
    }
}
