//! Conversion of a report to conditions of the NodeClaim. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::NodeClaim;
use muster_api::conditions::{nodeclaim, reason};
use muster_bootstrap::verdicts;
use muster_gateway::{Finding, Phase, Progress, Report, Severity};
use muster_stages::lifecycle::{Status, condition, judged, set_condition};
use muster_stages::roster::FIX;

/// Maximum length of a condition's message: every watcher of the cluster reads the NodeClaim.
const MESSAGE: usize = 600;

/// Phases, in order.
pub(super) const PHASES: [Phase; 6] =
    [Phase::Preflight, Phase::Bootstrap, Phase::Kubelet, Phase::Registered, Phase::Devices, Phase::Initialized];

/// Returns the conditions of a NodeClaim after a report; `None` if they are unchanged.
pub(super) fn conditions(claim: &NodeClaim, report: &Report, now: Timestamp) -> Option<Vec<Condition>> {
    let before = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut all = before.to_vec();
    let mut set = |kind: &str, status, reason: &str, message: &str| {
        let message = message.get(..message.floor_char_boundary(MESSAGE)).unwrap_or(message);
        set_condition(&mut all, judged(kind, status, reason, message, claim.metadata.generation, now));
    };
    let (status, stage, message) = ready(report);
    set(nodeclaim::AGENT_READY, status, stage, &message);
    match report.verdict.as_deref() {
        Some(code) => {
            let message = report.fatal().map(verdict).unwrap_or_default();
            set(nodeclaim::NODE_VERDICT, Status::False, code, &message);
        }
        // A node that never had a verdict needs no lifted one.
        None if condition(claim, nodeclaim::NODE_VERDICT).is_some() => {
            set(nodeclaim::NODE_VERDICT, Status::True, reason::VERDICT_LIFTED, "")
        }
        None => {}
    }
    (all.as_slice() != before).then_some(all)
}

/// Returns status, reason and message of the condition `AgentReady`.
fn ready(report: &Report) -> (Status, &'static str, String) {
    let open = report.phases.iter().find(|it| it.progress != Progress::Done);
    let Some(open) = open.filter(|_| !report.phases.is_empty()) else {
        // A report without phases does not say that they are done.
        let is_done = !report.phases.is_empty();
        let status = if is_done { Status::True } else { Status::Unknown };
        return (status, if is_done { name(Phase::Initialized) } else { name(Phase::Preflight) }, String::new());
    };
    let fault = report.findings.iter().find(|it| it.severity == Severity::Error);
    let message = fault.map(told).or_else(|| report.waiting_for.clone()).unwrap_or_default();
    (Status::Unknown, name(open.phase), message)
}

pub(super) const fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Preflight => "Preflight",
        Phase::Bootstrap => "Bootstrap",
        Phase::Kubelet => "Kubelet",
        Phase::Registered => "Registered",
        Phase::Devices => "Devices",
        Phase::Initialized => "Initialized",
    }
}

fn told(finding: &Finding) -> String {
    format!("{}: {}", finding.code, finding.message)
}

/// Formats a finding with its source and fix.
pub(super) fn verdict(finding: &Finding) -> String {
    let Finding { code, message, evidence_source, .. } = finding;
    let mut message = message.clone();
    if !evidence_source.is_empty() {
        message += &format!(" ({evidence_source})");
    }
    // A newer agent may send unknown codes.
    if let Some(known) = verdicts::find(code) {
        message += &format!("{FIX}{}", known.fix);
    }
    message
}

#[cfg(test)]
mod tests {
    use muster_gateway::PhaseState;

    use super::super::launches::tests::claim;
    use super::*;

    fn report(done: usize, verdict: Option<&str>) -> Report {
        let progress = |index| if index < done { Progress::Done } else { Progress::Running };
        let finding = |code: &&str| Finding {
            code: (*code).to_owned(),
            severity: Severity::Error,
            phase: Some(Phase::Preflight),
            message: "required taint karpenter.sh/unregistered:NoExecute is not in effect".to_owned(),
            evidence_source: "user-data part 2, line 14".to_owned(),
            evidence: String::new(),
            since: None,
        };
        let state = |(index, phase)| PhaseState { phase, progress: progress(index), began_at: None, ended_at: None };
        Report {
            sequence: 1,
            node_name: None,
            phases: PHASES.into_iter().enumerate().map(state).collect(),
            findings: verdict.iter().map(finding).collect(),
            verdict: verdict.map(ToOwned::to_owned),
            waiting_for: (done == 4).then(|| "nvidia.com/gpu: no device plugin".to_owned()),
            resources: Vec::new(),
            changed_at: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns the conditions after these reports, one per line, and the number of writes.
    fn after(reports: &[Report]) -> (Vec<String>, usize) {
        let (mut claim, mut writes) = (claim(), 0);
        for (second, report) in (0..).zip(reports) {
            if let Some(conditions) = conditions(&claim, report, at(second)) {
                claim.status.as_mut().unwrap().conditions = conditions;
                writes += 1;
            }
        }
        let word = |one: &Condition| {
            let since = one.last_transition_time.0.as_second();
            format!("{}={} {} since {since}: {}", one.type_, one.status, one.reason, one.message)
        };
        (claim.status.unwrap().conditions.iter().map(word).collect(), writes)
    }

    #[test]
    fn a_good_node_says_its_stages_and_then_that_it_is_there() {
        let on_its_way = [report(0, None), report(0, None), report(4, None)];
        assert_eq!(
            after(&on_its_way),
            (vec!["AgentReady=Unknown Devices since 0: nvidia.com/gpu: no device plugin".to_owned()], 2)
        );
        let all = [report(0, None), report(6, None), report(6, None)];
        assert_eq!(
            after(&all),
            (vec!["AgentReady=True Initialized since 1: ".to_owned()], 2),
            "the same twice is one write"
        );
        let silent = Report { phases: Vec::new(), ..report(0, None) };
        assert_eq!(after(&[silent]).0, ["AgentReady=Unknown Preflight since 0: "]);
    }

    #[test]
    fn a_broken_one_says_why_and_what_to_do() {
        let (said, _) = after(&[report(0, Some("KA07"))]);
        insta::assert_snapshot!(said.join("\n"));
        let (said, writes) = after(&[report(0, Some("KA07")), report(0, None), report(0, None)]);
        assert_eq!(said[1], "NodeVerdict=True VerdictLifted since 1: ");
        assert_eq!(writes, 2);
        let (said, _) = after(&[report(0, Some("ZZ99"))]);
        assert!(
            said[1].starts_with("NodeVerdict=False ZZ99") && !said[1].contains("fix:"),
            "a code of a newer agent: {said:?}"
        );
    }

    #[test]
    fn what_it_says_is_bounded() {
        let mut long = report(0, Some("KA07"));
        long.findings[0].message = "é".repeat(1000);
        let conditions = conditions(&claim(), &long, at(0)).unwrap();
        assert!(conditions.iter().all(|one| one.message.len() <= MESSAGE));
    }
}
