//! Offerings that cannot be had.

use kube::ResourceExt;
use kube::api::ListParams;
use muster_tests::ec2::{CapacityType, Pool};
use serde_json::json;

use super::ground::{Ground, SOON, paired, pool, requirements};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_claim_gets_the_one_offering_that_is_left() {
    let ground = Ground::bare("run ec2 suite").await;
    let faults = ground.ec2.faults();
    // No spot anywhere, and of what is on demand one type in one zone.
    faults.insufficient_capacity(Pool::any().paid(CapacityType::Spot));
    faults.insufficient_capacity(Pool::of("m5.xlarge"));
    faults.insufficient_capacity(Pool::of("c5.xlarge"));
    faults.insufficient_capacity(Pool::of("m5.large").zone("us-east-1a"));
    let types = ["m5.large", "m5.xlarge", "c5.xlarge"];
    let wide = requirements(&types, &["us-east-1a", "us-east-1b"], &["spot", "on-demand"]);
    ground.apply(&[ground.class(json!({})), pool(&json!({"requirements": wide}))]).await;
    let controller = ground.controller().await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    paired(&claims, &ground.ec2);
    let instance = &ground.ec2.running()[0];
    assert_eq!((instance.instance_type.as_str(), instance.zone.as_str()), ("m5.large", "us-east-1b"));
    // The first asked for spot; so may the second if spot prices were learned in between.
    let attempt = &claims[0].annotations()["muster.dev/launch-attempt"];
    assert!(["2", "3"].contains(&attempt.as_str()), "{attempt}");
    ground.event("NodeClaim", "LaunchFailed", "no capacity").await;
    controller.counted("karpenter_nodeclaims_created_total", &[("nodepool", "general")], 1.0).await;
    let refused = [("offering", "m5.large/us-east-1a/on-demand"), ("reason", "no capacity")];
    controller.counted("muster_cloud_refusals_total", &refused, 1.0).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subnet_without_addresses_is_named() {
    let ground = Ground::new("run ec2 suite").await;
    let full = ground.subnets["us-east-1a"].clone();
    let rule = ground.ec2.faults().subnet_full(&full);
    let controller = ground.controller().await;
    // Only there.
    ground.deploy(1, json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-east-1a"}})).await;
    ground.event("NodeClaim", "InsufficientCapacityError", &format!("no free addresses in {full}")).await;
    controller
        .counted("muster_cloud_refusals_total", &[("reason", &format!("no free addresses in {full}"))], 1.0)
        .await;
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "insufficient_capacity")], 1.0).await;
    assert!(ground.ec2.running().is_empty());
    // Anywhere else there are some.
    ground.deploy(1, json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-east-1b"}})).await;
    ground.running(1, SOON).await;
    assert_eq!(ground.ec2.running()[0].zone, "us-east-1b");
    ground.ec2.faults().lift(rule);
    ground.clear().await;
}
