//! The report, as every reader gets it: status file, command line, serial console, health checks, controller.

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
    /// Name of the Node, if known.
    pub node: Option<String>,
    /// EC2 instance ID, such as `i-0123456789abcdef0`, if known.
    pub instance_id: Option<String>,
    /// Bootstrap mode: the image's own bootstrap or the agent's.
    pub mode: Mode,
    /// True if the agent only reports and never holds the kubelet back.
    pub report_only: bool,
    /// First stage that is not done; the last stage if all are done.
    pub phase: Phase,
    /// All stages, in order.
    pub phases: Vec<PhaseReport>,
    /// Most important finding, if any.
    pub verdict: Option<Verdict>,
    /// All findings, most important first.
    pub findings: Vec<Verdict>,
    /// True if the agent keeps the kubelet from starting.
    pub held: bool,
    /// Condition that the first unfinished stage waits for. Not a fault by itself.
    pub waiting_for: Option<String>,
    /// Extended resources that the node should offer.
    pub devices: Vec<Resource>,
    /// Boot ID, as in `Node.status.nodeInfo.bootID`; empty if unknown.
    #[serde(default)]
    pub boot_id: String,
    /// Checks and actions that this platform does not support. Not a fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_on_this_platform: Vec<String>,
    /// Time of the last change of any other field.
    pub changed: Timestamp,
}

/// A stage with its times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseReport {
    /// Stage.
    pub name: Phase,
    /// State of the stage.
    pub state: Progress,
    /// Time when the stage could begin.
    pub began: Option<Timestamp>,
    /// Time when the stage was done for the first time.
    pub ended: Option<Timestamp>,
}

/// A finding about this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Code, as listed in `docs/verdicts.md`.
    pub code: String,
    /// Severity.
    pub severity: Weight,
    /// Stage that the finding concerns.
    pub phase: Phase,
    /// One-line description of the fault.
    pub message: String,
    /// Cause.
    pub cause: String,
    /// Recommended fix.
    pub fix: String,
    /// Evidence for the finding.
    pub evidence: Option<EvidenceReport>,
    /// URL of the documentation.
    pub link: String,
    /// Time when the finding appeared.
    pub since: Timestamp,
}

/// Severity of a finding; unlike [`Severity`] it can be deserialized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The node does not join, or joins with wrong settings.
    Error,
    /// The node joins, but something does not work.
    Warning,
    /// Informational.
    Info,
}

/// Evidence for a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceReport {
    /// Source, such as a file and line.
    pub source: String,
    /// Text found there.
    pub text: String,
}

/// An extended resource, and the chain of checks from the PCI bus to the Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Resource name, such as `nvidia.com/gpu`.
    pub name: String,
    /// Count that the node was launched for.
    pub wanted: u64,
    /// Count in the Node's `status.allocatable`, if known.
    pub allocatable: Option<u64>,
    /// Name of the first broken link, if any.
    pub broken: Option<String>,
    /// Links, in order.
    pub links: Vec<Link>,
}

/// A link of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Name of the link.
    pub name: String,
    /// True if the link works; absent if this is not known yet.
    pub holds: Option<bool>,
    /// Observation that `holds` is based on.
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
    /// Converts a finding of `phase` that appeared at `since`.
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
    /// Returns the report of a stage.
    #[must_use]
    pub fn of(&self, phase: Phase) -> Option<&PhaseReport> {
        self.phases.iter().find(|it| it.name == phase)
    }

    /// Returns true if any finding is an error, that is, keeps the node from joining correctly.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.findings.iter().any(|verdict| verdict.severity == Weight::Error)
    }

    /// Returns true if both reports are equal except for `changed`.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { changed: self.changed, ..other.clone() }
    }
}
