//! Price and creation times of the existing claims.

use std::cell::OnceCell;

use jiff::Timestamp;
use muster_api::{Operator, labels};
use muster_scheduling::model::{Catalogue, InstanceType, NodePool, Problem};

use super::plan::ClaimAndNode;
use crate::lifecycle::caps::Spent;

/// Returns the usage for [`crate::lifecycle::caps::Caps::admit`]. A node that is being drained costs until it is gone,
/// so it counts until then; so does its claim even without an instance, since the answer of the cloud may have been
/// lost.
#[must_use]
pub fn spent(problem: &Problem, claims: &[ClaimAndNode<'_>]) -> Spent {
    let created = |one: &ClaimAndNode<'_>| one.claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let mut made_at: Vec<Timestamp> = claims.iter().filter_map(created).collect();
    made_at.sort_unstable();
    let prices = Prices::of(problem);
    Spent { made_at, hourly_price: claims.iter().map(|one| prices.price(one)).sum() }
}

/// Prices of claims, according to a problem.
struct Prices<'p> {
    problem: &'p Problem,
    /// Maximum price of a node, by pool, computed on demand; `None` if nothing that the pool may launch has a price.
    dearest: Vec<OnceCell<Option<f64>>>,
}

impl<'p> Prices<'p> {
    fn of(problem: &'p Problem) -> Self {
        Self { problem, dearest: vec![OnceCell::new(); problem.pools.len()] }
    }

    /// Returns the price of a claim in USD per hour: that of its instance, or before the launch that of its cheapest
    /// candidate. Without such a price it is the maximum price of its instance type, and for an unknown type the
    /// maximum price of its pool, or else of all pools. It is not taken as zero while any price is known: that would
    /// bypass a cap.
    fn price(&self, one: &ClaimAndNode<'_>) -> f64 {
        let name = label(one, labels::NODEPOOL);
        let pool = self.problem.pools.iter().position(|pool| Some(&*pool.name) == name);
        let known = pool.and_then(|pool| cheapest(self.catalogue(pool), one));
        known.or_else(|| self.of_its_type(one)).or_else(|| self.dearest_of(pool?)).unwrap_or_else(|| {
            // Its pool has been deleted, or its class does not offer anything at present.
            (0..self.problem.pools.len()).filter_map(|pool| self.dearest_of(pool)).fold(0.0, f64::max)
        })
    }

    fn catalogue(&self, pool: usize) -> &'p Catalogue {
        &self.problem.catalogues[self.problem.pools[pool].catalogue]
    }

    /// Returns the maximum price of the claim's instance type over all zones and capacity types.
    fn of_its_type(&self, one: &ClaimAndNode<'_>) -> Option<f64> {
        let name = label(one, labels::INSTANCE_TYPE)?;
        let types = self.problem.catalogues.iter().flat_map(|catalogue| catalogue.types());
        prices(types.filter(|one| &*one.name == name)).max_by(f64::total_cmp)
    }

    fn dearest_of(&self, pool: usize) -> Option<f64> {
        *self.dearest[pool].get_or_init(|| {
            let NodePool { requirements, .. } = &self.problem.pools[pool];
            let types = self.catalogue(pool).types().iter().filter(|one| one.requirements.intersects(requirements));
            prices(types).max_by(f64::total_cmp)
        })
    }
}

fn label<'a>(one: &'a ClaimAndNode<'_>, key: &str) -> Option<&'a str> {
    one.claim.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Returns all prices of these types.
fn prices<'a>(types: impl Iterator<Item = &'a InstanceType>) -> impl Iterator<Item = f64> {
    let all = types.flat_map(|one| &one.offerings).filter_map(|offering| offering.price);
    all.filter(|price| price.is_finite() && *price >= 0.0)
}

/// Returns the price of the claim's instance, or of its cheapest candidate.
fn cheapest(catalogue: &Catalogue, one: &ClaimAndNode<'_>) -> Option<f64> {
    let wanted = one.claim.spec.requirements.iter().filter(|it| it.operator == Operator::In);
    let wanted: Vec<(&str, &[String])> = wanted.map(|it| (it.key.as_str(), it.values.as_slice())).collect();
    let allows = |key: &str, value: Option<&str>| match label(one, key) {
        Some(label) => value == Some(label),
        None => {
            let mut listed = wanted.iter().filter(|(of, _)| *of == key);
            listed.all(|(_, values)| values.iter().any(|one| Some(one.as_str()) == value))
        }
    };
    let types = catalogue.types().iter().filter(|one| allows(labels::INSTANCE_TYPE, Some(&one.name)));
    let fit = types.flat_map(|one| &one.offerings).filter(|offering| {
        allows(labels::ZONE, offering.zone()) && allows(labels::CAPACITY_TYPE, offering.capacity_type())
    });
    fit.filter_map(|offering| offering.price).filter(|price| price.is_finite()).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use muster_api::NodeClaim;
    use serde_json::json;

    use super::super::tests::fixture::{Cluster, pool};
    use super::*;

    /// Returns the price in USD per hour of a claim of `general` with these labels, required values of labels, and
    /// further metadata. `general` buys on demand from a catalogue where `small` costs 0.1 and `large` 0.19.
    fn price(labels: &[(&str, &str)], requirements: &[(&str, &str)], more: serde_json::Value) -> f64 {
        let mut cluster = Cluster::new();
        // Its nodes cost at most 0.1.
        let mut lean = pool("lean");
        lean["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": labels::INSTANCE_CPU, "operator": "In", "values": ["2"]}]);
        cluster.add(lean);
        let mut void = pool("void");
        void["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m99.metal"]}]);
        cluster.add(void);
        let mut metadata = json!({"name": "general-a", "labels": {labels::NODEPOOL: "general"}});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        for (key, value) in labels {
            metadata["labels"][*key] = json!(value);
        }
        let requirements: Vec<_> =
            requirements.iter().map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]})).collect();
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        let claim: NodeClaim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata,
            "spec": {"nodeClassRef": class, "requirements": requirements},
        }))
        .unwrap();
        cluster.with_round(|round| spent(round.problem, &[ClaimAndNode { claim: &claim, node: None }]).hourly_price)
    }

    #[test]
    fn a_claim_costs_what_it_is_or_the_least_that_it_may_become() {
        let (kind, zone, bought) = (labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE);
        let none = || json!({});
        assert_eq!(price(&[(kind, "large"), (zone, "b"), (bought, "on-demand")], &[], none()), 0.19);
        assert_eq!(price(&[(kind, "large"), (zone, "a"), (bought, "spot")], &[], none()), 0.095);
        assert_eq!(price(&[], &[(kind, "large"), (bought, "on-demand")], none()), 0.19);
        assert_eq!(price(&[], &[(bought, "on-demand")], none()), 0.1);
    }

    #[test]
    fn what_is_being_drained_is_paid_for_until_it_is_gone() {
        let (kind, zone, bought) = (labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE);
        let ending = json!({"deletionTimestamp": "1970-01-01T00:00:10Z"});
        assert_eq!(price(&[(kind, "small"), (zone, "a"), (bought, "on-demand")], &[], ending), 0.1);
    }

    #[test]
    fn what_has_no_price_costs_the_most_that_it_may() {
        let (kind, zone, bought) = (labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE);
        let none = || json!({});
        // Spot is not offered in that zone: the type has a price elsewhere.
        assert_eq!(price(&[(kind, "small"), (zone, "b"), (bought, "spot")], &[], none()), 0.1);
        // The type is unknown.
        assert_eq!(price(&[(kind, "m99.metal"), (zone, "a"), (bought, "spot")], &[], none()), 0.19);
        assert_eq!(price(&[(kind, "m99.metal"), (labels::NODEPOOL, "lean")], &[], none()), 0.1);
        // So is its pool.
        assert_eq!(price(&[(kind, "m99.metal"), (labels::NODEPOOL, "gone")], &[], none()), 0.19);
        assert_eq!(price(&[(kind, "large"), (labels::NODEPOOL, "gone")], &[], none()), 0.19);
        assert_eq!(price(&[], &[(kind, "m99.metal")], none()), 0.19);
        // Its pool cannot launch anything.
        assert_eq!(price(&[(kind, "m99.metal"), (labels::NODEPOOL, "void")], &[], none()), 0.19);
    }
}
