//! Launch templates: made once by content, found again, removed when nobody uses them.

use std::time::Duration;

use muster_cloud::Cloud;
use muster_tests::ec2::Calls;
use serde_json::json;

use crate::fixture::{World, request};

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
    assert_eq!(world.calls("CreateFleet").failed("InvalidLaunchTemplateName.NotFoundException").len(), 1);
}

#[tokio::test]
async fn those_that_nobody_uses_go_and_others_stay() {
    let world = World::start().await;
    world
        .client
        .create_launch_template()
        .launch_template_name("somebody-elses")
        .launch_template_data(aws_sdk_ec2::types::RequestLaunchTemplateData::builder().image_id("ami-1").build())
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
