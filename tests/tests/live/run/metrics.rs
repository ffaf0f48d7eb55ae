//! What `/metrics` tells after nodes have come and gone is what its document says, and so are the events.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use muster_tests::meter;
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON};

/// A metric, as documented or as found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
    /// Only as documented: `always`, `leading` or `once`.
    present: String,
}

/// Labels of nodes, as far as they have them.
const OF_NODES: [&str; 11] = [
    "arch",
    "capacity_type",
    "instance_type",
    "managed",
    "node_name",
    "nodepool",
    "os",
    "region",
    "windows_build",
    "zone",
    "zone_id",
];

/// Those that every node has.
const IN_COMMON: [&str; 6] = ["arch", "capacity_type", "instance_type", "managed", "node_name", "nodepool"];

/// Labels of Karpenter's metrics that are empty in this run: none of its objects has a namespace, and only some
/// disruptions are consolidations.
const MAY_BE_EMPTY: [&str; 3] = ["consolidation_policy", "consolidation_type", "namespace"];

/// Metrics that are there as long as something lasts that is over in no time.
const SHORT_LIVED: [&str; 3] = [
    "karpenter_pods_provisioning_unbound_time_seconds",
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
];

/// What must have been counted once a node was launched for pods, consolidated, and removed.
const COUNTED: [&str; 37] = [
    "controller_runtime_reconcile_time_seconds",
    "controller_runtime_reconcile_total",
    "controller_runtime_active_workers",
    "karpenter_cloudprovider_duration_seconds",
    "karpenter_nodeclaims_created_total",
    "karpenter_nodeclaims_disrupted_total",
    "karpenter_nodeclaims_terminated_total",
    "karpenter_nodeclaims_termination_duration_seconds",
    "karpenter_nodes_created_total",
    "karpenter_nodes_drained_total",
    "karpenter_nodes_lifetime_duration_seconds",
    "karpenter_nodes_terminated_total",
    "karpenter_nodes_termination_duration_seconds",
    "karpenter_pods_bound_duration_seconds",
    "karpenter_pods_disruption_initiated_total",
    "karpenter_pods_drained_total",
    "karpenter_pods_eviction_requests_total",
    "karpenter_pods_provisioning_bound_duration_seconds",
    "karpenter_pods_provisioning_startup_duration_seconds",
    "karpenter_pods_scheduling_decision_duration_seconds",
    "karpenter_pods_startup_duration_seconds",
    "karpenter_scheduler_scheduling_duration_seconds",
    "karpenter_voluntary_disruption_consolidation_timeouts_total",
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    "karpenter_voluntary_disruption_decisions_total",
    "muster_writes_total",
    "operator_node_status_condition_transitions_total",
    "operator_nodeclaim_status_condition_transition_seconds",
    "operator_nodeclaim_status_condition_transitions_total",
    "operator_nodeclaim_termination_duration_seconds",
    "operator_node_termination_duration_seconds",
    "operator_nodepool_status_condition_transitions_total",
    "process_cpu_seconds_total",
    "workqueue_adds_total",
    "workqueue_queue_duration_seconds",
    "workqueue_work_duration_seconds",
];

/// The metrics of docs/metrics.md.
fn documented() -> BTreeMap<String, Metric> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let text = std::fs::read_to_string(page).unwrap();
    let of_row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        let [name, kind, labels, present, _] = cells.as_slice() else { return None };
        let mut names: BTreeSet<String> = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if labels.contains("#labels-of-nodes") {
            names.extend(OF_NODES.map(str::to_owned));
        }
        let metric = Metric { kind: (*kind).to_owned(), labels: names, present: (*present).to_owned() };
        Some((name.trim_end_matches('`').to_owned(), metric))
    };
    text.lines().filter_map(of_row).collect()
}

/// Metrics of Karpenter 1.15 that Muster has. Labels that are empty with Muster are left out.
fn of_karpenter() -> BTreeMap<String, Metric> {
    let table = include_str!("../../../../docs/karpenter-1.15-metrics.tsv");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let of_row = |row: &str| {
        let [name, kind, labels, state, _note] = row.split('\t').collect::<Vec<_>>()[..] else { return None };
        let labels = labels.split(',').filter(|label| !label.is_empty() && !label.ends_with('?'));
        let labels = labels.flat_map(|label| if label == "*" { IN_COMMON.to_vec() } else { vec![label] });
        let metric = Metric { kind: kind.to_owned(), labels: labels.map(str::to_owned).collect(), ..Metric::default() };
        (state != "not built").then(|| (name.to_owned(), metric))
    };
    rows.filter_map(of_row).collect()
}

/// Compares what was found with the list of Karpenter.
fn compare_with_karpenter(found: &BTreeMap<String, Metric>) {
    let known = of_karpenter();
    let families = ["karpenter_", "operator_", "controller_runtime_", "workqueue_", "process_"];
    let of_family = |name: &&String| families.iter().any(|family| name.starts_with(family)) && !name.contains("kwok");
    let more: Vec<&String> = found.keys().filter(of_family).filter(|name| !known.contains_key(*name)).collect();
    assert!(more.is_empty(), "Karpenter has none of these: {more:?}");
    for (name, metric) in &known {
        let Some(found) = found.get(name) else { continue };
        assert_eq!(found.kind, metric.kind, "{name}");
        let lacking: Vec<&String> = metric.labels.difference(&found.labels).collect();
        let lacking: Vec<&&String> = lacking.iter().filter(|label| !MAY_BE_EMPTY.contains(&label.as_str())).collect();
        assert!(lacking.is_empty(), "{name} has no series with {lacking:?}");
        // Those of nodes are all that the Node has.
        let more: Vec<&String> = found.labels.difference(&metric.labels).collect();
        assert!(
            more.is_empty() || metric.labels.contains("node_name"),
            "{name} has {more:?}, which Karpenter's has not"
        );
    }
}

/// Adds the metrics of a text of `/metrics`.
fn find(text: &str, found: &mut BTreeMap<String, Metric>) {
    let kinds: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let (sample, labels) = series.split_once('{').unwrap_or((series, ""));
        let parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|suffix| sample.strip_suffix(suffix));
        let name = parts.filter(|name| kinds.contains_key(name)).chain([sample]).next().unwrap();
        let kind = *kinds.get(name).unwrap_or_else(|| panic!("no type is declared: {line}"));
        let names = labels.split("=\"").filter_map(|part| part.rsplit([',', '"', '{']).next());
        let names = names.filter(|label| !label.is_empty() && *label != "}" && !["le", "quantile"].contains(label));
        let metric = found.entry(name.to_owned()).or_default();
        kind.clone_into(&mut metric.kind);
        metric.labels.extend(names.map(str::to_owned));
    }
}

/// Compares what was found with the document.
fn compare(found: &BTreeMap<String, Metric>, documented: &BTreeMap<String, Metric>) {
    for (name, metric) in found {
        let known = documented.get(name).unwrap_or_else(|| panic!("`{name}` is not documented"));
        assert_eq!(metric.kind, known.kind, "{name}");
        let is_of_types = |label: &str| {
            let of_nodes = known.labels.contains("node_name");
            of_nodes
                && ["instance_", "capacity_reservation_", "placement_group_"].iter().any(|it| label.starts_with(it))
        };
        let more: Vec<&String> =
            metric.labels.iter().filter(|label| !known.labels.contains(*label) && !is_of_types(label)).collect();
        assert!(more.is_empty(), "{name}: {more:?}");
    }
    let lasting = documented.iter().filter(|(name, metric)| {
        // There is neither a class of EC2 nor a zone of AWS in this cluster.
        let is_of_aws = name.contains("ec2nodeclass") || *name == "muster_zone_shifted_away";
        metric.present != "once" && !is_of_aws && !SHORT_LIVED.contains(&name.as_str())
    });
    let lacking: Vec<&String> = lasting.map(|(name, _)| name).filter(|name| !found.contains_key(*name)).collect();
    assert!(lacking.is_empty(), "{lacking:#?}");
    let uncounted: Vec<&&str> = COUNTED.iter().filter(|name| !found.contains_key(**name)).collect();
    assert!(uncounted.is_empty(), "{uncounted:#?}");
}

/// A DaemonSet, limits of the pool, and a pod that no node can take.
fn surroundings() -> Vec<Value> {
    let resources = json!({"requests": {"cpu": "100m", "memory": "10Mi"}, "limits": {"memory": "20Mi"}});
    let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
    let labels = json!({"app": "watcher"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let pod = json!({"containers": containers, "nodeSelector": {"topology.kubernetes.io/zone": "nowhere"}});
    vec![
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "watcher", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nowhere", "namespace": "default"}, "spec": pod,
        }),
    ]
}

async fn scrape(replica: &Replica, found: &mut BTreeMap<String, Metric>) -> String {
    let text = meter::metrics(replica).await.unwrap();
    find(&text, found);
    text
}

#[tokio::test]
async fn what_is_told_of_a_run_is_what_is_documented() {
    let ground = Ground::new("run suite").await;
    let at_once = json!({"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]});
    ground.small_nodes(&json!({}), &at_once).await;
    let limits = r#"{"spec":{"limits":{"cpu":"100"}}}"#;
    ground.cluster().kubectl(&["patch", "nodepool", "general", "--type=merge", "-p", limits]).await.unwrap();
    ground.apply(&surroundings()).await;
    let replica = ground.replica("muster");
    let mut found = BTreeMap::new();
    ground.deploy_pairs(4).await;
    ground.running(4, SOON).await;
    // The node of the first pod to go has another pod, which moves.
    ground.scale(2).await;
    ground.running(2, SOON).await;
    let one = wait::until_all(ground.nodes(), Selection::all(), SOON, "one node is left", |nodes| nodes.len() == 1);
    one.await.unwrap();
    ground.running(2, SOON).await;
    let with_nodes = scrape(&replica, &mut found).await;
    for line in [
        r#"karpenter_nodepools_limit{resource_type="cpu",nodepool="general"} 100"#,
        r#"karpenter_scheduler_pending_pods_by_effective_zone_count{controller="provisioner",zone="nowhere"} 1"#,
        "karpenter_cluster_state_node_count 1",
    ] {
        assert!(with_nodes.lines().any(|it| it == line), "{line}\n{with_nodes}");
    }

    ground.scale(0).await;
    wait::until_all(ground.claims(), Selection::all(), SOON, "no NodeClaim is left", <[_]>::is_empty).await.unwrap();
    let counted = wait::until_some("both nodes are counted", SOON, || async {
        let text = meter::metrics(&replica).await?;
        let gone = text.lines().filter_map(|line| line.strip_prefix("karpenter_nodeclaims_terminated_total{"));
        let gone: f64 = gone.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum();
        Ok((gone >= 2.0).then_some(()))
    });
    counted.await.unwrap();
    scrape(&replica, &mut found).await;
    compare(&found, &documented());
    compare_with_karpenter(&found);
    let events: Api<Event> = Api::all(ground.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let ours = events.iter().filter(|event| event.reporting_component.as_deref() == Some("muster"));
    let reasons: BTreeSet<&str> = ours.filter_map(|event| event.reason.as_deref()).collect();
    for reason in ["DisruptionTerminating", "FailedScheduling", "Nominated"] {
        assert!(reasons.contains(reason), "{reason}: {reasons:?}");
    }
}
