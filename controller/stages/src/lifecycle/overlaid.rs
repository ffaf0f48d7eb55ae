//! Changes of NodeOverlays to what a NodeClaim may be launched as.

use std::collections::BTreeMap;

use muster_api::NodeClaim;
use muster_aws::quantity;
use muster_cloud::{Alternative, Overlaid, first_choice};
use muster_scheduling::model::{Catalogue, Resource};

/// Returns the changes of NodeOverlays to the alternatives of the next launch request.
#[must_use]
pub fn overlaid(claim: &NodeClaim, catalogue: &Catalogue, alternatives: &[Alternative]) -> Overlaid {
    let mut found = Overlaid::default();
    let keeps_choice = claim.spec.requirements.iter().any(|one| one.min_values.is_some());
    let chosen = first_choice(alternatives, keeps_choice);
    let is_chosen = |name: &str| chosen.iter().any(|one| one.offering.instance_type == name);
    for (index, one) in catalogue.types().iter().enumerate() {
        let capacity = catalogue.other_capacity(index);
        let has_price = catalogue.has_other_price(index);
        if (!has_price && capacity.is_empty()) || !is_chosen(&one.name) {
            continue;
        }
        found.has_prices |= has_price;
        if !capacity.is_empty() {
            let amount =
                |(resource, amount): (&Resource, i64)| (resource.to_string(), quantity::format(resource, amount));
            let amounts: BTreeMap<String, String> = capacity.iter().map(amount).collect();
            found.capacity.insert(one.name.to_string(), amounts);
        }
    }
    found
}
