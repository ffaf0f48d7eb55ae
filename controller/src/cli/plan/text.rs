//! Text of the plan. Nodes of one kind share a line, so that a plan of a thousand nodes fits on a screen.

mod names;
mod unschedulable;

use std::collections::BTreeMap;
use std::fmt::Write;

use muster_scheduling::Solution;
use muster_scheduling::model::{Problem, Resource};

use super::super::grid::{Grid, Side};
use super::super::palette::Palette;
use super::super::printable::plain_name;
use super::document::{NewNode, PlanDocument, Summary};
use super::workload::WorkloadCounts;
pub(crate) use unschedulable::{remark_lines, verdict_lines};

/// Excess of the replay's price over the plan's, as a fraction, above which it is shown.
const WORTH_SAYING: f64 = 0.001;

/// Returns `plan` as text; `fills` is the use of each new node.
pub(super) fn render(plan: &PlanDocument, fills: &[Fill], palette: Palette) -> String {
    let mut text = String::new();
    if !plan.new_nodes.is_empty() {
        section(&mut text, "New nodes", &new_nodes(plan, fills, palette), palette);
    }
    if !plan.existing_nodes.is_empty() {
        let mut grid = Grid::new([("NODE", Side::Left), ("PODS", Side::Right), ("WORKLOADS", Side::Left)]);
        for node in &plan.existing_nodes {
            let workloads = WorkloadCounts::new(node.pods.iter().map(String::as_str));
            grid.push([node.name.clone(), node.pods.len().to_string(), workloads.to_string()]);
        }
        section(&mut text, "Existing nodes that get pods", &grid.render(palette), palette);
    }
    if !plan.unschedulable.is_empty() {
        section(&mut text, "Unschedulable pods", &unschedulable::render(&plan.unschedulable, palette), palette);
    }
    if !plan.preferences.is_empty() {
        section(&mut text, "Preferences that are not kept", &preferences(plan), palette);
    }
    text.push_str(&summary(plan, palette));
    text
}

fn preferences(plan: &PlanDocument) -> String {
    let mut text = String::new();
    for one in &plan.preferences {
        let workloads = WorkloadCounts::new(one.pods.iter().map(String::as_str));
        let cost = match one.extra_hourly_price {
            Some(price) if price > 0.0 => format!("would cost {} more", per_hour(price)),
            Some(_) => "would cost nothing by itself".to_owned(),
            None => "would leave pods pending".to_owned(),
        };
        let preference = plain_name(&one.preference);
        let _ = writeln!(text, "  {workloads}: {preference}, of weight {}: {cost}", one.weight);
    }
    text
}

fn section(text: &mut String, title: &str, body: &str, palette: Palette) {
    text.push_str(&palette.strong(title));
    text.push('\n');
    text.push_str(body);
    text.push('\n');
}

// === new nodes ===

/// Use of a node: requests of its pods and daemons, and its allocatable resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fill {
    /// Millicores requested and allocatable.
    pub(super) cpu: (i64, i64),
    /// Bytes requested and allocatable.
    pub(super) memory: (i64, i64),
}

/// Returns the use of each new node of `solution`.
pub(super) fn fills(problem: &Problem, solution: &Solution) -> Vec<Fill> {
    let fill = |node: &muster_scheduling::NewNode| {
        let types = &problem.catalogues[problem.pools[node.pool].catalogue];
        let allocatable = types[node.instance_type].allocatable();
        let share = |resource: Resource| (node.requests.get(&resource), allocatable.get(&resource));
        Fill { cpu: share(Resource::Cpu), memory: share(Resource::Memory) }
    };
    solution.new_nodes.iter().map(fill).collect()
}

/// Properties that the nodes of one line share, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LineKey<'a> {
    pool: &'a str,
    instance_type: &'a str,
    capacity_type: &'a str,
    /// Bits of the price: prices are not negative, so the bits sort like the numbers.
    price: u64,
}

fn new_nodes(plan: &PlanDocument, fills: &[Fill], palette: Palette) -> String {
    let mut nodes_by_line: BTreeMap<LineKey<'_>, (Vec<&NewNode>, Fill)> = BTreeMap::new();
    for (node, fill) in plan.new_nodes.iter().zip(fills) {
        let key = LineKey {
            pool: &node.node_pool,
            instance_type: &node.instance_type,
            capacity_type: &node.capacity_type,
            price: node.price.to_bits(),
        };
        let (nodes, total) = nodes_by_line.entry(key).or_default();
        nodes.push(node);
        *total = total.plus(*fill);
    }
    let mut grid = Grid::new([
        ("NODES", Side::Right),
        ("NAMES", Side::Left),
        ("NODEPOOL", Side::Left),
        ("INSTANCE TYPE", Side::Left),
        ("CAPACITY", Side::Left),
        ("ZONES", Side::Left),
        ("$/HOUR", Side::Right),
        ("CPU", Side::Right),
        ("MEMORY", Side::Right),
        ("PODS", Side::Right),
        ("WORKLOADS", Side::Left),
    ]);
    for (key, (nodes, total)) in nodes_by_line {
        let workloads = WorkloadCounts::new(nodes.iter().flat_map(|node| node.pods.iter().map(String::as_str)));
        grid.push([
            nodes.len().to_string(),
            names::brief(key.pool, nodes.iter().map(|node| node.name.as_str())),
            key.pool.to_owned(),
            key.instance_type.to_owned(),
            key.capacity_type.to_owned(),
            zones(&nodes),
            format!("{:.4}", nodes.iter().map(|node| node.price).sum::<f64>()),
            percent(total.cpu),
            percent(total.memory),
            workloads.pods().to_string(),
            workloads.to_string(),
        ]);
    }
    grid.render(palette)
}

/// Formats the zones of `nodes` with their common prefix written once: `us-east-1a,b,c`.
fn zones(nodes: &[&NewNode]) -> String {
    let zones: std::collections::BTreeSet<&str> = nodes.iter().map(|node| node.zone.as_str()).collect();
    let mut zones = zones.into_iter();
    let first = zones.next().unwrap_or_default();
    let stem = &first[..first.char_indices().next_back().map_or(0, |(at, _)| at)];
    let rest = zones.map(|zone| match zone.strip_prefix(stem) {
        Some(letter) if !stem.is_empty() && letter.chars().count() == 1 => letter,
        _ => zone,
    });
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join(",")
}

fn percent((part, whole): (i64, i64)) -> String {
    if whole == 0 { String::new() } else { format!("{:.0}%", part as f64 / whole as f64 * 100.0) }
}

impl Fill {
    fn plus(self, other: Self) -> Self {
        let sum = |a: (i64, i64), b: (i64, i64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        Self { cpu: sum(self.cpu, other.cpu), memory: sum(self.memory, other.memory) }
    }
}

// === the summary ===

fn summary(plan: &PlanDocument, palette: Palette) -> String {
    let Summary { pods, scheduled, unschedulable, new_nodes, expected_hourly_price, hourly_price, .. } = plan.summary;
    let on_existing: usize = plan.existing_nodes.iter().map(|node| node.pods.len()).sum();
    // Nodes of static pools are launched independently of the pods: no plan avoids them.
    let fixed = plan.new_nodes.iter().filter(|node| node.pods.is_empty()).map(|node| node.price).sum();
    let mut text = palette.strong(headline(&plan.summary, on_existing, fixed));
    text.push('\n');
    let mut placed = format!("{scheduled} of {} placed", counted(pods, "pending pod"));
    if on_existing > 0 && new_nodes > 0 {
        let _ = write!(placed, ", {on_existing} of them on existing nodes");
    }
    if unschedulable > 0 {
        let _ = write!(placed, "; {}", palette.bad(format!("{unschedulable} unschedulable")));
    }
    let solve = milliseconds(plan.summary.solve_seconds);
    let checked = milliseconds(plan.summary.bound_seconds + plan.summary.validate_seconds);
    let _ = writeln!(text, "{placed}. Packed in {solve} ms, validated and bounded in {checked} ms.");
    if expected_hourly_price > hourly_price * (1.0 + WORTH_SAYING) {
        // A plan of reserved nodes costs nothing, so the share is undefined.
        let dearer = (expected_hourly_price / hourly_price - 1.0) * 100.0;
        let share = if dearer.is_finite() { format!(" ({dearer:.1} % more)") } else { String::new() };
        let _ = writeln!(
            text,
            "Left to kube-scheduler's own scoring, the pods end up on nodes for {}{share}.",
            per_hour(expected_hourly_price)
        );
    }
    if new_nodes > 0 {
        let _ = writeln!(text, "{}", palette.faint(format!("Prices: {}.", plan.summary.aged_price_source)));
    }
    text
}

/// Returns the plan in one line.
fn headline(summary: &Summary, on_existing: usize, fixed: f64) -> String {
    let Summary { new_nodes, hourly_price, lower_bound_hourly_price, .. } = *summary;
    if new_nodes == 0 {
        return match (summary.pods, on_existing) {
            (0, _) => "No pod is pending: nothing to launch".to_owned(),
            (_, 0) => "No node would be launched".to_owned(),
            _ => "No new node is needed: the pods fit on existing ones".to_owned(),
        };
    }
    let cost = format!("{} on {}", per_hour(hourly_price), counted(new_nodes, "new node"));
    if fixed > 0.0 && lower_bound_hourly_price <= 0.0 {
        return cost;
    }
    if hourly_price - fixed <= lower_bound_hourly_price * 1.000_001 {
        return format!("{cost}, proven to be the minimum");
    }
    if lower_bound_hourly_price <= 0.0 {
        return cost;
    }
    // Rounded up, so that "at most" stays true.
    let above = (((hourly_price - fixed) / lower_bound_hourly_price - 1.0) * 1000.0).ceil() / 10.0;
    format!("{cost}, at most {above:.1} % above the proven minimum")
}

fn per_hour(price: f64) -> String {
    if price < 1.0 { format!("${price:.4}/h") } else { format!("${price:.2}/h") }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn milliseconds(seconds: f64) -> String {
    if seconds < 0.01 { format!("{:.1}", seconds * 1000.0) } else { format!("{:.0}", seconds * 1000.0) }
}

#[cfg(test)]
mod tests;
