//! A full capacity reservation: nothing can be launched beside its nodes, so each goes before its replacement.

use std::collections::BTreeSet;

use aws_sdk_ec2::types::{CapacityReservationInstancePlatform, InstanceMatchCriteria};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::ListParams;
use muster_controller::run::Options;
use muster_scheduling::disrupt::{Settings, TerminateFirst};
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::super::disruption::{is_leaving, is_up};
use super::ground::{CONTROLLER, Ground, SOON, pool, requirements};

/// Instances of the reservation.
const SIZE: usize = 3;

async fn reservation(ground: &Ground) -> String {
    let create = ground.client.create_capacity_reservation().instance_type("m5.large");
    let create = create.instance_platform(CapacityReservationInstancePlatform::LinuxUnix);
    let create = create.availability_zone("us-east-1a").instance_count(i32::try_from(SIZE).unwrap());
    let made = create.instance_match_criteria(InstanceMatchCriteria::Targeted).send().await.unwrap();
    made.capacity_reservation().unwrap().capacity_reservation_id().unwrap().to_owned()
}

fn goes_first(options: Options) -> Options {
    let terminate_first = TerminateFirst { drift: true, repair: false };
    let disruption = Settings { terminate_first, ..options.disruption };
    Options { disruption, ..options }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_full_reservation_go_one_by_one_before_what_replaces_them() {
    let ground = Ground::bare("run ec2 suite").await;
    let id = reservation(&ground).await;
    let mut pool = pool(&json!({"requirements": requirements(&["m5.large"], &["us-east-1a"], &["reserved"])}));
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]);
    let class = ground.class(json!({"capacityReservationSelectorTerms": [{ "id": id }]}));
    let replacing = ground.quick_controller().await;
    ground.apply(&[class, pool]).await;
    ground.pool_is_ready().await;
    ground.deploy(SIZE, json!({})).await;
    ground.running(SIZE, SOON * 2).await;
    let are_up = |nodes: &[Node]| nodes.len() == SIZE && nodes.iter().all(is_up);
    wait::until_all(ground.nodes(), Selection::all(), SOON, "all nodes are up", are_up).await.unwrap();
    let before: BTreeSet<String> = names(&ground).await;
    assert!(ground.ec2.running().iter().all(|one| one.reservation.as_ref() == Some(&id)), "the reservation is full");

    // Without the gate nothing goes, because nothing can come.
    ground.ec2.publish_images("al2023");
    ground.of_claim("Drifted", "True", "AMIDrift").await;
    let stay = |nodes: &[Node]| nodes.len() == SIZE && nodes.iter().all(|node| is_up(node) && !is_leaving(node));
    wait::stays(ground.nodes(), Selection::all(), SOON / 12, "all nodes stay", stay).await.unwrap();
    drop(replacing);

    let _controller = ground.quick_controller_with(goes_first).await;
    let (mut least, mut most) = (SIZE, 0);
    let replaced = wait::until_all(ground.nodes(), Selection::all(), SOON * 2, "all nodes are replaced", |nodes| {
        let stands = |node: &&Node| node.metadata.deletion_timestamp.is_none();
        least = least.min(nodes.iter().filter(stands).filter(|node| is_up(node)).count());
        most = most.max(nodes.iter().filter(stands).count());
        nodes.len() == SIZE && nodes.iter().all(|node| is_up(node) && !before.contains(&node.name_any()))
    });
    replaced.await.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    // The next one may go while the replacement of the last one starts: budgets do not count nodes that start.
    assert!(least > 0 && most == SIZE, "{least} to {most}: not all go at once, and none comes before one has gone");
    ground.running(SIZE, SOON).await;
    assert!(ground.ec2.running().iter().all(|one| one.reservation.as_ref() == Some(&id)), "the reservation is full");
    ground.clear().await;
}

async fn names(ground: &Ground) -> BTreeSet<String> {
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    nodes.iter().map(ResourceExt::name_any).collect()
}
