//! Faults of GPUs: a node is drained, rebooted and used again where that might mend it; where not, it is replaced.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use muster_controller::run::Options;
use muster_scheduling::disrupt::{Repair, Settings};
use muster_tests::ec2::{Calls, Instance};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::super::disruption::is_up;
use super::controller::Controller;
use super::ground::{CONTROLLER, Ground, SOON, condition, pool};

/// Longer than the fault is tolerated.
const LONG_AGO: Duration = Duration::from_secs(40 * 60);
const XID_48: &str = "NvidiaXID48Error";
const XID_79: &str = "NvidiaXID79Error";

/// A controller that repairs and reboots, and one pod on one node, with its instance.
async fn start() -> (Ground, Controller, String, Instance) {
    let ground = Ground::bare("run ec2 suite").await;
    let controller = ground.quick_controller_with(reboots).await;
    ground.apply(&[ground.class(json!({})), pool(&json!({}))]).await;
    ground.pool_is_ready().await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let up = |nodes: &[Node]| nodes.len() == 1 && nodes.iter().all(is_up);
    let nodes = wait::until_all(ground.nodes(), Selection::all(), SOON, "the node is up", up).await.unwrap();
    let instance = Instance::clone(&ground.ec2.running()[0]);
    (ground, controller, nodes[0].name_any(), instance)
}

fn reboots(options: Options) -> Options {
    let Options { disruption, mut snapshot, .. } = options.clone();
    snapshot.gates.node_repair = true;
    snapshot.reboot_for_repair = true;
    Options { disruption: Settings { repair: Repair::Voluntary, ..disruption }, snapshot, ..options }
}

/// Has the monitoring agent of the node say so of its GPU.
async fn judge(ground: &Ground, node: &str, reason: &str) {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let since = if reason == "Healthy" { now } else { now - LONG_AGO }.to_string();
    let status = if reason == "Healthy" { "True" } else { "False" };
    let condition = json!({
        "type": "AcceleratedHardwareReady", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": since, "lastHeartbeatTime": since,
    });
    patch(ground, node, json!({"conditions": [condition]})).await;
}

async fn patch(ground: &Ground, node: &str, status: Value) {
    let patch = Patch::Strategic(json!({ "status": status }));
    ground.nodes().patch_status(node, &PatchParams::default(), &patch).await.unwrap();
}

async fn node_is(ground: &Ground, node: &str, what: &str, is: impl Fn(&Node) -> bool) -> Node {
    wait::until(ground.nodes(), node, SOON, what, is).await.unwrap()
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == "karpenter.sh/rebooting")
}

/// Waits until EC2 was asked so often for a reboot.
async fn asked(ground: &Ground, times: usize) {
    let calls =
        ground.ec2.wait_for_calls(SOON, |calls| calls.clone().by(CONTROLLER).of("RebootInstances").len() >= times);
    calls.await.unwrap();
}

/// Waits until another node has taken the place of this one.
async fn replaced(ground: &Ground, node: &str, instance: &Instance) {
    let is_other = |nodes: &[Node]| nodes.len() == 1 && nodes.iter().all(|one| is_up(one) && one.name_any() != node);
    let done = wait::until_all(ground.nodes(), Selection::all(), SOON * 2, "the node is replaced", is_other).await;
    done.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    ground.running(1, SOON).await;
    assert!(ground.ec2.running().iter().all(|one| one.id != instance.id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn xid_48_reboots_the_node() {
    let (ground, controller, node, instance) = start().await;
    judge(&ground, &node, XID_48).await;
    node_is(&ground, &node, "it takes no more pods", is_tainted).await;
    ground.of_claim("DisruptionReason", "True", "Unhealthy").await;
    asked(&ground, 1).await;
    let told = ground.of_claim("Rebooting", "True", "RebootIssued").await;
    assert_eq!(told, "rebooting for AcceleratedHardwareReady/NvidiaXID48Error");
    assert_eq!(ground.of_claim("Initialized", "Unknown", "Rebooting").await, "the node is rebooting");
    let is_waiting = |pods: &[k8s_openapi::api::core::v1::Pod]| {
        pods.len() == 1 && pods[0].spec.as_ref().is_some_and(|spec| spec.node_name.is_none())
    };
    let waiting =
        wait::until_all(ground.pods(), Selection::labelled("app=web"), SOON, "its pod waits for it", is_waiting);
    waiting.await.unwrap();
    let is_coming = |nodes: &[Node]| {
        let [node] = nodes else { return false };
        is_tainted(node) && !node.labels().contains_key("karpenter.sh/initialized")
    };
    wait::until_all(ground.nodes(), Selection::all(), SOON, "its node is coming", is_coming).await.unwrap();
    let stays = wait::stays(ground.nodes(), Selection::all(), SOON / 12, "nothing is bought for its pod", is_coming);
    stays.await.unwrap();

    // The machine is back.
    patch(&ground, &node, json!({"nodeInfo": {"bootID": "second"}})).await;
    judge(&ground, &node, "Healthy").await;
    ground.of_claim("Rebooting", "False", "RebootSucceeded").await;
    ground.of_claim("Initialized", "True", "Initialized").await;
    ground.event("NodeClaim", "RebootObserved", "has booted anew").await;
    let back = node_is(&ground, &node, "it takes pods", |node| is_up(node) && !is_tainted(node)).await;
    let pods = ground.running(1, SOON).await;
    assert_eq!(pods[0].spec.as_ref().unwrap().node_name, Some(back.name_any()));
    let is_tidy = |claims: &[DynamicObject]| {
        let kept = |key: &str| claims.iter().any(|claim| claim.annotations().contains_key(key));
        let reboots = ["karpenter.sh/reboot-pre-boot-id", "karpenter.sh/reboot-termination-grace-period"];
        claims.len() == 1 && !reboots.into_iter().any(kept) && condition(&claims[0], "DisruptionReason").is_none()
    };
    wait::until_all(ground.claims(), Selection::all(), SOON, "no trace is left", is_tidy).await.unwrap();
    let calls = ground.ec2.calls().by(CONTROLLER);
    assert_eq!(calls.clone().of("RebootInstances").len(), 1, "{}", calls.lines());
    let running: Vec<String> = ground.ec2.running().iter().map(|one| one.id.clone()).collect();
    assert_eq!(running, [instance.id]);
    controller.counted("karpenter_nodes_reboots_total", &[("result", "succeeded")], 1.0).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn xid_79_replaces_the_node() {
    let (ground, _controller, node, instance) = start().await;
    judge(&ground, &node, XID_79).await;
    replaced(&ground, &node, &instance).await;
    assert!(ground.ec2.calls().by(CONTROLLER).of("RebootInstances").is_empty());
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reboot_that_ec2_refuses_ends_with_another_node() {
    let (ground, controller, node, instance) = start().await;
    ground.ec2.faults().unauthorized(Calls::of("RebootInstances").by(CONTROLLER));
    judge(&ground, &node, XID_48).await;
    asked(&ground, 2).await;
    // As if it had been asked for five minutes.
    let claim = ground.claims().list(&ListParams::default()).await.unwrap().items.remove(0);
    let long_ago =
        json!({"metadata": {"annotations": {"muster.dev/reboots": (Timestamp::now() - LONG_AGO).to_string()}}});
    ground.claims().patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(long_ago)).await.unwrap();
    replaced(&ground, &node, &instance).await;
    ground.event("NodeClaim", "RebootFailed", "provider_error: not authorized to perform ec2:RebootInstances").await;
    controller.counted("karpenter_nodes_reboots_total", &[("result", "provider_error")], 1.0).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_takes_over_finishes_the_reboot() {
    let (ground, controller, node, instance) = start().await;
    judge(&ground, &node, XID_48).await;
    asked(&ground, 1).await;
    // It may or may not have noted the answer.
    drop(controller);
    patch(&ground, &node, json!({"nodeInfo": {"bootID": "second"}})).await;
    judge(&ground, &node, "Healthy").await;
    let _other = ground.quick_controller_with(reboots).await;
    ground.of_claim("Rebooting", "False", "RebootSucceeded").await;
    node_is(&ground, &node, "it takes pods", |node| is_up(node) && !is_tainted(node)).await;
    ground.running(1, SOON).await;
    assert_eq!(
        ground.ec2.calls().by(CONTROLLER).of("RebootInstances").len(),
        1,
        "a machine that is back is left alone"
    );
    let running: Vec<String> = ground.ec2.running().iter().map(|one| one.id.clone()).collect();
    assert_eq!(running, [instance.id]);
    ground.clear().await;
}
