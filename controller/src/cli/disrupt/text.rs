//! Text of a disruption plan: first the commands and their savings, then the reasons why other nodes stay.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::grid::{Grid, Side};
use super::super::palette::Palette;
use super::super::plan::{NewNode, WorkloadCounts};
use super::super::printable::plain_name;
use super::document::{BlockedNode, CommandDocument, DisruptionDocument};

/// Number of nodes of a command that are named; the others are counted.
const NAMED: usize = 3;

/// Number of nodes with the same reason that get a line each; the others share one.
const LISTED: usize = 8;

/// Maximum lines of detail per command.
const DETAILS: usize = 3;

/// Returns `document` as text.
pub(super) fn render(document: &DisruptionDocument, palette: Palette) -> String {
    let mut text = String::new();
    if !document.commands.is_empty() {
        let _ = write!(text, "{}\n{}\n", palette.strong("Commands"), commands(&document.commands, palette));
        for (number, command) in document.commands.iter().enumerate() {
            remarks(&mut text, number + 1, command, palette);
        }
    }
    if !document.reboots.is_empty() {
        let mut grid = Grid::new([("NODE", Side::Left), ("WHY", Side::Left)]);
        document.reboots.iter().for_each(|one| grid.push([one.node.clone(), one.detail.clone()]));
        let _ = write!(text, "{}\n{}\n", palette.strong("Nodes that are rebooted"), grid.render(palette));
    }
    if !document.blocked.is_empty() {
        let _ = write!(text, "{}\n{}\n", palette.strong("Nodes that stay"), blocked(&document.blocked, palette));
    }
    text.push_str(&summary(document, palette));
    text
}

fn commands(commands: &[CommandDocument], palette: Palette) -> String {
    let mut grid = Grid::new([
        ("#", Side::Right),
        ("REASON", Side::Left),
        ("METHOD", Side::Left),
        ("NODES", Side::Left),
        ("REPLACED BY", Side::Left),
        ("PODS MOVED", Side::Left),
        ("SAVES $/HOUR", Side::Right),
    ]);
    for (number, command) in commands.iter().enumerate() {
        let moved = WorkloadCounts::new(command.moved.iter().map(String::as_str));
        let pods = match moved.pods() {
            0 => "none".to_owned(),
            _ => format!("{}: {moved}", moved.pods()),
        };
        grid.push([
            (number + 1).to_string(),
            command.reason.to_owned(),
            command.method.to_owned(),
            names(&command.candidates),
            launches(&command.replacements),
            pods,
            format!("{:.4}", command.savings),
        ]);
    }
    grid.render(palette)
}

/// Formats as `a, b, c and 97 others`.
fn names(nodes: &[String]) -> String {
    if nodes.len() <= NAMED + 1 {
        return nodes.join(", ");
    }
    format!("{} and {} others", nodes[..NAMED].join(", "), nodes.len() - NAMED)
}

/// Formats as `2 × m7g.large`, or says that nothing is launched.
fn launches(nodes: &[NewNode]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    nodes.iter().for_each(|node| *counts.entry(&node.instance_type).or_default() += 1);
    if counts.is_empty() {
        return "nothing".to_owned();
    }
    let each =
        counts.iter().map(|(kind, count)| if *count == 1 { (*kind).to_owned() } else { format!("{count} × {kind}") });
    each.collect::<Vec<_>>().join(", ")
}

/// Adds the details of a command and its effects on pods.
fn remarks(text: &mut String, number: usize, command: &CommandDocument, palette: Palette) {
    // Nodes and controllers wrote parts of them.
    let mut lines: Vec<String> = command.details.iter().take(DETAILS).map(|detail| plain_name(detail)).collect();
    if command.details.len() > DETAILS {
        lines.push(format!("and {} more like these", command.details.len() - DETAILS));
    }
    if !command.unplaced.is_empty() {
        let pods = WorkloadCounts::new(command.unplaced.iter().map(String::as_str));
        // Other nodes may have room for these, but a static pool's pods follow their node.
        let what = if command.is_static && !command.replacements.is_empty() {
            "pods that do not fit on the node that replaces theirs"
        } else {
            "pods that do not fit anywhere"
        };
        lines.push(format!("{}: {pods}", palette.bad(what)));
    }
    if !command.bare_pods.is_empty() {
        let pods = WorkloadCounts::new(command.bare_pods.iter().map(String::as_str));
        lines.push(format!("{}: {pods}", palette.doubtful("pods without a controller, which are not recreated")));
    }
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", palette.faint(format!("Behind command {number}")));
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
}

fn blocked(blocked: &[BlockedNode], palette: Palette) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&BlockedNode>> = BTreeMap::new();
    for node in blocked {
        by_reason.entry(node.reason).or_default().push(node);
    }
    let mut grid =
        Grid::new([("REASON", Side::Left), ("NODE", Side::Left), ("SINCE", Side::Left), ("WHAT KEEPS IT", Side::Left)]);
    for (reason, nodes) in by_reason {
        for node in nodes.iter().take(LISTED) {
            grid.push([reason.to_owned(), node.node.clone(), node.since.clone(), node.message.clone()]);
        }
        if nodes.len() > LISTED {
            let since = nodes.iter().map(|node| node.since.as_str()).min().unwrap_or_default();
            let rest = format!("and {} others", nodes.len() - LISTED);
            grid.push([reason.to_owned(), rest, since.to_owned(), "(the earliest; `-o json` lists all)".to_owned()]);
        }
    }
    grid.render(palette)
}

fn summary(document: &DisruptionDocument, palette: Palette) -> String {
    let summary = &document.summary;
    let plural = |count: usize, word: &str| if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") };
    if summary.commands == 0 {
        let reboots = document.reboots.len();
        if reboots > 0 {
            let verb = if reboots == 1 { "is" } else { "are" };
            return format!("{}\n", palette.strong(format!("{} {verb} rebooted", plural(reboots, "node"))));
        }
        let what = if summary.nodes == 0 { "there is no managed node" } else { "every node stays" };
        return format!("{}\n", palette.strong(format!("Nothing to do: {what}")));
    }
    let headline = format!(
        "{} of {} {}, {} launched: ${:.4}/h saved by moving {}",
        plural(summary.candidates, "node"),
        summary.nodes,
        if summary.candidates == 1 { "goes" } else { "go" },
        match summary.replacements {
            0 => "nothing is".to_owned(),
            1 => "1 node is".to_owned(),
            count => format!("{count} nodes are"),
        },
        summary.savings,
        plural(summary.moved_pods, "pod"),
    );
    format!("{}\n", palette.strong(headline))
}
