//! On-demand prices from the Price List, and spot prices from the history of EC2.

use std::collections::BTreeMap;

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_pricing::types::{Filter, FilterType};
use muster_cloud::CloudError;
use serde::Deserialize;

use super::caller::Caller;
use super::connection::Connection;
use crate::rate_limits::Family;

/// Relevant fields of a product of the Price List.
#[derive(Debug, Deserialize)]
struct Product {
    product: Attributed,
    terms: Terms,
}

#[derive(Debug, Deserialize)]
struct Attributed {
    attributes: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    price_per_unit: BTreeMap<String, String>,
}

/// Returns on-demand prices for Linux in USD (in China: CNY) per hour by type. Prices of zero are ignored.
///
/// Source: aws/karpenter-provider-aws, `pkg/providers/pricing`.
pub(super) async fn on_demand(aws: &Connection, caller: &Caller) -> Result<BTreeMap<String, f64>, CloudError> {
    let (virtual_machines, bare_metal) = futures::try_join!(
        products(aws, caller, "Shared", "Compute Instance"),
        products(aws, caller, "Dedicated", "Compute Instance (bare metal)"),
    )?;
    Ok(virtual_machines.into_iter().chain(bare_metal).collect())
}

async fn products(
    aws: &Connection,
    caller: &Caller,
    tenancy: &str,
    family: &str,
) -> Result<BTreeMap<String, f64>, CloudError> {
    let filters: Vec<Filter> = [
        ("tenancy", tenancy),
        ("productFamily", family),
        ("regionCode", aws.region.as_str()),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
    ]
    .into_iter()
    .filter_map(|(field, value)| Filter::builder().field(field).r#type(FilterType::TermMatch).value(value).build().ok())
    .collect();
    let mut prices = BTreeMap::new();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::Prices, "pricing:GetProducts", || {
                aws.pricing
                    .get_products()
                    .service_code("AmazonEC2")
                    .set_filters(Some(filters.clone()))
                    .set_next_token(token.clone())
                    .send()
            })
            .await
            .map_err(|failure| failure.into_error("prices"))?;
        prices.extend(page.price_list().iter().filter_map(|text| price(text)));
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(prices);
        }
    }
}

/// Returns the type and price of a product, or `None` if it cannot be parsed.
fn price(text: &str) -> Option<(String, f64)> {
    let product: Product = serde_json::from_str(text).ok()?;
    let name = product.product.attributes.get("instanceType")?.clone();
    let dimensions = product.terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
    let mut prices = dimensions.filter_map(|one| {
        let text = one.price_per_unit.get("USD").or_else(|| one.price_per_unit.get("CNY"))?;
        text.parse::<f64>().ok().filter(|price| *price > 0.0)
    });
    prices.next().map(|price| (name, price))
}

/// Returns the current spot prices in USD per hour by type and zone.
pub(super) async fn spot(aws: &Connection, caller: &Caller) -> Result<BTreeMap<(String, String), f64>, CloudError> {
    let now = DateTime::from_secs(caller.now().as_second());
    let mut newest: BTreeMap<(String, String), (i64, f64)> = BTreeMap::new();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::DescribeEc2, "ec2:DescribeSpotPriceHistory", || {
                aws.ec2
                    .describe_spot_price_history()
                    .start_time(now)
                    .product_descriptions("Linux/UNIX")
                    .product_descriptions("Linux/UNIX (Amazon VPC)")
                    .max_results(1000)
                    .set_next_token(token.clone())
                    .send()
            })
            .await
            .map_err(|failure| failure.into_error("spot prices"))?;
        for entry in page.spot_price_history() {
            let (Some(name), Some(zone)) = (entry.instance_type(), entry.availability_zone()) else { continue };
            let Some(price) = entry.spot_price().and_then(|price| price.parse::<f64>().ok()) else { continue };
            let at = entry.timestamp().map_or(0, DateTime::secs);
            let there = newest.entry((name.as_str().to_owned(), zone.to_owned())).or_insert((at, price));
            if at > there.0 {
                *there = (at, price);
            }
        }
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(newest.into_iter().map(|(pool, (_, price))| (pool, price)).collect());
        }
    }
}
