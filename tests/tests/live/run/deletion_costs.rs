//! Deletion costs of pods are those of the plan: a workload that shrinks gives up the pods of one node, and not one of each.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, SOON};

fn cost(pod: &Pod) -> Option<&str> {
    pod.annotations().get("controller.kubernetes.io/pod-deletion-cost").map(String::as_str)
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

#[tokio::test]
async fn a_workload_that_shrinks_empties_the_node_that_the_plan_gives_up_first() {
    let ground = Ground::new("run suite").await;
    // Nothing is consolidated while the test lasts.
    let policy = json!({"consolidateAfter": "1h", "budgets": [{"nodes": "100%"}]});
    ground.small_nodes(&json!({}), &policy).await;
    let gate = ["--feature-gates", "PodDeletionCostManagement=true"];
    let _replica = ground.replica_as("muster", ground.cluster().kubeconfig(), &gate);
    ground.deploy_pairs(4).await;
    ground.running(4, SOON).await;

    let all = Selection::labelled("app=web");
    let are_ranked = |pods: &[Pod]| {
        let mut of_nodes: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
        for pod in pods {
            of_nodes.entry(node(pod)).or_default().insert(cost(pod));
        }
        let ranks: BTreeSet<Option<&str>> = of_nodes.values().flatten().copied().collect();
        of_nodes.values().all(|costs| costs.len() == 1) && ranks == BTreeSet::from([Some("-1"), Some("-2")])
    };
    let what = "the pods of each node have its rank";
    let pods = wait::until_all(ground.pods(), all, SOON * 2, what, are_ranked).await.unwrap();
    let last = pods.iter().find(|pod| cost(pod) == Some("-1")).map(node).unwrap().to_owned();

    ground.scale(2).await;
    let left = ground.running(2, SOON).await;
    assert!(left.iter().all(|pod| node(pod) == last), "the first of the plan is empty: {left:?}");
}
