//! Capacity reservations and placement groups, which moto does not have.

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::{
    CapacityReservationInstancePlatform, CapacityReservationTarget, Filter, InstanceMatchCriteria,
    LaunchTemplateCapacityReservationSpecificationRequest, LaunchTemplatePlacementRequest, PlacementStrategy,
    RequestLaunchTemplateData, ResourceType, Tag, TagSpecification,
};
use muster_tests::ec2::CapacityType;

use crate::sdk::{Fixture, launched, refused};

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

#[tokio::test]
async fn a_targeted_reservation_is_used_up_and_given_back() {
    let world = Fixture::start().await;
    let id = reserve(&world, 1, InstanceMatchCriteria::Targeted).await;
    let specification = LaunchTemplateCapacityReservationSpecificationRequest::builder()
        .capacity_reservation_target(CapacityReservationTarget::builder().capacity_reservation_id(&id).build())
        .build();
    let data = RequestLaunchTemplateData::builder()
        .image_id(world.image("x86_64").await)
        .capacity_reservation_specification(specification)
        .build();
    world
        .client
        .create_launch_template()
        .launch_template_name("reserved")
        .launch_template_data(data)
        .send()
        .await
        .unwrap();
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
