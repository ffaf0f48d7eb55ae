//! Nodes that are not worth their price, or not what they should be, go: as budgets and pauses allow, and not before what
//! replaces them is up.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::core::DynamicObject;
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, SOON};

/// Two passes and the time in between, and then some.
const TWO_PASSES: Duration = Duration::from_secs(35);

pub(crate) fn is_leaving(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    node.metadata.deletion_timestamp.is_some() || taints.into_iter().any(|taint| taint.key == "karpenter.sh/disrupted")
}

pub(crate) fn is_up(node: &Node) -> bool {
    node.labels().get("karpenter.sh/initialized").is_some_and(|value| value == "true") && !is_leaving(node)
}

/// Waits until there are so many Nodes, all of them up, and says how many have been leaving at once at most.
async fn settled(ground: &Ground, count: usize) -> usize {
    let mut most = 0;
    let what = format!("{count} nodes are left, and stay");
    let settled = wait::until_all(ground.nodes(), Selection::all(), SOON * 2, &what, |nodes| {
        most = most.max(nodes.iter().filter(|node| is_leaving(node)).count());
        nodes.len() == count && nodes.iter().all(is_up)
    });
    settled.await.unwrap();
    most
}

#[tokio::test]
async fn empty_nodes_go_unless_their_pool_is_paused() {
    let ground = Ground::new("run suite").await;
    let all_at_once =
        json!({"consolidateAfter": "1s", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]});
    ground.small_nodes(&json!({}), &all_at_once).await;
    let _replica = ground.replica("muster");
    ground.deploy_pairs(4).await;
    ground.running(4, SOON).await;
    settled(&ground, 2).await;

    ground.cluster().kubectl(&["annotate", "nodepool", "general", "muster.dev/pause=disruption"]).await.unwrap();
    ground.scale(0).await;
    ground.running(0, SOON).await;
    let nobody_leaves = |nodes: &[Node]| nodes.len() == 2 && nodes.iter().all(is_up);
    let stay = wait::stays(ground.nodes(), Selection::all(), TWO_PASSES, "nobody leaves", nobody_leaves);
    stay.await.unwrap();

    ground.cluster().kubectl(&["annotate", "nodepool", "general", "muster.dev/pause-"]).await.unwrap();
    let gone = wait::until_all(ground.claims(), Selection::all(), SOON, "no NodeClaim is left", <[_]>::is_empty);
    gone.await.unwrap();
    wait::until_all(ground.nodes(), Selection::all(), SOON, "no Node is left", <[_]>::is_empty).await.unwrap();
}

#[tokio::test]
async fn half_empty_nodes_go_one_by_one_where_the_budget_says_so() {
    let ground = Ground::new("run suite").await;
    let never = json!({"consolidateAfter": "Never"});
    ground.small_nodes(&json!({}), &never).await;
    let _replica = ground.replica("muster");
    ground.deploy_pairs(8).await;
    ground.running(8, SOON).await;
    settled(&ground, 4).await;
    // Of two pods on one node, the first to go is one that has company: one is left on each.
    ground.scale(4).await;
    ground.running(4, SOON).await;

    let one_by_one = json!({"consolidateAfter": "1s", "budgets": [{"nodes": "1"}]});
    ground.small_nodes(&json!({}), &one_by_one).await;
    assert_eq!(settled(&ground, 2).await, 1, "the budget allows one at a time");
    ground.running(4, SOON).await;
}

#[tokio::test]
async fn drifted_nodes_go_when_what_replaces_them_is_up() {
    let ground = Ground::new("run suite").await;
    let policy = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]});
    ground.small_nodes(&json!({"team": "a"}), &policy).await;
    let _replica = ground.replica("muster");
    ground.deploy_pairs(4).await;
    ground.running(4, SOON).await;
    settled(&ground, 2).await;

    ground.small_nodes(&json!({"team": "b"}), &policy).await;
    let mut least = usize::MAX;
    let mut most = 0;
    let is_new = |node: &Node| node.labels().get("team").is_some_and(|team| team == "b");
    let replaced = wait::until_all(ground.nodes(), Selection::all(), SOON * 2, "both nodes are replaced", |nodes| {
        // A Node is deleted when its claim is: from then on its pods need another place.
        let stand = nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none());
        let stand = stand.filter(|node| node.labels().contains_key("karpenter.sh/initialized")).count();
        least = least.min(stand);
        most = most.max(nodes.iter().filter(|node| is_leaving(node)).count());
        nodes.len() == 2 && nodes.iter().all(|node| is_new(node) && is_up(node))
    });
    replaced.await.unwrap();
    assert_eq!((least, most), (2, 1), "two are up at any time, and one leaves at a time");
    ground.running(4, SOON).await;
}

/// Waits until the one claim says this of itself: whether it may be consolidated, and why it has drifted.
async fn says(ground: &Ground, consolidatable: bool, drifted: Option<&str>) {
    let of = |claim: &DynamicObject, kind: &str| {
        let all = claim.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["type"] == kind && one["status"] == "True");
        found.map(|one| one["reason"].as_str().unwrap_or_default().to_owned())
    };
    let what = format!("the claim is consolidatable: {consolidatable}, drifted: {drifted:?}");
    let is_said = |claims: &[DynamicObject]| {
        let [claim] = claims else { return false };
        of(claim, "Consolidatable").is_some() == consolidatable && of(claim, "Drifted").as_deref() == drifted
    };
    wait::until_all(ground.claims(), Selection::all(), SOON, &what, is_said).await.unwrap();
}

#[tokio::test]
async fn claims_say_whether_their_nodes_may_go() {
    let ground = Ground::new("run suite").await;
    let after = |after: &str| json!({"consolidateAfter": after, "budgets": [{"nodes": "0"}]});
    ground.small_nodes(&json!({"team": "a"}), &after("1s")).await;
    let _replica = ground.replica("muster");
    ground.deploy_pairs(2).await;
    ground.running(2, SOON).await;
    says(&ground, true, None).await;
    ground.small_nodes(&json!({"team": "b"}), &after("Never")).await;
    says(&ground, false, Some("NodePoolDrifted")).await;
    ground.small_nodes(&json!({"team": "a"}), &after("1s")).await;
    says(&ground, true, None).await;
    ground.scale(0).await;
    ground.clear(SOON).await;
}
