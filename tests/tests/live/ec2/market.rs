//! Prices: the list, and the spot market that moves.

use std::time::Duration;

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::InstanceType;
use aws_sdk_pricing::types::{Filter, FilterType};

use crate::ec2::sdk::{Fixture, client};

/// A held clock at the full step, so that no price moves in between.
async fn market() -> Fixture {
    let world = Fixture::start().await;
    world.ec2.clock().hold();
    world
}

async fn spot_prices(world: &Fixture) -> Vec<(String, String)> {
    let now = DateTime::from_secs(world.ec2.clock().now().as_second());
    let history = world
        .client
        .describe_spot_price_history()
        .instance_types(InstanceType::M5Large)
        .product_descriptions("Linux/UNIX")
        .start_time(now)
        .send()
        .await
        .unwrap();
    let entry = |price: &aws_sdk_ec2::types::SpotPrice| {
        (price.availability_zone().unwrap().to_owned(), price.spot_price().unwrap().to_owned())
    };
    let mut prices = history.spot_price_history().iter().map(entry).collect::<Vec<_>>();
    prices.sort();
    prices
}

#[tokio::test]
async fn the_price_of_now_is_one_for_each_zone_and_moves_with_the_clock() {
    let world = market().await;
    let first = spot_prices(&world).await;
    assert_eq!(first.len(), 5, "{first:?}");
    assert_eq!(spot_prices(&world).await, first);
    world.ec2.clock().advance(Duration::from_hours(4));
    let second = spot_prices(&world).await;
    // A zone may come to the same price again.
    assert!(first.iter().zip(&second).all(|(before, after)| before.0 == after.0));
    assert_ne!(first, second);
    world.ec2.spot().set_price("m5.large", "us-east-1a", 0.0777);
    assert_eq!(spot_prices(&world).await[0], ("us-east-1a".to_owned(), "0.077700".to_owned()));
    world.ec2.clock().advance(Duration::from_hours(100));
    assert_eq!(spot_prices(&world).await[0].1, "0.077700");
}

#[tokio::test]
async fn the_history_of_all_types_comes_in_pages() {
    let world = market().await;
    let now = DateTime::from_secs(world.ec2.clock().now().as_second());
    let request = world.client.describe_spot_price_history().start_time(now).product_descriptions("Linux/UNIX");
    let prices = request.into_paginator().items().send().collect::<Result<Vec<_>, _>>().await.unwrap();
    let pages = world.ec2.calls().of("DescribeSpotPriceHistory").len();
    assert!(prices.len() > 4000 && pages == prices.len().div_ceil(1000), "{} prices in {pages} pages", prices.len());
    let pools =
        prices.iter().map(|price| (price.instance_type().unwrap().as_str(), price.availability_zone().unwrap()));
    assert_eq!(pools.collect::<std::collections::BTreeSet<_>>().len(), prices.len(), "no pool twice, none left out");
}

#[tokio::test]
async fn the_price_list_answers_as_karpenter_asks() {
    let world = market().await;
    let pricing = client!(aws_sdk_pricing, world.ec2, world.ec2.credentials("controller"));
    let products = |tenancy: &'static str, family: &'static str| {
        let filter =
            |field, value| Filter::builder().r#type(FilterType::TermMatch).field(field).value(value).build().unwrap();
        let filters = [
            ("regionCode", "us-east-1"),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ];
        let request = pricing.get_products().service_code("AmazonEC2");
        let request =
            filters.into_iter().fold(request, |request, (field, value)| request.filters(filter(field, value)));
        request.into_paginator().items().send().collect::<Result<Vec<_>, _>>()
    };
    let shared = products("Shared", "Compute Instance").await.unwrap();
    let metal = products("Dedicated", "Compute Instance (bare metal)").await.unwrap();
    assert!(shared.len() > 900 && metal.len() > 50, "{} and {}", shared.len(), metal.len());
    let m5 = shared.iter().find(|product| product.contains("\"instanceType\":\"m5.large\"")).unwrap();
    let m5: serde_json::Value = serde_json::from_str(m5).unwrap();
    let terms = m5["terms"]["OnDemand"].as_object().unwrap().values().next().unwrap();
    let dimension = terms["priceDimensions"].as_object().unwrap().values().next().unwrap();
    assert_eq!(dimension["pricePerUnit"]["USD"], "0.0960000000");
}
