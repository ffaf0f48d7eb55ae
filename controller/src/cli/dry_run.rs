//! Output of `muster run --dry-run`: one line for each action that would be taken.

use std::io::{self, Write};

use serde::Serialize;

use super::arguments::ReportFormat;
use crate::run::{Disruption, Launch, Report};

/// Document of one line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    report: &'a Report,
}

/// Writes one report.
pub(super) fn write(out: &mut dyn Write, report: &Report, format: ReportFormat) -> io::Result<()> {
    match format {
        ReportFormat::Json => {
            let document = Document { api_version: "muster.dev/v1", kind: "DryRunReport", report };
            serde_json::to_writer(&mut *out, &document)?;
            writeln!(out)?;
        }
        ReportFormat::Text => write_text(out, report)?,
    }
    out.flush()
}

fn write_text(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let Report { at, launches, hourly_price, unplaced, disruptions, hourly_savings: _ } = report;
    let at = at.strftime("%H:%M:%S");
    if !launches.is_empty() {
        let pods: usize = launches.iter().map(|launch| launch.pods.len()).sum();
        let all = words(launches);
        let pods = counted(pods, "pod");
        writeln!(out, "{at}  would launch   {all} for {pods}, ${hourly_price:.4}/h")?;
    }
    for Disruption { cause, reboot, nodes, replacements, hourly_savings } in disruptions {
        let by = if replacements.is_empty() { String::new() } else { format!(" by {}", words(replacements)) };
        let nodes = nodes.join(", ");
        if *reboot {
            writeln!(out, "{at}  would reboot   {cause}: {nodes}")?;
            continue;
        }
        writeln!(out, "{at}  would disrupt  {cause}: {nodes}{by}, saves ${hourly_savings:.4}/h")?;
    }
    for one in unplaced {
        writeln!(out, "{at}  no place       {}: {}", one.pod, one.message)?;
    }
    Ok(())
}

/// Formats the nodes of each pool, with the first of their possible types.
fn words(launches: &[Launch]) -> String {
    let mut groups: Vec<(&str, &[String], usize)> = Vec::new();
    for Launch { node_pool, instance_types, pods: _ } in launches {
        match groups.iter_mut().find(|(pool, types, _)| pool == node_pool && types == instance_types) {
            Some((_, _, count)) => *count += 1,
            None => groups.push((node_pool, instance_types, 1)),
        }
    }
    let group = |(pool, types, count): &(&str, &[String], usize)| {
        let nodes = counted(*count, "node");
        match types {
            [] => format!("{nodes} of {pool}"),
            [only] => format!("{nodes} of {pool} ({only})"),
            [first, others @ ..] => format!("{nodes} of {pool} ({first} or {})", counted(others.len(), "other")),
        }
    };
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Unplaced;

    fn report() -> Report {
        let launch = |types: &[&str], pods: &[&str]| Launch {
            node_pool: "general".to_owned(),
            instance_types: types.iter().map(ToString::to_string).collect(),
            pods: pods.iter().map(ToString::to_string).collect(),
        };
        Report {
            at: "2026-11-22T16:00:00Z".parse().unwrap(),
            launches: vec![
                launch(&["c-4x-amd64-linux", "s-4x-amd64-linux"], &["default/web-1", "default/web-2"]),
                launch(&["c-4x-amd64-linux", "s-4x-amd64-linux"], &["default/web-3"]),
            ],
            hourly_price: 0.2172,
            unplaced: vec![Unplaced {
                pod: "default/gpu-1".to_owned(),
                message: "Failed to schedule pod, no type has `nvidia.com/gpu`".to_owned(),
            }],
            disruptions: vec![
                Disruption {
                    cause: "Empty".to_owned(),
                    reboot: false,
                    nodes: vec!["a".to_owned()],
                    replacements: Vec::new(),
                    hourly_savings: 0.1,
                },
                Disruption {
                    cause: "Unhealthy".to_owned(),
                    reboot: true,
                    nodes: vec!["d".to_owned()],
                    replacements: Vec::new(),
                    hourly_savings: 0.0,
                },
                Disruption {
                    cause: "Drifted".to_owned(),
                    reboot: false,
                    nodes: vec!["b".to_owned(), "c".to_owned()],
                    replacements: vec![launch(&["c-8x-amd64-linux"], &[])],
                    hourly_savings: 0.0,
                },
            ],
            hourly_savings: 0.1,
        }
    }

    fn written(format: ReportFormat) -> String {
        let mut out = Vec::new();
        write(&mut out, &report(), format).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_read_a_line_for_each_thing() {
        insta::assert_snapshot!(written(ReportFormat::Text), @r"
        16:00:00  would launch   2 nodes of general (c-4x-amd64-linux or 1 other) for 3 pods, $0.2172/h
        16:00:00  would disrupt  Empty: a, saves $0.1000/h
        16:00:00  would reboot   Unhealthy: d
        16:00:00  would disrupt  Drifted: b, c by 1 node of general (c-8x-amd64-linux), saves $0.0000/h
        16:00:00  no place       default/gpu-1: Failed to schedule pod, no type has `nvidia.com/gpu`
        ");
    }

    #[test]
    fn programs_read_a_document_a_line() {
        let text = written(ReportFormat::Json);
        assert_eq!(text.lines().count(), 1);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&document["apiVersion"], &document["kind"]), (&"muster.dev/v1".into(), &"DryRunReport".into()));
        assert_eq!(document["launches"][0]["instanceTypes"][1], "s-4x-amd64-linux");
        assert_eq!(document["disruptions"][2]["replacements"][0]["nodePool"], "general");
        assert_eq!(
            (&document["disruptions"][1]["reboot"], &document["disruptions"][2]["reboot"]),
            (&true.into(), &serde_json::Value::Null)
        );
        assert_eq!(document["hourlySavings"], 0.1);
    }
}
