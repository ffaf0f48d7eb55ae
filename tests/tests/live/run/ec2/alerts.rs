//! A broken world on a real Prometheus: each alert of the chart fires.
//!
//! Durations are shortened: how long a state must last is shown by `promtool test rules`, here the question is that the
//! product tells of the state as the rules expect. Two states take longer than a test, so a page of the test has them:
//! savings are judged after ten minutes, and series are left out beyond 5,000 objects.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;

use axum::Router;
use axum::routing::get;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use muster_tests::ec2::Pool;
use muster_tests::prometheus::Prometheus;
use muster_tests::wait::{self, Selection};
use muster_tests::{Result, meter};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::dashboards::impatient_rules;
use super::ground::{Ground, SOON, pool, requirements};

/// Types of the pools; those after the first never join, or cannot be had.
const JOINS: &str = "m5.large";
const REPLACEMENT: &str = "c5.large";
const SILENT: &str = "m5.xlarge";
const SCARCE: [&str; 3] = ["m5.2xlarge", "c5.2xlarge", "r5.2xlarge"];
/// Nodes of the pool whose commands are rolled back: more than the alert allows.
const DRIFTING: usize = 8;
/// Durations in rules, and what they are here. Each must be there.
const SHORT: [(&str, &str); 5] =
    [("[15m]", "[20s]"), ("[1h]", "[2m]"), ("> 600", "> 2"), ("> 1200", "> 3"), ("> 3600", "> 3")];
/// State that takes longer than a test.
const PAGE: &str = "\
# TYPE muster_consolidation_promised_usd_per_hour gauge
muster_consolidation_promised_usd_per_hour{nodepool=\"fickle\"} 1
# TYPE muster_consolidation_delivered_usd_per_hour gauge
muster_consolidation_delivered_usd_per_hour{nodepool=\"fickle\"} 0.1
# TYPE muster_metrics_left_out gauge
muster_metrics_left_out{metric=\"karpenter_pods_unstarted_time_seconds\"} 12
";

/// The rules of the chart with short durations.
fn rules() -> String {
    SHORT.iter().fold(impatient_rules(), |text, (long, short)| {
        assert!(text.contains(long), "no rule has `{long}` any more");
        text.replace(long, short)
    })
}

/// Serves the page until it is dropped.
async fn page(served: &mut JoinSet<()>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/metrics", get(|| async { PAGE }));
    served.spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// A pool of these types, of this class.
fn named(name: &str, types: &[&str], class: &str) -> Value {
    let mut pool = pool(&json!({
        "requirements": requirements(types, &["us-east-1a", "us-east-1b"], &["on-demand"]),
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
    }));
    pool["metadata"]["name"] = json!(name);
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "100%"}]);
    pool
}

/// A Deployment of pods for the nodes of a pool, one on each, with these fields over their spec.
fn deployment(pool: &str, replicas: usize, annotations: &Value) -> Value {
    let labels = json!({ "app": pool });
    let resources = json!({"requests": {"cpu": "1500m", "memory": "1Gi"}});
    let template = json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "nodeSelector": {"karpenter.sh/nodepool": pool},
        },
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": pool, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    })
}

/// A pod that selects nodes with this label.
fn picky(name: &str, label: &str, value: &str) -> Value {
    let resources = json!({"requests": {"cpu": "1500m"}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": resources}], "nodeSelector": {label: value},
        },
    })
}

/// Nobody may write the status of a NodePool whose name begins with `frozen`.
fn freezer() -> [Value; 2] {
    let rules = json!([{
        "apiGroups": ["karpenter.sh"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodepools/status"],
    }]);
    let check = json!({"expression": "!object.metadata.name.startsWith('frozen')", "message": "it is frozen"});
    let version = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "frozen"},
            "spec": {"matchConstraints": {"resourceRules": rules}, "failurePolicy": "Fail", "validations": [check]},
        }),
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "frozen"},
            "spec": {"policyName": "frozen", "validationActions": ["Deny"]},
        }),
    ]
}

impl Ground {
    /// Breaks classes and pools, and has admission refuse writes.
    async fn break_what_is_configured(&self) {
        let class = |name: &str, fields: Value| {
            let mut class = self.class(fields);
            class["metadata"]["name"] = json!(name);
            class
        };
        let mut tight = named("tight", &[JOINS], "default");
        tight["spec"]["limits"] = json!({"cpu": "2"});
        let absent = json!({"subnetSelectorTerms": [{"id": "subnet-00000000000000000"}]});
        self.apply(&freezer()).await;
        self.apply(&[
            class("default", json!({})),
            class("scarce", json!({})),
            class("absent", absent),
            named("absent", &[JOINS], "absent"),
            named("drifting", &[JOINS], "default"),
            named("lost", &[JOINS], "default"),
            named("silent", &[SILENT], "default"),
            named("scarce", &SCARCE, "scarce"),
            named("stuck", &[JOINS], "default"),
            tight,
        ])
        .await;
        self.apply(&["frozen-a", "frozen-b", "frozen-c", "frozen-d"].map(|name| named(name, &[JOINS], "default")))
            .await;
        let patch = Patch::Merge(json!({"status": {"resources": {"cpu": "1"}}}));
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        let frozen = wait::until_some("admission refuses a status", SOON, || async {
            let refused = self.pools().patch_status("frozen-a", &dry_run, &patch).await.err();
            Ok(refused.filter(|error| error.to_string().contains("it is frozen")).map(drop))
        });
        frozen.await.unwrap();
        SCARCE.iter().for_each(|name| {
            self.ec2.faults().insufficient_capacity(Pool::of(name));
        });
        self.machines.never(&[REPLACEMENT, SILENT]);
    }

    /// Deletes the Nodes of the pool `lost` as soon as they have registered, as an agent of somebody's might.
    async fn lose_nodes(&self) -> Result<()> {
        let lost = ListParams::default().labels("karpenter.sh/nodepool=lost,karpenter.sh/registered=true");
        for node in self.nodes().list(&lost).await?.items {
            if node.metadata.deletion_timestamp.is_none() {
                // It may have gone by itself.
                let _ = self.nodes().delete(&node.name_any(), &DeleteParams::default()).await;
            }
        }
        Ok(())
    }

    /// Deletes one of the replacements of the pool `drifting`, none of which registers: its command is rolled back.
    /// False if there is none.
    async fn lose_a_replacement(&self) -> Result<bool> {
        let drifting = ListParams::default().labels("karpenter.sh/nodepool=drifting");
        let claims = self.claims().list(&drifting).await?.items;
        let is_replacement = |claim: &&DynamicObject| {
            let types = claim.labels().get("node.kubernetes.io/instance-type");
            types.is_some_and(|name| name == REPLACEMENT) && claim.metadata.deletion_timestamp.is_none()
        };
        let Some(claim) = claims.iter().find(is_replacement) else { return Ok(false) };
        Ok(self.claims().delete(&claim.name_any(), &DeleteParams::default()).await.is_ok())
    }
}

/// The sum of a metric, as Prometheus has it.
async fn sum(prometheus: &Prometheus, series: &str) -> Result<f64> {
    let samples = prometheus.query(&format!("sum({series})")).await?;
    Ok(samples.first().map_or(0.0, |sample| sample.value))
}

/// Things broken in the course of time, and the alerts that have fired.
#[derive(Debug, Default)]
struct Course {
    scarce: usize,
    rolled_back: Option<f64>,
    fired: BTreeSet<String>,
}

/// Breaks what breaks only in the course of time. One thing at a time, after Prometheus has seen the last one: a rate
/// begins with the second value.
async fn go_on(ground: &Ground, prometheus: &Prometheus, course: &Mutex<Course>) -> Result<()> {
    ground.lose_nodes().await?;
    let failed = sum(prometheus, r#"karpenter_cloudprovider_errors_total{method="Create"}"#).await?;
    let scarce = course.lock().unwrap().scarce;
    if let Some(name) = SCARCE.get(scarce).filter(|_| failed >= scarce as f64) {
        ground.apply(&[picky(&format!("scarce-{scarce}"), "node.kubernetes.io/instance-type", name)]).await;
        course.lock().unwrap().scarce += 1;
    }
    let rolled_back = Some(sum(prometheus, "karpenter_voluntary_disruption_queue_failures_total").await?);
    let is_seen = course.lock().unwrap().rolled_back != rolled_back;
    if is_seen && ground.lose_a_replacement().await? {
        course.lock().unwrap().rolled_back = rolled_back;
    }
    let firing = prometheus.firing().await?;
    course.lock().unwrap().fired.extend(firing);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_alert_fires_in_a_broken_world() {
    let ground = Ground::bare("run ec2 suite").await;
    ground.break_what_is_configured().await;
    let controller = ground.quick_controller().await;
    // One that may do nothing, not even look.
    let account = ground.cluster().service_account("default", "nobody").await.unwrap();
    let nobody = ground.replica("nobody", &account.kubeconfig);
    let its_address = wait::until_some("it tells its port", SOON, || async { Ok(meter::address(&nobody)) });
    let its_address = its_address.await.unwrap();
    let mut served = JoinSet::new();
    let targets = [controller.address(), its_address, page(&mut served).await.to_string()];
    let prometheus = Prometheus::start(&ground.world, &targets, &rules()).await.unwrap();

    ground.apply(&[deployment("drifting", DRIFTING, &json!({})), deployment("tight", 1, &json!({}))]).await;
    let protected = json!({"karpenter.sh/do-not-disrupt": "true"});
    ground.apply(&[deployment("stuck", 1, &protected), deployment("lost", 1, &json!({}))]).await;
    ground.apply(&[deployment("silent", 1, &json!({})), picky("nowhere", "topology.kubernetes.io/zone", "none")]).await;
    let up = Selection::labelled("karpenter.sh/nodepool in (drifting,stuck),karpenter.sh/initialized=true");
    let are_up = |nodes: &[Node]| nodes.len() == DRIFTING + 1;
    wait::until_all(ground.nodes(), up, SOON, "nodes are up", are_up).await.unwrap();
    let stuck = ListParams::default().labels("karpenter.sh/nodepool=stuck");
    ground.claims().delete_collection(&DeleteParams::default(), &stuck).await.unwrap();
    ground.apply(&[named("drifting", &[REPLACEMENT], "default")]).await;

    let all: BTreeSet<String> = prometheus.alerts().await.unwrap().into_iter().map(|alert| alert.name).collect();
    let leaderless = "MusterHasNoLeader";
    let course = Mutex::new(Course::default());
    let fired = wait::until_some("every alert but one has fired", SOON * 2, || async {
        go_on(&ground, &prometheus, &course).await?;
        let fired = course.lock().unwrap().fired.clone();
        Ok(all.iter().all(|name| name == leaderless || fired.contains(name)).then_some(fired))
    });
    if let Err(error) = fired.await {
        let course = course.lock().unwrap();
        panic!("{error}\nsilent: {:?}\n{course:?}", all.difference(&course.fired).collect::<Vec<_>>());
    }
    drop(controller);
    prometheus.until(&format!("ALERTS{{alertname=\"{leaderless}\",alertstate=\"firing\"}}"), SOON).await.unwrap();
}
