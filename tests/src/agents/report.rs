//! What agents say.

use jiff::Timestamp;
use muster_agent::phase::{Phase, Progress};
use muster_agent::report::{PhaseReport, Report, Verdict};
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::finding::Severity;
use muster_bootstrap::verdicts;

use super::machine::Machine;

/// Of a node that takes pods.
pub(super) fn good(machine: &Machine) -> Report {
    let now = Timestamp::now();
    let done = |name| PhaseReport { name, state: Progress::Done, began: Some(machine.launched_at), ended: Some(now) };
    Report {
        api_version: "muster.dev/v1".to_owned(),
        kind: "NodeReport".to_owned(),
        node: Some(machine.node.clone()),
        instance_id: Some(machine.instance.clone()),
        mode: Mode::default(),
        report_only: false,
        phase: Phase::Initialized,
        phases: Phase::ALL.into_iter().map(done).collect(),
        verdict: None,
        findings: Vec::new(),
        held: false,
        waiting_for: None,
        devices: Vec::new(),
        boot_id: machine.boot_id(),
        not_on_this_platform: Vec::new(),
        changed: now,
    }
}

/// Of one with a fault of this code, which is known since now.
pub(super) fn broken(machine: &Machine, code: &str) -> Report {
    let mut report = good(machine);
    let Some(known) = verdicts::find(code) else { return report };
    let verdict = Verdict {
        code: known.code.to_owned(),
        severity: Severity::Error.into(),
        phase: Phase::Kubelet,
        message: known.title.to_owned(),
        cause: known.cause.to_owned(),
        fix: known.fix.to_owned(),
        evidence: None,
        link: known.link(),
        since: report.changed,
    };
    report.phase = Phase::Kubelet;
    for phase in report.phases.iter_mut().filter(|it| it.name >= Phase::Kubelet) {
        phase.state = if phase.name == Phase::Kubelet { Progress::Failed } else { Progress::Pending };
    }
    report.findings = vec![verdict.clone()];
    report.verdict = Some(verdict);
    report
}
