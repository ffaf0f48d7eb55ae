//! Availability of types that would hold a pod: offerings, reservations, limits of the pool.

use std::collections::BTreeSet;

use super::census::{Census, TypeView};
use super::finding::{Finding, Stage};
use super::types::{left_of_limits, named};
use super::wording;
use crate::labels;
use crate::model::{Conflict, InstanceType, Offering, Requirements, Resource, zone_id};
use crate::solution::Reason;

/// Capacity type of offerings from a reservation.
const RESERVED: &str = "reserved";
/// Hint where nothing suitable can be bought.
const WAIT: &str = "wait for capacity, or allow more instance types";

/// Returns the reason why none of `candidates`, which would hold the pod, can be bought under `required`.
pub(super) fn nothing_offered(
    census: &Census<'_>,
    pool: usize,
    required: &Requirements,
    candidates: &[&TypeView],
) -> Finding {
    let type_of = |candidate: &TypeView| named(census, pool, candidate);
    let all = || candidates.iter().map(|it| type_of(it)).flat_map(|it| it.offerings.iter().map(move |of| (it, of)));
    let matching = || all().filter(|(_, offering)| required.intersects(&offering.requirements));
    let elsewhere = all().filter(|(it, offering)| buys(census, it, offering));
    let allowed = |offering: &Offering| census.problem.pools[pool].requirements.intersects(&offering.requirements);
    let elsewhere = elsewhere.min_by(|(a, x), (b, y)| {
        let order = allowed(y).cmp(&allowed(x)).then(cost(x).total_cmp(&cost(y)));
        order.then_with(|| a.name.cmp(&b.name))
    });
    let names = |is_meant: &dyn Fn(&Offering) -> bool| {
        let of = |it: &&&TypeView| {
            let mut matching = type_of(it).offerings.iter().filter(|it| required.intersects(&it.requirements));
            matching.any(is_meant)
        };
        let meant: Vec<_> = candidates.iter().filter(of).map(|it| &type_of(it).name).collect();
        (!meant.is_empty()).then(|| wording::list(meant, " "))
    };
    // For a type that is unavailable in one zone and without a price in another, the former is why the pod waits.
    let (gone, unpriced) = (names(&|it| !it.available), names(&|it| it.available));
    let shut = closed_zones(census, matching().map(|(_, offering)| offering));
    let wait = if shut.is_empty() { WAIT } else { "wait until the zone can be used again, or allow other zones" };
    let shut = if shut.is_empty() { shut } else { format!(": {shut}") };
    let (reason, why) = if let Some((it, offering)) = matching().find(|(_, it)| is_reserved(it) && it.launchable()) {
        (Reason::Reserved, reservation(census, it, offering))
    } else {
        let why = match (gone, unpriced) {
            (Some(gone), None) => format!("none of {gone} is available there now{shut}"),
            (Some(gone), Some(unpriced)) => {
                format!("none of {gone} is available there now{shut}, and no price is known for {unpriced}")
            }
            (None, Some(unpriced)) => format!("no price is known for {unpriced}"),
            (None, None) => {
                let names = wording::list(candidates.iter().map(|it| &type_of(it).name), " ");
                format!("{names} would hold the pod, and none is offered{}", place(required))
            }
        };
        (Reason::NoOffering, why)
    };
    let finding = Finding::new(Stage::Offerings, reason, format!("no instance type has the required offering, {why}"));
    let Some((it, offering)) = elsewhere else {
        return finding.hint(wait.to_owned());
    };
    let near = format!("{} can be bought{} at ${:.4} an hour", it.name, place(&offering.requirements), cost(offering));
    let hint = match required.first_disjoint(&offering.requirements) {
        Some(Conflict::Disjoint { key, incoming, .. }) => format!("allow {key} {}", wording::requirement(&incoming)),
        _ => wait.to_owned(),
    };
    finding.near(near).hint(hint)
}

/// Returns the reasons why zones of these offerings are closed; empty if none is.
fn closed_zones<'o>(census: &Census<'_>, offerings: impl Iterator<Item = &'o Offering>) -> String {
    let gone = offerings.filter(|offering| !offering.available);
    let zones: BTreeSet<(&str, &str)> = gone.filter_map(|one| Some((one.zone()?, zone_id(one)?))).collect();
    let reasons = zones.into_iter().filter_map(|(zone, id)| {
        let closed = census.problem.closed_zones.iter().find(|closed| *closed.id == *id)?;
        Some(format!("zone `{zone}` ({id}) {}", closed.why))
    });
    reasons.collect::<Vec<_>>().join(", and ")
}

/// Formats ` in us-west-2a (spot)`, as far as the requirements have these parts.
fn place(requirements: &Requirements) -> String {
    let values = |key| requirements.get(key).filter(|it| it.is_finite()).map(|it| wording::list(it.values(), " or "));
    let zone = values(labels::ZONE).map(|zone| format!(" in {zone}")).unwrap_or_default();
    let kind = values(labels::CAPACITY_TYPE).map(|kind| format!(" ({kind})")).unwrap_or_default();
    zone + &kind
}

/// Returns the price in USD per hour; an unknown price counts as infinite.
pub(super) fn cost(offering: &Offering) -> f64 {
    offering.price.unwrap_or(f64::INFINITY)
}

fn is_reserved(offering: &Offering) -> bool {
    offering.capacity_type() == Some(RESERVED)
}

/// Returns true if the offering can be launched again after the nodes already decided.
pub(super) fn buys(census: &Census<'_>, instance_type: &InstanceType, offering: &Offering) -> bool {
    offering.launchable()
        && (!is_reserved(offering)
            || (census.options.reserved_capacity
                && taken(census, instance_type, offering) < u64::from(offering.reservation_capacity)))
}

/// Returns the number of decided nodes that use this reservation. One with an id is the same for all types and pools;
/// one without belongs to its type, and pools that share it have equal requirements for it.
fn taken(census: &Census<'_>, instance_type: &InstanceType, offering: &Offering) -> u64 {
    let same = |node: &&crate::solution::NewNode| {
        let pool = census.problem.pools.get(node.pool);
        let launched = pool.and_then(|pool| census.problem.catalogues.get(pool.catalogue)?.get(node.instance_type));
        launched.is_some_and(|launched| {
            launched.offerings.get(node.offering).is_some_and(|bought| match reservation_id(offering) {
                Some(id) => reservation_id(bought) == Some(id),
                None => launched.name == instance_type.name && bought.requirements == offering.requirements,
            })
        })
    };
    census.solution.new_nodes.iter().filter(same).count() as u64
}

fn reservation_id(offering: &Offering) -> Option<&str> {
    offering.requirements.single(labels::CAPACITY_RESERVATION_ID)
}

fn reservation(census: &Census<'_>, instance_type: &InstanceType, offering: &Offering) -> String {
    let (name, place) = (&instance_type.name, place(&offering.requirements));
    if !census.options.reserved_capacity {
        return format!("only reserved capacity of {name}{place} is left and the gate ReservedCapacity is off");
    }
    let (taken, capacity) = (taken(census, instance_type, offering), offering.reservation_capacity);
    format!("the reserved capacity of {name}{place} is used up ({taken} of {capacity} taken by this plan)")
}

/// Returns the types of `candidates` that the limits of the pool still allow.
pub(super) fn within_limits<'c>(
    census: &Census<'_>,
    pool: usize,
    candidates: Vec<&'c TypeView>,
) -> Result<Vec<&'c TypeView>, Finding> {
    let Some(left) = left_of_limits(census, pool) else { return Ok(candidates) };
    let name = &census.problem.pools[pool].name;
    let nodes = Resource::new("nodes");
    let needs = |it: &TypeView, resource: &Resource| match resource {
        counted if *counted == nodes => 1,
        other => named(census, pool, it).capacity.get(other),
    };
    let exceeded = |it: &TypeView| left.iter().find(|(resource, left)| needs(it, resource) > *left).map(|(it, _)| it);
    let (within, beyond): (Vec<&TypeView>, Vec<&TypeView>) =
        candidates.into_iter().partition(|it| exceeded(it).is_none());
    if !within.is_empty() {
        return Ok(within);
    }
    let mut limited = left.iter().map(|(resource, _)| resource);
    let at_fault = limited.find(|it| beyond.iter().all(|candidate| needs(candidate, it) > left.get(it)));
    let Some(resource) = at_fault.or_else(|| beyond.first().and_then(|it| exceeded(it))) else { return Ok(beyond) };
    let Some(smallest) = beyond.iter().min_by_key(|it| (needs(it, resource), it.index)) else { return Ok(beyond) };
    let limit = left.get(resource).saturating_add(census.view(pool).used.get(resource));
    let used = census.view(pool).used.get(resource);
    let need = needs(smallest, resource);
    let amount = |value| wording::amount(resource, value);
    let enough = amount(used.saturating_add(need));
    let (limit, used, need) = (amount(limit), amount(used), amount(need));
    let hint = format!("raise spec.limits.{resource} of nodepool {name:?} to {enough} or more");
    let message = if *resource == nodes {
        format!("node limits have been exhausted for nodepool {name:?} (limit {limit}, used {used})")
    } else {
        format!(
            "all available instance types exceed limits for nodepool: {name:?} ({resource} limit {limit}, used {used})"
        )
    };
    let finding = Finding::new(Stage::Limits, Reason::Limits, message).hint(hint);
    let near =
        format!("{}, the smallest type that fits, needs {need} of {resource}", named(census, pool, smallest).name);
    Err(if *resource == nodes { finding } else { finding.near(near) })
}
