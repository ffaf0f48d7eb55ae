//! Nodes that are not what their class selects now are replaced: within the budget, and not before what replaces them is up.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_controller::edge::FIELD_MANAGER;
use muster_tests::ec2::Instance;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::super::disruption::{is_leaving, is_up};
use super::controller::Controller;
use super::ground::{CONTROLLER, Ground, SOON, condition, pool, requirements};

/// The pool `general` with a template like this, of whose nodes so many may be disrupted at once.
pub(crate) fn pool_with(fields: &Value, nodes: usize) -> Value {
    let mut pool = pool(fields);
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": nodes.to_string()}]);
    pool
}

/// What was seen while nodes were replaced.
pub(crate) struct Rolled {
    /// The fewest Nodes that took pods.
    pub(crate) least: usize,
    /// The most Nodes that were leaving at once.
    pub(crate) most: usize,
}

/// Waits until so many Nodes are up, none of which is there now.
pub(crate) async fn rolled(ground: &Ground, count: usize) -> Rolled {
    let before = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    let before: BTreeSet<String> = before.iter().map(ResourceExt::name_any).collect();
    assert_eq!(before.len(), count);
    let mut rolled = Rolled { least: usize::MAX, most: 0 };
    let what = format!("{count} nodes are replaced");
    let done = wait::until_all(ground.nodes(), Selection::all(), SOON * 4, &what, |nodes: &[Node]| {
        // A Node is deleted when its claim is: from then on its pods need another place.
        let stands = |node: &&Node| node.metadata.deletion_timestamp.is_none();
        let stand = nodes.iter().filter(stands).filter(|node| node.labels().contains_key("karpenter.sh/initialized"));
        rolled.least = rolled.least.min(stand.count());
        rolled.most = rolled.most.max(nodes.iter().filter(|node| is_leaving(node)).count());
        nodes.len() == count && nodes.iter().all(|node| is_up(node) && !before.contains(&node.name_any()))
    });
    done.await.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    rolled
}

/// Counts the pods that run, until it is dropped: the fewest at any time.
async fn fewest_running(ground: &Ground, fewest: &mut usize) {
    let runs = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let all = Selection::labelled("app=web");
    let counted = wait::until_all(ground.pods(), all, SOON * 8, "never", |pods: &[Pod]| {
        *fewest = (*fewest).min(pods.iter().filter(runs).count());
        false
    });
    let _ = counted.await;
}

/// No pod was refused.
pub(crate) async fn no_pod_was_unplaced(ground: &Ground) {
    let events: Api<Event> = Api::all(ground.kube());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let is_ours = |event: &&Event| event.reporting_component.as_deref() == Some(FIELD_MANAGER);
    let refused = events.iter().filter(is_ours).filter(|event| event.reason.as_deref() == Some("FailedScheduling"));
    let refused: Vec<_> = refused.filter_map(|event| event.message.clone()).collect();
    assert_eq!(refused, [""; 0]);
}

/// One pod on one node of a class and a pool like these. The pool lets no node go yet.
async fn one_node(ground: &Ground, class: Value, fields: &Value) -> Instance {
    ground.apply(&[ground.class(class), pool_with(fields, 0)]).await;
    ground.pool_is_ready().await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let ready = wait::until_all(ground.nodes(), Selection::all(), SOON, "the node is up", |nodes: &[Node]| {
        nodes.len() == 1 && nodes.iter().all(is_up)
    });
    ready.await.unwrap();
    Instance::clone(&ground.ec2.running()[0])
}

/// Waits until the claim says that it has drifted for `reason`, then lets it go, and waits until another node has taken its
/// place. What the claim said, and the instance of that node.
async fn replaced(ground: &Ground, reason: &str, fields: &Value) -> (String, Instance) {
    let message = ground.of_claim("Drifted", "True", reason).await;
    let changed = [pool_with(fields, 1)];
    let (rolled, ()) = tokio::join!(rolled(ground, 1), ground.apply(&changed));
    assert_eq!((rolled.least, rolled.most), (1, 1), "one is up at any time");
    ground.running(1, SOON).await;
    no_pod_was_unplaced(ground).await;
    let gone = wait::until_some("one instance runs", SOON, || async {
        Ok(<[_; 1]>::try_from(ground.ec2.running()).ok().map(|[one]| Instance::clone(&one)))
    });
    (message, gone.await.unwrap())
}

async fn start() -> (Ground, Controller) {
    let ground = Ground::bare("run ec2 suite").await;
    let controller = ground.quick_controller().await;
    (ground, controller)
}

/// A new image replaces all of so many nodes, at most `budget` at once.
async fn rolls(fleet: usize, budget: usize) {
    let (ground, _controller) = start().await;
    ground.apply(&[ground.class(json!({})), pool_with(&json!({}), budget)]).await;
    ground.pool_is_ready().await;
    ground.deploy(fleet, json!({})).await;
    ground.running(fleet, SOON * 2).await;
    let up = wait::until_all(ground.nodes(), Selection::all(), SOON, "all nodes are up", |nodes: &[Node]| {
        nodes.len() == fleet && nodes.iter().all(is_up)
    });
    up.await.unwrap();
    let old: BTreeSet<String> = ground.ec2.running().iter().map(|one| one.image.clone()).collect();

    ground.ec2.publish_images("al2023");
    let mut fewest = fleet;
    let rolled = tokio::select! {
        rolled = rolled(&ground, fleet) => rolled,
        () = fewest_running(&ground, &mut fewest) => panic!("the pods could not be counted"),
    };
    assert!(rolled.least >= fleet, "replacements first: {} nodes took pods", rolled.least);
    assert!(rolled.most <= budget, "{} nodes were leaving at once", rolled.most);
    assert!(fewest >= fleet - budget, "{fewest} pods ran");
    ground.running(fleet, SOON).await;
    no_pod_was_unplaced(&ground).await;
    let new: BTreeSet<String> = ground.ec2.running().iter().map(|one| one.image.clone()).collect();
    assert!(old.len() == 1 && new.len() == 1 && old != new, "{old:?} {new:?}");
    println!("{fleet} nodes, {budget} at once: at most {} were leaving, at least {fewest} pods ran", rolled.most);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_image_rolls_a_fleet_within_its_budget() {
    rolls(6, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: minutes of the emulated EC2"]
async fn a_published_image_rolls_twenty_nodes_within_their_budget() {
    rolls(20, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_no_longer_selected_replaces_its_node_and_says_which() {
    let (ground, _controller) = start().await;
    let old = one_node(&ground, json!({}), &json!({})).await;
    ground.ec2.publish_images("al2023");
    let (message, new) = replaced(&ground, "AMIDrift", &json!({})).await;
    let (old, new) = (old.image, new.image);
    assert_eq!(message, format!("the image is `{old}`, and EC2NodeClass `default` selects `{new}` for `m5.large`"));
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subnet_that_is_no_longer_selected_replaces_its_nodes() {
    let (ground, _controller) = start().await;
    let old = one_node(&ground, json!({}), &json!({})).await;
    let others: Vec<Value> =
        ground.subnets.values().filter(|id| **id != old.subnet).map(|id| json!({ "id": id })).collect();
    ground.apply(&[ground.class(json!({"subnetSelectorTerms": others}))]).await;
    let (message, new) = replaced(&ground, "SubnetDrift", &json!({})).await;
    assert_eq!(message, format!("EC2NodeClass `default` no longer selects the subnet `{}`", old.subnet));
    assert_ne!(new.subnet, old.subnet);
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_security_groups_replace_nodes() {
    let (ground, controller) = start().await;
    let old = one_node(&ground, json!({}), &json!({})).await;
    let subnets = ground.client.describe_subnets().subnet_ids(&old.subnet).send().await.unwrap();
    let made = ground.client.create_security_group().group_name("nodes").description("nodes");
    let made = made.vpc_id(subnets.subnets()[0].vpc_id().unwrap()).send().await.unwrap();
    let group = made.group_id().unwrap();
    let both = json!({"securityGroupSelectorTerms": [{"name": "default"}, {"id": group}]});
    ground.apply(&[ground.class(both)]).await;
    let (message, new) = replaced(&ground, "SecurityGroupDrift", &json!({})).await;
    assert!(message.contains(&format!("`{}`", old.security_groups[0])) && message.contains(group), "{message}");
    assert!(new.security_groups.iter().any(|one| one == group), "{new:?}");

    // Somebody takes a group from the instance, which nothing in the cluster says, while no controller runs.
    let one = |claims: &[DynamicObject]| claims.len() == 1;
    wait::until_all(ground.claims(), Selection::all(), SOON, "the old NodeClaim is gone", one).await.unwrap();
    drop(controller);
    ground.apply(&[pool_with(&json!({}), 0)]).await;
    ground.client.modify_instance_attribute().instance_id(&new.id).groups(group).send().await.unwrap();
    let _controller = ground.quick_controller().await;
    let changed = ground.of_claim("Drifted", "True", "SecurityGroupDrift").await;
    assert!(changed.starts_with(&format!("the security groups are `{group}`, and ")), "{changed}");
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_is_gone_replaces_its_nodes() {
    let (ground, _controller) = start().await;
    let made = ground
        .client
        .create_capacity_reservation()
        .instance_type("m5.large")
        .instance_platform(aws_sdk_ec2::types::CapacityReservationInstancePlatform::LinuxUnix)
        .availability_zone("us-east-1a")
        .instance_count(1)
        .instance_match_criteria(aws_sdk_ec2::types::InstanceMatchCriteria::Targeted)
        .send()
        .await
        .unwrap();
    let id = made.capacity_reservation().unwrap().capacity_reservation_id().unwrap().to_owned();
    let fields = json!({
        "requirements": requirements(&["m5.large"], &["us-east-1a", "us-east-1b"], &["reserved", "on-demand"]),
    });
    let class = json!({"capacityReservationSelectorTerms": [{ "id": id }]});
    let old = one_node(&ground, class, &fields).await;
    assert_eq!(old.reservation.as_ref(), Some(&id));
    ground.client.cancel_capacity_reservation().capacity_reservation_id(&id).send().await.unwrap();
    let (message, new) = replaced(&ground, "CapacityReservationDrift", &fields).await;
    assert_eq!(message, format!("EC2NodeClass `default` no longer selects the capacity reservation `{id}`"));
    assert_eq!(new.reservation, None);
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_placement_group_replaces_nodes() {
    let (ground, _controller) = start().await;
    for name in ["one", "other"] {
        let create = ground.client.create_placement_group().group_name(name);
        create.strategy(aws_sdk_ec2::types::PlacementStrategy::Spread).send().await.unwrap();
    }
    let of = |name: &str| json!({"placementGroupSelector": {"name": name}});
    let old = one_node(&ground, of("one"), &json!({})).await;
    assert_eq!(old.placement_group.as_deref(), Some("one"));
    // The hash of the class would tell first. A claim that was launched by another version is not compared with it.
    let annotation = "karpenter.k8s.aws/ec2nodeclass-hash-version=v6";
    ground.cluster().kubectl(&["annotate", "nodeclaims", "--all", "--overwrite", annotation]).await.unwrap();
    ground.apply(&[ground.class(of("other"))]).await;
    let (message, new) = replaced(&ground, "PlacementGroupDrift", &json!({})).await;
    assert!(message.starts_with("the placement group is `pg-"), "{message}");
    assert_eq!(new.placement_group.as_deref(), Some("other"));
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_that_the_region_no_longer_offers_replaces_its_nodes() {
    let (ground, controller) = start().await;
    let fields = json!({
        "requirements": requirements(&["m5.large", "m5.xlarge"], &["us-east-1a", "us-east-1b"], &["on-demand"]),
    });
    let old = one_node(&ground, json!({}), &fields).await;
    assert_eq!(old.instance_type, "m5.large");
    drop(controller);
    ground.ec2.withdraw_type("m5.large");
    let _controller = ground.quick_controller().await;
    // A type counts as gone only for a claim that is older than an hour.
    ground.launched_ago(61).await;
    let (message, new) = replaced(&ground, "InstanceTypeNotFound", &fields).await;
    assert_eq!(
        (message.as_str(), new.instance_type.as_str()),
        ("instance type `m5.large` is no longer offered", "m5.xlarge")
    );
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_is_not_ready_drifts_nothing() {
    let (ground, _controller) = start().await;
    let old = one_node(&ground, json!({}), &json!({})).await;
    // Neither the subnet of the node, nor any image.
    let other = ground.subnets.values().find(|id| **id != old.subnet).unwrap();
    let subnets = json!([{ "id": other }]);
    let images = json!([{"id": "ami-00000000000000000"}]);
    let broken = json!({"amiFamily": "AL2023", "amiSelectorTerms": images, "subnetSelectorTerms": subnets});
    ground.apply(&[ground.class(broken)]).await;
    ground.of_class("Ready", "False", "UnhealthyDependents").await;
    let says_nothing = |claims: &[DynamicObject]| {
        claims.len() == 1 && claims.iter().all(|claim| condition(claim, "Drifted").is_none())
    };
    let stays = wait::stays(ground.claims(), Selection::all(), SOON / 12, "the claim has not drifted", says_nothing);
    stays.await.unwrap();
    ground.apply(&[ground.class(json!({"subnetSelectorTerms": subnets}))]).await;
    let (message, new) = replaced(&ground, "SubnetDrift", &json!({})).await;
    assert!(message.contains(&old.subnet), "{message}");
    assert_eq!(new.subnet, *other);
    ground.clear().await;
}
