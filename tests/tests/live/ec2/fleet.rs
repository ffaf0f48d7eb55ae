//! Which pool `CreateFleet` of type `instant` picks, and what it says of the others.

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::SpotAllocationStrategy::{CapacityOptimized, LowestPrice, PriceCapacityOptimized};
use aws_sdk_ec2::types::{InstanceLifecycleType, InstanceStateName};
use muster_tests::ec2::{Calls, CapacityType, Event, Pool};

use crate::ec2::sdk::{Fixture, launched, refused};

const A: &str = "us-east-1a";

#[tokio::test]
async fn on_demand_is_the_cheapest_that_has_capacity() {
    let world = Fixture::start().await;
    let pools = ["m5.xlarge/us-east-1a", "m5.large/us-east-1a", "m5.large/us-east-1b"];
    let made = world.fleet(&pools, 3).send().await;
    assert_eq!(launched(&made), ["m5.large us-east-1a x3"]);
    assert!(made.errors().is_empty());

    world.ec2.faults().capacity(Pool::of("m5.large").zone(A), 1);
    let made = world.fleet(&pools, 3).send().await;
    assert_eq!(launched(&made), ["m5.large us-east-1a x1", "m5.large us-east-1b x2"]);
    assert_eq!(refused(&made), ["m5.large us-east-1a: InsufficientInstanceCapacity"]);
}

#[tokio::test]
async fn priorities_count_when_the_strategy_is_prioritized() {
    let world = Fixture::start().await;
    let made = world.fleet(&["m5.xlarge/us-east-1a", "m5.large/us-east-1a"], 1).prioritized().send().await;
    assert_eq!(launched(&made), ["m5.xlarge us-east-1a x1"]);
}

#[tokio::test]
async fn spot_strategies_weigh_price_and_depth() {
    let world = Fixture::start().await;
    for (zone, price, depth) in [("us-east-1a", 0.01, 1), ("us-east-1b", 0.02, 6), ("us-east-1c", 0.03, 10)] {
        world.ec2.spot().set_price("m5.large", zone, price);
        world.ec2.spot().set_depth("m5.large", zone, depth);
    }
    let pools = ["m5.large/us-east-1a", "m5.large/us-east-1b", "m5.large/us-east-1c"];
    for (strategy, zone) in [(LowestPrice, "a"), (PriceCapacityOptimized, "b"), (CapacityOptimized, "c")] {
        let made = world.fleet(&pools, 1).spot(strategy).send().await;
        assert_eq!(launched(&made), [format!("m5.large us-east-1{zone} x1")]);
        let id = &made.instances()[0].instance_ids()[0];
        let instance = world.describe(id).await;
        assert_eq!(instance.instance_lifecycle(), Some(&InstanceLifecycleType::Spot));
        assert!(instance.spot_instance_request_id().unwrap().starts_with("sir-"));
    }
}

#[tokio::test]
async fn an_instance_has_all_that_template_and_fleet_say() {
    let world = Fixture::start().await;
    let mut events = world.ec2.events();
    let id = world.launch("m5.large/us-east-1c").await;
    let instance = world.describe(&id).await;
    let tag = |key: &str| instance.tags().iter().find(|tag| tag.key() == Some(key)).and_then(|tag| tag.value());
    assert_eq!(tag("karpenter.sh/nodepool"), Some("default"));
    assert!(tag("aws:ec2:fleet-id").unwrap().starts_with("fleet-"));
    assert_eq!(tag("aws:ec2launchtemplate:version"), Some("1"));
    assert_eq!(instance.subnet_id(), Some(world.subnet("us-east-1c")));
    assert_eq!(instance.instance_lifecycle(), None);
    assert_eq!(instance.state().unwrap().name(), Some(&InstanceStateName::Running));

    let Some(Event::Launched(launched)) = events.next().await else { panic!("no launch") };
    assert_eq!((launched.id.as_str(), launched.zone.as_str()), (id.as_str(), "us-east-1c"));
    assert_eq!(launched.capacity_type, CapacityType::OnDemand);
    assert_eq!(Some(launched.private_address.to_string().as_str()), instance.private_ip_address());
    assert_eq!(launched.user_data.as_deref(), Some("aGVsbG8="));
    assert_eq!(launched.launch_template.as_ref().unwrap().name, crate::ec2::sdk::TEMPLATE);
    assert_eq!(launched.launched_by, "controller");
    assert_eq!(launched.tags["karpenter.sh/nodepool"], "default");

    world.client.terminate_instances().instance_ids(&id).send().await.unwrap();
    let Some(Event::Ended { instance, reason }) = events.next().await else { panic!("no end") };
    assert_eq!((instance.id.as_str(), reason.code.as_str()), (id.as_str(), "Client.UserInitiatedShutdown"));
    assert!(world.ec2.running().is_empty());
}

#[tokio::test]
async fn a_type_that_the_zone_has_not_is_unsupported_and_one_that_ec2_has_not_is_invalid() {
    let world = Fixture::start().await;
    let made = world.fleet(&["m8g.large/us-east-1e", "m5.large/us-east-1a"], 1).prioritized().send().await;
    assert_eq!(refused(&made), ["m8g.large us-east-1e: Unsupported"]);
    assert_eq!(launched(&made), ["m5.large us-east-1a x1"]);
    let error = world.fleet(&["m99.large/us-east-1a"], 1).request().send().await.unwrap_err();
    assert_eq!(error.code(), Some("InvalidParameterValue"));
}

#[tokio::test]
async fn an_image_of_another_architecture_is_refused() {
    let world = Fixture::start().await;
    let made = world.fleet(&["m7g.large/us-east-1a"], 1).send().await;
    assert_eq!(refused(&made), ["m7g.large us-east-1a: InvalidParameterValue"]);
    world.template("arm", world.image("arm64").await).await;
    let made = world.fleet(&["m7g.large/us-east-1a"], 1).template("arm").send().await;
    assert_eq!(launched(&made), ["m7g.large us-east-1a x1"]);
    assert_eq!(world.ec2.running()[0].architecture, "arm64");
}

#[tokio::test]
async fn a_template_that_is_gone_is_named_as_ec2_names_it() {
    let world = Fixture::start().await;
    let error = world.fleet(&["m5.large/us-east-1a"], 1).template("gone").request().send().await.unwrap_err();
    assert_eq!(error.code(), Some("InvalidLaunchTemplateName.NotFoundException"));
}

#[tokio::test]
async fn a_dry_run_launches_nothing_and_says_that_it_would() {
    let world = Fixture::start().await;
    let fleet = world.fleet(&["m5.large/us-east-1a"], 1);
    let error = fleet.request().dry_run(true).send().await.unwrap_err();
    assert_eq!(error.code(), Some("DryRunOperation"));
    world.ec2.faults().unauthorized(Calls::of("CreateFleet"));
    let error = fleet.request().dry_run(true).send().await.unwrap_err();
    assert_eq!(error.code(), Some("UnauthorizedOperation"));
    assert!(world.ec2.running().is_empty());
}

#[tokio::test]
async fn the_spot_price_may_be_capped() {
    let world = Fixture::start().await;
    world.ec2.spot().set_price("m5.large", A, 0.05);
    let mut fleet = world.fleet(&["m5.large/us-east-1a"], 1).spot(LowestPrice).request();
    let configs = fleet.get_launch_template_configs().clone().unwrap();
    let mut config = configs[0].clone();
    config.overrides.as_mut().unwrap()[0].max_price = Some("0.04".to_owned());
    fleet = fleet.set_launch_template_configs(Some(vec![config]));
    assert_eq!(refused(&fleet.send().await.unwrap()), ["m5.large us-east-1a: SpotMaxPriceTooLow"]);
}
