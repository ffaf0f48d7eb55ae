//! On-demand prices from the Price List, and spot prices from the history of EC2.

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_pricing::types::{Filter, FilterType};
use jiff::Timestamp;
use muster_cloud::CloudError;

use super::caller::{Caller, Clock};
use super::connection::Connection;
use crate::prices::product::{self, ATTRIBUTES, FAMILIES, LICENCE_INCLUDED, OnDemandPrice, SYSTEMS};
use crate::prices::spot_history::{Pool, SpotHistory};
use crate::prices::{OperatingSystem, PriceList, is_price};
use crate::rate_limits::Family;

/// Asks AWS for all prices of the region of a connection, on demand and spot, for Linux and Windows. `tell` is called
/// before each part with what it is.
///
/// # Errors
/// If a call fails.
pub async fn ask_prices(aws: &Connection, clock: Clock, tell: &mut dyn FnMut(&str)) -> Result<PriceList, CloudError> {
    let caller = Caller::new(clock);
    tell(&format!("asking AWS for on-demand prices in {}", aws.region));
    let mut prices = on_demand(aws, &caller).await?;
    tell(&format!("asking AWS for spot prices in {}", aws.region));
    prices.add(spot(aws, &caller, true).await?);
    Ok(prices)
}

/// Returns on-demand prices for Linux and Windows in USD (in China: CNY) per hour. Prices of zero are ignored.
///
/// Source: aws/karpenter-provider-aws, `pkg/providers/pricing`, which takes the prices of Linux for Windows too.
pub(super) async fn on_demand(aws: &Connection, caller: &Caller) -> Result<PriceList, CloudError> {
    let [(_, linux), (_, windows)] = SYSTEMS;
    let [virtual_machines, bare_metal] = FAMILIES;
    let all = futures::try_join!(
        products(aws, caller, linux, virtual_machines),
        products(aws, caller, linux, bare_metal),
        products(aws, caller, windows, virtual_machines),
        products(aws, caller, windows, bare_metal),
    )?;
    let mut prices = PriceList::of(caller.now());
    for one in [all.0, all.1, all.2, all.3].into_iter().flatten() {
        // A list that is full is longer than that of any region.
        let _ = prices.set_on_demand(one.system, &one.instance_type, one.price);
    }
    Ok(prices)
}

async fn products(
    aws: &Connection,
    caller: &Caller,
    system: &str,
    (family, tenancy): (&str, &str),
) -> Result<Vec<OnDemandPrice>, CloudError> {
    let own = [
        ("tenancy", tenancy),
        ("productFamily", family),
        ("regionCode", aws.region.as_str()),
        ("serviceCode", "AmazonEC2"),
        ("operatingSystem", system),
        ("licenseModel", LICENCE_INCLUDED),
    ];
    let filters = own.into_iter().chain(ATTRIBUTES).filter_map(|(field, value)| {
        Filter::builder().field(field).r#type(FilterType::TermMatch).value(value).build().ok()
    });
    let filters: Vec<Filter> = filters.collect();
    let mut found = Vec::new();
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
        // One product that cannot be read must not hide the prices of all others.
        found.extend(page.price_list().iter().filter_map(|text| product::read(text).ok().flatten()));
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(found);
        }
    }
}

/// Returns the current spot prices in USD per hour, for Windows only if they are asked for: they are as many as those
/// for Linux, and few clusters need them.
pub(super) async fn spot(aws: &Connection, caller: &Caller, with_windows: bool) -> Result<PriceList, CloudError> {
    let start = caller.now();
    let now = DateTime::from_secs(start.as_second());
    let mut systems = vec![OperatingSystem::Linux];
    systems.extend(with_windows.then_some(OperatingSystem::Windows));
    let products: Vec<String> = systems.iter().flat_map(|system| system.products()).map(str::to_owned).collect();
    let mut prices = PriceList::of(start);
    systems.into_iter().for_each(|system| prices.set_whole_market(system));
    let mut history = SpotHistory::default();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::DescribeEc2, "ec2:DescribeSpotPriceHistory", || {
                aws.ec2
                    .describe_spot_price_history()
                    .start_time(now)
                    .set_product_descriptions(Some(products.clone()))
                    .max_results(1000)
                    .set_next_token(token.clone())
                    .send()
            })
            .await
            .map_err(|failure| failure.into_error("spot prices"))?;
        for entry in page.spot_price_history() {
            let (Some(name), Some(zone)) = (entry.instance_type(), entry.availability_zone()) else { continue };
            let product = entry.product_description().map_or("", |product| product.as_str());
            let Some(system) = OperatingSystem::of_product(product) else { continue };
            let price = entry.spot_price().and_then(|price| price.parse().ok()).filter(|price| is_price(*price));
            let Some(price) = price else { continue };
            let at = entry.timestamp().and_then(|at| Timestamp::from_second(at.secs()).ok()).unwrap_or_default();
            let pool = Pool { system, instance_type: name.as_str().to_owned(), zone: zone.to_owned() };
            // A list that is full is longer than that of any region.
            let _ = history.note(&mut prices, pool, at, price);
        }
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(prices);
        }
    }
}
