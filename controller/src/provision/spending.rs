//! What the claims that are there cost, and when they were made.

use jiff::Timestamp;
use muster_api::{Operator, labels};
use muster_scheduling::model::Problem;

use super::plan::Claimed;
use crate::lifecycle::caps::Spent;

/// What has been launched, for [`crate::lifecycle::caps::Caps::admit`].
#[must_use]
pub fn spent(problem: &Problem, claims: &[Claimed<'_>]) -> Spent {
    let created = |one: &Claimed<'_>| one.claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let mut made_at: Vec<Timestamp> = claims.iter().filter_map(created).collect();
    made_at.sort_unstable();
    let staying = claims.iter().filter(|one| one.claim.metadata.deletion_timestamp.is_none());
    Spent { made_at, hourly_price: staying.filter_map(|one| price(problem, one)).sum() }
}

/// USD per hour of a claim: of what it was launched as, and before that of the cheapest that it may be. What no catalogue
/// knows has no price.
fn price(problem: &Problem, one: &Claimed<'_>) -> Option<f64> {
    let label = |key: &str| one.claim.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let pool = problem.pools.iter().find(|pool| Some(&*pool.name) == label(labels::NODEPOOL))?;
    let wanted = one.claim.spec.requirements.iter().filter(|it| it.operator == Operator::In);
    let wanted: Vec<(&str, &[String])> = wanted.map(|it| (it.key.as_str(), it.values.as_slice())).collect();
    let allows = |key: &str, value: Option<&str>| match label(key) {
        Some(label) => value == Some(label),
        None => {
            let mut listed = wanted.iter().filter(|(of, _)| *of == key);
            listed.all(|(_, values)| values.iter().any(|one| Some(one.as_str()) == value))
        }
    };
    let types = problem.catalogues[pool.catalogue].types().iter();
    let offerings = types.filter(|one| allows(labels::INSTANCE_TYPE, Some(&one.name))).flat_map(|one| &one.offerings);
    let fit = offerings.filter(|offering| {
        allows(labels::ZONE, offering.zone()) && allows(labels::CAPACITY_TYPE, offering.capacity_type())
    });
    fit.filter_map(|offering| offering.price).min_by(f64::total_cmp)
}
