//! Limits that nodes share: limits of pools, static replicas, reservations, and the weights of pools.

use rustc_hash::FxHashMap;

use super::catalogue::{could_open, opens_for_pods};
use super::nodes::{Launch, first_min_values_miss};
use super::specs::joined;
use super::violation::{Findings, Place, Promise};
use crate::labels::{CAPACITY_RESERVATION_ID, HOSTNAME, ZONE, stable_name};
use crate::model::{
    LabelSelector, MinValuesPolicy, NodePool, Operator, PreferencePolicy, Problem, Requirement, Requirements, Resource,
    Resources,
};
use crate::solution::{NewNode, Solution};

/// Checks the shared limits of the new nodes.
pub(crate) fn check(launch: &mut Launch<'_>, solution: &Solution, launches: &[usize], findings: &mut Findings) {
    let used = check_limits(launch, solution, findings);
    check_replicas(launch, solution, findings);
    let mut offerings = launch.specs.problem.catalogues.iter().flatten().flat_map(|kind| &kind.offerings);
    if offerings.any(|offering| offering.reservation_capacity > 0) {
        check_reservations(launch, solution, launches, findings);
    }
    check_weights(launch, solution, &used, findings);
}

fn capacity_with_count(capacity: &Resources) -> Resources {
    let mut capacity = capacity.clone();
    capacity.set(Resource::new("nodes"), 1);
    capacity
}

/// Returns the usage with the plan's nodes, by pool. It is empty for pools without limits.
fn check_limits(launch: &Launch<'_>, solution: &Solution, findings: &mut Findings) -> Vec<Resources> {
    let problem = launch.specs.problem;
    let mut used: Vec<Resources> = problem.pools.iter().map(|_| Resources::new()).collect();
    for (number, pool) in problem.pools.iter().enumerate() {
        let Some(limits) = &pool.limits else { continue };
        let types = &problem.catalogues[pool.catalogue];
        let mine = || solution.new_nodes.iter().enumerate().filter(|(_, node)| node.pool == number);
        let of_type = |kind: usize, resource: &Resource| match resource.name() {
            "nodes" => 1,
            _ => types[kind].capacity.get(resource),
        };
        used[number] = pool.usage.clone();
        for (resource, limit) in limits.iter() {
            let new = mine().map(|(_, node)| of_type(node.instance_type, resource));
            let sum = new.fold(pool.usage.get(resource), i64::saturating_add);
            used[number].set(resource.clone(), sum);
            if mine().next().is_none() {
                continue;
            }
            if sum > limit {
                findings.note(Place::Pool(number), Promise::Limits, format!("{resource}: {sum} of {limit}"));
                continue;
            }
            let largest = (0..types.len()).map(|kind| of_type(kind, resource)).max().unwrap_or(0);
            if sum.saturating_add(largest) <= limit {
                continue;
            }
            for (at, node) in mine() {
                let others = sum - of_type(node.instance_type, resource);
                let over = |kind: &&usize| others.saturating_add(of_type(**kind, resource)) > limit;
                if let Some(kind) = node.alternatives.iter().find(over) {
                    findings.note(
                        Place::New(at),
                        Promise::Limits,
                        format!("type {kind} exceeds the limit of {resource}"),
                    );
                }
            }
        }
    }
    used
}

fn check_replicas(launch: &Launch<'_>, solution: &Solution, findings: &mut Findings) {
    for (number, pool) in launch.specs.problem.pools.iter().enumerate() {
        let Some(missing) = pool.missing_replicas else { continue };
        let planned = solution.new_nodes.iter().filter(|node| node.pool == number).count();
        if planned > missing as usize {
            findings.note(Place::Pool(number), Promise::Replicas, format!("{planned} nodes for {missing} replicas"));
        }
    }
}

fn check_reservations(launch: &mut Launch<'_>, solution: &Solution, launches: &[usize], findings: &mut Findings) {
    let problem = launch.specs.problem;
    // A reservation, or the offering itself if it has no reservation id.
    let name = |catalogue: usize, kind: usize, offering: usize| {
        let requirements = &problem.catalogues[catalogue][kind].offerings[offering].requirements;
        match requirements.single(CAPACITY_RESERVATION_ID) {
            Some(id) => (id, 0, 0, 0),
            None => ("", catalogue, kind, offering),
        }
    };
    // If offerings of one reservation disagree on the number of instances left, the lowest count applies.
    let mut left = FxHashMap::default();
    for (catalogue, types) in problem.catalogues.iter().enumerate() {
        for (kind, one) in types.iter().enumerate() {
            for (at, offering) in one.offerings.iter().enumerate() {
                if offering.capacity_type() == Some("reserved") {
                    let count = left.entry(name(catalogue, kind, at)).or_insert(i64::MAX);
                    *count = i64::from(offering.reservation_capacity).min(*count);
                }
            }
        }
    }
    for (number, node) in solution.new_nodes.iter().enumerate() {
        let pool = &problem.pools[node.pool];
        let offering = &problem.catalogues[pool.catalogue][node.instance_type].offerings[node.offering];
        if offering.capacity_type() != Some("reserved") {
            continue;
        }
        let left = left.entry(name(pool.catalogue, node.instance_type, node.offering)).or_insert(0);
        *left -= 1;
        if *left < 0 {
            findings.note(Place::New(number), Promise::Reservations, "its reservation is used up");
        }
    }
    for (number, node) in solution.new_nodes.iter().enumerate() {
        let id = launches[number];
        for &kind in node.alternatives.iter() {
            if launch.launch(id).any[kind] >= node.price {
                continue;
            }
            // A reservation is of one type, which may be too little choice.
            let pool = &problem.pools[node.pool];
            let alone = [&problem.catalogues[pool.catalogue][kind]];
            let choice = first_min_values_miss(&pool.requirements, &alone).is_none();
            if launch.options.min_values == MinValuesPolicy::Strict && !choice {
                continue;
            }
            let (_, catalogue, _) = launch.pool(node.pool);
            let offerings = &catalogue.types[kind].offerings;
            let unused = catalogue.reserved(kind).find(|offer| {
                let offering = &offerings[offer.index];
                offering.price.is_some_and(|price| price < node.price)
                    && node.requirements.intersects(&offering.requirements)
                    && left.get(&name(pool.catalogue, kind, offer.index)).is_some_and(|left| *left > 0)
            });
            if unused.is_some() {
                findings.note(
                    Place::New(number),
                    Promise::Price,
                    format!("type {kind} has a cheaper reservation left"),
                );
                break;
            }
        }
    }
}

/// Checks that a node belongs to a lighter pool only if one of its pods cannot use any heavier one. A pod is assumed to
/// need the lighter pool whenever that cannot be ruled out: it follows other pods, rules about zones may have fixed its
/// zone, rules about another label may have fixed a value that only the lighter pool has, it prefers some labels, the
/// heavier pool has a soft taint, or the heavier pool has limits and `minValues`.
fn check_weights(launch: &mut Launch<'_>, solution: &Solution, used: &[Resources], findings: &mut Findings) {
    let problem = launch.specs.problem;
    let mut known: FxHashMap<(usize, usize, String), bool> = FxHashMap::default();
    let zonal = problem.specs.iter().any(|spec| {
        let terms = spec.affinity.iter().chain(&spec.anti_affinity).map(|term| &term.topology_key);
        spec.spread.iter().map(|spread| &spread.topology_key).chain(terms).any(|key| stable_name(key) == ZONE)
    });
    let labelled = labelled_rules(problem);
    // If a limited pool has `minValues`, the room for one more node depends on all types that its other nodes may be
    // launched as.
    let strict = launch.options.min_values == MinValuesPolicy::Strict;
    let shares_choice = |pool: &NodePool| {
        strict && pool.limits.is_some() && pool.requirements.iter().any(|(_, asked)| asked.min_values.is_some())
    };
    for (number, node) in solution.new_nodes.iter().enumerate() {
        let weight = problem.pools[node.pool].weight;
        let pools = problem.pools.iter().enumerate();
        let judged = |pool: &NodePool| pool.weight > weight && opens_for_pods(pool) && !shares_choice(pool);
        let heavier: Vec<usize> = pools.filter(|(_, pool)| judged(pool)).map(|(at, _)| at).collect();
        if heavier.is_empty() || node.pods.is_empty() {
            continue;
        }
        let zone = if zonal { node_zone(launch, node) } else { String::new() };
        let needs_this = node.pods.iter().any(|&pod| {
            let spec = problem.pods[pod].spec;
            let about = &problem.specs[spec];
            let soft =
                launch.options.preferences == PreferencePolicy::Respect && !about.preferred_node_terms.is_empty();
            let counted = || labelled.iter().any(|&(owner, selector)| owner == spec || selector.matches(&about.labels));
            if soft || !about.affinity.is_empty() || counted() {
                return true;
            }
            !heavier.iter().any(|&pool| {
                let key = (pool, spec, zone.clone());
                if let Some(&known) = known.get(&key) {
                    return known;
                }
                let usable = usable(launch, pool, spec, &zone, &used[pool]);
                known.insert(key, usable);
                usable
            })
        });
        if !needs_this {
            findings.note(Place::New(number), Promise::Weights, "each of its pods could have had a heavier pool");
        }
    }
}

/// Returns the rules between pods about labels other than zone and hostname: owner and selector.
fn labelled_rules(problem: &Problem) -> Vec<(usize, &LabelSelector)> {
    let specs = problem.specs.iter().enumerate();
    let rules = specs.flat_map(|(owner, spec)| {
        let terms = spec.affinity.iter().chain(&spec.anti_affinity).map(|term| (&term.topology_key, &term.selector));
        let spreads = spec.spread.iter().map(|spread| (&spread.topology_key, &spread.selector));
        spreads.chain(terms).map(move |(key, selector)| (owner, key, selector))
    });
    let other = rules.filter(|(_, key, _)| ![ZONE, HOSTNAME].contains(&stable_name(key)));
    other.map(|(owner, _, selector)| (owner, selector)).collect()
}

fn node_zone(launch: &Launch<'_>, node: &NewNode) -> String {
    let pool = &launch.specs.problem.pools[node.pool];
    let offering = &launch.specs.problem.catalogues[pool.catalogue][node.instance_type].offerings[node.offering];
    let zone = node.requirements.single(ZONE).and_then(|_| offering.zone());
    zone.unwrap_or_default().to_owned()
}

fn usable(launch: &mut Launch<'_>, pool: usize, spec: usize, zone: &str, used: &Resources) -> bool {
    let (specs, strict) = (launch.specs, launch.options.min_values == MinValuesPolicy::Strict);
    let about = &specs.problem.specs[spec];
    let (pool, catalogue, overheads) = launch.pool(pool);
    let soft =
        pool.taints.iter().any(|taint| !taint.repels() && !about.tolerations.iter().any(|it| it.tolerates(taint)));
    if soft || specs.repelled_by(specs.tolerance_id(spec), &pool.taints).is_some() {
        return false;
    }
    let mut pinned = Requirements::new();
    if !zone.is_empty() {
        pinned.add(ZONE, Requirement::new(Operator::In, [zone]));
    }
    specs.placement(specs.placement_id(spec)).choices().iter().any(|choice| {
        joined(&[choice, &pinned]).is_some_and(|choice| {
            let asked = (&choice, specs.request(spec), &about.host_ports[..]);
            could_open(catalogue, overheads, pool, asked, strict, |kind| {
                let Some(limits) = &pool.limits else { return true };
                let capacity = capacity_with_count(&kind.capacity);
                limits
                    .iter()
                    .all(|(resource, limit)| used.get(resource).saturating_add(capacity.get(resource)) <= limit)
            })
        })
    })
}
