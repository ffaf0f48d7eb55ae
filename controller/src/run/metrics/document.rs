//! Generator of `docs/metrics.md` from the catalogue. The test below keeps the file current.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::catalogue::{CHAPTERS, Chapter, DURATIONS, Kind, Metric, Presence};

/// Text before the tables.
const CONTRACT: &str = include_str!("document.md");

fn document() -> String {
    let mut text = String::from(
        "<!-- Written by a test of muster-controller (src/run/metrics/document.rs). Edit the sources it names. -->\n",
    );
    text.push_str(CONTRACT);
    for Chapter { title, bound, metrics } in CHAPTERS {
        let _ = write!(text, "\n## {title}\n\nSeries: {}.\n", bound.trim_end_matches('.'));
        text.push_str("\n| metric | type | labels | present | meaning |\n|---|---|---|---|---|\n");
        metrics.iter().for_each(|metric| describe(&mut text, metric));
    }
    text.push_str("\n## Buckets\n\n");
    let mut known: Vec<&[f64]> = Vec::new();
    for metric in CHAPTERS.iter().flat_map(|chapter| chapter.metrics).filter(|metric| metric.kind == Kind::Histogram) {
        if !known.contains(&metric.buckets) {
            known.push(metric.buckets);
        }
    }
    for buckets in known {
        let all = CHAPTERS.iter().flat_map(|chapter| chapter.metrics);
        let of: Vec<&str> = all
            .filter(|metric| metric.kind == Kind::Histogram && metric.buckets == buckets)
            .map(|metric| metric.name)
            .collect();
        let bounds: Vec<String> = buckets.iter().map(ToString::to_string).collect();
        let of = if buckets == DURATIONS {
            "all other histograms".to_owned()
        } else {
            of.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        let _ = writeln!(text, "- {of}: {}", bounds.join(", "));
    }
    text
}

fn describe(text: &mut String, metric: &Metric) {
    let Metric { name, kind, labels, help, presence, .. } = metric;
    let shown = match labels.len() {
        0 => "–".to_owned(),
        1..20 => labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", "),
        _ if labels.contains(&"resource_type") => "[of nodes](#labels-of-nodes), `resource_type`".to_owned(),
        _ => "[of nodes](#labels-of-nodes)".to_owned(),
    };
    let presence = match presence {
        Presence::Always => "always",
        Presence::Leading => "leading",
        Presence::Once => "once",
    };
    let _ = writeln!(text, "| `{name}` | {} | {shown} | {presence} | {help} |", kind.name());
}

#[test]
fn the_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let current = document();
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    if stored != current {
        std::fs::write(path, current).unwrap();
        panic!("docs/metrics.md was out of date and has been written anew: look at the difference and commit it");
    }
}

#[test]
fn names_are_those_of_prometheus_and_each_is_there_once() {
    let mut names = BTreeSet::new();
    for metric in CHAPTERS.iter().flat_map(|chapter| chapter.metrics) {
        assert!(names.insert(metric.name), "{}", metric.name);
        assert_eq!(
            metric.kind == Kind::Counter,
            metric.name.ends_with("_total") && metric.kind != Kind::Gauge,
            "{}",
            metric.name
        );
        let labels: BTreeSet<&&str> = metric.labels.iter().collect();
        assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let is_plain =
            |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        assert!(is_plain(metric.name) && labels.iter().all(|label| is_plain(label)), "{}", metric.name);
        assert!(!metric.help.contains('|') && !metric.help.ends_with('.'), "{}", metric.name);
    }
}

/// The metrics of Karpenter: name, type, labels, and what Muster does.
const OF_KARPENTER: &str = include_str!("../../../../docs/karpenter-1.15-metrics.tsv");

#[test]
fn metrics_of_karpenter_are_told_as_they_are() {
    let all: Vec<&Metric> = CHAPTERS.iter().flat_map(|chapter| chapter.metrics.iter().copied()).collect();
    let mut told = BTreeSet::new();
    for row in OF_KARPENTER.lines().filter(|line| !line.starts_with('#')) {
        let [name, kind, labels, state, note] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("`{row}` does not have five fields")
        };
        assert!(told.insert(name), "`{name}` is told twice");
        let Some(metric) = all.iter().find(|metric| metric.name == name) else {
            assert!(state == "not built" && !note.is_empty(), "`{name}` is told as `{state}`, and there is none");
            continue;
        };
        assert!(["as Karpenter", "partly"].contains(&state), "`{name}` is told as `{state}`");
        assert_eq!(metric.kind.name(), kind, "{name}");
        let is_partly = labels.contains('?') || !note.is_empty() && state == "partly";
        assert_eq!(is_partly, state == "partly", "{name}");
        let labels: BTreeSet<&str> =
            labels.split(',').map(|label| label.trim_end_matches('?')).filter(|label| !label.is_empty()).collect();
        let own: BTreeSet<&str> = metric.labels.iter().copied().collect();
        // Those of nodes are the well-known labels, see `NODE_LABELS`.
        assert!(labels == own || labels.contains("*") && own.contains("node_name"), "{name}: {labels:?}, {own:?}");
    }
    let families = ["karpenter_", "operator_", "controller_runtime_", "workqueue_", "process_"];
    let is_of_karpenter = |name: &str| families.iter().any(|family| name.starts_with(family)) && !name.contains("kwok");
    let untold: Vec<&str> = all.iter().map(|metric| metric.name).filter(|name| !told.contains(name)).collect();
    let untold: Vec<&str> = untold.into_iter().filter(|name| is_of_karpenter(name)).collect();
    assert_eq!(untold, [""; 0], "metrics without a row in docs/karpenter-1.15-metrics.tsv");
}
