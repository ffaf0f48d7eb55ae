//! What the selectors of a class find, and the status that follows.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::nodeclass::{Ami, Ec2NodeClassStatus};
use muster_aws::AwsFeatureGates;
use muster_aws::discovery::{Found, judge};
use muster_aws::launch::Cluster;
use muster_aws::live::{Clock, Connection};
use muster_tests::ec2::Calls;
use serde_json::json;

use crate::aws::fixture::{World, cluster};

/// `SubnetsReady=False SubnetsNotFound`, for those that are not true.
fn faults(status: &Ec2NodeClassStatus) -> Vec<String> {
    let untrue = status.conditions.iter().filter(|one| one.status != "True");
    untrue.map(|one| format!("{}={} {}", one.type_, one.status, one.reason)).collect()
}

fn named(amis: &[Ami]) -> Vec<&str> {
    amis.iter().filter_map(|ami| ami.name.as_deref()).collect()
}

#[tokio::test]
async fn eks_says_what_nodes_have_to_know_of_their_cluster() {
    let world = World::bare().await;
    let config = world.ec2.sdk_config("operator");
    let network = aws_sdk_eks::types::VpcConfigRequest::builder().subnet_ids(&world.subnets["us-east-1a"]).build();
    let eks = aws_sdk_eks::Client::new(&config);
    let create = eks.create_cluster().name("shop").version("1.35").role_arn("arn:aws:iam::123456789012:role/eks");
    let made = create.resources_vpc_config(network).send().await.unwrap();
    let aws = Connection::new(&config).unwrap();
    let clock: Clock = Arc::new(Timestamp::now);
    let found = Cluster::described(&aws, "shop", Arc::clone(&clock)).await.unwrap();
    assert_eq!((found.name.as_str(), found.kubernetes.as_str()), ("shop", "1.35"));
    assert_eq!(Some(found.endpoint.as_str()), made.cluster().unwrap().endpoint());
    assert!(!found.certificate_authority.is_empty());
    let error = Cluster::described(&aws, "none", clock).await.unwrap_err();
    assert_eq!(error.to_string(), "`cluster none` does not exist");
}

#[tokio::test]
async fn a_class_in_order_is_ready() {
    let world = World::bare().await;
    let (found, status) = world.judged(&world.class(json!({}))).await;
    assert_eq!(faults(&status), Vec::<String>::new());
    assert_eq!(status.subnets.len(), world.subnets.len());
    assert!(status.subnets.iter().all(|subnet| subnet.zone_id.is_some()));
    assert_eq!(status.security_groups[0].name.as_deref(), Some("default"));
    assert!(found.addresses().iter().all(|(_, free)| *free > 0));
    let profile = status.instance_profile.unwrap();
    assert!(profile.starts_with("shop_"), "{profile}");
    let ready = status.conditions.last().unwrap();
    assert_eq!((ready.type_.as_str(), ready.observed_generation), ("Ready", Some(1)));
    // What is there is not made again.
    let (_, again) = world.judged(&world.class(json!({}))).await;
    assert_eq!(again.instance_profile, Some(profile));
    assert_eq!(world.calls("CreateInstanceProfile").len(), 1);
    assert_eq!(world.cloud.remove_profiles(&world.class(json!({}))).await.unwrap(), 1);
    assert_eq!(world.cloud.remove_profiles(&world.class(json!({}))).await.unwrap(), 0);
}

#[tokio::test]
async fn a_profile_that_karpenter_has_created_stays_in_use() {
    let world = World::bare().await;
    let iam = aws_sdk_iam::Client::new(&world.ec2.sdk_config("karpenter"));
    let mut class = world.class(json!({}));
    let uid = class.metadata.uid.clone().unwrap();
    let tag = |key: &str, value: &str| aws_sdk_iam::types::Tag::builder().key(key).value(value).build().unwrap();
    let tags = [tag("kubernetes.io/cluster/shop", "owned"), tag("karpenter.k8s.aws/ec2nodeclass", "default")];
    // By its path, by its tags where an older release has created it elsewhere, and one of somebody else.
    let by_path = ("shop_1", format!("/karpenter/us-east-1/shop/{uid}/"), None);
    let by_tags = ("shop_2", "/".to_owned(), Some(tags.to_vec()));
    for (name, path, tags) in [by_path, by_tags, ("theirs", "/".to_owned(), None)] {
        iam.create_instance_profile().instance_profile_name(name).path(path).set_tags(tags).send().await.unwrap();
        iam.add_role_to_instance_profile().instance_profile_name(name).role_name("nodes").send().await.unwrap();
    }
    for (name, stays) in [("shop_1", true), ("shop_2", true), ("theirs", false), ("gone", false)] {
        class.status = Some(Ec2NodeClassStatus { instance_profile: Some(name.to_owned()), ..Default::default() });
        let (_, status) = world.judged(&class).await;
        assert_eq!(status.instance_profile.as_deref() == Some(name), stays, "{name}");
    }
    class.status = Some(Ec2NodeClassStatus { instance_profile: Some("shop_2".to_owned()), ..Default::default() });
    assert_eq!(world.cloud.remove_profiles(&class).await.unwrap(), 3, "ours, and both of Karpenter");
    let left = iam.list_instance_profiles().send().await.unwrap();
    let left: Vec<&str> = left.instance_profiles().iter().map(|one| one.instance_profile_name()).collect();
    assert_eq!(left, ["theirs"]);
}

#[tokio::test]
async fn images_by_alias_id_name_and_parameter() {
    let world = World::bare().await;
    let (_, al2023) = world.judged(&world.class(json!({}))).await;
    assert_eq!(al2023.amis.len(), 5);
    assert!(named(&al2023.amis).iter().all(|name| name.ends_with("-v20260601")), "{:?}", named(&al2023.amis));
    world.ec2.publish_images("al2023");
    let (_, newer) = world.judged(&world.class(json!({}))).await;
    assert!(named(&newer.amis).iter().all(|name| name.ends_with("-v20260801")));
    let pinned = json!({ "amiSelectorTerms": [{ "alias": "al2023@v20260601" }] });
    assert_eq!(world.judged(&world.class(pinned)).await.1.amis, al2023.amis);

    for (terms, count) in [
        (json!([{ "alias": "bottlerocket@latest" }]), 5),
        (json!([{ "alias": "windows2022@latest" }]), 1),
        (json!([{ "id": al2023.amis[0].id }]), 1),
        (json!([{ "name": "amazon-eks-node-al2023-*-standard-1.35-v20260601" }]), 2),
        (
            json!([{ "ssmParameter":
                "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/recommended/image_id" }]),
            1,
        ),
    ] {
        let family = if terms[0]["alias"].is_null() { json!("AL2023") } else { json!(null) };
        let class = world.class(json!({ "amiSelectorTerms": terms, "amiFamily": family }));
        let (_, status) = world.judged(&class).await;
        assert_eq!((status.amis.len(), faults(&status)), (count, Vec::new()), "{terms}");
    }
}

#[tokio::test]
async fn what_is_not_found_is_said() {
    let world = World::bare().await;
    for (fields, expected) in [
        (
            json!({ "subnetSelectorTerms": [{ "tags": { "no": "such" } }] }),
            vec!["SubnetsReady=False SubnetsNotFound", "ValidationSucceeded=False DependenciesNotReady"],
        ),
        (
            json!({ "securityGroupSelectorTerms": [{ "name": "none" }] }),
            vec!["SecurityGroupsReady=False SecurityGroupsNotFound", "ValidationSucceeded=False DependenciesNotReady"],
        ),
        (
            json!({ "amiSelectorTerms": [{ "alias": "al2@latest" }] }),
            vec!["AMIsReady=False UnsupportedAlias", "ValidationSucceeded=False DependenciesNotReady"],
        ),
        (
            json!({ "amiSelectorTerms": [{ "id": "ami-0123456789abcdef0" }], "amiFamily": "AL2023" }),
            vec!["AMIsReady=False AMINotFound", "ValidationSucceeded=False DependenciesNotReady"],
        ),
        (
            json!({ "role": "nobody" }),
            vec!["InstanceProfileReady=Unknown NotFound", "ValidationSucceeded=Unknown DependenciesNotReady"],
        ),
        (
            json!({ "placementGroupSelector": { "name": "none" } }),
            vec!["PlacementGroupReady=False PlacementGroupNotFound"],
        ),
        (json!({ "tags": { "muster.dev/launch-token": "x" } }), vec!["ValidationSucceeded=False TagValidationFailed"]),
    ] {
        let (_, status) = world.judged(&world.class(fields.clone())).await;
        let mut seen = faults(&status);
        let ready = seen.pop().unwrap_or_default();
        assert_eq!(seen, expected, "{fields}");
        assert!(ready.starts_with("Ready="), "{fields}: {ready}");
    }
}

#[tokio::test]
async fn user_data_that_makes_no_node_is_found_before_a_launch() {
    let world = World::bare().await;
    let broken = "MIME-Version: 1.0\nContent-Type: text/plain\n\n#!/bin/sh\n";
    let (_, status) = world.judged(&world.class(json!({ "userData": broken }))).await;
    let condition = status.conditions.iter().find(|one| one.type_ == "BootstrapValid").unwrap();
    assert_eq!(condition.status, "False", "{}", condition.message);
    assert!(condition.message.starts_with(&format!("{}: ", condition.reason)), "{}", condition.message);
    assert!(condition.message.contains("Cause: ") && condition.message.contains("Fix: "), "{}", condition.message);
    // It is not part of Ready: the lifecycle refuses to launch by itself, and says why on the claim.
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!(ready.status, "True");
}

#[tokio::test]
async fn what_was_known_stays_when_it_cannot_be_looked_up_again() {
    let world = World::bare().await;
    let class = world.learn(&world.class(json!({}))).await;
    let rule = world.ec2.faults().unauthorized(Calls::of("DescribeSubnets").by(crate::aws::fixture::CONTROLLER));
    let (found, status) = world.judged(&class).await;
    assert!(found.subnets.unwrap_err().to_string().starts_with("not authorized to perform ec2:DescribeSubnets"));
    assert_eq!(Some(status.subnets.len()), class.status.as_ref().map(|status| status.subnets.len()));
    assert_eq!(faults(&status), Vec::<String>::new());
    // A class that was never looked up says what is missing.
    let (_, status) = world.judged(&world.class(json!({}))).await;
    assert_eq!(faults(&status)[0], "SubnetsReady=Unknown Unauthorized");
    let message = &status.conditions.iter().find(|one| one.type_ == "SubnetsReady").unwrap().message;
    assert!(message.contains("ec2:DescribeSubnets"), "{message}");
    world.ec2.faults().lift(rule);
}

#[tokio::test]
async fn a_trial_launches_nothing_and_names_what_is_missing() {
    let world = World::start().await;
    world.cloud.try_out("default").await.unwrap();
    assert!(world.ec2.running().is_empty());
    let class = world.class(json!({}));
    for (call, reason) in [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ] {
        let rule = world.ec2.faults().unauthorized(Calls::of(call).by(crate::aws::fixture::CONTROLLER));
        // A controller that knows of no template makes one.
        let fresh = world.another_cloud();
        world.learn_with(&fresh, &class).await;
        let trial = fresh.try_out("default").await;
        let found = Found { trial: Some(trial), ..world.cloud.look_up(&class).await };
        let status = judge(&class, &cluster(), &found, AwsFeatureGates::default(), world.now());
        assert_eq!(faults(&status)[0], format!("ValidationSucceeded=False {reason}"));
        let condition = status.conditions.iter().find(|one| one.type_ == "ValidationSucceeded").unwrap();
        assert!(
            condition.message.starts_with(&format!("not authorized to perform ec2:{call}: ")),
            "{}",
            condition.message
        );
        world.ec2.faults().lift(rule);
    }
}
