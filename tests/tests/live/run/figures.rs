//! What it costs to place pods by the thousand, and to watch over what is there: the workload of Karpenter's own comparison.
//!
//! Each test prints its figures; they are those of an optimised program on a machine that does nothing else. Seconds of CPU
//! and memory can be compared on other machines too, times cannot: the control plane takes most of them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::DynamicObject;
use muster_tests::meter::{Meter, writes};
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, condition, hourly_price};

/// How long the largest may take on a machine that does other things.
const LONG: Duration = Duration::from_secs(1200);
/// How long nothing is done, to see what that costs: as Karpenter was measured.
const IDLE: Duration = Duration::from_secs(60);
/// After the last change, what was seen of it is still being thought about for so long: a node is quiet after thirty
/// seconds, and is looked at then.
const CALM: Duration = Duration::from_secs(60);

/// Pods that come at once where rest is what is measured: twenty thousand take the control plane a quarter of an hour, in which
/// nothing rests. `MUSTER_CROWD` has another number.
fn crowd() -> usize {
    of_environment("MUSTER_CROWD").unwrap_or(2500)
}

fn of_environment(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

async fn place(count: usize, arguments: &[&str]) {
    let ground = Ground::new("run figures").await;
    ground.compared().await;
    let replica = ground.replica_as("muster", ground.cluster().kubeconfig(), arguments);
    let meter = Meter::of(&replica).await.unwrap();
    ground.deploy(count).await;
    let pods = ground.running(count, LONG).await;
    let claims = settled(&ground).await;
    let taken = meter.read().unwrap();
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    let created = latest(pods.iter().filter_map(|pod| Some(pod.metadata.creation_timestamp.as_ref()?.0)));
    let after = |moment: Timestamp| moment.duration_since(created).as_secs();
    println!(
        "{count} pods {arguments:?}: {:.2} CPU s, peak {} MiB, {} nodes of {} claims, {:.3} USD/h; after the last pod: last \
         claim {} s, all bound {} s, all ready {} s; {:.1} s together",
        taken.cpu,
        taken.peak,
        nodes.len(),
        claims.len(),
        hourly_price(&nodes),
        after(latest(claims.iter().filter_map(|one| Some(one.metadata.creation_timestamp.as_ref()?.0)))),
        after(latest(pods.iter().filter_map(bound_at))),
        after(latest(claims.iter().filter_map(ready_at))),
        taken.wall.as_secs_f64(),
    );
    println!("  writes: {:?}", writes(&replica).await.unwrap());
}

async fn idle(count: usize, size: &str, requests: &serde_json::Value) {
    let ground = Ground::new("run figures").await;
    ground.compared_on(&json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": [size]})).await;
    let replica = ground.replica("muster");
    let begun = Meter::of(&replica).await.unwrap();
    let mut there = count.min(crowd());
    ground.deploy_of(there, requests).await;
    ground.running(there, LONG).await;
    while there < count {
        there = count.min(there + crowd());
        ground.scale(there).await;
        ground.running(there, LONG).await;
    }
    let claims = settled(&ground).await;
    let placing = begun.read().unwrap();
    let same = |claims: &[DynamicObject], count: usize| claims.len() == count;
    let stands = wait::stays(ground.claims(), Selection::all(), CALM, "nothing changes", |all| same(all, claims.len()));
    stands.await.unwrap();
    let meter = Meter::of(&replica).await.unwrap();
    let before = writes(&replica).await.unwrap();
    tokio::time::sleep(IDLE).await;
    let taken = meter.read().unwrap();
    println!(
        "{count} pods on {} nodes: {:.2} CPU s and {} MiB to place them in {:.0} s; idle {:.2} % of a core, {} MiB at most",
        claims.len(),
        placing.cpu,
        placing.peak,
        placing.wall.as_secs_f64(),
        100.0 * taken.cpu / taken.wall.as_secs_f64(),
        taken.peak,
    );
    println!("  writes before: {before:?}, after: {:?}", writes(&replica).await.unwrap());
}

/// Waits until all claims are ready.
async fn settled(ground: &Ground) -> Vec<DynamicObject> {
    let ready = wait::until_all(ground.claims(), Selection::all(), LONG, "all claims are ready", |claims| {
        !claims.is_empty() && claims.iter().all(|claim| condition(claim, "Ready") == "True")
    });
    ready.await.unwrap()
}

fn latest(moments: impl Iterator<Item = Timestamp>) -> Timestamp {
    moments.max().unwrap()
}

fn bound_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "True")?;
    Some(scheduled.last_transition_time.as_ref()?.0)
}

fn ready_at(claim: &DynamicObject) -> Option<Timestamp> {
    let conditions = claim.data["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready")?;
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn a_thousand_pods() {
    place(1000, &[]).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn five_thousand_pods() {
    place(5000, &[]).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn five_thousand_pods_that_are_not_told_of_their_nodes() {
    place(5000, &["--disable-nominations"]).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn ninety_nodes_that_rest() {
    idle(1500, "16", &json!({"cpu": "900m", "memory": "3100Mi"})).await;
}

#[tokio::test]
#[ignore = "scale: most of an hour, and its figures are those of an optimised program"]
async fn two_thousand_nodes_that_rest() {
    // `MUSTER_PODS` has another number.
    let count = of_environment("MUSTER_PODS").unwrap_or(20_000);
    idle(count, "16", &json!({"cpu": "1500m", "memory": "3100Mi"})).await;
}
