//! Messages of nodes, validated and converted to the controller's own types. Their text is shown to people, so control
//! characters are removed.

use jiff::Timestamp;
use muster_link::Pins;
use muster_proto::muster as wire;
use tonic::Status;

/// Maximum number of findings of a report; the agent itself reports no more.
const FINDINGS: usize = 200;
/// Maximum number of phases, and of resources, of a report.
const PARTS: usize = 64;
/// Maximum length of a line of text in bytes.
const LINE: usize = 2 * 1024;
/// Maximum length of a name in bytes.
const NAME: usize = 253;
/// Maximum size of a log bundle in bytes.
const BUNDLE: usize = 192 * 1024;

/// Message of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// First message of a stream.
    Hello {
        /// Version of the agent.
        agent_version: String,
        /// ID of the boot that the stream is about.
        boot_id: String,
        /// CAs that the agent trusts; none if it cannot accept new ones.
        pins: Pins,
    },
    /// State of the node.
    Report(Report),
    /// Notice that the cloud reclaims the instance.
    Notice(Notice),
    /// Log bundle.
    Bundle(LogBundle),
}

/// State of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Number of the report, increasing within a boot.
    pub sequence: u64,
    /// Name of the Node as the node knows it.
    pub node_name: Option<String>,
    /// Phases, in order.
    pub phases: Vec<PhaseState>,
    /// Findings, most important first.
    pub findings: Vec<Finding>,
    /// Code of the finding that keeps the node from joining: one of `findings`.
    pub verdict: Option<String>,
    /// Condition that the node waits for.
    pub waiting_for: Option<String>,
    /// Resources that the node offers or should offer.
    pub resources: Vec<Resource>,
    /// Time of the last change in this report, by the node's clock.
    pub changed_at: Option<Timestamp>,
}

/// Phase of joining the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Checks of the node before the kubelet starts.
    Preflight,
    /// The kubelet's files are written and it is started.
    Bootstrap,
    /// The kubelet is healthy.
    Kubelet,
    /// The Node object exists.
    Registered,
    /// The devices are allocatable.
    Devices,
    /// The Node accepts pods.
    Initialized,
}

/// State of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// An earlier phase is not done.
    Pending,
    /// In progress.
    Running,
    /// Completed.
    Done,
    /// Blocked by an error.
    Failed,
}

/// Phase with its state and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseState {
    /// The phase.
    pub phase: Phase,
    /// State of the phase.
    pub progress: Progress,
    /// Time at which it could begin.
    pub began_at: Option<Timestamp>,
    /// Time at which it was first done.
    pub ended_at: Option<Timestamp>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The node does not join, or joins with a wrong configuration.
    Error,
    /// A function of the node does not work.
    Warning,
    /// Information only.
    Info,
}

/// Problem that the agent found on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Code such as `KA07`.
    pub code: String,
    /// Severity.
    pub severity: Severity,
    /// Phase that it concerns, if this version knows it.
    pub phase: Option<Phase>,
    /// Description in one line.
    pub message: String,
    /// Source of the evidence.
    pub evidence_source: String,
    /// Evidence, as found there.
    pub evidence: String,
    /// Time since which it is present.
    pub since: Option<Timestamp>,
}

/// Extended resource of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Name such as `nvidia.com/gpu`.
    pub name: String,
    /// Amount that the node was launched for.
    pub wanted: u64,
    /// Amount that the Node has allocatable, if known.
    pub allocatable: Option<u64>,
    /// Reason why it is not offered.
    pub broken: Option<String>,
}

/// Kind of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// The Spot instance is reclaimed in two minutes.
    Interruption,
    /// Rebalance recommendation: the instance may be reclaimed soon.
    Rebalance,
}

/// Notice of the cloud about an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Kind of the notice.
    pub kind: NoticeKind,
    /// Text from the instance metadata.
    pub text: String,
}

/// Logs of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBundle {
    /// Verdict that they are about; `None` if the controller requested them.
    pub verdict: Option<String>,
    /// Content.
    pub content: Vec<u8>,
}

impl Report {
    /// Returns the finding that keeps the node from joining.
    #[must_use]
    pub fn fatal(&self) -> Option<&Finding> {
        let code = self.verdict.as_ref()?;
        self.findings.iter().find(|it| it.code == *code)
    }
}

impl Message {
    /// Reads a message; `None` if its kind is unknown, as a newer agent may send.
    ///
    /// # Errors
    /// The message is invalid; the status names the field.
    pub fn read(request: wire::FollowRequest) -> Result<Option<Self>, Status> {
        use wire::follow_request::Message as Wire;
        let Some(message) = request.message else { return Ok(None) };
        Ok(match message {
            Wire::Hello(hello) => Some(Self::Hello {
                agent_version: line(&hello.agent_version, NAME, "hello.agent_version")?,
                boot_id: line(&hello.boot_id, NAME, "hello.boot_id")?,
                pins: Pins::of_bytes(hello.authorities.iter().map(Vec::as_slice)),
            }),
            Wire::Report(report) => Some(Self::Report(self::report(report)?)),
            Wire::Notice(notice) => {
                let kind = match notice.kind() {
                    wire::notice::Kind::Interruption => NoticeKind::Interruption,
                    wire::notice::Kind::Rebalance => NoticeKind::Rebalance,
                    wire::notice::Kind::Unspecified => return Ok(None),
                };
                Some(Self::Notice(Notice { kind, text: line(&notice.text, LINE, "notice.text")? }))
            }
            Wire::Bundle(bundle) if bundle.content.len() <= BUNDLE => Some(Self::Bundle(LogBundle {
                verdict: some(code(&bundle.verdict, "bundle.verdict")?),
                content: bundle.content,
            })),
            Wire::Bundle(_) => return Err(too_long("bundle.content")),
        })
    }
}

fn report(report: wire::NodeReport) -> Result<Report, Status> {
    for (length, most, field) in [
        (report.findings.len(), FINDINGS, "report.findings"),
        (report.phases.len(), PARTS, "report.phases"),
        (report.resources.len(), PARTS, "report.resources"),
    ] {
        if length > most {
            return Err(too_long(field));
        }
    }
    let findings: Vec<Finding> = report.findings.into_iter().map(finding).collect::<Result<_, _>>()?;
    let verdict = some(code(&report.verdict, "report.verdict")?);
    if verdict.as_ref().is_some_and(|verdict| findings.iter().all(|it| it.code != *verdict)) {
        return Err(Status::invalid_argument("report.verdict: it is none of the findings"));
    }
    let resource = |it: wire::Resource| {
        Ok(Resource {
            name: line(&it.name, NAME, "report.resources.name")?,
            wanted: it.wanted,
            allocatable: it.allocatable,
            broken: some(line(&it.broken, LINE, "report.resources.broken")?),
        })
    };
    Ok(Report {
        sequence: report.sequence,
        node_name: some(line(&report.node_name, NAME, "report.node_name")?),
        // Unknown phases of a newer agent are skipped.
        phases: report.phases.iter().filter_map(phase_state).collect(),
        findings,
        verdict,
        waiting_for: some(line(&report.waiting_for, LINE, "report.waiting_for")?),
        resources: report.resources.into_iter().map(resource).collect::<Result<_, Status>>()?,
        changed_at: moment(report.changed_at),
    })
}

fn finding(finding: wire::Finding) -> Result<Finding, Status> {
    Ok(Finding {
        severity: match finding.severity() {
            wire::Severity::Error => Severity::Error,
            wire::Severity::Warning => Severity::Warning,
            wire::Severity::Info | wire::Severity::Unspecified => Severity::Info,
        },
        phase: phase(finding.phase()),
        code: code(&finding.code, "report.findings.code")?,
        message: line(&finding.message, LINE, "report.findings.message")?,
        evidence_source: line(&finding.evidence_source, LINE, "report.findings.evidence_source")?,
        evidence: line(&finding.evidence, LINE, "report.findings.evidence")?,
        since: moment(finding.since),
    })
}

fn phase_state(state: &wire::PhaseState) -> Option<PhaseState> {
    let progress = match state.progress() {
        wire::Progress::Unspecified => return None,
        wire::Progress::Pending => Progress::Pending,
        wire::Progress::Running => Progress::Running,
        wire::Progress::Done => Progress::Done,
        wire::Progress::Failed => Progress::Failed,
    };
    let phase = phase(state.phase())?;
    Some(PhaseState { phase, progress, began_at: moment(state.began_at), ended_at: moment(state.ended_at) })
}

const fn phase(phase: wire::Phase) -> Option<Phase> {
    Some(match phase {
        wire::Phase::Unspecified => return None,
        wire::Phase::Preflight => Phase::Preflight,
        wire::Phase::Bootstrap => Phase::Bootstrap,
        wire::Phase::Kubelet => Phase::Kubelet,
        wire::Phase::Registered => Phase::Registered,
        wire::Phase::Devices => Phase::Devices,
        wire::Phase::Initialized => Phase::Initialized,
    })
}

fn moment(moment: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    let moment = moment?;
    Timestamp::new(moment.seconds, moment.nanos).ok()
}

fn too_long(field: &str) -> Status {
    Status::invalid_argument(format!("{field}: too long"))
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns one line of text that is safe in a condition and on a terminal.
fn line(text: &str, most: usize, field: &'static str) -> Result<String, Status> {
    if text.len() > most {
        return Err(too_long(field));
    }
    Ok(text.chars().map(|letter| if muster_bootstrap::is_printable(letter) { letter } else { ' ' }).collect())
}

/// Checks a code. It becomes the reason of a condition, for which Kubernetes requires
/// `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`; this is stricter.
fn code(text: &str, field: &'static str) -> Result<String, Status> {
    let is_code = text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let begins = text.is_empty() || text.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_code && begins {
        Ok(text.to_owned())
    } else {
        Err(Status::invalid_argument(format!("{field}: not a valid code")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_or_hides_text_is_not_shown() {
        let shown = |text: &str| line(text, 100, "message").unwrap();
        assert_eq!(shown("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{1b}f\ng"), "a b c d e f g");
        assert_eq!(shown("Größe 7 µs — ok"), "Größe 7 µs — ok");
    }
}
