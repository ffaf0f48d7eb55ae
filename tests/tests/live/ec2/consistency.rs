//! Eventual consistency: what is made is not seen by every call at once.

use std::time::Duration;

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::Tag;
use muster_tests::ec2::Pool;

use crate::ec2::sdk::Fixture;

#[tokio::test]
async fn an_instance_is_found_when_the_clock_has_moved_on() {
    let world = Fixture::start().await;
    world.ec2.clock().hold();
    world.ec2.faults().unseen_for(Pool::any().times(1), Duration::from_secs(20));
    let late = world.launch("m5.large/us-east-1a").await;
    let seen = world.launch("m5.large/us-east-1a").await;
    let list = || async {
        let answer = world.client.describe_instances().send().await.unwrap();
        let instances = answer.reservations().iter().flat_map(|reservation| reservation.instances());
        instances.map(|instance| instance.instance_id().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list().await, std::slice::from_ref(&seen));
    let by_id = || world.client.describe_instances().instance_ids(&late).send();
    assert_eq!(by_id().await.unwrap_err().code(), Some("InvalidInstanceID.NotFound"));
    let tag = Tag::builder().key("Name").value("node").build();
    let tags = || world.client.create_tags().resources(&late).tags(tag.clone()).send();
    assert_eq!(tags().await.unwrap_err().code(), Some("InvalidInstanceID.NotFound"));
    let end = || world.client.terminate_instances().instance_ids(&late).send();
    assert_eq!(end().await.unwrap_err().code(), Some("InvalidInstanceID.NotFound"));
    assert_eq!(world.ec2.running().len(), 2, "it runs all the while");

    world.ec2.clock().advance(Duration::from_secs(20));
    assert_eq!(list().await.len(), 2);
    by_id().await.unwrap();
    tags().await.unwrap();
    end().await.unwrap();
}
