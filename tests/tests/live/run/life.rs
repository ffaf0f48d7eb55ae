//! Pods come, nodes come, pods go, nodes go.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::DynamicObject;
use muster_tests::process::Ending;
use muster_tests::wait::{self, Selection};

use super::ground::{Ground, SOON, condition, hourly_price, of_karpenter};

#[tokio::test]
async fn a_hundred_pods_get_their_nodes_and_nothing_is_left_of_them() {
    let ground = Ground::new("run suite").await;
    let mut replica = ground.replica("muster");
    ground.deploy(100).await;
    let pods = ground.running(100, SOON).await;

    // One round, and what was planned is what binds: no node is left over, and they cost what the plan would.
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    let used: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).collect();
    assert_eq!(used.len(), nodes.len());
    let price = hourly_price(&nodes);
    assert!(price < 2.79, "{price}: a hundred pods cost 2.783 USD an hour at best");
    let count = nodes.len();
    let all_ready = wait::until_all(ground.claims(), Selection::all(), SOON, "all claims are ready", |claims| {
        claims.len() == count && claims.iter().all(|claim| condition(claim, "Ready") == "True")
    });
    let claims = all_ready.await.unwrap();
    // Pods run there before they are initialized.
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    for claim in &claims {
        let name = claim.data["status"]["nodeName"].as_str().unwrap();
        let node = nodes.iter().find(|node| node.name_any() == name).unwrap();
        assert_eq!(node.labels().get("karpenter.sh/initialized").map(String::as_str), Some("true"));
        assert!(node.finalizers().iter().any(|one| one == "karpenter.sh/termination"));
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        assert!(taints.is_empty(), "{taints:?}");
    }
    // Karpenter's columns.
    let told = ground.cluster().kubectl(&["get", "nodeclaims"]).await.unwrap();
    let header: Vec<&str> = told.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]);
    assert!(told.lines().skip(1).all(|line| line.contains("on-demand") && line.contains("True")), "{told}");
    let pools = of_karpenter(ground.client(), "NodePool");
    let counts = |pool: &DynamicObject| pool.data["status"]["nodes"].as_u64() == Some(count as u64);
    wait::until(pools, "general", SOON, "the pool counts its nodes", counts).await.unwrap();
    let told = ground.cluster().kubectl(&["get", "nodepools"]).await.unwrap();
    let cells: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["NAME", "NODECLASS", "NODES", "READY", "AGE"]);
    assert_eq!(cells[1][..4], ["general", "default", &count.to_string(), "True"]);

    ground.scale(0).await;
    ground.clear(SOON).await;
    assert_eq!(replica.end(Duration::from_secs(10)), Ending::Asked, "it ends when it is asked to");
}

#[tokio::test]
async fn a_node_that_is_deleted_drains_and_its_pods_get_another_one() {
    let ground = Ground::new("run suite").await;
    let _replica = ground.replica("muster");
    ground.deploy(3).await;
    let before = ground.running(3, SOON).await;
    let first = before[0].spec.as_ref().unwrap().node_name.clone().unwrap();
    ground.nodes().delete(&first, &kube::api::DeleteParams::default()).await.unwrap();
    wait::until_gone(ground.nodes(), &first, SOON).await.unwrap();
    let after = ground.running(3, SOON).await;
    let left: Vec<&Pod> =
        after.iter().filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&first)).collect();
    assert!(left.is_empty(), "{left:#?}");
    ground.scale(0).await;
    ground.clear(SOON).await;
}
