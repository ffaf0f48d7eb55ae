//! NodeOverlays: their prices and resources count when a node is chosen and when it is launched.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON, condition};

const TYPE: &str = "node.kubernetes.io/instance-type";

fn overlays(ground: &Ground) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1alpha1", "NodeOverlay");
    Api::all_with(ground.client(), &ApiResource::from_gvk(&kind))
}

fn overlay(name: &str, requirements: &Value, more: &Value) -> Value {
    let mut spec = json!({"requirements": requirements});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec})
}

fn with_gate(ground: &Ground) -> Replica {
    ground.replica_as("muster", ground.cluster().kubeconfig(), &["--feature-gates", "NodeOverlay=true"])
}

/// Waits for the only Node, and returns it once it is initialized.
async fn only_node(ground: &Ground) -> Node {
    let is_up = |nodes: &[Node]| {
        nodes.len() == 1 && nodes[0].labels().get("karpenter.sh/initialized").is_some_and(|value| value == "true")
    };
    let nodes = wait::until_all(ground.nodes(), Selection::all(), SOON, "one Node is initialized", is_up).await;
    nodes.unwrap().remove(0)
}

async fn only_claim(ground: &Ground) -> DynamicObject {
    let is_ready = |claims: &[DynamicObject]| claims.len() == 1 && condition(&claims[0], "Ready") == "True";
    let claims = wait::until_all(ground.claims(), Selection::all(), SOON, "one claim is ready", is_ready).await;
    claims.unwrap().remove(0)
}

#[tokio::test]
async fn an_overlays_price_changes_the_type_that_is_launched_if_the_gate_is_on() {
    let ground = Ground::new("run suite").await;
    let large = json!([{"key": TYPE, "operator": "In", "values": ["m-16x-amd64-linux"]}]);
    let cheap = overlay("cheap", &large, &json!({"price": "0.0001", "weight": 5}));
    ground.apply(&[cheap]).await;
    let without = ground.replica("without");
    ground.deploy(1).await;
    ground.running(1, SOON).await;
    let node = only_node(&ground).await;
    assert_ne!(node.labels()[TYPE], "m-16x-amd64-linux", "without the gate an overlay has no effect");
    let untouched = overlays(&ground).get("cheap").await.unwrap();
    assert!(untouched.data["status"].is_null(), "{untouched:?}");
    assert_eq!(without.said().matches("the feature gate `NodeOverlay` is off").count(), 1);
    ground.scale(0).await;
    ground.clear(SOON).await;
    drop(without);

    let _replica = with_gate(&ground);
    let is_ready = |overlay: &DynamicObject| condition(overlay, "Ready") == "True";
    wait::until(overlays(&ground), "cheap", SOON, "it is ready", is_ready).await.unwrap();
    ground.scale(1).await;
    ground.running(1, SOON).await;
    let node = only_node(&ground).await;
    assert_eq!(node.labels()[TYPE], "m-16x-amd64-linux");
    assert_eq!(node.labels()["eks-node-viewer/instance-price"], "0.000100");
    let claim = only_claim(&ground).await;
    assert_eq!(claim.annotations().get("karpenter.sh/price-overlay-applied").map(String::as_str), Some("true"));
    assert!(!claim.annotations().contains_key("karpenter.sh/capacity-overlay-applied"));

    // Another one of the same weight sets the same price: of the two, the later name counts.
    ground.apply(&[overlay("also", &large, &json!({"priceAdjustment": "+10%", "weight": 5}))]).await;
    let conflicts = |overlay: &DynamicObject| condition(overlay, "Ready") == "False";
    let other = wait::until(overlays(&ground), "also", SOON, "it conflicts", conflicts).await.unwrap();
    let all = other.data["status"]["conditions"].as_array().unwrap();
    let valid = all.iter().find(|one| one["type"] == "ValidationSucceeded").unwrap();
    assert_eq!((&valid["status"], &valid["reason"]), (&json!("False"), &json!("Conflict")));
    assert!(valid["message"].as_str().unwrap().contains("`cheap`"), "{valid}");
    ground.cluster().kubectl(&["delete", "nodeoverlay", "cheap"]).await.unwrap();
    wait::until(overlays(&ground), "also", SOON, "it counts", is_ready).await.unwrap();
}

#[tokio::test]
async fn an_overlays_capacity_is_launched_and_registered() {
    let ground = Ground::new("run suite").await;
    let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]);
    ground.apply(&[overlay("fuses", &small, &json!({"capacity": {"example.com/fuse": "4"}}))]).await;
    let _replica = with_gate(&ground);
    let amount = json!({"cpu": "500m", "memory": "100Mi", "example.com/fuse": "2"});
    let containers = json!([{"name": "main", "image": "none", "resources": {"requests": amount, "limits": amount}}]);
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    ground
        .apply(&[json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        })])
        .await;
    ground.running(2, SOON).await;
    // Both share the fuses of one node, which the claim promises before the Node is there.
    let node = only_node(&ground).await;
    let allocatable: BTreeMap<_, _> = node.status.and_then(|status| status.allocatable).unwrap();
    assert_eq!(allocatable["example.com/fuse"].0, "4");
    let claim = only_claim(&ground).await;
    assert_eq!(claim.data["status"]["capacity"]["example.com/fuse"], "4");
    assert_eq!(claim.annotations().get("karpenter.sh/capacity-overlay-applied").map(String::as_str), Some("true"));
    assert_eq!(claim.data["spec"]["resources"]["requests"]["example.com/fuse"], "4");
    ground.scale(0).await;
    ground.clear(SOON).await;
}
