//! Text of explanations.

use std::fmt::Write;

use jiff::SignedDuration;

use super::super::grid::{Grid, Side};
use super::super::nodes::{AgentDocument, StandDocument, fault, span};
use super::super::palette::Palette;
use super::super::plan::{WorkloadCounts, remark_lines, verdict_lines};
use super::super::printable::plain_name;
use super::document::{Health, NodeExplanation, NodeState, PodExplanation, PodState, RuledOutDocument};
use super::managed_nodes::RemovalDocument;

/// Number of pods of a node that are listed individually; more are counted by workload.
const LISTED_PODS: usize = 20;

/// Returns the explanation of a pod as text.
pub(super) fn pod(pod: &PodExplanation, palette: Palette) -> String {
    let mut text = String::new();
    let name = palette.strong(format!("Pod {}", plain_name(&pod.pod)));
    let node = plain_name(pod.node.as_deref().unwrap_or_default());
    let message = plain_name(&pod.message);
    let state = match pod.state {
        PodState::Unschedulable => palette.bad("cannot be scheduled"),
        PodState::NewNode => format!("goes to new node {node}"),
        PodState::ExistingNode => format!("goes to existing node {node}"),
        PodState::Bound => format!("runs on node {node}"),
    };
    let _ = writeln!(text, "{name} {state}");
    let _ = match pod.reason {
        Some(reason) => writeln!(text, "  {}: {message}", palette.bad(reason)),
        None => writeln!(text, "  {message}"),
    };
    text.push_str(&verdict_lines(&pod.node_pools, &pod.message, palette));
    text.push_str(&remark_lines(&pod.warnings, palette));
    list(&mut text, "Requirements of the pod", palette, &pod.narrowed, |it| {
        format!("{} {} ({})", it.key, it.requirement, it.source)
    });
    list(&mut text, "Rules about other pods", palette, &pod.rules, |it| match it.pods.len() {
        0 => format!("{}: no other pod in the input", it.rule),
        _ => format!("{}: {}", it.rule, WorkloadCounts::new(it.pods.iter().map(String::as_str))),
    });
    list(&mut text, "Cheaper instance types that do not fit", palette, &pod.ruled_out, ruled_out);
    list(&mut text, "Notes", palette, &pod.notes, Clone::clone);
    text
}

/// Returns the explanation of a node as text.
pub(super) fn node(node: &NodeExplanation, palette: Palette) -> String {
    let mut text = String::new();
    let kind = match node.state {
        NodeState::New => "New node",
        NodeState::Existing => "Existing node",
    };
    let _ = writeln!(text, "{}", palette.strong(format!("{kind} {}", plain_name(&node.node))));
    let facts = [
        node.instance_type.clone(),
        node.capacity_type.clone(),
        node.zone.clone(),
        node.node_pool.as_ref().map(|pool| format!("nodepool {pool}")),
        node.price.map(|price| format!("${price:.4}/h")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let _ = writeln!(text, "  {}", plain_name(&facts.join(", ")));
    if let [first, second, ..] = node.instance_types.as_slice() {
        let count = node.instance_types.len();
        let _ = writeln!(text, "  {first} is the cheapest of {count} types that fit; next: {second}");
    }
    if let Some(smaller) = &node.next_smaller {
        let _ = writeln!(text, "  not the cheaper {}", ruled_out(smaller));
    }
    if let Some(managed_nodes) = &node.managed_nodes {
        let since = managed_nodes.since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
        let word = if managed_nodes.command.is_some() { "would be disrupted" } else { "is kept" };
        let message = plain_name(&managed_nodes.message);
        let _ = writeln!(text, "  {word} ({}{since}): {message}", managed_nodes.reason);
    }
    if let Some(health) = &node.health {
        self::health(&mut text, health, palette);
    }
    if !node.resources.is_empty() {
        let mut grid = Grid::new([
            ("RESOURCE", Side::Left),
            ("REQUESTED", Side::Right),
            ("ALLOCATABLE", Side::Right),
            ("FULL", Side::Right),
            ("", Side::Left),
        ]);
        for it in &node.resources {
            let mark = if node.fullest.as_ref() == Some(&it.resource) { "fullest" } else { "" };
            let full = format!("{:.1}%", it.percent);
            grid.push([it.resource.clone(), it.requested.clone(), it.allocatable.clone(), full, mark.to_owned()]);
        }
        let _ = write!(text, "\n{}\n{}", palette.strong("Usage"), grid.render(palette));
    }
    list(&mut text, "Requirements", palette, &node.requirements, |it| {
        let sources = if it.sources.is_empty() { String::new() } else { format!(" (from {})", it.sources.join(", ")) };
        format!("{} {}{sources}", it.key, it.requirement)
    });
    list(&mut text, "Daemons", palette, &node.daemons, |it| {
        let requests: Vec<String> =
            it.requests.iter().map(|(resource, amount)| format!("{resource} {amount}")).collect();
        format!("{}: {}", it.name, requests.join(", "))
    });
    if node.pods.len() > LISTED_PODS {
        let counts = WorkloadCounts::new(node.pods.iter().map(|pod| pod.pod.as_str()));
        list(&mut text, "Pods", palette, &[counts], |it| format!("{}: {it}", it.pods()));
    } else {
        list(&mut text, "Pods", palette, &node.pods, |it| match it.price {
            Some(price) => format!("{}  ${price:.4}/h", it.pod),
            None => it.pod.clone(),
        });
    }
    if let Some(removal) = &node.if_removed {
        if_removed(&mut text, removal, palette);
    }
    text
}

/// Adds the lifecycle phase and the agent's report.
fn health(text: &mut String, health: &Health, palette: Palette) {
    let Health { stand, agent, verdict } = health;
    let StandDocument { phase, phase_since: _, phase_seconds, phase_reason, phase_message } = stand;
    let length = phase_seconds.map(|seconds| format!(" for {}", span(SignedDuration::from_secs(seconds))));
    let why: Vec<&str> = phase_reason.iter().chain(phase_message).map(String::as_str).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join(": ")) };
    let _ = writeln!(text, "  {phase}{}{why}", length.unwrap_or_default());
    if let Some(AgentDocument { state, stage, since: _, message, heard: _ }) = agent {
        let stage = stage.as_ref().map(|stage| format!(" at {stage}")).unwrap_or_default();
        let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        let _ = writeln!(text, "  its agent: {state}{stage}{message}");
    }
    if let Some(verdict) = verdict {
        let body = fault(verdict, "reported by its agent", palette);
        let _ = write!(text, "{body}");
    }
}

/// Adds the places of the pods, the nodes to launch, the pods without a place, and the savings.
fn if_removed(text: &mut String, removal: &RemovalDocument, palette: Palette) {
    let mut lines: Vec<String> = Vec::new();
    let pods = |pods: &[String]| WorkloadCounts::new(pods.iter().map(String::as_str)).to_string();
    lines.extend(
        removal.existing_nodes.iter().map(|node| format!("to {}: {}", plain_name(&node.name), pods(&node.pods))),
    );
    lines.extend(removal.replacements.iter().map(|node| {
        format!("to a new {} in {} at ${:.4}/h: {}", node.instance_type, node.zone, node.price, pods(&node.pods))
    }));
    for pod in &removal.unplaced {
        let stuck = palette.bad(format!("{} would not fit anywhere", plain_name(&pod.pod)));
        lines.push(format!("{stuck}: {}", plain_name(&pod.message)));
    }
    if !removal.bare_pods.is_empty() {
        lines.push(format!("lost, because they have no controller: {}", pods(&removal.bare_pods)));
    }
    if removal.pods.is_empty() {
        lines.push("no pod would have to move".to_owned());
    }
    lines.push(match removal.savings {
        // Not paying for pods that cannot run is not a saving.
        _ if !removal.unplaced.is_empty() => "so the node cannot be removed without leaving pods pending".to_owned(),
        more if more < 0.0 => format!("costs ${:.4} more per hour", -more),
        saved => format!("saves ${saved:.4} per hour"),
    });
    section(text, "If it were removed", palette, &lines);
}

fn ruled_out(it: &RuledOutDocument) -> String {
    format!("{} at ${:.4}/h: {}", it.instance_type, it.price, it.why)
}

fn list<T>(text: &mut String, title: &str, palette: Palette, items: &[T], line: impl Fn(&T) -> String) {
    let lines: Vec<String> = items.iter().map(|item| plain_name(&line(item))).collect();
    section(text, title, palette, &lines);
}

/// Adds lines that may be coloured; nothing if there are none.
fn section(text: &mut String, title: &str, palette: Palette, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(text, "\n{}\n", palette.strong(title));
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}
