//! CapacityBuffers: room is kept, used, made again, and held back by limits, and the buffer says so.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON};

/// Two passes of disruption and the time in between, and then some.
const TWO_PASSES: Duration = Duration::from_secs(35);

fn buffers(ground: &Ground) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
    Api::namespaced_with(ground.client(), "default", &ApiResource::from_gvk(&kind))
}

fn buffer(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn template(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu, "memory": "100Mi"}});
    let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name, "namespace": "default"},
        "template": {"metadata": {"labels": {"app": "chunk"}}, "spec": {"containers": containers}}})
}

fn reason<'o>(buffer: &'o DynamicObject, kind: &str) -> &'o str {
    let conditions = buffer.data["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|one| one["type"] == kind);
    found.and_then(|one| one["reason"].as_str()).unwrap_or_default()
}

/// Waits until the buffer gives this reason for its condition Provisioning.
async fn says(ground: &Ground, name: &str, expected: &str) -> DynamicObject {
    let what = format!("its room is {expected}");
    let is_said = |buffer: &DynamicObject| reason(buffer, "Provisioning") == expected;
    wait::until(buffers(ground), name, SOON, &what, is_said).await.unwrap()
}

fn is_up(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    node.labels().contains_key("karpenter.sh/initialized")
        && node.metadata.deletion_timestamp.is_none()
        && !taints.into_iter().any(|taint| taint.key == "karpenter.sh/disrupted")
}

fn are_up(count: usize) -> impl Fn(&[Node]) -> bool {
    move |nodes: &[Node]| nodes.len() == count && nodes.iter().all(is_up)
}

async fn nodes(ground: &Ground, count: usize) -> BTreeSet<String> {
    let what = format!("{count} nodes are up");
    let found = wait::until_all(ground.nodes(), Selection::all(), SOON, &what, are_up(count)).await.unwrap();
    found.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn the_room_of_a_buffer_is_kept_used_made_again_and_limited() {
    let ground = Ground::new("run suite").await;
    // Two chunks fit on a node; what is not of use goes at once.
    let disruption = json!({"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]});
    ground.small_nodes(&json!({}), &disruption).await;
    let spare = buffer("spare", &json!({"podTemplateRef": {"name": "chunk"}, "replicas": 5}));
    ground.apply(&[template("chunk", "1800m"), spare]).await;
    let arguments = ["--feature-gates", "CapacityBuffer=true"];
    let _replica = ground.replica_as("muster", ground.cluster().kubeconfig(), &arguments);
    let first = nodes(&ground, 3).await;
    let said = says(&ground, "spare", "FitsExistingCapacity").await;
    assert_eq!(said.data["status"]["replicas"], 5);
    assert_eq!(said.data["status"]["podTemplateRef"]["name"], "chunk");
    assert_eq!(said.data["status"]["podTemplateGeneration"], 1);
    assert_eq!(said.data["status"]["provisioningStrategy"], "buffer.x-k8s.io/active-capacity");
    assert_eq!(reason(&said, "ReadyForProvisioning"), "Resolved");
    let stay = wait::stays(ground.nodes(), Selection::all(), TWO_PASSES, "the empty nodes stay", are_up(3));
    stay.await.unwrap();

    // They drift as others do, and what replaces them has the room.
    ground.small_nodes(&json!({"edition": "second"}), &disruption).await;
    let are_new = |nodes: &[Node]| are_up(3)(nodes) && nodes.iter().all(|node| !first.contains(&node.name_any()));
    wait::until_all(ground.nodes(), Selection::all(), SOON * 2, "three others are up", are_new).await.unwrap();
    let first = nodes(&ground, 3).await;

    // Two pods run at once in the room, which is made again.
    ground.deploy_pairs(2).await;
    let pods = ground.running(2, SOON).await;
    let used = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
    assert!(used.clone().all(|node| first.contains(&node)), "{:?} not of {first:?}", used.collect::<Vec<_>>());
    nodes(&ground, 4).await;
    says(&ground, "spare", "FitsExistingCapacity").await;

    // Four nodes have eight places: four pods, and four of the five chunks.
    let limit = r#"{"spec":{"limits":{"nodes":"4"}}}"#;
    ground.cluster().kubectl(&["patch", "nodepool", "general", "--type=merge", "-p", limit]).await.unwrap();
    ground.scale(4).await;
    ground.running(4, SOON).await;
    let said = says(&ground, "spare", "RequiresNewCapacity").await;
    let conditions = said.data["status"]["conditions"].to_string();
    assert!(conditions.contains("0/5 virtual pods required new capacity, 1 failed"), "{conditions}");
    let stay = wait::stays(ground.nodes(), Selection::all(), TWO_PASSES, "there are four nodes", are_up(4));
    stay.await.unwrap();

    // The workload has four pods, of which half are two; nothing is ever large enough for the other buffer.
    let half = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    let half = buffer("half", &json!({"scalableRef": half, "percentage": 50}));
    let huge = buffer("huge", &json!({"podTemplateRef": {"name": "huge"}, "replicas": 1}));
    let lost = buffer("lost", &json!({"podTemplateRef": {"name": "nothing"}, "replicas": 1}));
    ground.apply(&[half, template("huge", "100"), huge, lost]).await;
    says(&ground, "huge", "Infeasible").await;
    // Buffers take their places by name.
    let said = says(&ground, "half", "FitsExistingCapacity").await;
    assert_eq!((&said.data["status"]["replicas"], &said.data["status"]["podTemplateRef"]), (&json!(2), &Value::Null));
    let said = says(&ground, "lost", "NotReadyForProvisioning").await;
    assert_eq!(reason(&said, "ReadyForProvisioning"), "PodTemplateNotFound");

    // Without buffers and pods nothing keeps the nodes.
    ground.cluster().kubectl(&["delete", "capacitybuffers", "--all", "-n", "default"]).await.unwrap();
    ground.scale(0).await;
    let gone = wait::until_all(ground.nodes(), Selection::all(), SOON, "no Node is left", <[_]>::is_empty);
    gone.await.unwrap();
}

#[tokio::test]
async fn without_the_gate_a_buffer_keeps_nothing() {
    let ground = Ground::new("run suite").await;
    let spare = buffer("spare", &json!({"podTemplateRef": {"name": "chunk"}, "replicas": 5}));
    ground.apply(&[template("chunk", "1800m"), spare]).await;
    let replica = ground.replica("muster");
    ground.deploy(1).await;
    ground.running(1, SOON).await;
    nodes(&ground, 1).await;
    assert_eq!(replica.said().matches("the feature gate `CapacityBuffer` is off").count(), 1);
    let untouched = buffers(&ground).get("spare").await.unwrap();
    assert!(untouched.data["status"].is_null(), "{untouched:?}");
    ground.scale(0).await;
    ground.clear(SOON).await;
}
