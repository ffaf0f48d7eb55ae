//! Pools with `replicas`: as many nodes as they say, more or fewer, and only with their feature gate.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::core::DynamicObject;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON, condition, of_karpenter};

/// Two passes over nodes, and the time between a choice and its confirmation.
const STILL: Duration = Duration::from_secs(35);
const GATE: [&str; 2] = ["--feature-gates", "StaticCapacity=true"];

/// The pool `fixed` of nodes with 4 CPUs, of which one may be replaced at a time.
fn fixed(replicas: usize, labels: &Value, limits: &Value) -> Value {
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]},
    ]);
    let reference = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let spec = json!({"nodeClassRef": reference, "requirements": requirements});
    let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "fixed"},
        "spec": {"replicas": replicas, "limits": limits, "template": template, "disruption": disruption},
    })
}

/// Pods that run on nodes of the pool only.
async fn deploy(ground: &Ground, replicas: usize) -> Vec<Pod> {
    let labels = json!({"app": "web"});
    let requests = json!({"cpu": "1800m", "memory": "100Mi"});
    let containers = json!([{"name": "main", "image": "none", "resources": {"requests": requests}}]);
    let spec = json!({"containers": containers, "nodeSelector": {"karpenter.sh/nodepool": "fixed"}});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    ground
        .apply(&[json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        })])
        .await;
    ground.running(replicas, SOON).await
}

fn is_up(node: &Node) -> bool {
    let is_initialized = node.labels().get("karpenter.sh/initialized").is_some_and(|value| value == "true");
    is_initialized && node.metadata.deletion_timestamp.is_none()
}

async fn up(ground: &Ground, count: usize) -> Vec<Node> {
    let what = format!("{count} nodes are up");
    let are_up = |nodes: &[Node]| nodes.len() == count && nodes.iter().all(is_up);
    wait::until_all(ground.nodes(), Selection::all(), SOON, &what, are_up).await.unwrap()
}

async fn replicas(ground: &Ground, count: usize) {
    let patch = json!({"spec": {"replicas": count}}).to_string();
    ground.cluster().kubectl(&["patch", "nodepool", "fixed", "--type=merge", "-p", &patch]).await.unwrap();
}

#[tokio::test]
async fn a_static_pool_shrinks_by_its_empty_nodes_and_grows_again() {
    let ground = Ground::new("run suite").await;
    ground.apply(&[fixed(4, &json!({}), &json!({}))]).await;
    let _replica = ground.replica_as("muster", ground.cluster().kubeconfig(), &GATE);
    up(&ground, 4).await;
    let before = deploy(&ground, 1).await.remove(0);
    let home = before.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap();

    replicas(&ground, 2).await;
    let left = up(&ground, 2).await;
    assert!(left.iter().any(|node| node.name_any() == home), "empty ones go first");
    replicas(&ground, 1).await;
    let left = up(&ground, 1).await;
    assert_eq!(left[0].name_any(), home, "the one with the pod stays");
    let after = ground.running(1, SOON).await.remove(0);
    assert_eq!(after.metadata.uid, before.metadata.uid, "its pod was not touched");
    let one = |claims: &[DynamicObject]| claims.len() == 1;
    // A Node goes a moment before its NodeClaim.
    wait::until_all(ground.claims(), Selection::all(), SOON, "one NodeClaim is left", one).await.unwrap();
    wait::stays(ground.claims(), Selection::all(), STILL, "one NodeClaim stays", one).await.unwrap();

    replicas(&ground, 3).await;
    up(&ground, 3).await;
    replicas(&ground, 0).await;
    wait::until_all(ground.claims(), Selection::all(), SOON, "no NodeClaim is left", <[_]>::is_empty).await.unwrap();
}

#[tokio::test]
async fn a_drifted_static_node_waits_for_room_under_its_limit() {
    let ground = Ground::new("run suite").await;
    let limit = |nodes: &str| json!({"nodes": nodes});
    ground.apply(&[fixed(2, &json!({"team": "a"}), &limit("2"))]).await;
    let _replica = ground.replica_as("muster", ground.cluster().kubeconfig(), &GATE);
    up(&ground, 2).await;
    deploy(&ground, 2).await;

    ground.apply(&[fixed(2, &json!({"team": "b"}), &limit("2"))]).await;
    let drifted =
        |claims: &[DynamicObject]| claims.len() == 2 && claims.iter().all(|one| condition(one, "Drifted") == "True");
    wait::until_all(ground.claims(), Selection::all(), SOON, "both have drifted", drifted).await.unwrap();
    let what = "both stay: there is no room for a third";
    wait::stays(ground.claims(), Selection::all(), STILL, what, drifted).await.unwrap();

    ground.apply(&[fixed(2, &json!({"team": "b"}), &limit("3"))]).await;
    let mut least = usize::MAX;
    let is_new = |node: &Node| node.labels().get("team").is_some_and(|team| team == "b");
    let replaced = wait::until_all(ground.nodes(), Selection::all(), SOON * 2, "both are replaced", |nodes| {
        least = least.min(nodes.iter().filter(|node| is_up(node)).count());
        nodes.len() == 2 && nodes.iter().all(|node| is_new(node) && is_up(node))
    });
    replaced.await.unwrap();
    assert_eq!(least, 2, "a replacement is up before its node goes");
    ground.running(2, SOON).await;
}

#[tokio::test]
async fn replicas_have_no_effect_without_the_gate() {
    let ground = Ground::new("run suite").await;
    ground.apply(&[fixed(2, &json!({}), &json!({}))]).await;
    let _replica = ground.replica("muster");
    let pools = of_karpenter(ground.client(), "NodePool");
    let is_told = |pool: &DynamicObject| condition(pool, "ReplicasKept") == "False";
    wait::until(pools, "fixed", SOON, "it says that its replicas are ignored", is_told).await.unwrap();
    let none = <[DynamicObject]>::is_empty;
    wait::stays(ground.claims(), Selection::all(), STILL, "nothing is launched", none).await.unwrap();
}
