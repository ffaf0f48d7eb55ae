//! One launch is one instance, whatever happens on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_cloud::{CapacityType, Cloud, CloudError, InstanceState};
use muster_tests::ec2::{Calls, Pool};
use serde_json::json;

use crate::aws::fixture::{World, offering, request};

const A: &str = "m5.large/us-east-1a";
const B: &str = "m5.large/us-east-1b";

#[tokio::test]
async fn it_is_launched_described_tagged_and_ended() {
    let world = World::start().await;
    let launched = world.launch("x", &[A, B]).await.instance;
    assert_eq!((launched.offering.clone(), launched.state), (offering(A), InstanceState::Pending));
    assert_eq!(launched.labels["node.kubernetes.io/instance-type"], "m5.large");
    assert_eq!(launched.labels["topology.kubernetes.io/zone"], "us-east-1a");
    assert_eq!(launched.labels["karpenter.sh/capacity-type"], "on-demand");
    assert_eq!(launched.labels["karpenter.k8s.aws/instance-family"], "m5");
    assert_eq!(launched.labels["karpenter.k8s.aws/instance-tenancy"], "default");
    assert_eq!((launched.capacity["pods"].as_str(), launched.capacity["cpu"].as_str()), ("29", "2"));
    assert_eq!(launched.annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"], "muster-v1");

    let seen = world.cloud.get(&launched.provider_id).await.unwrap();
    assert_eq!((seen.state, seen.token.clone()), (InstanceState::Running, launched.token.clone()));
    assert_eq!((&seen.offering, &seen.image_id), (&launched.offering, &launched.image_id));
    assert_eq!((&seen.capacity, &seen.allocatable), (&launched.capacity, &launched.allocatable));
    for (key, value) in [
        ("kubernetes.io/cluster/shop", "owned"),
        ("eks:eks-cluster-name", "shop"),
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("karpenter.sh/nodeclaim", "x"),
        ("muster.dev/launch-token", "uid-x.1"),
    ] {
        assert_eq!(seen.tags.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(seen.host_name.is_some_and(|name| name.ends_with(".ec2.internal")));

    world.cloud.tag(&launched.provider_id, &BTreeMap::from([("Name".to_owned(), "node-1".to_owned())])).await.unwrap();
    let listed = world.cloud.list().await.unwrap();
    assert_eq!((listed.len(), listed[0].tags["Name"].as_str()), (1, "node-1"));

    world.cloud.terminate(&launched.provider_id).await.unwrap();
    assert!(world.ec2.running().is_empty());
    let ended = world.cloud.get(&launched.provider_id).await.unwrap();
    assert!(ended.state.is_ending(), "{}", ended.state);
    assert!(world.cloud.list().await.unwrap().is_empty());
    let missing = "aws:///us-east-1a/i-00000000000000000";
    assert!(world.cloud.get(missing).await.unwrap_err().is_not_found());
    assert!(world.cloud.terminate(missing).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn user_data_has_what_the_class_the_cluster_and_the_claim_say() {
    let world = World::start().await;
    world.launch("x", &[A]).await;
    let instance = world.ec2.running()[0].clone();
    let user_data = muster_bootstrap::userdata::base64(instance.user_data.as_ref().unwrap().as_bytes()).unwrap();
    let user_data = String::from_utf8(user_data).unwrap();
    for expected in [
        "\"apiServerEndpoint\": \"https://127.0.0.1:6443\"",
        "\"maxPods\": 29",
        "\"key\": \"karpenter.sh/unregistered\"",
        "\"key\": \"team\"",
        "karpenter.sh/nodepool=default",
        "karpenter.sh/capacity-type=on-demand",
        "karpenter.k8s.aws/ec2nodeclass=default",
    ] {
        assert!(user_data.contains(expected), "{expected} in\n{user_data}");
    }
    assert!(instance.metadata.tokens_required && instance.metadata.enabled && !instance.metadata.tags);
    assert_eq!(instance.metadata.hop_limit, 1);
    assert!(instance.instance_profile.as_ref().unwrap().contains("instance-profile/karpenter/us-east-1/shop/"));
    assert_eq!(instance.security_groups.len(), 1);
}

#[tokio::test]
async fn asked_again_it_is_the_same_instance() {
    let world = World::start().await;
    let first = world.launch("x", &[A, B]).await.instance;
    assert_eq!(world.launch("x", &[A, B]).await.instance.provider_id, first.provider_id);
    // Another controller, after a crash, with other prices and other subnets in mind.
    let other = world.another_cloud();
    world.learn_with(&other, &world.class(json!({}))).await;
    let same = other.launch(&request("x", 1, &[A, B])).await.unwrap().instance;
    assert_eq!(same.provider_id, first.provider_id);
    let differing = other.launch(&request("x", 1, &[B, "m5.xlarge/us-east-1c"])).await.unwrap().instance;
    assert_eq!((&differing.provider_id, &differing.offering), (&first.provider_id, &first.offering));
    assert_eq!(differing.labels, first.labels.into_iter().filter(|(key, _)| !key.ends_with("tenancy")).collect());
    assert_eq!(world.ec2.running().len(), 1);
}

#[tokio::test]
async fn a_lost_answer_leaves_one_instance() {
    let world = World::start().await;
    // The connection is cut when the work is done: once, and then for every try.
    world.ec2.faults().cut_after(Calls::of("CreateFleet").times(1));
    world.launch("x", &[A]).await;
    assert_eq!(world.ec2.running().len(), 1);
    let rule = world.ec2.faults().cut_after(Calls::of("CreateFleet"));
    let failed = world.cloud.launch(&request("y", 1, &[A])).await.unwrap_err();
    assert!(matches!(failed.error, CloudError::Transient { .. }) && !failed.is_outcome, "{failed}");
    assert_eq!(world.ec2.running().len(), 2);
    world.ec2.faults().lift(rule);
    let launched = world.launch("y", &[A]).await.instance;
    assert_eq!(world.ec2.running().len(), 2, "the same token finds what was launched");
    assert_eq!(launched.provider_id.rsplit('/').next().unwrap(), world.ec2.running()[1].id);
}

#[tokio::test]
async fn a_token_that_launched_nothing_under_other_parameters_is_given_up_after_a_while() {
    let world = World::start().await;
    world.ec2.faults().insufficient_capacity(Pool::of("m5.large"));
    let failed = world.cloud.launch(&request("x", 1, &[A])).await.unwrap_err();
    assert!(failed.is_outcome);
    let failed = world.cloud.launch(&request("x", 1, &["m5.xlarge/us-east-1a"])).await.unwrap_err();
    assert!(!failed.is_outcome, "an instance may yet be seen: {failed}");
    world.advance(Duration::from_secs(31));
    let failed = world.cloud.launch(&request("x", 1, &["m5.xlarge/us-east-1a"])).await.unwrap_err();
    assert!(failed.is_outcome, "{failed}");
    let launched = world.cloud.launch(&request("x", 2, &["m5.xlarge/us-east-1a"])).await.unwrap();
    assert_eq!(launched.instance.offering.instance_type, "m5.xlarge");
    assert_eq!(world.ec2.running().len(), 1);
}

#[tokio::test]
async fn spot_is_bought_as_spot() {
    let world = World::start().await;
    let launched = world.launch("x", &["m5.large/us-east-1a/spot", "m5.large/us-east-1b/spot"]).await.instance;
    assert_eq!(launched.offering.capacity_type, CapacityType::Spot);
    let seen = world.cloud.get(&launched.provider_id).await.unwrap();
    assert_eq!(seen.offering, launched.offering);
    assert_eq!(seen.labels["karpenter.sh/capacity-type"], "spot");
    let call = &world.calls("CreateFleet").0[0];
    assert_eq!(call.parameter("SpotOptions.AllocationStrategy"), Some("price-capacity-optimized"));
    assert_eq!(call.parameter("TargetCapacitySpecification.TotalTargetCapacity"), Some("1"));
}

#[tokio::test]
async fn an_instance_that_ec2_does_not_show_yet_is_not_gone() {
    let world = World::start().await;
    world.ec2.faults().unseen_for(Pool::any(), Duration::from_secs(3600));
    let launched = world.launch("x", &[A]).await.instance;
    assert_eq!(world.cloud.get(&launched.provider_id).await.unwrap(), launched);
    // A controller that has just started knows nothing of it, and does not say that it is gone either.
    let fresh = world.another_cloud();
    let error = fresh.get(&launched.provider_id).await.unwrap_err();
    assert!(matches!(error, CloudError::Transient { .. }), "{error}");
    world.advance(Duration::from_secs(61));
    assert!(world.cloud.get(&launched.provider_id).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_reservation_is_filled_and_then_refuses() {
    let world = World::bare().await;
    let made = world
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
    let class = world.learn(&world.class(json!({ "capacityReservationSelectorTerms": [{ "id": id }] }))).await;
    assert_eq!(class.status.unwrap().capacity_reservations[0].instance_type, "m5.large");
    let types = world.cloud.instance_types("default").unwrap();
    let m5 = types.iter().find(|one| &*one.name == "m5.large").unwrap();
    assert_eq!(m5.offerings[0].reservation_capacity, 1);

    world.launch("bought", &[A]).await;
    let pool = format!("m5.large/us-east-1a/reserved/{id}");
    let launched = world.launch("x", &[&pool]).await.instance;
    assert_eq!(launched.offering.reservation.as_ref(), Some(&id));
    assert_eq!(launched.labels["karpenter.k8s.aws/capacity-reservation-type"], "default");
    assert_eq!(world.cloud.get(&launched.provider_id).await.unwrap().offering, launched.offering);
    let failed = world.cloud.launch(&request("y", 1, &[&pool])).await.unwrap_err();
    assert_eq!(
        failed.error.refused()[0].to_string(),
        format!("m5.large/us-east-1a/reserved/{id}: reservation used up")
    );
}

#[tokio::test]
async fn where_overlays_set_prices_their_order_decides() {
    let world = World::start().await;
    let pools = ["m5.xlarge/us-east-1a", "m5.large/us-east-1a"];
    let plain = world.launch("x", &pools).await.instance;
    assert_eq!(plain.offering.instance_type, "m5.large", "EC2 takes what it knows as the cheaper one");
    let mut wanted = request("y", 1, &pools);
    wanted.overlaid.has_prices = true;
    let first = world.cloud.launch(&wanted).await.unwrap().instance;
    assert_eq!(first.offering.instance_type, "m5.xlarge");
    let again = world.cloud.launch(&wanted).await.unwrap().instance;
    assert_eq!(again.provider_id, first.provider_id);
    let mut spot = request("z", 1, &["m5.xlarge/us-east-1a/spot", "m5.large/us-east-1a/spot"]);
    spot.overlaid.has_prices = true;
    world.cloud.launch(&spot).await.unwrap();
    let calls = world.calls("CreateFleet");
    let strategy = |call: usize| calls.0[call].parameter("OnDemandOptions.AllocationStrategy");
    assert_eq!((strategy(0), strategy(1)), (Some("lowest-price"), Some("prioritized")));
    let of_spot = calls.0.last().and_then(|call| call.parameter("SpotOptions.AllocationStrategy"));
    assert_eq!(of_spot, Some("capacity-optimized-prioritized"));
}
