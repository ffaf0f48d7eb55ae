//! Instance types, their offerings and prices.

use std::collections::BTreeMap;

use muster_api::labels;
use muster_scheduling::model::{Catalogue, Resource};

use super::{Scrape, family, in_units};
use crate::run::metrics::catalogue as names;
use crate::run::metrics::page::{Page, Rendered};

/// Instance type, capacity type and zone.
type Key<'a> = (&'a str, &'a str, &'a str);

/// Writes the types of all classes together, of which an offering is available if it is for one, and what the nodes of
/// each pool cost.
pub(super) fn write(scrape: &Scrape<'_>, page: &mut Page) {
    let mut types: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut all: BTreeMap<Key<'_>, (bool, Option<f64>)> = BTreeMap::new();
    for one in scrape.offers.values().flat_map(Catalogue::types) {
        let amount = |resource: Resource| in_units(&resource, one.capacity.get(&resource));
        types.insert(&one.name, (amount(Resource::Cpu), amount(Resource::Memory)));
        for offering in &one.offerings {
            let (Some(zone), Some(capacity_type)) = (offering.zone(), offering.capacity_type()) else { continue };
            let known = all.entry((&one.name, capacity_type, zone)).or_default();
            known.0 |= offering.available && (!offering.reserved() || offering.reservation_capacity > 0);
            known.1 = known.1.or(offering.price);
        }
    }
    let label = |(instance_type, capacity_type, zone): &Key<'_>| {
        Rendered::new([("instance_type", *instance_type), ("capacity_type", *capacity_type), ("zone", *zone)])
    };
    let available = all.iter().map(|(key, (available, _))| (label(key), f64::from(u8::from(*available))));
    family(page, &names::CLOUD_OFFERING_AVAILABLE, available);
    family(
        page,
        &names::CLOUD_OFFERING_PRICE,
        all.iter().filter_map(|(key, (_, price))| Some((label(key), (*price)?))),
    );
    let of_type = |name: &&str| Rendered::new([("instance_type", *name)]);
    family(page, &names::CLOUD_TYPE_CPU, types.iter().map(|(name, (cpu, _))| (of_type(name), *cpu)));
    family(page, &names::CLOUD_TYPE_MEMORY, types.iter().map(|(name, (_, memory))| (of_type(name), *memory)));
    family(
        page,
        &names::NODEPOOLS_COST,
        costs(scrape, &all).into_iter().map(|(pool, price)| (Rendered::new([("nodepool", pool)]), price)),
    );
}

/// Returns the price of the nodes of each pool, as far as it is known.
fn costs<'a>(scrape: &'a Scrape<'_>, offers: &BTreeMap<Key<'_>, (bool, Option<f64>)>) -> BTreeMap<&'a str, f64> {
    let pools = scrape.cluster.pools().filter_map(|pool| pool.metadata.name.as_deref());
    let mut costs: BTreeMap<&str, f64> = pools.map(|name| (name, 0.0)).collect();
    for node in scrape.cluster.nodes() {
        let label = |key: &str| node.metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str);
        let key = (label(labels::INSTANCE_TYPE), label(labels::CAPACITY_TYPE), label(labels::ZONE));
        let price = offers.get(&key).and_then(|(_, price)| *price);
        if let (Some(cost), Some(price)) = (costs.get_mut(label(labels::NODEPOOL)), price) {
            *cost += price;
        }
    }
    costs
}
