//! Due moments in a cluster where nothing changes that would be a reason to look.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, SOON, condition};

/// The most that anything may be late on a machine that builds on all cores. On an idle one it is a second.
const LATE: Duration = Duration::from_secs(8);
/// Long enough for the cluster to come to rest, and for two passes over nodes.
const STILL: Duration = Duration::from_secs(20);
const LIFE: Duration = Duration::from_secs(75);
/// Time for which a node without its accelerators is tolerated: that of Karpenter's provider.
const TOLERATED: Duration = Duration::from_secs(600);
/// Remainder of it when the cluster has come to rest.
const ILL_FOR: Duration = Duration::from_secs(15);

/// Returns the time since `moment`.
fn since(moment: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now() - moment).unwrap_or_default()
}

fn is_going(claim: &DynamicObject) -> bool {
    claim.metadata.deletion_timestamp.is_some() || claim.annotations().contains_key("muster.dev/disruption")
}

/// A still cluster with one node, and what acts on it with these arguments.
async fn still(life: &str, arguments: &[&str]) -> (Ground, Replica) {
    let ground = Ground::new("run suite").await;
    let policy = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0", "reasons": ["Drifted"]}]});
    ground.small_nodes(&json!({"team": "a"}), &policy).await;
    let life = json!({"spec": {"template": {"spec": {"expireAfter": life}}}}).to_string();
    ground.cluster().kubectl(&["patch", "nodepool", "general", "--type=merge", "-p", &life]).await.unwrap();
    let replica = ground.replica_as("muster", ground.cluster().kubeconfig(), arguments);
    ground.deploy_pairs(2).await;
    ground.running(2, SOON).await;
    (ground, replica)
}

/// The cluster has come to rest, and two passes have looked at it.
async fn rests(ground: &Ground) {
    let rests = |claims: &[DynamicObject]| claims.len() == 1 && !claims.iter().any(is_going);
    wait::stays(ground.claims(), Selection::all(), STILL, "one NodeClaim", rests).await.unwrap();
}

#[tokio::test]
async fn repair_is_begun_at_its_moment_in_a_still_cluster() {
    let (ground, _replica) = still("Never", &["--feature-gates", "NodeRepair=true"]).await;
    let node = ground.nodes().list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    // Long enough ago that what is left of the tolerated time is longer than the cluster takes to come to rest.
    let moment = Timestamp::from_second(Timestamp::now().as_second()).unwrap() + STILL + ILL_FOR;
    let condition = json!({
        "type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", "message": "it fell off the bus",
        "lastTransitionTime": (moment - TOLERATED).to_string(), "lastHeartbeatTime": (moment - TOLERATED).to_string(),
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    ground.nodes().patch_status(&node, &PatchParams::default(), &patch).await.unwrap();
    rests(&ground).await;

    let claim = ground.claims().list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    let begun = wait::until(ground.claims(), &claim, ILL_FOR + SOON, "the NodeClaim is repaired", is_going).await;
    let late = since(moment);
    println!("repair is begun {late:?} after its moment");
    assert!(Timestamp::now() >= moment, "and not before it");
    assert!(late < LATE, "repair is begun {late:?} after its moment");
    begun.unwrap();
}

#[tokio::test]
async fn drift_and_expiry_are_seen_at_their_moments_in_a_still_cluster() {
    let (ground, _replica) = still(&format!("{}s", LIFE.as_secs()), &[]).await;
    rests(&ground).await;

    let labels = json!({"spec": {"template": {"metadata": {"labels": {"team": "b"}}}}}).to_string();
    let changed = Timestamp::now();
    ground.cluster().kubectl(&["patch", "nodepool", "general", "--type=merge", "-p", &labels]).await.unwrap();
    let has_drifted = |claims: &[DynamicObject]| claims.iter().any(|claim| condition(claim, "Drifted") == "True");
    let drifted = wait::until_all(ground.claims(), Selection::all(), SOON, "the NodeClaim has drifted", has_drifted);
    let claim = drifted.await.unwrap().remove(0);
    let late = since(changed);
    println!("drift is told after {late:?}");
    assert!(late < LATE, "drift is told after {late:?}");

    // To the second, and it may have been made at the end of it.
    let made: Timestamp = claim.creation_timestamp().unwrap().0;
    let name = claim.name_any();
    let expired = wait::until(ground.claims(), &name, LIFE + SOON, "the NodeClaim expires", is_going).await;
    let late = since(made).saturating_sub(LIFE);
    println!("expiry is begun {late:?} after its moment");
    assert!(late < LATE, "expiry is begun {late:?} after its moment");
    assert!(since(made) >= LIFE, "and not before it");
    expired.unwrap();
}
