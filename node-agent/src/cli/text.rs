//! The report as text.

use std::fmt::Write;

use muster_bootstrap::Report;
use muster_bootstrap::finding::{Finding, Severity};

use super::document::shown;
use super::palette::Palette;

/// Maximum line width: enough for a long flag, and for half a screen.
const WIDTH: usize = 100;
const LABEL: usize = 9;

/// Returns the report as text.
pub(super) fn report(report: &Report, palette: Palette) -> String {
    let mut text = String::new();
    for found in &report.findings {
        finding(&mut text, found, palette);
    }
    effective(&mut text, report, palette);
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let counted = format!("{}, {}", number(errors, "error"), number(warnings, "warning"));
    let verdict = match (errors, warnings) {
        (0, 0) => "Nothing is wrong with it.".to_owned(),
        (0, _) => format!("{counted}. A node would join."),
        _ => format!("{counted}. A node would not join, or join wrong."),
    };
    let _ = writeln!(text, "{}", palette.strong(verdict));
    text
}

fn number(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn finding(text: &mut String, finding: &Finding, palette: Palette) {
    let heading = format!("{} {}", finding.severity, finding.verdict.code);
    let _ = writeln!(text, "{}: {}", palette.severity(finding.severity, heading), finding.message);
    if let Some(evidence) = &finding.evidence {
        let separator = if evidence.text.is_empty() { "" } else { ": " };
        line(text, "at", &format!("{}{separator}{}", evidence.place, evidence.text));
    }
    line(text, "cause", finding.verdict.cause);
    line(text, "fix", &finding.fix);
    let _ = writeln!(text, "{}\n", palette.faint(format!("  {:<LABEL$}{}", "more", finding.verdict.link())));
}

/// Writes a label and its text, wrapped at spaces.
pub(super) fn line(text: &mut String, label: &str, content: &str) {
    let mut current = format!("  {label:<LABEL$}");
    let indent = current.len();
    let mut is_empty = true;
    // Names come from user data, and characters that are not printable would reach the terminal.
    let content: String =
        content.chars().map(|char| if muster_bootstrap::is_printable(char) { char } else { ' ' }).collect();
    for word in content.split_whitespace() {
        if !is_empty && current.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{current}");
            current = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(text, "{current}");
}

fn effective(text: &mut String, report: &Report, palette: Palette) {
    let effective = &report.effective;
    let _ = writeln!(text, "{}", palette.strong("In effect"));
    line(text, "family", effective.family.name());
    if let Some(name) = &effective.cluster_name {
        line(text, "cluster", name);
    }
    if let Some(endpoint) = &effective.endpoint {
        line(text, "endpoint", &shown(endpoint));
    }
    let taints: Vec<String> = effective.taints.iter().map(ToString::to_string).collect();
    if taints.is_empty() {
        line(text, "taints", "none");
    }
    for taint in taints {
        line(text, "taint", &taint);
    }
    for (key, value) in &effective.labels {
        line(text, "label", &format!("{key}={}", effective.secrets.hide(value)));
    }
    for argument in &effective.kubelet_args {
        line(text, "argument", &shown(&effective.secrets.hide(argument)));
    }
    if let Some(max_pods) = effective.max_pods {
        line(text, "max pods", &max_pods.to_string());
    }
    if let Some(name) = &effective.node_name {
        line(text, "name", name);
    }
    text.push('\n');
}
