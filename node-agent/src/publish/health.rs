//! Health of the node in terms of `grpc.health.v1`.

use std::collections::BTreeMap;

use muster_proto::health::health_check_response::ServingStatus;

use crate::phase::{Phase, Progress};
use crate::report::{Report, Weight};

/// Returns the status of each health service name. The empty name is the agent itself.
#[must_use]
pub fn statuses(report: &Report) -> BTreeMap<String, ServingStatus> {
    let of_phase = |phase: Phase| match report.of(phase).map(|it| it.state) {
        Some(Progress::Done) => ServingStatus::Serving,
        Some(Progress::Failed) => ServingStatus::NotServing,
        // The stage was done before, but is not now.
        Some(_) if report.of(phase).is_some_and(|it| it.ended.is_some()) => ServingStatus::NotServing,
        _ => ServingStatus::Unknown,
    };
    let is_judged = report.of(Phase::Preflight).is_some_and(|it| it.ended.is_some() || it.state == Progress::Failed);
    let without = |codes: &dyn Fn(&str) -> bool| {
        let is_wrong = report.findings.iter().any(|it| it.severity == Weight::Error && codes(&it.code));
        match (is_judged, is_wrong) {
            (_, true) => ServingStatus::NotServing,
            (true, false) => ServingStatus::Serving,
            (false, false) => ServingStatus::Unknown,
        }
    };
    // KA07, KA08: a required taint is missing. CN11, AU16: a startup taint remains.
    let has_taint_left = report.findings.iter().any(|it| matches!(it.code.as_str(), "CN11" | "AU16"));
    let taints = match without(&|code| matches!(code, "KA03" | "KA07" | "KA08" | "UD17")) {
        ServingStatus::Serving if has_taint_left => ServingStatus::NotServing,
        status => status,
    };
    let names = [
        ("", ServingStatus::Serving),
        ("agent.Preflight", of_phase(Phase::Preflight)),
        ("agent.Bootstrap", of_phase(Phase::Bootstrap)),
        ("agent.KubeletArgs", without(&|code| code.starts_with("KA") || code.starts_with("UD"))),
        ("agent.StartupTaints", taints),
        ("agent.Kubelet", of_phase(Phase::Kubelet)),
        ("agent.Registered", of_phase(Phase::Registered)),
        ("agent.Devices", of_phase(Phase::Devices)),
        ("agent.Initialized", of_phase(Phase::Initialized)),
    ];
    names.into_iter().map(|(name, status)| (name.to_owned(), status)).collect()
}
