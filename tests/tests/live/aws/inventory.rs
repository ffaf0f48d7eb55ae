//! Instance types and prices, asked of EC2, beside those that are embedded.

use muster_aws::{AmiFamily, ClassSettings, Inventory, PriceSource};
use muster_tests::ec2::{Calls, REGION};
use serde_json::json;

use crate::aws::fixture::{CONTROLLER, World};

#[tokio::test]
async fn asked_types_are_those_that_are_embedded() {
    let world = World::bare().await;
    let asked = world.cloud.refresh_inventory().await.unwrap();
    let embedded = Inventory::embedded(REGION).unwrap();
    let settings = ClassSettings::default();
    let mut same = 0;
    for name in embedded.names() {
        let (Some(asked), Some(embedded)) =
            (asked.instance_type(name, &settings), embedded.instance_type(name, &settings))
        else {
            continue;
        };
        same += usize::from(asked.capacity == embedded.capacity && asked.overhead == embedded.overhead);
    }
    // moto's table is of another day than ours.
    assert!(same > 700, "{same} of {}", embedded.names().count());
    for name in ["m5.large", "c7g.xlarge", "p4d.24xlarge", "inf2.xlarge", "i3en.large", "t3.nano"] {
        let (asked, embedded) = (asked.facts(name).unwrap(), embedded.facts(name).unwrap());
        assert_eq!(asked.network, embedded.network, "{name}");
        assert_eq!((&asked.gpus, &asked.neuron_devices), (&embedded.gpus, &embedded.neuron_devices), "{name}");
        assert_eq!((asked.vcpus, asked.memory_mib), (embedded.vcpus, embedded.memory_mib), "{name}");
        assert_eq!((asked.usage, asked.hypervisor.clone()), (embedded.usage, embedded.hypervisor.clone()), "{name}");
        assert_eq!((asked.ebs, asked.instance_storage), (embedded.ebs, embedded.instance_storage), "{name}");
        assert!(!asked.zones.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn windows_has_prices_of_its_own_once_there_is_a_class_of_it() {
    let world = World::bare().await;
    world.ec2.spot().set_price("m5.large", "us-east-1a", 0.0321);
    let refresh = async || {
        world.cloud.refresh_on_demand_prices().await.unwrap();
        world.cloud.refresh_spot_prices().await.unwrap();
        world.cloud.inventory()
    };
    let windows = ClassSettings { ami_family: AmiFamily::Windows2022, ..ClassSettings::default() };
    let price = |inventory: &Inventory, capacity_type: &str| {
        let m5 = inventory.instance_type("m5.large", &windows).unwrap();
        let is_there = |one: &&muster_scheduling::model::Offering| {
            one.zone() == Some("us-east-1a") && one.capacity_type() == Some(capacity_type)
        };
        m5.offerings.iter().find(is_there).unwrap().price.unwrap()
    };
    let is = |price: f64, expected: f64| assert!((price - expected).abs() < 1e-6, "{price}, not {expected}");
    let inventory = refresh().await;
    // The test EC2 takes five cents for each of two vCPUs, and Muster 4.6 where it has not asked.
    is(price(&inventory, "on-demand"), 0.096 + 0.1);
    is(price(&inventory, "spot"), 0.0321 + 0.092);
    assert!(inventory.prices("m5.large").unwrap().windows.spot.is_none(), "nobody needs them");
    assert!(inventory.prices("m7g.large").unwrap().windows.on_demand.is_none(), "no Windows on ARM");

    let class = world.class(json!({ "amiSelectorTerms": [{ "alias": "windows2022@latest" }] }));
    world.cloud.learn_class(class, None);
    let inventory = refresh().await;
    is(price(&inventory, "spot"), 0.0321 + 0.1);
    assert_eq!(inventory.prices("m5.large").unwrap().linux.spot.as_ref().unwrap().get("us-east-1a"), Some(&0.0321));
}

#[tokio::test]
async fn prices_are_asked_and_kept_when_they_are_not_to_be_had() {
    let world = World::bare().await;
    let embedded = Inventory::embedded(REGION).unwrap();
    assert!(world.cloud.refresh_on_demand_prices().await.unwrap() > 1000);
    let inventory = world.cloud.inventory();
    assert_eq!(inventory.price_source, PriceSource::Live);
    let price = |inventory: &Inventory| inventory.prices("m5.large").unwrap().linux.on_demand;
    assert_eq!(price(&inventory), price(&embedded));

    world.ec2.spot().set_price("m5.large", "us-east-1a", 0.0321);
    assert!(world.cloud.refresh_spot_prices().await.unwrap() > 1000);
    let spot = |inventory: &Inventory| inventory.prices("m5.large").unwrap().linux.spot.clone().unwrap();
    assert_eq!(spot(&world.cloud.inventory()).get("us-east-1a"), Some(&0.0321));

    let before = world.cloud.inventory();
    world.ec2.faults().unauthorized(Calls::any().by(CONTROLLER));
    for error in [
        world.cloud.refresh_on_demand_prices().await.unwrap_err(),
        world.cloud.refresh_spot_prices().await.unwrap_err(),
        world.cloud.refresh_inventory().await.unwrap_err(),
    ] {
        assert_eq!(error.reason(), "Unauthorized", "{error}");
    }
    assert_eq!(world.cloud.inventory(), before);
}
