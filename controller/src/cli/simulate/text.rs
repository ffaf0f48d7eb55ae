//! Text of the end of the day: the remaining nodes and the bill.

use std::fmt::Write as _;

use jiff::Timestamp;
use muster_simulate::Glance;

use super::super::grid::{Grid, Side};
use super::super::palette::Palette;
use super::document::SimulationDocument;
use super::standing;

/// Formats the progress line.
pub(super) fn status(at: Timestamp, glance: &Glance) -> String {
    let zoned = at.to_zoned(jiff::tz::TimeZone::UTC);
    format!("{:02}:{:02}  {}", zoned.hour(), zoned.minute(), standing(glance))
}

/// Formats the remaining nodes and the bill.
pub(super) fn summary(day: &SimulationDocument, palette: Palette) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "\n{}", palette.strong("At the end"));
    let mut grid = Grid::new([
        ("NODES", Side::Right),
        ("INSTANCE TYPE", Side::Left),
        ("CAPACITY", Side::Left),
        ("ZONE", Side::Left),
        ("$/HOUR", Side::Right),
        ("PODS", Side::Right),
    ]);
    let mut rows: Vec<(String, String, String, f64, usize, usize)> = Vec::new();
    for node in &day.nodes {
        let same = rows
            .iter_mut()
            .find(|row| (&row.0, &row.1, &row.2) == (&node.instance_type, &node.capacity_type, &node.zone));
        match same {
            Some(row) => {
                row.3 += node.price;
                row.4 += node.pods;
                row.5 += 1;
            }
            None => rows.push((
                node.instance_type.clone(),
                node.capacity_type.clone(),
                node.zone.clone(),
                node.price,
                node.pods,
                1,
            )),
        }
    }
    for (instance_type, capacity_type, zone, price, pods, nodes) in rows {
        grid.push([nodes.to_string(), instance_type, capacity_type, zone, format!("{price:.4}"), pods.to_string()]);
    }
    text.push_str(&grid.render(palette));
    let bill = &day.bill;
    let summary = &day.summary;
    let _ = writeln!(text, "\n{}", palette.strong("The bill"));
    let percent = |over: f64, under: f64| if under > 0.0 { 100.0 * (over / under - 1.0) } else { 0.0 };
    let _ = writeln!(
        text,
        "  ${:.2} for {:.1} node-hours, at most {} nodes at once, {} launches",
        bill.paid, summary.node_hours, summary.most_nodes, summary.launches
    );
    let _ = writeln!(
        text,
        "  ${:.2} is proven to be the least for the pods that ran: {:.1} % above it",
        bill.lower_bound,
        percent(bill.paid, bill.lower_bound)
    );
    if let Some(rival) = bill.karpenter_like {
        let more = percent(rival, bill.paid);
        let word = if more < 0.0 { "less" } else { "more" };
        let _ = writeln!(
            text,
            "  ${rival:.2} is what a Karpenter-like policy pays for the same day: {:.1} % {word}",
            more.abs()
        );
    }
    let _ = writeln!(
        text,
        "\n{} pods run, {} wait; pods waited {:.1} hours all together. {} writes, {} calls of the cloud.\nPrices: {}.",
        summary.pods,
        summary.waiting,
        summary.waited_hours,
        summary.writes,
        summary.cloud_calls,
        bill.aged_price_source
    );
    text
}
