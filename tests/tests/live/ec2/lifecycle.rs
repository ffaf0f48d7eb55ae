//! What EC2 tells of its instances: EventBridge, SQS, instance profiles.

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::{
    InstanceStateName, LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest,
    LaunchTemplateInstanceMetadataOptionsRequest, RequestLaunchTemplateData, SpotAllocationStrategy,
};
use aws_sdk_eventbridge::types::Target;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use crate::ec2::sdk::{Fixture, client, refused};

/// A queue with the rule that Karpenter's CloudFormation makes.
async fn queue(world: &Fixture) -> (aws_sdk_sqs::Client, String) {
    let who = world.ec2.credentials("operator");
    let sqs = client!(aws_sdk_sqs, world.ec2, who);
    let url = sqs.create_queue().queue_name("interruptions").send().await.unwrap().queue_url().unwrap().to_owned();
    let arn = sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::QueueArn);
    let arn = arn.send().await.unwrap().attributes().unwrap()[&QueueAttributeName::QueueArn].clone();
    let events = client!(aws_sdk_eventbridge, world.ec2, who);
    let pattern = r#"{ "source": ["aws.ec2"] }"#;
    events.put_rule().name("ec2").event_pattern(pattern).send().await.unwrap();
    let target = Target::builder().id("queue").arn(arn).build().unwrap();
    events.put_targets().rule("ec2").targets(target).send().await.unwrap();
    (sqs, url)
}

/// The next `count` messages, each as `detail-type` and `detail`.
async fn receive(sqs: &aws_sdk_sqs::Client, url: &str, count: usize) -> Vec<(String, Value)> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let answer =
            sqs.receive_message().queue_url(url).wait_time_seconds(20).max_number_of_messages(10).send().await.unwrap();
        assert!(!answer.messages().is_empty(), "only {messages:?}");
        for message in answer.messages() {
            let body: Value = serde_json::from_str(message.body().unwrap()).unwrap();
            messages.push((body["detail-type"].as_str().unwrap().to_owned(), body["detail"].clone()));
            sqs.delete_message().queue_url(url).receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
        }
    }
    messages
}

#[tokio::test]
async fn an_interruption_is_announced_on_the_queue_and_then_comes() {
    let world = Fixture::start().await;
    let (sqs, url) = queue(&world).await;
    let made = world.fleet(&["m5.large/us-east-1a"], 1).spot(SpotAllocationStrategy::LowestPrice).send().await;
    let id = made.instances()[0].instance_ids()[0].clone();
    let started = receive(&sqs, &url, 2).await;
    assert_eq!(
        started.iter().map(|(_, detail)| detail["state"].as_str().unwrap()).collect::<Vec<_>>(),
        ["pending", "running"]
    );

    world.ec2.warn_of_interruption(&id).await.unwrap();
    let (kind, detail) = receive(&sqs, &url, 1).await.remove(0);
    assert_eq!(kind, "EC2 Spot Instance Interruption Warning");
    assert_eq!(
        (detail["instance-id"].as_str(), detail["instance-action"].as_str()),
        (Some(id.as_str()), Some("terminate"))
    );
    world.ec2.interrupt(&id).await.unwrap();
    let ended = receive(&sqs, &url, 2).await;
    assert_eq!(ended[0].1["state"], "shutting-down");
    let instance = world.describe(&id).await;
    assert_eq!(instance.state().unwrap().name(), Some(&InstanceStateName::Terminated));
    assert_eq!(instance.state_reason().unwrap().code(), Some("Server.SpotInstanceTermination"));
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_the_error_that_sqs_models() {
    let world = Fixture::start().await;
    let sqs = client!(aws_sdk_sqs, world.ec2, world.ec2.credentials("controller"));
    let error = sqs.get_queue_url().queue_name("none").send().await.unwrap_err().into_service_error();
    assert!(error.is_queue_does_not_exist(), "{error:?}");
}

#[tokio::test]
async fn profile_and_metadata_options_of_the_template_are_the_instances() {
    let world = Fixture::start().await;
    let profile = LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name("nodes").build();
    let metadata = LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_tokens(LaunchTemplateHttpTokensState::Required)
        .http_put_response_hop_limit(2)
        .build();
    let data = RequestLaunchTemplateData::builder()
        .image_id(world.image("x86_64").await)
        .iam_instance_profile(profile)
        .metadata_options(metadata)
        .build();
    world.client.create_launch_template().launch_template_name("iam").launch_template_data(data).send().await.unwrap();
    let fleet = world.fleet(&["m5.large/us-east-1a"], 2).template("iam");
    let error = fleet.send().await;
    assert_eq!(refused(&error), ["m5.large us-east-1a: InvalidParameterValue"]);
    assert!(error.errors()[0].error_message().unwrap().contains("Invalid IAM Instance Profile name"));

    let iam = client!(aws_sdk_iam, world.ec2, world.ec2.credentials("operator"));
    iam.create_instance_profile().instance_profile_name("nodes").send().await.unwrap();
    let made = fleet.send().await;
    for id in made.instances()[0].instance_ids() {
        let instance = world.describe(id).await;
        assert!(instance.iam_instance_profile().unwrap().arn().unwrap().ends_with(":instance-profile/nodes"));
        assert_eq!(instance.metadata_options().unwrap().http_put_response_hop_limit(), Some(2));
    }
    assert!(
        world
            .ec2
            .running()
            .iter()
            .all(|instance| instance.metadata.tokens_required && instance.metadata.hop_limit == 2)
    );
    let gone = iam.get_instance_profile().instance_profile_name("none").send().await.unwrap_err().into_service_error();
    assert!(gone.is_no_such_entity_exception());
}

#[tokio::test]
async fn run_instances_launches_as_many_as_there_are() {
    let world = Fixture::start().await;
    world.ec2.faults().capacity(muster_tests::ec2::Pool::of("m5.large"), 2);
    let image = world.image("x86_64").await;
    let run = |least| {
        let run = world.once.run_instances().image_id(&image).instance_type("m5.large".into());
        run.min_count(least).max_count(3).send()
    };
    assert_eq!(run(3).await.unwrap_err().code(), Some("InsufficientInstanceCapacity"));
    assert_eq!(run(1).await.unwrap().instances().len(), 2);
}

#[tokio::test]
async fn what_a_test_leaves_behind_is_listed() {
    let world = Fixture::start().await;
    let kinds = || async {
        let items = world.ec2.items().await.unwrap();
        items.into_iter().map(|item| item.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds().await, ["launch template"]);
    let id = world.launch("m5.large/us-east-1a").await;
    assert_eq!(kinds().await, ["instance", "launch template", "volume"]);
    let marks = world.ec2.items().await.unwrap().remove(0).marks;
    assert!(marks.contains("default"), "the node pool's name: {marks:?}");
    world.client.terminate_instances().instance_ids(&id).send().await.unwrap();
    assert_eq!(kinds().await, ["launch template"]);
    assert_eq!(world.ec2.snapshot()[0].state, "terminated");
}
