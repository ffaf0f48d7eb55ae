//! Many nodes that are ended at once, and an API server that is slow meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use muster_tests::cluster::Delays;
use muster_tests::meter::{conflicts, writes};
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, SOON};

/// Writes that are not about the nodes that end: of the pool and its class, and questions of the lease.
const BESIDE: u64 = 30;
/// Writes for each node that ends, at most.
const MOST_WRITES: u64 = 15;

/// The difference, without what did not change.
fn since(before: &BTreeMap<String, u64>, after: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let difference =
        after.into_iter().map(|(name, count)| (name.clone(), count - before.get(&name).copied().unwrap_or_default()));
    difference.filter(|(_, count)| *count > 0).collect()
}

/// Ends so many empty nodes at once, and checks how many writes that takes.
async fn ended_at_once(nodes: usize, most: Duration) {
    let ground = Ground::new("run suite").await;
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "Never"})).await;
    let replica = ground.replica("muster");
    ground.deploy_pairs(2 * nodes).await;
    ground.running(2 * nodes, most).await;
    ground.scale(0).await;
    let gone = wait::until_all(ground.pods(), Selection::labelled("app=web"), most, "no pod is left", <[_]>::is_empty);
    gone.await.unwrap();
    let before = writes(&replica).await.unwrap();
    let begun = Instant::now();
    ground.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    wait::until_all(ground.claims(), Selection::all(), most, "no NodeClaim is left", <[_]>::is_empty).await.unwrap();
    wait::until_all(ground.nodes(), Selection::all(), most, "no Node is left", <[_]>::is_empty).await.unwrap();
    let took = begun.elapsed();
    let made = since(&before, writes(&replica).await.unwrap());
    let count: u64 = made.values().sum();
    println!("{nodes} nodes are gone after {took:?}; {:.1} writes for each: {made:?}", count as f64 / nodes as f64);
    assert!(count <= MOST_WRITES * nodes as u64 + BESIDE, "{made:?}");
}

#[tokio::test]
async fn nodes_that_end_at_once_take_few_writes_each() {
    ended_at_once(10, SOON).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn hundred_nodes_end_at_once() {
    ended_at_once(100, SOON * 5).await;
}

#[tokio::test]
async fn a_drain_whose_time_is_over_ends_and_leaves_daemons_alone() {
    let ground = Ground::new("run suite").await;
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "Never"})).await;
    let bounded = r#"{"spec":{"template":{"spec":{"terminationGracePeriod":"15s"}}}}"#;
    ground.cluster().kubectl(&["patch", "nodepool", "general", "--type=merge", "-p", bounded]).await.unwrap();
    let containers = json!([{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}]);
    let daemon = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"tolerations": [{"operator": "Exists"}], "containers": containers}});
    let held = json!({"metadata": {"labels": {"app": "web"}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": containers}});
    let of = |kind: &str, name: &str, template: &serde_json::Value| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}})
    };
    ground.apply(&[of("DaemonSet", "agent", &daemon), of("Deployment", "web", &held)]).await;
    let _replica = ground.replica("muster");
    ground.running(1, SOON).await;
    let runs =
        |pods: &[Pod]| pods.iter().any(|pod| pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running"));
    let daemons = Selection::labelled("app=agent");
    wait::until_all(ground.pods(), daemons, SOON, "the daemon runs", runs).await.unwrap();
    let claims = ground.claims().list(&ListParams::default()).await.unwrap();
    let name = claims.items[0].name_any();
    ground.claims().delete(&name, &DeleteParams::default()).await.unwrap();
    wait::until_gone(ground.claims(), &name, SOON).await.unwrap();
    let all: Api<Event> = Api::namespaced(ground.client(), "default");
    let told = all.list(&ListParams::default()).await.unwrap();
    let ended = told.items.iter().filter(|event| event.reason.as_deref() == Some("Disrupted"));
    let ended: Vec<&str> = ended.filter_map(|event| event.involved_object.name.as_deref()).collect();
    assert!(ended.iter().any(|pod| pod.starts_with("web-")), "{ended:?}");
    assert!(!ended.iter().any(|pod| pod.starts_with("agent-")), "{ended:?}");
}

#[tokio::test]
async fn slow_api_server_leads_to_the_same_end_without_conflicts() {
    let ground = Ground::new("run suite").await;
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]})).await;
    let delays = Delays { call: Duration::from_millis(500), watch: Duration::from_secs(5) };
    let admin = ground.cluster().user("muster", Some("system:masters")).await.unwrap();
    let (_server, kubeconfig) = admin.slowed(delays).await.unwrap();
    let replica = ground.replica_as("muster", &kubeconfig, &[]);
    ground.deploy_pairs(20).await;
    ground.running(20, SOON * 2).await;
    ground.scale(6).await;
    let few = |nodes: &[k8s_openapi::api::core::v1::Node]| nodes.len() == 3;
    wait::until_all(ground.nodes(), Selection::all(), SOON * 4, "three nodes are left", few).await.unwrap();
    ground.running(6, SOON).await;
    let (all, lost) = conflicts(&replica).await.unwrap();
    println!("{lost} of {all} writes met a conflict");
    assert!(lost * 100 <= all, "{lost} of {all} writes met a conflict");
}
