//! Unhealthy nodes: each is replaced before it goes, as budgets allow, and not where too many of a pool are unhealthy.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON};

/// Two passes over nodes.
const STILL: Duration = Duration::from_secs(25);
const GATE: [&str; 2] = ["--feature-gates", "NodeRepair=true"];
/// Longer than any condition is tolerated.
const LONG_AGO: Duration = Duration::from_secs(40 * 60);

fn is_up(node: &Node) -> bool {
    let is_initialized = node.labels().get("karpenter.sh/initialized").is_some_and(|value| value == "true");
    is_initialized && node.metadata.deletion_timestamp.is_none()
}

/// A cluster with so many nodes, with two pods each, and what acts on it with these arguments.
async fn crowd(nodes: usize, budgets: &Value, arguments: &[&str]) -> (Ground, muster_tests::replica::Replica) {
    let ground = Ground::new("run suite").await;
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "Never", "budgets": budgets})).await;
    let replica = ground.replica_as("muster", ground.cluster().kubeconfig(), arguments);
    ground.deploy_pairs(2 * nodes).await;
    ground.running(2 * nodes, SOON).await;
    let what = format!("{nodes} nodes are up");
    let are_up = |all: &[Node]| all.len() == nodes && all.iter().all(is_up);
    wait::until_all(ground.nodes(), Selection::all(), SOON, &what, are_up).await.unwrap();
    (ground, replica)
}

async fn names(ground: &Ground) -> Vec<String> {
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    nodes.iter().map(ResourceExt::name_any).collect()
}

/// Says of the node that its GPU has fallen off the bus, or that it is there.
async fn judge(ground: &Ground, node: &str, is_healthy: bool) {
    let since = (Timestamp::from_second(Timestamp::now().as_second()).unwrap() - LONG_AGO).to_string();
    let (status, reason) = if is_healthy { ("True", "Healthy") } else { ("False", "NvidiaXID79Error") };
    let condition = json!({
        "type": "AcceleratedHardwareReady", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": since, "lastHeartbeatTime": since,
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    ground.nodes().patch_status(node, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until these nodes are gone, and so many others are up; returns the least number of nodes that were up.
async fn replaced(ground: &Ground, gone: &[String], count: usize) -> usize {
    let mut least = usize::MAX;
    let what = format!("{gone:?} are replaced");
    let replaced = wait::until_all(ground.nodes(), Selection::all(), SOON * 2, &what, |nodes| {
        least = least.min(nodes.iter().filter(|node| is_up(node)).count());
        nodes.len() == count && nodes.iter().all(|node| is_up(node) && !gone.contains(&node.name_any()))
    });
    replaced.await.unwrap();
    least
}

async fn stay(ground: &Ground, names: &[String], why: &str) {
    let mut names = names.to_vec();
    names.sort();
    let are_there = |nodes: &[Node]| {
        let mut there: Vec<String> = nodes.iter().filter(|node| is_up(node)).map(ResourceExt::name_any).collect();
        there.sort();
        there == names && nodes.len() == names.len()
    };
    wait::stays(ground.nodes(), Selection::all(), STILL, why, are_there).await.unwrap();
}

#[tokio::test]
async fn a_lost_gpu_replaces_its_node_unless_that_is_not_to_be_repaired() {
    let (ground, _replica) = crowd(1, &json!([{"nodes": "10%"}]), &GATE).await;
    let before = names(&ground).await;
    ground.cluster().kubectl(&["annotate", "node", &before[0], "karpenter.sh/do-not-repair=true"]).await.unwrap();
    ground.cluster().kubectl(&["annotate", "node", &before[0], "karpenter.sh/do-not-disrupt=true"]).await.unwrap();
    judge(&ground, &before[0], false).await;
    stay(&ground, &before, "an operator keeps it").await;

    ground.cluster().kubectl(&["annotate", "node", &before[0], "karpenter.sh/do-not-repair-"]).await.unwrap();
    let least = replaced(&ground, &before, 1).await;
    assert_eq!(least, 1, "its replacement is up before it goes");
    ground.running(2, SOON).await;
}

#[tokio::test]
async fn a_budget_without_nodes_holds_repair_unless_it_is_the_old_one() {
    let none = json!([{"nodes": "0"}]);
    let (ground, replica) = crowd(1, &none, &GATE).await;
    let before = names(&ground).await;
    judge(&ground, &before[0], false).await;
    stay(&ground, &before, "the budget allows none").await;

    drop(replica);
    let arguments = [GATE[0], GATE[1], "--legacy-node-repair"];
    let _replica = ground.replica_as("second", ground.cluster().kubeconfig(), &arguments);
    replaced(&ground, &before, 1).await;
    ground.running(2, SOON).await;
}

#[tokio::test]
async fn nothing_is_repaired_while_more_than_a_fifth_of_the_pool_is_unhealthy() {
    let (ground, _replica) = crowd(3, &json!([{"nodes": "100%"}]), &GATE).await;
    let before = names(&ground).await;
    // The first is replaced at once, unless the second is seen with it: as long as neither is gone, both count.
    let claims = ground.claims();
    ground.cluster().kubectl(&["annotate", "node", &before[0], "karpenter.sh/do-not-repair=true"]).await.unwrap();
    judge(&ground, &before[0], false).await;
    judge(&ground, &before[1], false).await;
    let events: Api<Event> = Api::all(ground.client());
    let told = |events: &[Event]| {
        let of = |kind: &str| {
            let mut found = events.iter().filter(|event| event.reason.as_deref() == Some("NodeRepairBlocked"));
            found.any(|event| event.involved_object.kind.as_deref() == Some(kind))
        };
        of("NodePool") && of("Node") && of("NodeClaim")
    };
    wait::until_all(events, Selection::all(), SOON, "all three are told", told).await.unwrap();
    stay(&ground, &before, "two of three are unhealthy").await;
    let nobody_goes =
        |all: &[DynamicObject]| all.iter().all(|one| !one.annotations().contains_key("muster.dev/disruption"));
    wait::until_all(claims, Selection::all(), SOON, "nobody goes", nobody_goes).await.unwrap();

    judge(&ground, &before[0], true).await;
    let least = replaced(&ground, &before[1..2], 3).await;
    assert_eq!(least, 3, "its replacement is up before it goes");
    ground.running(6, SOON).await;
}

#[tokio::test]
async fn a_condition_that_stands_for_half_a_second_is_acted_on() {
    let (ground, _replica) = crowd(1, &json!([{"nodes": "100%"}]), &GATE).await;
    let before = names(&ground).await;
    judge(&ground, &before[0], false).await;
    let stands = |nodes: &[Node]| !nodes.is_empty();
    wait::stays(ground.nodes(), Selection::all(), Duration::from_millis(500), "it stands", stands).await.unwrap();
    judge(&ground, &before[0], true).await;
    replaced(&ground, &before, 1).await;
    ground.running(2, SOON).await;
}
