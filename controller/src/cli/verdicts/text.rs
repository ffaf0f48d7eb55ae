//! Text of verdicts.

use std::fmt::Write;

use jiff::Timestamp;

use super::super::grid::{Grid, Side};
use super::super::nodes::{FaultDocument, fault, meanings, span};
use super::super::palette::Palette;
use super::document::{Summary, VerdictDetails, VerdictsDocument};

/// Placeholder for an empty cell.
const NOTHING: &str = "-";

/// Formats all verdicts.
pub(super) fn list(document: &VerdictsDocument, now: Timestamp, palette: Palette) -> String {
    let VerdictsDocument { verdicts, stopped, summary, .. } = document;
    let mut text = String::new();
    if !verdicts.is_empty() {
        let mut grid = Grid::new([
            ("NODECLAIM", Side::Left),
            ("NODEPOOL", Side::Left),
            ("TYPE", Side::Left),
            ("VERDICT", Side::Left),
            ("AGE", Side::Right),
            ("PHASE", Side::Left),
            ("LOGS", Side::Right),
        ]);
        for verdict in verdicts {
            grid.push([
                verdict.node_claim.clone(),
                or_nothing(verdict.node_pool.as_deref()),
                or_nothing(verdict.instance_type.as_deref()),
                verdict.fault.code.clone(),
                age(&verdict.fault, now),
                verdict.phase.unwrap_or("gone").to_owned(),
                size(verdict.bundle_bytes),
            ]);
        }
        let _ = writeln!(text, "{}\n{}", palette.strong("Verdicts"), grid.render(palette));
        let all = verdicts.iter().map(|verdict| (&verdict.fault, verdict.node_claim.as_str()));
        let _ = writeln!(text, "{}\n{}", palette.strong("Meaning of the codes"), meanings(all, palette));
    }
    if !stopped.is_empty() {
        let _ = writeln!(text, "{}", palette.strong("Nothing is launched with"));
        for one in stopped {
            // The fix is placed below the fault.
            let lines = one.message.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n    ");
            let _ = writeln!(text, "  {} {}: {}\n    {lines}", one.kind, one.name, palette.bad(&one.reason));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}", palette.strong(told(summary)));
    text
}

/// Formats one verdict, with its logs.
pub(super) fn one(details: &VerdictDetails, now: Timestamp, palette: Palette) -> String {
    let VerdictDetails { verdict, namesakes, bundle, .. } = details;
    let mut text = String::new();
    let _ = writeln!(text, "{}", palette.strong(format!("NodeClaim {}", verdict.node_claim)));
    let when = verdict.fault.since.as_ref().map(|since| format!("{since}, {} ago", age(&verdict.fault, now)));
    let facts = [
        verdict.node.as_ref().map(|node| format!("node {node}")),
        verdict.node_pool.as_ref().map(|pool| format!("nodepool {pool}")),
        verdict.node_class.as_ref().map(|class| format!("nodeclass {class}")),
        verdict.instance_type.clone(),
        verdict.zone.clone(),
        verdict.provider_id.as_ref().and_then(|id| id.rsplit('/').next()).map(str::to_owned),
        verdict.image_id.clone(),
        Some(verdict.phase.unwrap_or("gone").to_owned()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let _ = writeln!(text, "  {}", facts.join(", "));
    if *namesakes > 0 {
        let _ = writeln!(text, "  the latest of {} verdicts on that name", namesakes + 1);
    }
    text.push_str(&fault(&verdict.fault, when.as_deref().unwrap_or("at an unknown time"), palette));
    match bundle {
        Some(bundle) => {
            let _ = write!(text, "\n{}\n{bundle}", palette.strong("Its report and logs"));
            if !bundle.ends_with('\n') {
                text.push('\n');
            }
        }
        None => {
            let _ = writeln!(text, "\n{}", palette.strong("No logs of it are kept"));
        }
    }
    text
}

fn or_nothing(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(NOTHING).to_owned()
}

fn age(fault: &FaultDocument, now: Timestamp) -> String {
    let since = fault.since.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    since.map_or_else(|| NOTHING.to_owned(), |since| span(now.duration_since(since)))
}

fn size(bytes: usize) -> String {
    match bytes {
        0 => NOTHING.to_owned(),
        1..1024 => format!("{bytes} B"),
        _ => format!("{} KiB", bytes / 1024),
    }
}

fn told(summary: &Summary) -> String {
    let Summary { verdicts, standing, bundles, stopped } = summary;
    if *verdicts == 0 && *stopped == 0 {
        return "no verdicts".to_owned();
    }
    let all = if *verdicts == 1 { "1 verdict".to_owned() } else { format!("{verdicts} verdicts") };
    let classes = match stopped {
        0 => String::new(),
        1 => "; nothing is launched with 1 NodeClass".to_owned(),
        many => format!("; nothing is launched with {many} NodeClasses"),
    };
    format!("{all}: {standing} on nodes that are there, {bundles} with logs{classes}")
}
