//! Mistakes in manifests, of which `muster plan` warns: the controller tells them of the object, once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON, condition, of_karpenter};

/// An overlay of the price of all on-demand offerings, of the same weight as any other.
fn overlay(name: &str, price: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
        "spec": {
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            "price": price, "weight": 10,
        },
    })
}

/// A Deployment whose pods request nothing, are for Windows, and are protected for a time that nothing can read.
fn careless(replicas: usize) -> Value {
    let labels = json!({"app": "web"});
    let metadata = json!({"labels": labels, "annotations": {"karpenter.sh/do-not-disrupt": "soon"}});
    let image = "mcr.microsoft.com/windows/servercore:ltsc2022";
    let spec = json!({
        "containers": [{"name": "main", "image": image}],
        "nodeSelector": {"karpenter.sh/capacity-type": "on-demand"},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": metadata, "spec": spec},
        },
    })
}

#[tokio::test]
async fn mistakes_are_told_of_their_objects() {
    let ground = Ground::new("run suite").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(ground.client());
    let established = wait::until(definitions, "nodeoverlays.karpenter.sh", SOON, "it is established", |definition| {
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
    });
    established.await.unwrap();
    let unreadable = json!([{"nodes": "1", "schedule": "0 9 * * 99", "duration": "1h"}]);
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "1s", "budgets": unreadable})).await;
    ground.apply(&[overlay("one", "0.5"), overlay("other", "0.6")]).await;
    let gates = ["--feature-gates=NodeOverlay=true"];
    let _replica = ground.replica_as("muster", ground.cluster().kubeconfig(), &gates);
    ground.apply(&[careless(4)]).await;
    ground.running(4, SOON).await;

    let events: Api<Event> = Api::namespaced(ground.client(), "default");
    let expected = [
        ("NodePool", "ScheduleUnreadable"),
        ("NodeOverlay", "OverlayConflict"),
        ("Pod", "MissingRequests"),
        ("Pod", "WindowsImage"),
        ("Pod", "InvalidDoNotDisruptAnnotation"),
    ];
    let count = |events: &[Event]| {
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for event in events {
            let kind = event.involved_object.kind.clone().unwrap_or_default();
            *counts.entry((kind, event.reason.clone().unwrap_or_default())).or_default() += 1;
        }
        counts
    };
    let has_all = |events: &[Event]| {
        let counts = count(events);
        expected.iter().all(|(kind, reason)| counts.contains_key(&((*kind).to_owned(), (*reason).to_owned())))
    };
    let told = wait::until_all(events, Selection::all(), SOON, "each mistake is told", has_all).await.unwrap();
    // The pods of a workload make the same mistake, which is told of one of them.
    assert_eq!(count(&told)[&("Pod".to_owned(), "MissingRequests".to_owned())], 1);
    let of_pool = told.iter().find(|event| event.reason.as_deref() == Some("ScheduleUnreadable")).unwrap();
    assert!(
        of_pool.message.as_deref().unwrap_or_default().starts_with("schedule `0 9 * * 99` of a budget cannot be read")
    );

    let pools = of_karpenter(ground.client(), "NodePool");
    let says = wait::until(pools.clone(), "general", SOON, "the pool says that it is unreadable", |pool| {
        condition(pool, "BudgetsReadable") == "False" && condition(pool, "Ready") == "True"
    });
    says.await.unwrap();
    let readable = json!([{"nodes": "1", "schedule": "0 9 * * 5", "duration": "1h"}]);
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "1s", "budgets": readable})).await;
    let lifted = wait::until(pools, "general", SOON, "the pool says that it is readable", |pool| {
        condition(pool, "BudgetsReadable") == "True"
    });
    lifted.await.unwrap();
}
