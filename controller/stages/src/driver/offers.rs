//! Offerings with which a NodeClaim may be launched.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::{NodeClaim, Operator};
use muster_aws::quantity;
use muster_cloud::{Alternative, Refusals, alternatives};
use muster_scheduling::model::{self, Catalogue, Requirements, Resource, Resources};

/// Returns the alternatives for a claim, cheapest first, without those that were refused recently.
pub(super) fn offers(
    claim: &NodeClaim,
    catalogue: &Catalogue,
    refusals: &Refusals,
    now: Timestamp,
) -> Vec<Alternative> {
    let mut all = alternatives(catalogue, &requirements(claim), &requests(claim));
    refusals.sieve(&mut all, now);
    all
}

fn requirements(claim: &NodeClaim) -> Requirements {
    let one = |wanted: &muster_api::Requirement| {
        let operator = match wanted.operator {
            Operator::In => model::Operator::In,
            Operator::NotIn => model::Operator::NotIn,
            Operator::Exists => model::Operator::Exists,
            Operator::DoesNotExist => model::Operator::DoesNotExist,
            Operator::Gt => model::Operator::Gt,
            Operator::Lt => model::Operator::Lt,
            Operator::Gte => model::Operator::Gte,
            Operator::Lte => model::Operator::Lte,
        };
        let values = wanted.values.iter().map(String::as_str);
        (Arc::<str>::from(wanted.key.as_str()), model::Requirement::new(operator, values))
    };
    claim.spec.requirements.iter().map(one).collect()
}

/// Returns the resource requests. The API server has validated the quantities; an invalid one is ignored.
fn requests(claim: &NodeClaim) -> Resources {
    let one = |(name, amount): (&str, &k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
        let resource = Resource::new(name);
        let amount = quantity::parse(&resource, &amount.0).ok()?;
        Some((resource, amount))
    };
    claim.spec.resources.requests.iter().filter_map(one).collect()
}
