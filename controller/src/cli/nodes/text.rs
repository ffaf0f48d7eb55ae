//! Text of nodes: the table, their faults, and the reasons why others are not ready.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

use super::super::grid::{Grid, Side};
use super::super::palette::Palette;
use super::document::{FaultDocument, NodeDocument, NodesDocument, Summary};

/// Maximum number of nodes that are named, and of reasons that are listed.
const NAMED: usize = 20;
/// Placeholder for an empty cell.
const NOTHING: &str = "-";

/// Returns `document` as text.
pub(super) fn render(document: &NodesDocument, wide: bool, now: Timestamp, palette: Palette) -> String {
    let NodesDocument { nodes, summary, .. } = document;
    let mut text = String::new();
    if !nodes.is_empty() {
        let table = if wide { all_columns(nodes, now, palette) } else { columns(nodes, palette) };
        let _ = writeln!(text, "{}\n{table}", palette.strong("Nodes"));
    }
    let broken = broken(nodes, palette);
    if !broken.is_empty() {
        let _ = writeln!(text, "{}\n{broken}", palette.strong("Verdicts of their agents"));
    }
    let waits = waits(nodes);
    if !waits.is_empty() {
        let _ = writeln!(text, "{}\n{waits}", palette.strong("Waiting for"));
    }
    let _ = writeln!(text, "{}", palette.strong(told(summary)));
    text
}

/// Formats a duration like kubectl's ages.
pub(crate) fn span(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |more: i64, unit: char, less: i64, small: char| match less {
        0 => format!("{more}{unit}"),
        _ => format!("{more}{unit}{less}{small}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

// === the table ===

fn columns(nodes: &[NodeDocument], palette: Palette) -> String {
    let mut grid = Grid::new([
        ("NAME", Side::Left),
        ("NODEPOOL", Side::Left),
        ("TYPE", Side::Left),
        ("CAPACITY", Side::Left),
        ("PHASE", Side::Left),
        ("FOR", Side::Right),
        ("AGENT", Side::Left),
        ("VERDICT", Side::Left),
    ]);
    for node in nodes {
        grid.push([
            node.name.clone(),
            or_nothing(node.node_pool.as_deref()),
            or_nothing(node.instance_type.as_deref()),
            or_nothing(node.capacity_type.as_deref()),
            node.stand.phase.to_owned(),
            since(node),
            agent(node),
            verdict(node),
        ]);
    }
    grid.render(palette)
}

fn all_columns(nodes: &[NodeDocument], now: Timestamp, palette: Palette) -> String {
    let mut grid = Grid::new([
        ("NAME", Side::Left),
        ("NODECLAIM", Side::Left),
        ("NODEPOOL", Side::Left),
        ("NODECLASS", Side::Left),
        ("TYPE", Side::Left),
        ("CAPACITY", Side::Left),
        ("ZONE", Side::Left),
        ("PHASE", Side::Left),
        ("FOR", Side::Right),
        ("AGE", Side::Right),
        ("AGENT", Side::Left),
        ("VERDICT", Side::Left),
        ("INSTANCE", Side::Left),
    ]);
    for node in nodes {
        let created = node.created.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
        let instance = node.provider_id.as_deref().and_then(|id| id.rsplit('/').next());
        grid.push([
            node.name.clone(),
            or_nothing(node.node_claim.as_deref()),
            or_nothing(node.node_pool.as_deref()),
            or_nothing(node.node_class.as_deref()),
            or_nothing(node.instance_type.as_deref()),
            or_nothing(node.capacity_type.as_deref()),
            or_nothing(node.zone.as_deref()),
            node.stand.phase.to_owned(),
            since(node),
            created.map_or_else(|| NOTHING.to_owned(), |created| span(now.duration_since(created))),
            agent(node),
            verdict(node),
            or_nothing(instance),
        ]);
    }
    grid.render(palette)
}

fn or_nothing(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(NOTHING).to_owned()
}

fn since(node: &NodeDocument) -> String {
    node.stand.phase_seconds.map_or_else(|| NOTHING.to_owned(), |seconds| span(SignedDuration::from_secs(seconds)))
}

fn agent(node: &NodeDocument) -> String {
    or_nothing(node.agent.as_ref().map(|agent| agent.stage.as_deref().unwrap_or(agent.state)))
}

fn verdict(node: &NodeDocument) -> String {
    or_nothing(node.verdict.as_ref().map(|verdict| verdict.code.as_str()))
}

// === below the table ===

fn broken(nodes: &[NodeDocument], palette: Palette) -> String {
    meanings(nodes.iter().filter_map(|node| Some((node.verdict.as_ref()?, node.name.as_str()))), palette)
}

/// Formats verdicts and the names of their nodes; equal verdicts are grouped.
pub(crate) fn meanings<'v>(all: impl Iterator<Item = (&'v FaultDocument, &'v str)>, palette: Palette) -> String {
    let mut groups: Vec<(&FaultDocument, Vec<&str>)> = Vec::new();
    for (verdict, name) in all {
        let group = groups.iter_mut().find(|(of, _)| of.code == verdict.code && of.message == verdict.message);
        match group {
            Some((_, names)) => names.push(name),
            None => groups.push((verdict, vec![name])),
        }
    }
    groups.iter().map(|(verdict, names)| fault(verdict, &listed(names), palette)).collect()
}

/// Formats a verdict, its nodes, its cause and its fix.
pub(crate) fn fault(verdict: &FaultDocument, names: &str, palette: Palette) -> String {
    let FaultDocument { code, since: _, message, title, cause, fix } = verdict;
    // Further lines are indented, so that they do not look like lines of this program.
    let indented = |text: &str| text.replace('\n', "\n    ");
    let title = title.map(|title| format!(" {title}")).unwrap_or_default();
    let mut text = format!("  {}{title}: {names}\n", palette.bad(code));
    if let Some(line) = message {
        let _ = writeln!(text, "    {}", indented(line));
    }
    if let Some(line) = cause {
        let _ = writeln!(text, "    cause: {line}");
    }
    if let Some(line) = fix {
        let _ = writeln!(text, "    {}: {}", palette.advice("fix"), indented(line));
    }
    text
}

fn listed(names: &[&str]) -> String {
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Lists the reasons of nodes that are not ready.
fn waits(nodes: &[NodeDocument]) -> String {
    let lines: Vec<String> = nodes.iter().filter(|node| node.verdict.is_none()).filter_map(wait).collect();
    let mut text: String = lines.iter().take(NAMED).map(|line| format!("  {line}\n")).collect();
    if lines.len() > NAMED {
        let _ = writeln!(text, "  and {} more: `-o json` has all", lines.len() - NAMED);
    }
    text
}

fn wait(node: &NodeDocument) -> Option<String> {
    let of_agent =
        node.agent.as_ref().filter(|agent| agent.state != "Ready").and_then(|agent| agent.message.as_deref());
    let (reason, message) = (node.stand.phase_reason.as_deref(), node.stand.phase_message.as_deref());
    let of_claim = match (reason, message) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (one, other) => one.or(other).map(ToOwned::to_owned),
    };
    let told: Vec<String> = of_claim.into_iter().chain(of_agent.map(|message| format!("agent: {message}"))).collect();
    (!told.is_empty()).then(|| format!("{}: {}", node.name, told.join("; ")))
}

/// Formats the summary of counts.
fn told(summary: &Summary) -> String {
    let Summary {
        nodes,
        broken,
        launching,
        launched,
        registered,
        initialized,
        ready,
        not_ready,
        disrupting,
        terminating,
    } = summary;
    let all = match nodes {
        0 => return "no nodes".to_owned(),
        1 => "1 node".to_owned(),
        many => format!("{many} nodes"),
    };
    let phases = [
        (launching, "launching"),
        (launched, "launched"),
        (registered, "registered"),
        (initialized, "initialized"),
        (ready, "ready"),
        (not_ready, "not ready"),
        (disrupting, "disrupting"),
        (terminating, "terminating"),
    ];
    let counts = phases.iter().filter(|(count, _)| **count > 0).map(|(count, word)| format!("{count} {word}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let broken = if *broken > 0 { format!("; {broken} with a verdict") } else { String::new() };
    format!("{all}: {counts}{broken}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_as_kubectl_writes_ages() {
        let all = [-5, 0, 119, 120, 150, 599, 600, 10_799, 10_800, 11_040, 28_799, 28_800, 172_799, 172_800];
        let written = all.map(|seconds| span(SignedDuration::from_secs(seconds)));
        assert_eq!(
            written,
            ["0s", "0s", "119s", "2m", "2m30s", "9m59s", "10m", "179m", "3h", "3h4m", "7h59m", "8h", "47h", "2d"]
        );
        let days = [(2, 3), (7, 23), (8, 0), (8, 5), (729, 23), (730, 0), (731, 5), (2919, 0), (2920, 0), (3000, 1)];
        let written = days.map(|(days, hours)| span(SignedDuration::from_hours(days * 24 + hours)));
        assert_eq!(written, ["2d3h", "7d23h", "8d", "8d", "729d", "2y", "2y1d", "7y364d", "8y", "8y"]);
    }
}
