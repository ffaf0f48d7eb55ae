//! What nodes say, read once: bounded, in the controller's own types. Their text is shown to people, so it has no control characters.

use jiff::Timestamp;
use muster_link::Pins;
use muster_proto::muster as wire;
use tonic::Status;

/// Findings of a report; the agent itself reports no more.
const FINDINGS: usize = 200;
/// Stages and resources of a report.
const PARTS: usize = 64;
/// Bytes of a line that is shown.
const LINE: usize = 2 * 1024;
/// Bytes of a name.
const NAME: usize = 253;
/// Bytes of a log bundle.
const BUNDLE: usize = 192 * 1024;

/// What a node sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Who speaks.
    Hello {
        /// Version of the agent.
        agent_version: String,
        /// The boot that it is about.
        boot_id: String,
        /// The authorities that it believes; none if it cannot be told others.
        pins: Pins,
    },
    /// How the node stands.
    Report(Report),
    /// The cloud takes its instance back.
    Notice(Notice),
    /// Its logs.
    Bundle(LogBundle),
}

/// How a node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Grows with every report of a boot.
    pub sequence: u64,
    /// Name of the Node as the node knows it.
    pub node_name: Option<String>,
    /// Its stages, in order.
    pub phases: Vec<PhaseState>,
    /// What is wrong, what matters most first.
    pub findings: Vec<Finding>,
    /// Code of the finding that keeps it from being a node: one of `findings`.
    pub verdict: Option<String>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// What it offers, and should.
    pub resources: Vec<Resource>,
    /// When a part of this changed last, by its own clock.
    pub changed_at: Option<Timestamp>,
}

/// A stage on the way into the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The node is checked.
    Preflight,
    /// The kubelet's files are written and it is started.
    Bootstrap,
    /// The kubelet is well.
    Kubelet,
    /// There is a Node.
    Registered,
    /// The devices are offered.
    Devices,
    /// The Node takes pods.
    Initialized,
}

/// How a stage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// One before it is not done.
    Pending,
    /// It is under way.
    Running,
    /// It holds.
    Done,
    /// Something keeps it from holding.
    Failed,
}

/// A stage and its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseState {
    /// Which.
    pub phase: Phase,
    /// How it stands.
    pub progress: Progress,
    /// When it could begin.
    pub began_at: Option<Timestamp>,
    /// When it held for the first time.
    pub ended_at: Option<Timestamp>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The node does not join, or joins wrong.
    Error,
    /// Something does not work.
    Warning,
    /// Worth knowing.
    Info,
}

/// Something that is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A code, as `KA07`.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// The stage that it concerns, if it is one that is known here.
    pub phase: Option<Phase>,
    /// What is wrong, in one line.
    pub message: String,
    /// Where it was seen.
    pub evidence_source: String,
    /// What was seen.
    pub evidence: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// A resource of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// As `nvidia.com/gpu`.
    pub name: String,
    /// How many it was launched for.
    pub wanted: u64,
    /// How many its Node offers, if that is known.
    pub allocatable: Option<u64>,
    /// What keeps it from offering them.
    pub broken: Option<String>,
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// The instance ends in two minutes.
    Interruption,
    /// It may end soon.
    Rebalance,
}

/// The cloud takes an instance back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How.
    pub kind: NoticeKind,
    /// What metadata says.
    pub text: String,
}

/// A node's logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBundle {
    /// The verdict that they are about; `None` if they were asked for.
    pub verdict: Option<String>,
    /// The text.
    pub content: Vec<u8>,
}

impl Report {
    /// The finding that keeps the node from being one.
    #[must_use]
    pub fn fatal(&self) -> Option<&Finding> {
        let code = self.verdict.as_ref()?;
        self.findings.iter().find(|it| it.code == *code)
    }
}

impl Message {
    /// Reads a message; `None` if it is of a kind that is not known here, as a newer agent may send.
    ///
    /// # Errors
    /// It is not one that an agent sends; the status names the field.
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
        // Stages of a newer agent are passed over.
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

/// One line of text, as it may stand in a condition or on a terminal.
fn line(text: &str, most: usize, field: &'static str) -> Result<String, Status> {
    if text.len() > most {
        return Err(too_long(field));
    }
    Ok(text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
}

/// A code becomes the reason of a condition: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$` in Kubernetes, and less here.
fn code(text: &str, field: &'static str) -> Result<String, Status> {
    let is_code = text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let begins = text.is_empty() || text.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_code && begins {
        Ok(text.to_owned())
    } else {
        Err(Status::invalid_argument(format!("{field}: this is no code")))
    }
}
