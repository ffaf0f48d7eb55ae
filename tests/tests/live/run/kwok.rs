//! The cloud of `--cloud kwok` on a real API server.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use muster_api::NodeClassReference;
use muster_cloud::{
    Alternative, CapacityType, Cloud, InstanceState, LaunchRequest, LaunchToken, Offering, Overlaid, alternatives,
};
use muster_controller::kwok::{Kwok, instance_types};
use muster_scheduling::model::{Catalogue, Requirements, Resources};
use muster_tests::wait;
use serde_json::json;

use super::ground::{Ground, SOON};

fn request(claim: &str, class: &str) -> LaunchRequest {
    let offering = Offering {
        instance_type: "c-4x-amd64-linux".to_owned(),
        zone: "test-zone-c".to_owned(),
        capacity_type: CapacityType::Spot,
        reservation: None,
    };
    LaunchRequest {
        token: LaunchToken { claim_uid: format!("uid-of-{claim}"), attempt: 1 },
        claim: claim.to_owned(),
        pool: Some("general".to_owned()),
        class: NodeClassReference {
            group: "karpenter.kwok.sh".to_owned(),
            kind: "KWOKNodeClass".to_owned(),
            name: class.to_owned(),
        },
        alternatives: vec![Alternative { offering, price: 0.076 }],
        keeps_choice: false,
        labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "general".to_owned())]),
        taints: Vec::new(),
        requests: BTreeMap::from([("cpu".to_owned(), "1".to_owned())]),
        has_network_devices: false,
        tags: BTreeMap::new(),
        overlaid: Overlaid::default(),
    }
}

async fn count(nodes: &Api<Node>) -> usize {
    nodes.list(&ListParams::default()).await.unwrap().items.len()
}

#[tokio::test]
async fn a_launch_is_idempotent_and_the_node_is_the_instance() {
    let ground = Ground::new("run suite").await;
    let cloud = Kwok::new(ground.client(), Catalogue::new(instance_types()));
    let one = cloud.launch(&request("a", "default")).await.unwrap().instance;
    assert_eq!((one.allocatable["cpu"].as_str(), one.capacity["cpu"].as_str()), ("3900m", "1"));
    let again = cloud.launch(&request("a", "default")).await.unwrap().instance;
    assert_eq!((&again.provider_id, &again.token), (&one.provider_id, &one.token));
    // Another process, which remembers nothing.
    let other = Kwok::new(ground.client(), Catalogue::new(instance_types()));
    assert_eq!(other.launch(&request("a", "default")).await.unwrap().instance.provider_id, one.provider_id);
    assert_eq!(count(&ground.nodes()).await, 1);
    assert_eq!(other.list().await.unwrap().len(), 1);
    assert_eq!(other.get(&one.provider_id).await.unwrap().offering, one.offering);

    // Who holds its deletion up does not keep it alive.
    let name = one.provider_id.strip_prefix("kwok://").unwrap();
    ground
        .cluster()
        .kubectl(&["patch", "node", name, "-p", r#"{"metadata":{"finalizers":["example.com/x"]}}"#])
        .await
        .unwrap();
    cloud.terminate(&one.provider_id).await.unwrap();
    assert!(cloud.get(&one.provider_id).await.unwrap_err().is_not_found());
    assert!(cloud.terminate(&one.provider_id).await.unwrap_err().is_not_found());
    assert!(cloud.list().await.unwrap().is_empty());
    ground.cluster().kubectl(&["patch", "node", name, "-p", r#"{"metadata":{"finalizers":null}}"#]).await.unwrap();
    wait::until_gone(ground.nodes(), name, SOON).await.unwrap();
}

#[tokio::test]
async fn a_node_that_takes_its_time_is_an_instance_meanwhile() {
    let ground = Ground::new("run suite").await;
    ground
        .apply(&[json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "slow"},
            "spec": {"nodeRegistrationDelay": "2s"},
        })])
        .await;
    let cloud = Kwok::new(ground.client(), Catalogue::new(instance_types()));
    let coming = cloud.launch(&request("b", "slow")).await.unwrap().instance;
    assert_eq!((coming.state, count(&ground.nodes()).await), (InstanceState::Pending, 0));
    assert_eq!(cloud.launch(&request("b", "slow")).await.unwrap().instance.provider_id, coming.provider_id);
    assert_eq!(cloud.list().await.unwrap().len(), 1);
    let name = coming.provider_id.strip_prefix("kwok://").unwrap().to_owned();
    wait::until(ground.nodes(), &name, SOON, "it is there", |_| true).await.unwrap();

    // What is ended before it has come never comes.
    let never = cloud.launch(&request("c", "slow")).await.unwrap().instance;
    cloud.terminate(&never.provider_id).await.unwrap();
    assert!(cloud.get(&never.provider_id).await.unwrap_err().is_not_found());
    let no_other = |nodes: &[Node]| nodes.iter().all(|node| node.name_any() == name);
    let span = Duration::from_secs(4);
    wait::stays(ground.nodes(), wait::Selection::all(), span, "there is no other Node", no_other).await.unwrap();
}

#[test]
fn what_fits_is_offered_with_ties_in_four_zones() {
    let catalogue = Catalogue::new(instance_types());
    let all = alternatives(&catalogue, &Requirements::new(), &Resources::new());
    let cheapest = all.iter().filter(|one| (one.price - all[0].price).abs() < 1e-9).count();
    assert_eq!(cheapest, 16, "two systems, two architectures, four zones");
}
