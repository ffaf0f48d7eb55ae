//! Launch templates: made once by content, found again, removed when nobody uses them.

use std::time::Duration;

use aws_sdk_ec2::types::{RequestLaunchTemplateData, ResourceType, Tag, TagSpecification};
use muster_cloud::Cloud;
use muster_tests::ec2::Calls;
use serde_json::json;

use crate::aws::fixture::{World, request};

/// Three limits of pods, hence three templates: m5.large 29, m5.xlarge 58, t3.small 11.
const POOLS: [&str; 3] = ["m5.large/us-east-1a", "m5.xlarge/us-east-1a", "t3.small/us-east-1a"];

async fn names(world: &World) -> Vec<String> {
    let found = world.client.describe_launch_templates().send().await.unwrap();
    found.launch_templates().iter().map(|one| one.launch_template_name().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn one_for_each_image_and_pod_limit_and_no_more() {
    let world = World::start().await;
    for name in ["a", "b", "c"] {
        world.launch(name, &POOLS).await;
    }
    assert_eq!(world.calls("CreateLaunchTemplate").len(), 3);
    assert_eq!(names(&world).await.len(), 3);
    // A controller that starts looks what there is.
    let other = world.another_cloud();
    world.learn_with(&other, &world.class(json!({}))).await;
    assert_eq!(other.learn_templates().await.unwrap(), 3);
    other.launch(&request("d", 1, &POOLS)).await.unwrap();
    // One that does not look makes none twice either.
    let blind = world.another_cloud();
    world.learn_with(&blind, &world.class(json!({}))).await;
    blind.launch(&request("e", 1, &POOLS)).await.unwrap();
    assert_eq!(names(&world).await.len(), 3);
    assert_eq!(world.ec2.running().len(), 5);
}

#[tokio::test]
async fn many_launches_at_once_make_each_once() {
    let world = World::start().await;
    let launches = (0..20).map(|number| {
        let cloud = world.cloud.clone();
        tokio::spawn(async move { cloud.launch(&request(&format!("c{number}"), 1, &POOLS)).await })
    });
    for launch in launches.collect::<Vec<_>>() {
        launch.await.unwrap().unwrap();
    }
    assert_eq!((world.ec2.running().len(), world.calls("CreateLaunchTemplate").len()), (20, 3));
}

#[tokio::test]
async fn one_that_somebody_removed_is_made_again() {
    let world = World::start().await;
    world.launch("a", &POOLS).await;
    for name in names(&world).await {
        world.client.delete_launch_template().launch_template_name(name).send().await.unwrap();
    }
    world.launch("b", &POOLS).await;
    assert_eq!(world.ec2.running().len(), 2);
    assert_eq!(world.calls("CreateFleet").failed("InvalidLaunchTemplateId.NotFound").len(), 1);
}

#[tokio::test]
async fn those_that_nobody_uses_go_and_others_stay() {
    let world = World::start().await;
    world
        .client
        .create_launch_template()
        .launch_template_name("somebody-elses")
        .launch_template_data(RequestLaunchTemplateData::builder().image_id("ami-1").build())
        .send()
        .await
        .unwrap();
    world.launch("a", &POOLS).await;
    assert_eq!(world.cloud.collect_templates().await.unwrap(), 0, "they have just been used");
    world.advance(Duration::from_secs(3500));
    world.launch("b", &POOLS[..1]).await;
    world.advance(Duration::from_secs(200));
    assert_eq!(world.cloud.collect_templates().await.unwrap(), 2);
    assert_eq!(names(&world).await.len(), 2, "one that is used, and one of somebody else");
    world.launch("c", &POOLS).await;
    assert_eq!(world.cloud.remove_templates("default").await.unwrap(), 3);
    assert_eq!(names(&world).await, ["somebody-elses"]);
    world.ec2.faults().cut_after(Calls::of("DeleteLaunchTemplate").times(1));
    world.launch("d", &POOLS[..1]).await;
    assert_eq!(world.cloud.remove_templates("default").await.unwrap(), 1, "one that is gone is removed");
}

/// Puts another template in the place of ours: with its name and this image, other user data, and its tags if it is to
/// look like it. Its ID.
async fn squat(world: &World, ours: &str, name: &str, image: &str, looks_like_ours: bool) -> String {
    let described = world.client.describe_launch_templates().launch_template_ids(ours).send().await.unwrap();
    let seen = described.launch_templates()[0].tags().to_vec();
    world.client.delete_launch_template().launch_template_id(ours).send().await.unwrap();
    let tags = if looks_like_ours { seen } else { vec![Tag::builder().key("owner").value("them").build()] };
    let data = RequestLaunchTemplateData::builder().image_id(image).user_data("ZXZpbA==").build();
    let tagged = TagSpecification::builder().resource_type(ResourceType::LaunchTemplate).set_tags(Some(tags)).build();
    let made = world.client.create_launch_template().launch_template_name(name).launch_template_data(data);
    let made = made.tag_specifications(tagged).send().await.unwrap();
    made.launch_template().unwrap().launch_template_id().unwrap().to_owned()
}

#[tokio::test]
async fn one_that_somebody_else_has_made_under_our_name_is_not_believed() {
    for (looks_like_ours, looks) in [(false, false), (true, false), (true, true)] {
        let world = World::start().await;
        world.launch("a", &POOLS[..1]).await;
        let first = world.ec2.running()[0].clone();
        let ours = first.launch_template.clone().unwrap();
        let theirs = squat(&world, &ours.id, &ours.name, &first.image, looks_like_ours).await;
        // A controller that has just started, and one that looks first what there is.
        let other = world.another_cloud();
        world.learn_with(&other, &world.class(json!({}))).await;
        if looks {
            assert_eq!(other.learn_templates().await.unwrap(), 1);
        }
        other.launch(&request("b", 1, &POOLS[..1])).await.unwrap();
        let second = world.ec2.running().into_iter().find(|one| one.id != first.id).unwrap();
        let template = second.launch_template.clone().unwrap();
        assert!(template.id != theirs && template.name != ours.name, "{template:?}");
        assert_eq!(second.user_data, first.user_data);
        // The next one finds ours beside theirs.
        let third = world.another_cloud();
        world.learn_with(&third, &world.class(json!({}))).await;
        third.launch(&request("c", 1, &POOLS[..1])).await.unwrap();
        assert_eq!(names(&world).await.len(), 2);
    }
}
