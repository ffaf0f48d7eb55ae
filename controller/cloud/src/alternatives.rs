//! Offerings that a NodeClaim may be launched as.

use std::collections::BTreeSet;

use muster_scheduling::model::{self, Catalogue, Requirements, Resources};

use crate::instance::{CapacityType, Offering};
use crate::launch::Alternative;

/// Maximum number of instance types in one launch request, as in Karpenter. The remaining types are tried when these
/// have no capacity.
pub const MOST_TYPES: usize = 60;

const RESERVATION: &str = muster_api::labels::CAPACITY_RESERVATION_ID;

/// Returns every offering that meets the requirements and fits the requests, cheapest first; equal prices are ordered
/// by name.
///
/// Offerings that cannot be launched are left out: those without a price, zone or capacity type, and unavailable ones.
#[must_use]
pub fn alternatives(catalogue: &Catalogue, requirements: &Requirements, requests: &Resources) -> Vec<Alternative> {
    let mut found = Vec::new();
    for one in catalogue.types() {
        if !one.requirements.intersects(requirements) || requests.first_shortage(&one.allocatable()).is_some() {
            continue;
        }
        for offering in one.offerings.iter().filter(|offering| offering.launchable()) {
            let (Some(bought), Some(price)) = (named(&one.name, offering), offering.price) else { continue };
            if offering.requirements.intersects(requirements) {
                found.push(Alternative { offering: bought, price });
            }
        }
    }
    found.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| a.offering.cmp(&b.offering)));
    found
}

/// Converts an offering of the scheduling model to one of the cloud. Returns `None` if it lacks a zone or a valid
/// capacity type.
pub(crate) fn named(instance_type: &str, offering: &model::Offering) -> Option<Offering> {
    Some(Offering {
        instance_type: instance_type.to_owned(),
        zone: offering.zone()?.to_owned(),
        capacity_type: offering.capacity_type()?.parse().ok()?,
        reservation: offering.requirements.single(RESERVATION).map(str::to_owned),
    })
}

/// Selects the alternatives for one launch request from `alternatives`, which are sorted cheapest first: all of one
/// capacity type (reserved before spot before on-demand, as in Karpenter), and at most [`MOST_TYPES`] instance types.
///
/// Spot offerings that are dearer than the cheapest one on demand are left out, as in Karpenter, unless the claim sets
/// `minValues` (`keeps_choice`): their types may be needed for it.
#[must_use]
pub fn first_choice(alternatives: &[Alternative], keeps_choice: bool) -> Vec<Alternative> {
    let is_on_demand = |one: &&Alternative| one.offering.capacity_type == CapacityType::OnDemand;
    let most = alternatives.iter().find(is_on_demand).map(|one| one.price).filter(|_| !keeps_choice);
    let is_worth_it = |one: &&Alternative| {
        one.offering.capacity_type != CapacityType::Spot || most.is_none_or(|most| one.price <= most)
    };
    let worth_it = || alternatives.iter().filter(is_worth_it);
    let Some(first) = worth_it().map(|one| one.offering.capacity_type).min() else { return Vec::new() };
    let mut types: BTreeSet<&str> = BTreeSet::new();
    let mut chosen = Vec::new();
    for one in worth_it().filter(|one| one.offering.capacity_type == first) {
        let name = one.offering.instance_type.as_str();
        if types.contains(name) || types.len() < MOST_TYPES && types.insert(name) {
            chosen.push(one.clone());
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use muster_scheduling::model::{InstanceType, Operator, Requirement, Resource};

    use super::*;

    fn label(key: &str, value: &str) -> (String, Requirement) {
        (key.to_owned(), Requirement::new(Operator::In, [value]))
    }

    fn offering(zone: &str, capacity_type: &str, price: Option<f64>) -> model::Offering {
        let requirements =
            [label("topology.kubernetes.io/zone", zone), label("karpenter.sh/capacity-type", capacity_type)];
        let requirements = requirements.into_iter().collect();
        model::Offering { requirements, price, available: true, reservation_capacity: 0 }
    }

    fn instance_type(name: &str, millicores: i64, offerings: Vec<model::Offering>) -> InstanceType {
        InstanceType {
            name: name.into(),
            requirements: [label("node.kubernetes.io/instance-type", name)].into_iter().collect(),
            capacity: Resources::from_iter([(Resource::Cpu, millicores)]),
            overhead: Resources::from_iter([(Resource::Cpu, 100)]),
            offerings,
        }
    }

    #[test]
    fn what_fits_is_offered_cheapest_first() {
        let catalogue: Catalogue = vec![
            instance_type("small", 1000, vec![offering("a", "on-demand", Some(0.01))]),
            instance_type("b", 2000, vec![offering("a", "on-demand", Some(0.1)), offering("a", "spot", Some(0.04))]),
            instance_type("a", 2000, vec![offering("b", "spot", Some(0.04)), offering("c", "spot", None)]),
        ]
        .into();
        let requests = Resources::from_iter([(Resource::Cpu, 1500)]);
        let named = |found: Vec<Alternative>| found.iter().map(|one| one.offering.to_string()).collect::<Vec<_>>();
        let all = alternatives(&catalogue, &Requirements::new(), &requests);
        assert_eq!(named(all.clone()), ["a/b/spot", "b/a/spot", "b/a/on-demand"]);
        assert_eq!(named(first_choice(&all, false)), ["a/b/spot", "b/a/spot"], "one capacity type in one request");
        let only_a = [label("topology.kubernetes.io/zone", "a")].into_iter().collect();
        assert_eq!(named(alternatives(&catalogue, &only_a, &requests)), ["b/a/spot", "b/a/on-demand"]);
    }

    #[test]
    fn spot_is_never_dearer_than_on_demand() {
        let of = |instance_type: &str, capacity_type, price| {
            let (instance_type, zone) = (instance_type.to_owned(), "a".to_owned());
            Alternative { offering: Offering { instance_type, zone, capacity_type, reservation: None }, price }
        };
        let (spot, on_demand) = (CapacityType::Spot, CapacityType::OnDemand);
        let named = |found: Vec<Alternative>| found.iter().map(|one| one.offering.to_string()).collect::<Vec<_>>();
        let mixed = [of("a", spot, 0.05), of("b", on_demand, 0.1), of("c", spot, 0.1), of("d", spot, 0.2)];
        assert_eq!(named(first_choice(&mixed, false)), ["a/a/spot", "c/a/spot"]);
        assert_eq!(named(first_choice(&mixed, true)), ["a/a/spot", "c/a/spot", "d/a/spot"], "minValues may need them");
        let dear = [of("a", on_demand, 0.1), of("a", spot, 0.2)];
        assert_eq!(named(first_choice(&dear, false)), ["a/a/on-demand"]);
        assert_eq!(named(first_choice(&dear[1..], false)), ["a/a/spot"], "where only spot is allowed");
    }

    #[test]
    fn a_request_names_sixty_types() {
        let one = |number: usize| Alternative {
            offering: Offering {
                instance_type: format!("t{}", number / 2),
                zone: if number.is_multiple_of(2) { "a" } else { "b" }.to_owned(),
                capacity_type: CapacityType::OnDemand,
                reservation: None,
            },
            price: 1.0,
        };
        let many: Vec<Alternative> = (0..200).map(one).collect();
        assert_eq!(first_choice(&many, false).len(), 2 * MOST_TYPES);
    }
}
