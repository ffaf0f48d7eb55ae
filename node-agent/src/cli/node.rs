//! The node's report as text.

use std::fmt::Write;

use jiff::SignedDuration;

use super::palette::Palette;
use super::text::line;
use crate::phase::Progress;
use crate::report::{PhaseReport, Report, Verdict, Weight};

/// Returns the report as text. `is_gone` is true if the service does not run.
pub(crate) fn text(report: &Report, is_gone: bool, palette: Palette) -> String {
    let mut text = String::new();
    if is_gone {
        let _ = writeln!(text, "{}\n", palette.strong("The service does not run: this is what it said last."));
    }
    let name = |name: &Option<String>, unknown: &str| name.clone().unwrap_or_else(|| unknown.to_owned());
    let _ = writeln!(
        text,
        "node {} ({}), {} bootstrap{}\n",
        name(&report.node, "without a name yet"),
        name(&report.instance_id, "instance unknown"),
        match report.mode {
            muster_bootstrap::agent_config::Mode::Native => "native",
            muster_bootstrap::agent_config::Mode::Delegate => "delegated",
        },
        if report.report_only { ", report only" } else { "" }
    );
    if !report.not_on_this_platform.is_empty() {
        let lacks = format!("Not on this platform: {}.", report.not_on_this_platform.join(", "));
        let _ = writeln!(text, "{}\n", palette.faint(lacks));
    }
    for phase in &report.phases {
        stage(&mut text, phase);
    }
    text.push('\n');
    if report.held {
        let _ = writeln!(text, "{}\n", palette.strong("The kubelet is kept from starting."));
    }
    for verdict in &report.findings {
        finding(&mut text, verdict, palette);
    }
    for device in &report.devices {
        let has = device.allocatable.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
        let _ = writeln!(text, "device {}: {has} of {}", device.name, device.wanted);
        for link in &device.links {
            let holds = match link.holds {
                Some(true) => "ok",
                Some(false) => "broken",
                None => "not yet",
            };
            let _ = writeln!(text, "  {:<11} {holds:<8} {}", link.name, link.seen);
        }
        text.push('\n');
    }
    let last = match (&report.verdict, &report.waiting_for) {
        (Some(verdict), _) if verdict.severity == Weight::Error => format!("{}: {}.", verdict.code, verdict.message),
        (_, Some(waiting)) => format!("Nothing keeps it from joining. It waits for {waiting}."),
        (Some(verdict), None) if verdict.severity == Weight::Warning => {
            format!("It takes pods. {}: {}.", verdict.code, verdict.message)
        }
        _ => "It takes pods.".to_owned(),
    };
    let _ = writeln!(text, "{}", palette.strong(last));
    text
}

fn stage(text: &mut String, phase: &PhaseReport) {
    let took = match (phase.began, phase.ended) {
        (Some(began), Some(ended)) => seconds(ended.duration_since(began)),
        _ => String::new(),
    };
    let at = match phase.state {
        Progress::Done => phase.ended,
        _ => phase.began,
    };
    let at = at.map(|at| format!("{at:.3}")).unwrap_or_default();
    let _ = writeln!(text, "{}", format!("{:<12} {:<8} {took:>9}  {at}", phase.name, phase.state).trim_end());
}

fn seconds(duration: SignedDuration) -> String {
    format!("{:.3} s", duration.as_secs_f64())
}

fn finding(text: &mut String, verdict: &Verdict, palette: Palette) {
    let severity = match verdict.severity {
        Weight::Error => "error",
        Weight::Warning => "warning",
        Weight::Info => "info",
    };
    let heading = palette.severity(verdict.severity.into(), format!("{severity} {}", verdict.code));
    let _ = writeln!(text, "{heading}: {}", verdict.message);
    if let Some(evidence) = &verdict.evidence {
        let separator = if evidence.text.is_empty() { "" } else { ": " };
        line(text, "at", &format!("{}{separator}{}", evidence.source, evidence.text));
    }
    line(text, "since", &format!("{:.3}", verdict.since));
    line(text, "cause", &verdict.cause);
    line(text, "fix", &verdict.fix);
    let _ = writeln!(text, "{}\n", palette.faint(format!("  {:<9}{}", "more", verdict.link)));
}
