//! What goes wrong in EC2, and what a launch makes of it.

use std::time::Duration;

use muster_cloud::{Cloud, CloudError, InstanceState, Refusal};
use muster_tests::ec2::{Calls, CapacityType, Pool, Rule};
use serde_json::json;

use crate::aws::fixture::{CONTROLLER, World, offering, request};

const POOLS: [&str; 4] = ["m5.large/us-east-1a", "m5.large/us-east-1b", "m5.xlarge/us-east-1a", "m5.xlarge/us-east-1b"];

#[tokio::test]
async fn without_capacity_anywhere_but_in_one_offering_that_one_is_launched() {
    let world = World::start().await;
    for pool in &POOLS[..3] {
        let offering = offering(pool);
        world.ec2.faults().insufficient_capacity(Pool::of(&offering.instance_type).zone(&offering.zone));
    }
    let launched = world.launch("x", &POOLS).await;
    assert_eq!(launched.instance.offering, offering(POOLS[3]));
    assert!(launched.refused.iter().all(|one| one.refusal == Refusal::Capacity));
    let refused: Vec<String> = launched.refused.iter().map(|one| one.offering.to_string()).collect();
    assert_eq!(refused, POOLS[..3].iter().map(|pool| format!("{pool}/on-demand")).collect::<Vec<_>>());
    assert_eq!(world.calls("CreateFleet").len(), 1, "one call tried all of them");
}

#[tokio::test]
async fn without_any_capacity_the_next_attempt_names_others() {
    let world = World::start().await;
    world.ec2.faults().insufficient_capacity(Pool::of("m5.large").paid(CapacityType::Spot));
    let pools = ["m5.large/us-east-1a/spot", "m5.large/us-east-1b/spot"];
    let failed = world.cloud.launch(&request("x", 1, &pools)).await.unwrap_err();
    assert!(failed.is_outcome && failed.error.reaction().widens);
    assert_eq!(
        failed.error.to_string(),
        "none of the 2 offerings tried is available: m5.large/us-east-1a/spot: no capacity; \
         m5.large/us-east-1b/spot: no capacity"
    );
    let launched = world.cloud.launch(&request("x", 2, &POOLS)).await.unwrap();
    assert_eq!(launched.instance.offering, offering(POOLS[0]));
}

#[tokio::test]
async fn a_full_subnet_is_named_and_left_alone() {
    let world = World::start().await;
    let full = world.subnets["us-east-1a"].clone();
    world.ec2.faults().subnet_full(&full);
    let launched = world.launch("x", &POOLS).await;
    assert_eq!(launched.instance.offering, offering(POOLS[1]));
    // An address is an address, whatever the type: all offerings of the subnet are refused.
    let refused: Vec<String> = launched.refused.iter().map(ToString::to_string).collect();
    assert_eq!(
        refused,
        [
            format!("m5.large/us-east-1a/on-demand: no free addresses in {full}"),
            format!("m5.xlarge/us-east-1a/on-demand: no free addresses in {full}"),
        ]
    );
    world.launch("y", &POOLS).await;
    let second = &world.calls("CreateFleet").0[1];
    assert!(!second.parameters.to_string().contains(&full), "{}", second.parameters);
    let only = world.cloud.launch(&request("z", 1, &POOLS[..1])).await.unwrap_err();
    assert!(only.error.reaction().widens, "{only}");
}

#[tokio::test]
async fn a_missing_right_is_named_by_its_action() {
    let world = World::start().await;
    let of_controller = |action: &str| Calls::of(action).by(CONTROLLER);
    let action = |error: &CloudError| match error {
        CloudError::Unauthorized { action, .. } => action.clone(),
        other => panic!("{other}"),
    };
    for (call, missing, is_outcome) in [
        ("CreateLaunchTemplate", "ec2:CreateLaunchTemplate", false),
        ("CreateFleet", "ec2:CreateFleet", false),
        ("RunInstances", "ec2:RunInstances", true),
    ] {
        let rule = world.ec2.faults().unauthorized(of_controller(call));
        let failed = world.cloud.launch(&request("x", 1, &POOLS)).await.unwrap_err();
        assert_eq!((action(&failed.error).as_str(), failed.is_outcome), (missing, is_outcome), "{call}");
        assert!(failed.error.reaction().blames_class);
        world.ec2.faults().lift(rule);
    }
    let launched = world.cloud.launch(&request("x", 2, &POOLS)).await.unwrap();
    world.ec2.faults().unauthorized(of_controller("TerminateInstances"));
    let error = world.cloud.terminate(&launched.instance.provider_id).await.unwrap_err();
    assert_eq!(action(&error), "ec2:TerminateInstances");
}

#[tokio::test]
async fn throttling_is_waited_out() {
    let world = World::start().await;
    world.ec2.faults().throttled(Calls::of("CreateFleet").times(2));
    world.launch("x", &POOLS).await;
    assert_eq!(world.calls("CreateFleet").failed("RequestLimitExceeded").len(), 2);
    assert_eq!(world.ec2.running().len(), 1);
    world.ec2.faults().throttled(Calls::of("CreateFleet"));
    let failed = world.cloud.launch(&request("y", 1, &POOLS)).await.unwrap_err();
    assert!(matches!(failed.error, CloudError::Throttled { ref operation } if operation == "CreateFleet"), "{failed}");
    assert!(!failed.is_outcome);
}

#[tokio::test]
async fn while_ec2_is_away_nothing_is_known_and_afterwards_everything_goes_on() {
    let world = World::start().await;
    let launched = world.launch("x", &POOLS).await.instance;
    let away = world.ec2.faults().cut_before(Calls::any().by(CONTROLLER));
    let is_transient = |error: &CloudError| matches!(error, CloudError::Transient { .. });
    let failed = world.cloud.launch(&request("y", 1, &POOLS)).await.unwrap_err();
    assert!(is_transient(&failed.error) && !failed.is_outcome, "{failed}");
    assert!(is_transient(&world.cloud.get(&launched.provider_id).await.unwrap_err()));
    assert!(is_transient(&world.cloud.list().await.unwrap_err()));
    assert!(is_transient(&world.cloud.terminate(&launched.provider_id).await.unwrap_err()));
    let (found, status) = world.judged(&world.class(json!({}))).await;
    assert!(found.subnets.is_err());
    assert!(status.conditions.iter().any(|one| one.type_ == "SubnetsReady" && one.status == "Unknown"));
    world.ec2.faults().lift(away);
    world.launch("y", &POOLS).await;
    world.cloud.terminate(&launched.provider_id).await.unwrap();
    assert_eq!(world.ec2.running().len(), 1);
}

#[tokio::test]
async fn a_volume_that_cannot_be_decrypted_ends_the_instance_with_its_reason() {
    let world = World::start().await;
    let why = "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state";
    world.ec2.faults().ends_at_once(Pool::any().times(1), "Client.InvalidKMSKey.InvalidState", why);
    let launched = world.launch("x", &POOLS).await.instance;
    let seen = world.cloud.get(&launched.provider_id).await.unwrap();
    assert_eq!(seen.state, InstanceState::Terminated);
    let told = seen.state_reason.unwrap();
    assert!(told.starts_with(why) && told.contains("its policy"), "EC2's words and the cause: {told}");
    assert!(world.cloud.terminate(&launched.provider_id).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_image_of_the_wrong_architecture_is_not_even_tried() {
    let world = World::bare().await;
    let arm = world.class(json!({}));
    let (_, status) = world.judged(&arm).await;
    let arm64 = status
        .amis
        .iter()
        .find(|ami| ami.requirements.iter().any(|one| one.values == ["arm64"]) && ami.requirements.len() == 3);
    let terms = json!({ "amiSelectorTerms": [{ "id": arm64.unwrap().id }], "amiFamily": "AL2023" });
    world.learn(&world.class(terms)).await;
    let failed = world.cloud.launch(&request("x", 1, &POOLS)).await.unwrap_err();
    assert!(failed.error.refused().iter().all(|one| one.refusal == Refusal::Unsupported));
    assert_eq!((failed.error.refused().len(), world.calls("CreateFleet").len()), (4, 0));
    let launched = world.launch("x", &["m5.large/us-east-1a", "m7g.large/us-east-1a"]).await;
    assert_eq!(launched.instance.offering, offering("m7g.large/us-east-1a"));
}

#[tokio::test]
async fn one_that_cannot_be_ended_does_not_keep_the_others() {
    let world = World::start().await;
    let one = world.launch("x", &POOLS).await.instance.provider_id;
    let missing = "aws:///us-east-1a/i-0123456789abcdef0";
    let (ended, gone) = tokio::join!(world.cloud.terminate(&one), world.cloud.terminate(missing));
    ended.unwrap();
    assert!(gone.unwrap_err().is_not_found());
    assert!(world.ec2.running().is_empty());
    world.advance(Duration::from_secs(1));
}

#[tokio::test]
async fn a_profile_that_ec2_does_not_know_yet_is_no_fault_of_the_class() {
    let world = World::start().await;
    let rule = r#"{ "pool": {}, "fault": { "refused": { "status": 400, "code": "InvalidParameterValue",
        "message": "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name" } } }"#;
    world.ec2.faults().set(serde_json::from_str::<Rule>(rule).unwrap());
    let failed = world.cloud.launch(&request("x", 1, &POOLS[..1])).await.unwrap_err();
    assert!(failed.is_outcome && !failed.error.reaction().blames_class, "{failed}");
    world.advance(Duration::from_secs(61));
    let failed = world.cloud.launch(&request("x", 2, &POOLS[..1])).await.unwrap_err();
    assert_eq!((failed.error.reason(), failed.error.reaction().blames_class), ("InstanceProfileNameInvalid", true));
}
