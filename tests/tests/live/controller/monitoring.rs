//! Dashboards and alerts: they ask for metrics that exist, and what they say is what a world shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tests::programs;
use serde_json::Value;

/// Beginnings of names of metrics.
const FAMILIES: [&str; 6] = ["karpenter_", "muster_", "operator_", "controller_runtime_", "workqueue_", "process_"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Types of the documented metrics.
fn documented() -> BTreeMap<String, String> {
    let text = text("docs/metrics.md");
    let row = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// Names of metrics in an expression.
fn named(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| FAMILIES.iter().any(|family| word.starts_with(family))).collect()
}

/// All expressions of the dashboards, with their file.
fn of_dashboards() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("charts/muster/dashboards")).unwrap() {
        let path = entry.unwrap().path();
        let board: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let panels = board["panels"].as_array().unwrap();
        assert!(!panels.is_empty());
        for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
            all.push((path.display().to_string(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    all
}

#[test]
fn dashboards_and_alerts_ask_for_metrics_that_exist() {
    let known = documented();
    let rules = text("charts/muster/rules/muster.yaml");
    let of_rules = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let of_rules = of_rules.map(|expression| ("rules".to_owned(), expression.to_owned()));
    let mut count = 0;
    for (place, expression) in of_dashboards().into_iter().chain(of_rules) {
        let names = named(&expression);
        assert!(!names.is_empty(), "{place}: {expression}");
        for name in names {
            let of_histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| {
                let base = name.strip_suffix(suffix)?;
                known.get(base).filter(|kind| ["histogram", "summary"].contains(&kind.as_str()))
            });
            assert!(known.contains_key(name) || of_histogram.is_some(), "{place}: `{name}` in {expression}");
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let rules = text("charts/muster/rules/muster.yaml");
    let alerts: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let page = text("docs/alerts.md");
    let runbooks: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(alerts, runbooks);
    let links = rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: "));
    let anchors: BTreeSet<&str> = links.filter_map(|link| link.split_once('#').map(|(_, anchor)| anchor)).collect();
    assert_eq!(
        anchors,
        alerts.iter().map(|alert| alert.to_lowercase()).collect::<Vec<_>>().iter().map(String::as_str).collect()
    );
}

#[test]
fn rules_are_valid_fire_in_a_broken_world_and_do_not_in_a_healthy_one() {
    let promtool = programs::path("promtool").unwrap();
    for arguments in [["check", "charts/muster/rules/muster.yaml"], ["test", "tests/rules/muster.yaml"]] {
        let [verb, file] = arguments;
        let output = Command::new(&promtool).args([verb, "rules", file]).current_dir(root()).output().unwrap();
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", words(&output.stdout), words(&output.stderr));
    }
}

#[test]
fn the_chart_renders_them_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let rendered = |values: &[&str]| {
        let own = ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|name| (name, folder.path()));
        let mut helm = Command::new(programs::path("helm").unwrap());
        helm.env_clear()
            .envs(own)
            .args(["template", "muster", "--kube-version", "1.37.1"])
            .arg(root().join("charts/muster"));
        helm.args(values.iter().flat_map(|value| ["--set", value]));
        let output = helm.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = rendered(&["settings.clusterName=c"]);
    assert!(!plain.contains("grafana_dashboard") && !plain.contains("PrometheusRule"));
    let all = rendered(&["settings.clusterName=c", "dashboards.enabled=true", "prometheusRule.enabled=true"]);
    assert_eq!(all.matches("grafana_dashboard: \"1\"").count(), 4);
    assert_eq!(all.matches("- alert: ").count(), text("charts/muster/rules/muster.yaml").matches("- alert: ").count());
    assert!(all.contains("{{ $labels.nodepool }}"), "what is for Prometheus is not for helm");
}
