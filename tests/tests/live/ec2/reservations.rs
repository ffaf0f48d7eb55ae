//! Capacity reservations and placement groups, which moto does not have.

use std::time::Duration;

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::{
    CapacityReservationInstancePlatform, CapacityReservationTarget, DefaultTargetCapacityType, Filter,
    FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest,
    FleetType, InstanceMatchCriteria, InstanceType, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateInstanceMarketOptionsRequest, LaunchTemplatePlacementRequest, MarketType, PlacementStrategy,
    RequestLaunchTemplateData, ResourceType, Tag, TagSpecification, TargetCapacitySpecificationRequest,
};
use jiff::SignedDuration;
use muster_tests::ec2::CapacityType;

use crate::ec2::sdk::{Fixture, launched, refused};

async fn reserve(world: &Fixture, count: i32, criteria: InstanceMatchCriteria) -> String {
    let tags = TagSpecification::builder()
        .resource_type(ResourceType::CapacityReservation)
        .tags(Tag::builder().key("team").value("ml").build())
        .build();
    let made = world
        .client
        .create_capacity_reservation()
        .instance_type("m5.large")
        .instance_platform(CapacityReservationInstancePlatform::LinuxUnix)
        .availability_zone("us-east-1a")
        .instance_count(count)
        .instance_match_criteria(criteria)
        .tag_specifications(tags)
        .send()
        .await
        .unwrap();
    made.capacity_reservation().unwrap().capacity_reservation_id().unwrap().to_owned()
}

async fn available(world: &Fixture) -> i32 {
    let filter = Filter::builder().name("tag:team").values("ml").build();
    let found = world.client.describe_capacity_reservations().filters(filter).send().await.unwrap();
    found.capacity_reservations()[0].available_instance_count().unwrap()
}

/// A launch template that names a reservation, of this market.
async fn reserved_template(world: &Fixture, name: &str, id: &str, market: Option<MarketType>) {
    let specification = LaunchTemplateCapacityReservationSpecificationRequest::builder()
        .capacity_reservation_target(CapacityReservationTarget::builder().capacity_reservation_id(id).build())
        .build();
    let market = market.map(|market| LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(market).build());
    let data = RequestLaunchTemplateData::builder()
        .image_id(world.image("x86_64").await)
        .capacity_reservation_specification(specification)
        .set_instance_market_options(market)
        .build();
    world.template_of(name, data).await;
}

#[tokio::test]
async fn others_use_a_reservation_the_dead_count_for_a_while_and_it_ends() {
    let world = Fixture::start().await;
    world.ec2.clock().hold();
    let id = reserve(&world, 3, InstanceMatchCriteria::Targeted).await;
    reserved_template(&world, "reserved", &id, None).await;
    let fleet = world.fleet(&["m5.large/us-east-1a"], 1).template("reserved");
    let first = fleet.send().await.instances()[0].instance_ids()[0].clone();
    let reservations = world.ec2.reservations();
    reservations.fill(&id, 2);
    assert_eq!(available(&world).await, 0);
    assert_eq!(refused(&fleet.send().await), ["m5.large us-east-1a: ReservationCapacityExceeded"]);
    reservations.fill(&id, 0);

    reservations.count_ended_for(Duration::from_secs(30));
    world.client.terminate_instances().instance_ids(first).send().await.unwrap();
    assert_eq!(available(&world).await, 2);
    world.ec2.clock().advance(Duration::from_secs(31));
    assert_eq!(available(&world).await, 3);

    let second = fleet.send().await.instances()[0].instance_ids()[0].clone();
    assert_eq!(world.describe(&second).await.capacity_reservation_id(), Some(id.as_str()));
    reservations.end_at(&id, world.ec2.clock().now());
    assert_eq!(world.describe(&second).await.capacity_reservation_id(), None, "it runs on, on demand");
    assert_eq!(available(&world).await, 0);
}

#[tokio::test]
async fn blocks_and_interruptible_reservations_have_markets_of_their_own() {
    let world = Fixture::start().await;
    let reservations = world.ec2.reservations();
    let ends = world.ec2.clock().now() + SignedDuration::from_hours(24);
    let block = reservations.buy_block("m5.large", "us-east-1a", 2, ends);
    let lent = reserve(&world, 2, InstanceMatchCriteria::Targeted).await;
    reservations.make_interruptible(&lent);
    for (id, market, target) in [
        (&block, MarketType::CapacityBlock, DefaultTargetCapacityType::CapacityBlock),
        (
            &lent,
            MarketType::from("interruptible-capacity-reservation"),
            DefaultTargetCapacityType::from("reserved-capacity"),
        ),
    ] {
        let as_plain = format!("{market}-plain");
        reserved_template(&world, &as_plain, id, None).await;
        let plain = world.fleet(&["m5.large/us-east-1a"], 1).template(&as_plain).send().await;
        assert_eq!(refused(&plain), ["m5.large us-east-1a: InvalidParameterValue"], "{market}");

        let name = market.to_string();
        reserved_template(&world, &name, id, Some(market.clone())).await;
        let of_template = FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(&name).version("1");
        let pool = FleetLaunchTemplateOverridesRequest::builder().instance_type(InstanceType::M5Large);
        let config = FleetLaunchTemplateConfigRequest::builder()
            .launch_template_specification(of_template.build())
            .overrides(pool.subnet_id(world.subnet("us-east-1a")).build());
        let capacity =
            TargetCapacitySpecificationRequest::builder().total_target_capacity(1).default_target_capacity_type(target);
        let made = world.client.create_fleet().r#type(FleetType::Instant).launch_template_configs(config.build());
        let made = made.target_capacity_specification(capacity.build()).send().await.unwrap();
        assert_eq!(launched(&made), ["m5.large us-east-1a x1"], "{:?}", made.errors());
        let described = world.describe(&made.instances()[0].instance_ids()[0]).await;
        assert_eq!(described.instance_lifecycle().map(|it| it.as_str()), Some(market.as_str()));
        assert_eq!(described.capacity_reservation_id(), Some(id.as_str()));
    }
    assert_eq!(reservations.terminate_left(&block).await.unwrap().len(), 1);
    assert_eq!(world.ec2.running().len(), 1);
    reservations.take_back(&lent).await.unwrap();
    assert_eq!(available(&world).await, 0, "nothing is launched into what is taken back");
}

#[tokio::test]
async fn a_targeted_reservation_is_used_up_and_given_back() {
    let world = Fixture::start().await;
    let id = reserve(&world, 1, InstanceMatchCriteria::Targeted).await;
    reserved_template(&world, "reserved", &id, None).await;
    world.launch("m5.large/us-east-1a").await;
    assert_eq!(available(&world).await, 1, "a launch that does not name it does not use it");

    let fleet = world.fleet(&["m5.large/us-east-1a"], 1).template("reserved");
    let made = fleet.send().await;
    assert_eq!(launched(&made), ["m5.large us-east-1a x1"]);
    let instance = made.instances()[0].instance_ids()[0].clone();
    assert_eq!(world.describe(&instance).await.capacity_reservation_id(), Some(id.as_str()));
    assert_eq!(world.ec2.running()[1].capacity_type, CapacityType::Reserved);
    assert_eq!(available(&world).await, 0);
    assert_eq!(refused(&fleet.send().await), ["m5.large us-east-1a: ReservationCapacityExceeded"]);
    world.client.terminate_instances().instance_ids(instance).send().await.unwrap();
    assert_eq!(available(&world).await, 1);
    assert_eq!(launched(&fleet.send().await).len(), 1);
}

#[tokio::test]
async fn an_open_reservation_takes_what_fits() {
    let world = Fixture::start().await;
    reserve(&world, 5, InstanceMatchCriteria::Open).await;
    world.launch("m5.large/us-east-1b").await;
    world.launch("m5.large/us-east-1a").await;
    assert_eq!(available(&world).await, 4);
    let error =
        world.client.describe_capacity_reservations().capacity_reservation_ids("cr-0").send().await.unwrap_err();
    assert_eq!(error.code(), Some("InvalidCapacityReservationId.NotFound"));
}

#[tokio::test]
async fn a_spread_group_takes_seven_in_a_zone_and_a_partition_group_deals_them_out() {
    let world = Fixture::start().await;
    for (name, strategy) in [("spread", PlacementStrategy::Spread), ("parts", PlacementStrategy::Partition)] {
        let partitions = (strategy == PlacementStrategy::Partition).then_some(3);
        let create = world.client.create_placement_group().group_name(name).strategy(strategy);
        create.set_partition_count(partitions).send().await.unwrap();
        let placement = LaunchTemplatePlacementRequest::builder().group_name(name).build();
        let data =
            RequestLaunchTemplateData::builder().image_id(world.image("x86_64").await).placement(placement).build();
        world.template_of(name, data).await;
    }
    let spread = world.fleet(&["m5.large/us-east-1a"], 7).template("spread");
    assert_eq!(launched(&spread.send().await), ["m5.large us-east-1a x7"]);
    let full = world.fleet(&["m5.large/us-east-1a"], 1).template("spread").send().await;
    assert_eq!(refused(&full), ["m5.large us-east-1a: UnfulfillableCapacity"]);
    let message = full.errors()[0].error_message().unwrap();
    assert!(message.contains("limit of instances in this spread placement group"), "{message}");

    let parts = |count| world.fleet(&["m5.large/us-east-1a"], count).template("parts");
    let mut partitions = Vec::new();
    for made in [parts(2).send().await, parts(1).send().await, parts(1).send().await] {
        for id in made.instances()[0].instance_ids() {
            partitions.push(world.describe(id).await.placement().unwrap().partition_number().unwrap());
        }
    }
    assert_eq!(partitions, [1, 2, 3, 1]);
    let error = world.client.describe_placement_groups().group_names("none").send().await.unwrap_err();
    assert_eq!(error.code(), Some("InvalidPlacementGroup.Unknown"));
    let groups = world.client.describe_placement_groups().send().await.unwrap();
    assert_eq!(groups.placement_groups().len(), 2);
}
