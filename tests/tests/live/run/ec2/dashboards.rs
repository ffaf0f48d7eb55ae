//! A healthy world on a real Prometheus: no alert fires, and the dashboards, those of Karpenter too, have data.

use std::fs;
use std::path::PathBuf;

use kube::core::DynamicObject;
use muster_tests::Result;
use muster_tests::prometheus::Prometheus;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON, pool, requirements};

/// Metrics and labels that the panels of Karpenter's dashboards ask for.
const OF_KARPENTER: &str = include_str!("../../../../rules/karpenter-dashboards.tsv");

/// Metrics of our panels that have no series as long as nothing fails, no pod waits, no node is interrupted and no agent
/// reports.
const OF_TROUBLE: [&str; 10] = [
    "karpenter_cloudprovider_errors_total",
    "karpenter_cloudprovider_instance_launch_failures_total",
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    "karpenter_voluntary_disruption_failed_validations_total",
    "karpenter_voluntary_disruption_queue_failures_total",
    "muster_consolidation_delivered_usd_per_hour",
    "muster_consolidation_promised_usd_per_hour",
    "muster_node_boot_phase_seconds",
    "muster_nodeclaims_interrupted_total",
    "operator_nodeclaim_",
];

/// A file of the chart.
pub(super) fn of_chart(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/muster")).join(path)
}

/// The rules of the chart, without the time for which an expression must hold: a test does not wait for minutes. That it
/// counts is shown by `promtool test rules`.
pub(super) fn impatient_rules() -> String {
    let text = fs::read_to_string(of_chart("rules/muster.yaml")).unwrap();
    let line = |line: &str| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: 1s\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The question of a row: series that have all labels that the panel uses.
fn question(row: &str) -> String {
    let [dashboard, panel, form, metric, labels] = row.split('\t').collect::<Vec<_>>()[..] else {
        panic!("`{row}` does not have five fields")
    };
    let matcher = |label: &str| match label.split_once('=') {
        Some((name, value)) => format!("{name}=\"{value}\""),
        None => format!("{label}=~\".+\""),
    };
    let matchers: Vec<String> = labels.split(',').map(matcher).collect();
    let series = format!("{metric}{{{}}}", matchers.join(","));
    match form {
        "value" => series,
        "rate" => format!("rate({series}[1m])"),
        "quantile" => format!("histogram_quantile(0.99, rate({series}[1m]))"),
        _ => panic!("{dashboard}, {panel}: `{form}`"),
    }
}

/// The questions of our own dashboards.
fn of_panels() -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(of_chart("dashboards")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let board: Value = serde_json::from_str(&text).unwrap();
        let targets = board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        all.extend(targets.map(|target| target["expr"].as_str().unwrap().to_owned()));
    }
    all
}

/// Returns the questions of our dashboards that have no data, apart from those about trouble.
async fn without_data(prometheus: &Prometheus) -> Result<Vec<String>> {
    let mut silent = Vec::new();
    for expression in of_panels() {
        let is_of_trouble = OF_TROUBLE.iter().any(|metric| expression.contains(metric));
        if prometheus.query(&expression).await?.is_empty() && !is_of_trouble {
            silent.push(expression);
        }
    }
    Ok(silent)
}

/// Spot nodes with limits, of which those without pods go at once; and a daemon on each.
fn furniture() -> Vec<Value> {
    let spot = requirements(&["m5.large"], &["us-east-1a", "us-east-1b"], &["spot"]);
    let mut pool = pool(&json!({ "requirements": spot }));
    pool["spec"]["limits"] = json!({"cpu": "100", "memory": "1000Gi"});
    pool["spec"]["disruption"] =
        json!({"consolidateAfter": "1s", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]});
    let labels = json!({"app": "watcher"});
    let resources = json!({"requests": {"cpu": "100m", "memory": "10Mi"}});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
    });
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "watcher", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    vec![pool, daemons]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthy_world_fires_no_alert_and_fills_the_dashboards() {
    let ground = Ground::bare("run ec2 suite").await;
    ground.apply(&[ground.class(json!({}))]).await;
    ground.apply(&furniture()).await;
    let controller = ground.quick_controller().await;
    let prometheus = Prometheus::start(&ground.world, &[controller.address()], &impatient_rules()).await.unwrap();
    ground.deploy(3, json!({})).await;
    ground.running(3, SOON).await;
    ground.deploy(1, json!({})).await;
    let one = |claims: &[DynamicObject]| claims.len() == 1;
    wait::until_all(ground.claims(), Selection::all(), SOON, "one NodeClaim is left", one).await.unwrap();
    ground.running(1, SOON).await;
    prometheus.until("sum(karpenter_nodes_terminated_total) >= 2", SOON).await.unwrap();

    let rows: Vec<&str> = OF_KARPENTER.lines().filter(|line| !line.starts_with('#')).collect();
    let lacking = || async {
        let mut lacking = Vec::new();
        for row in &rows {
            let question = question(row);
            if prometheus.query(&question).await?.is_empty() {
                lacking.push(format!("{row}\n  {question}"));
            }
        }
        Ok::<_, muster_tests::Error>(lacking)
    };
    let filled = wait::until_some("all panels of Karpenter's dashboards have data", SOON, || async {
        Ok(lacking().await?.is_empty().then_some(()))
    });
    if let Err(error) = filled.await {
        panic!("{error}\n{}", lacking().await.unwrap().join("\n"));
    }
    // Each is understood, or this fails. A rate begins with the second value.
    let filled = wait::until_some("all of our panels have data", SOON, || async {
        let silent = without_data(&prometheus).await?;
        Ok(silent.is_empty().then_some(()))
    });
    if let Err(error) = filled.await {
        panic!("{error}\n{:#?}", without_data(&prometheus).await.unwrap());
    }

    let alerts = prometheus.alerts().await.unwrap();
    let count = impatient_rules().matches("- alert: ").count();
    assert_eq!(alerts.len(), count, "{alerts:#?}");
    assert!(alerts.iter().all(|alert| alert.health == "ok"), "{alerts:#?}");
    // A scrape that is late on a busy machine is an alert for a moment, in rules without patience.
    let quiet = wait::until_some("no alert is active", SOON, || async {
        let alerts = prometheus.alerts().await?;
        Ok(alerts.iter().all(|alert| alert.state == "inactive").then_some(()))
    });
    if let Err(error) = quiet.await {
        panic!("{error}\n{:#?}", prometheus.alerts().await.unwrap());
    }
    drop(controller);
}
