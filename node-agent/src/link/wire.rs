//! Conversion of the report to its wire format, with bounded sizes. Pure.

use std::time::Duration;

use jiff::Timestamp;
use muster_bootstrap::verdicts;
use muster_proto::muster as wire;
use tokio::time::Instant;

use crate::boot_state::Notice;
use crate::phase::{Phase, Progress};
use crate::report::{PhaseReport, Report, Resource, Verdict, Weight};

/// Time that an error must hold before it is sent as fatal to the node. A check at a bad moment is repeated within two
/// seconds.
const STANDS: Duration = Duration::from_secs(3);
/// Longer time for errors that are transient while a network comes up: names, routes, connections.
const STANDS_ON_THE_WAY: Duration = Duration::from_secs(30);
/// Codes of those errors.
const ON_THE_WAY: [&str; 3] = ["NW01", "NW02", "NW03"];
/// Maximum number of findings; the controller accepts no more.
const FINDINGS: usize = 200;
/// Maximum number of stages, and of resources.
const PARTS: usize = 64;
/// Maximum length of a line in bytes: half of the controller's limit.
const LINE: usize = 1024;
/// Maximum length of a name in bytes.
const NAME: usize = 253;

/// Code of the current error, and the time when it appeared.
#[derive(Debug, Default)]
pub(super) struct FatalSince(Option<(String, Instant)>);

impl FatalSince {
    /// Returns the code that is fatal to the node, if it has held long enough, else the time to check again.
    pub(super) fn judge(&mut self, report: &Report, now: Instant) -> (Option<String>, Option<Instant>) {
        // In report-only mode no error is fatal.
        let fault = report.verdict.as_ref().filter(|it| it.severity == Weight::Error && !report.report_only);
        let Some(Verdict { code, .. }) = fault else {
            self.0 = None;
            return (None, None);
        };
        let since = match &self.0 {
            Some((before, since)) if before == code => *since,
            _ => now,
        };
        self.0 = Some((code.clone(), since));
        let stands = since + if ON_THE_WAY.contains(&code.as_str()) { STANDS_ON_THE_WAY } else { STANDS };
        if now >= stands { (Some(code.clone()), None) } else { (None, Some(stands)) }
    }
}

pub(super) fn report(report: &Report, verdict: Option<String>, sequence: u64) -> wire::NodeReport {
    // The finding that the verdict is about comes first.
    wire::NodeReport {
        sequence,
        node_name: cut(report.node.as_deref().unwrap_or_default(), NAME),
        phases: report.phases.iter().take(PARTS).map(phase).collect(),
        findings: report.findings.iter().take(FINDINGS).map(finding).collect(),
        verdict: verdict.unwrap_or_default(),
        waiting_for: cut(report.waiting_for.as_deref().unwrap_or_default(), LINE),
        resources: report.devices.iter().take(PARTS).map(resource).collect(),
        changed_at: Some(moment(report.changed)),
    }
}

/// Returns the notice of the cloud, if any.
pub(super) fn notice(report: &Report) -> Option<wire::Notice> {
    let finding = report.findings.iter().find(|it| it.code == verdicts::EX03.code)?;
    let kind = match finding.message.as_str() {
        Notice::INTERRUPTION => wire::notice::Kind::Interruption,
        Notice::REBALANCE => wire::notice::Kind::Rebalance,
        _ => return None,
    };
    let text = finding.evidence.as_ref().map_or("", |it| it.text.as_str());
    Some(wire::Notice { kind: kind.into(), text: cut(text, LINE) })
}

fn phase(phase: &PhaseReport) -> wire::PhaseState {
    let progress = match phase.state {
        Progress::Pending => wire::Progress::Pending,
        Progress::Running => wire::Progress::Running,
        Progress::Done => wire::Progress::Done,
        Progress::Failed => wire::Progress::Failed,
    };
    wire::PhaseState {
        phase: stage(phase.name).into(),
        progress: progress.into(),
        began_at: phase.began.map(moment),
        ended_at: phase.ended.map(moment),
    }
}

const fn stage(phase: Phase) -> wire::Phase {
    match phase {
        Phase::Preflight => wire::Phase::Preflight,
        Phase::Bootstrap => wire::Phase::Bootstrap,
        Phase::Kubelet => wire::Phase::Kubelet,
        Phase::Registered => wire::Phase::Registered,
        Phase::Devices => wire::Phase::Devices,
        Phase::Initialized => wire::Phase::Initialized,
    }
}

fn finding(finding: &Verdict) -> wire::Finding {
    let severity = match finding.severity {
        Weight::Error => wire::Severity::Error,
        Weight::Warning => wire::Severity::Warning,
        Weight::Info => wire::Severity::Info,
    };
    let evidence = finding.evidence.as_ref();
    let text = |of: Option<&String>| cut(of.map_or("", String::as_str), LINE);
    wire::Finding {
        code: finding.code.clone(),
        severity: severity.into(),
        phase: stage(finding.phase).into(),
        message: cut(&finding.message, LINE),
        evidence_source: text(evidence.map(|it| &it.source)),
        evidence: text(evidence.map(|it| &it.text)),
        since: Some(moment(finding.since)),
    }
}

fn resource(resource: &Resource) -> wire::Resource {
    wire::Resource {
        name: cut(&resource.name, NAME),
        wanted: resource.wanted,
        allocatable: resource.allocatable,
        broken: cut(resource.broken.as_deref().unwrap_or_default(), LINE),
    }
}

fn moment(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

/// Truncates a text to at most `most` bytes.
fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use muster_bootstrap::agent_config::Mode;
    use muster_bootstrap::finding::Finding;

    use super::*;
    use crate::boot_state::{BootState, Observation};

    fn of(fault: Option<Finding>, report_only: bool) -> Report {
        let now = "2026-11-22T20:00:00Z".parse().unwrap();
        let mut boot_state = BootState::new(Mode::Delegate, report_only, "boot".to_owned(), now);
        boot_state.observe(Observation::Native(fault.map_or(Ok(()), |fault| Err(Box::new(fault)))), now);
        boot_state.report(now)
    }

    fn fault() -> Option<Finding> {
        Some(Finding::new(&verdicts::UD12, "`containerd` cannot be started", None))
    }

    #[test]
    fn a_fault_is_a_verdict_when_it_has_stood_for_a_while() {
        let start = Instant::now();
        let mut standing = FatalSince::default();
        assert_eq!(standing.judge(&of(fault(), false), start), (None, Some(start + STANDS)));
        assert_eq!(standing.judge(&of(None, false), start + STANDS), (None, None), "it was a bad moment");
        let again = start + STANDS * 2;
        assert_eq!(standing.judge(&of(fault(), false), again), (None, Some(again + STANDS)));
        assert_eq!(standing.judge(&of(fault(), false), again + STANDS), (Some("UD12".to_owned()), None));
        assert_eq!(standing.judge(&of(fault(), true), again + STANDS), (None, None), "only reported");
    }

    #[test]
    fn what_the_cloud_announces_is_told_as_what_it_is() {
        let now = "2026-11-22T20:00:00Z".parse().unwrap();
        let told = |announced: Option<Notice>| {
            let mut boot_state = BootState::new(Mode::Delegate, false, "boot".to_owned(), now);
            if let Some(announced) = announced {
                boot_state.observe(Observation::Notice(announced), now);
            }
            notice(&boot_state.report(now)).map(|it| (it.kind(), it.text))
        };
        let text = r#"{"action":"terminate"}"#.to_owned();
        let interruption = Some((wire::notice::Kind::Interruption, text.clone()));
        assert_eq!(told(Some(Notice::Interruption(text.clone()))), interruption);
        assert_eq!(told(Some(Notice::Rebalance(text.clone()))), Some((wire::notice::Kind::Rebalance, text)));
        assert_eq!(told(None), None);
    }

    #[test]
    fn what_is_sent_is_bounded_and_says_the_same() {
        let mut long = of(fault(), false);
        long.findings[0].message = format!("x{}", "é".repeat(LINE));
        let sent = report(&long, Some("UD12".to_owned()), 7);
        assert_eq!((sent.sequence, sent.verdict.as_str()), (7, "UD12"));
        assert_eq!(sent.findings[0].code, "UD12");
        assert_eq!(sent.findings[0].message.len(), LINE - 1, "no letter is cut in two");
        assert_eq!(sent.phases.len(), Phase::ALL.len());
        let bootstrap = sent.phases.iter().find(|it| it.phase() == wire::Phase::Bootstrap).unwrap();
        assert_eq!(bootstrap.progress(), wire::Progress::Failed);
    }
}
