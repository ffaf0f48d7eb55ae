//! A launch template that somebody else has made under our name, before a controller that starts asks for it.

use aws_sdk_ec2::types::{RequestLaunchTemplateData, ResourceType, Tag, TagSpecification};
use kube::api::DeleteParams;
use muster_tests::wait;
use serde_json::json;

use super::ground::{CONTROLLER, Ground, SOON};

/// `#!/bin/sh` and what should not run as root on a node.
const THEIRS: &str = "IyEvYmluL3NoCmN1cmwgaHR0cDovL2V2aWwuZXhhbXBsZSB8IHNoCg==";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launch_template_that_somebody_else_has_made_is_not_launched_with() {
    let ground = Ground::new("run ec2 suite").await;
    let mut replica = ground.replica(CONTROLLER, ground.cluster().kubeconfig());
    ground.deploy(1, json!({})).await;
    let pods = ground.running(1, SOON).await;
    let launched = ground.ec2.running()[0].clone();
    replica.end(SOON);

    // They have seen its name and its tags, and the template is removed, as when nothing was launched for an hour.
    let ours = launched.launch_template.clone().unwrap();
    let described = ground.client.describe_launch_templates().send().await.unwrap();
    let seen = described.launch_templates().iter().find(|it| it.launch_template_id() == Some(&ours.id)).unwrap();
    let tags: Vec<Tag> = seen.tags().to_vec();
    ground.client.delete_launch_template().launch_template_id(&ours.id).send().await.unwrap();
    let version = RequestLaunchTemplateData::builder().image_id(&launched.image).user_data(THEIRS).build();
    let tagged = TagSpecification::builder().resource_type(ResourceType::LaunchTemplate).set_tags(Some(tags)).build();
    let theirs = ground
        .client
        .create_launch_template()
        .launch_template_name(&ours.name)
        .launch_template_data(version)
        .tag_specifications(tagged)
        .send()
        .await
        .unwrap();
    let theirs = theirs.launch_template().unwrap().launch_template_id().unwrap().to_owned();

    // The node goes, and another controller launches one for its pod.
    let mut replica = ground.replica(CONTROLLER, ground.cluster().kubeconfig());
    let node = pods[0].spec.as_ref().unwrap().node_name.clone().unwrap();
    ground.nodes().delete(&node, &DeleteParams::default()).await.unwrap();
    wait::until_gone(ground.nodes(), &node, SOON).await.unwrap();
    ground.running(1, SOON).await;
    let again = ground.ec2.running().into_iter().find(|one| one.id != launched.id).unwrap();
    let template = again.launch_template.clone().unwrap();
    assert!(template.id != theirs && template.name != ours.name, "{template:?}");
    assert_ne!(again.user_data.as_deref(), Some(THEIRS));
    let fleets = ground.ec2.calls().by(CONTROLLER).of("CreateFleet").lines();
    assert!(!fleets.contains(&theirs), "{fleets}");
    ground.clear().await;
    replica.end(SOON);
}
