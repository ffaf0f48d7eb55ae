//! Due moments in a cluster where nothing changes that would be a reason to look.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::DynamicObject;
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, SOON, condition};

/// The most that anything may be late on a machine that builds on all cores. On an idle one it is a second.
const LATE: Duration = Duration::from_secs(8);
/// Long enough for the cluster to come to rest, and for two passes over nodes.
const STILL: Duration = Duration::from_secs(20);
const LIFE: Duration = Duration::from_secs(75);

/// Returns the time since `moment`.
fn since(moment: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now() - moment).unwrap_or_default()
}

fn is_going(claim: &DynamicObject) -> bool {
    claim.metadata.deletion_timestamp.is_some() || claim.annotations().contains_key("muster.dev/disruption")
}

#[tokio::test]
async fn drift_and_expiry_are_seen_at_their_moments_in_a_still_cluster() {
    let ground = Ground::new("run suite").await;
    let policy = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    ground.small_nodes(&json!({"team": "a"}), &policy).await;
    let life = json!({"spec": {"template": {"spec": {"expireAfter": format!("{}s", LIFE.as_secs())}}}});
    let life = life.to_string();
    ground.cluster().kubectl(&["patch", "nodepool", "general", "--type=merge", "-p", &life]).await.unwrap();
    let _replica = ground.replica("muster");
    ground.deploy_pairs(2).await;
    ground.running(2, SOON).await;
    let rests = |claims: &[DynamicObject]| claims.len() == 1 && !claims.iter().any(is_going);
    wait::stays(ground.claims(), Selection::all(), STILL, "one NodeClaim", rests).await.unwrap();

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
