//! Combines pods that must share a node into one unit before packing.
//!
//! Required pod affinity with topology key `kubernetes.io/hostname` needs a node with a target. Pods that select
//! themselves can only run together on one node, which the first of them chooses. Pods that select others are combined
//! with one of those, or distributed over several if one node cannot hold all.

use std::rc::Rc;

use fixedbitset::FixedBitSet;

use super::groups::{Group, Grouped};
use crate::compile::{Compiled, Part, fits};

/// Bundles all groups with such affinity. Groups whose targets do not exist stay unchanged and are not placed.
pub(crate) fn bundle_followers(compiled: &Compiled<'_>, grouped: &mut Grouped) {
    let mut waiting: Vec<usize> =
        (0..grouped.groups.len()).filter(|&group| !grouped.groups[group].part.joins.is_empty()).collect();
    // A group whose host is itself a follower is bundled after the host.
    while let Some(position) = (0..waiting.len()).find(|&at| host_is_ready(compiled, grouped, waiting[at], &waiting)) {
        let follower = waiting.remove(position);
        join(compiled, grouped, follower);
    }
}

fn host_is_ready(compiled: &Compiled<'_>, grouped: &Grouped, follower: usize, waiting: &[usize]) -> bool {
    host_of(compiled, grouped, follower).is_none_or(|host| !waiting.contains(&host))
}

/// Returns true if some bound pod is a target of `subject`, on a node that is not being deleted.
fn has_bound_target(compiled: &Compiled<'_>, grouped: &Grouped, subject: u32) -> bool {
    let problem = compiled.problem;
    problem
        .nodes
        .iter()
        .filter(|node| !node.deleting)
        .flat_map(|node| &node.bound)
        .any(|bound| bound.counts && grouped.rules.selects(subject, &problem.specs[bound.spec]))
}

fn selects_group(compiled: &Compiled<'_>, grouped: &Grouped, subject: u32, group: usize) -> bool {
    grouped.groups[group].units.first().is_some_and(|unit| {
        let mut pods = grouped.pods(unit).iter();
        pods.any(|&pod| grouped.selected_by[compiled.class_of(pod as usize)].contains(subject as usize))
    })
}

/// Returns the other group that `follower` must share nodes with, if any.
fn host_of(compiled: &Compiled<'_>, grouped: &Grouped, follower: usize) -> Option<usize> {
    let strangers = grouped.groups[follower].part.joins.iter().copied();
    let mut strangers = strangers.filter(|&subject| !selects_group(compiled, grouped, subject, follower));
    let subject = strangers.next()?;
    (0..grouped.groups.len()).find(|&other| other != follower && selects_group(compiled, grouped, subject, other))
}

fn join(compiled: &Compiled<'_>, grouped: &mut Grouped, follower: usize) {
    let joins = grouped.groups[follower].part.joins.clone();
    // Followers that select themselves can use the node of the first of them, unless a bound pod is a target.
    let founds = |subject: u32| {
        selects_group(compiled, grouped, subject, follower) && !has_bound_target(compiled, grouped, subject)
    };
    let subjects = |host: &usize| joins.iter().any(|&subject| selects_group(compiled, grouped, subject, *host));
    // A follower that still lacks a target cannot be a host.
    let anchored = |host: &usize| *host != follower && grouped.groups[*host].part.joins.is_empty();
    let host = (0..grouped.groups.len()).find(|host| anchored(host) && subjects(host));
    let given = |host: usize, subject: u32| selects_group(compiled, grouped, subject, host);
    match host.filter(|&host| joins.iter().all(|&subject| given(host, subject) || founds(subject))) {
        Some(host) => {
            let alone = joins.iter().any(|&subject| !given(host, subject));
            deal(compiled, grouped, follower, host, alone);
        }
        // The first such group starts a node; later groups join it.
        None if joins.iter().all(|&subject| founds(subject)) => {
            let units = std::mem::take(&mut grouped.groups[follower].units);
            let fitting = most_on_one_node(compiled, grouped, follower).min(most_alike(grouped, follower));
            let fitting = fitting.clamp(1, units.len().max(1));
            let (first, rest) = units.split_at(fitting.min(units.len()));
            grouped.groups[follower].units = rest.to_vec();
            replace_units(compiled, grouped, vec![first.iter().map(|&unit| (follower, unit)).collect()]);
        }
        None => follow_bound(compiled, grouped, follower),
    }
}

/// Restricts a group to the existing nodes that have targets for all of its affinity terms.
fn follow_bound(compiled: &Compiled<'_>, grouped: &mut Grouped, follower: usize) {
    let problem = compiled.problem;
    let joins = std::mem::take(&mut grouped.groups[follower].part.joins);
    let mut nodes = FixedBitSet::with_capacity(problem.nodes.len());
    for (number, node) in problem.nodes.iter().enumerate().filter(|(_, node)| !node.deleting) {
        let mut counting = node.bound.iter().filter(|bound| bound.counts);
        let all = joins
            .iter()
            .all(|&subject| counting.clone().any(|bound| grouped.rules.selects(subject, &problem.specs[bound.spec])));
        nodes.set(number, counting.next().is_some() && all);
    }
    if nodes.is_clear() {
        grouped.groups[follower].part.joins = joins;
        return;
    }
    grouped.groups[follower].signature = grouped.confined_signature(grouped.groups[follower].signature, nodes);
}

/// Maximum number of units of a group that an admitted shape or an existing node holds.
fn most_on_one_node(compiled: &Compiled<'_>, grouped: &Grouped, group: usize) -> usize {
    let one = &grouped.groups[group];
    let admits = &grouped.admits[one.signature as usize];
    let shapes = compiled.shapes.iter().enumerate().filter(|(shape, _)| admits.iter().any(|set| set.contains(*shape)));
    let times = |room: &[i32]| {
        let columns = one.sizes.iter().zip(room).filter(|&(&size, _)| size > 0);
        columns.map(|(&size, &room)| (room / size).max(0) as usize).min().unwrap_or(usize::MAX)
    };
    let existing = super::existing_nodes::standing(compiled).into_iter().map(|node| times(&node.room));
    shapes.map(|(_, shape)| times(&shape.room)).chain(existing).max().unwrap_or(0)
}

/// Maximum number of units of a group that rules allow on one node.
fn most_alike(grouped: &Grouped, group: usize) -> usize {
    let part = &grouped.groups[group].part;
    let counts =
        part.owns_host.iter().flat_map(|rule| part.targets_host.iter().filter(move |(target, _)| target == rule));
    let most = counts.map(|&(rule, count)| (grouped.rules.host[rule as usize].limit / count.max(1)).max(0) as usize);
    most.min().unwrap_or(usize::MAX)
}

/// Maximum number of units of `follower` that rules allow on the node of one unit of `host`.
fn most_beside(grouped: &Grouped, follower: usize, host: usize) -> usize {
    let (one, other) = (&grouped.groups[follower].part, &grouped.groups[host].part);
    let count = |part: &Part, rule: u32| {
        part.targets_host.iter().find(|&&(target, _)| target == rule).map_or(0, |&(_, count)| count)
    };
    let owned = one.owns_host.iter().chain(&other.owns_host);
    let most = owned.map(|&rule| {
        let left = grouped.rules.host[rule as usize].limit - count(other, rule);
        match count(one, rule) {
            0 if left < 0 => 0,
            0 => usize::MAX,
            each => (left / each).max(0) as usize,
        }
    });
    most.min().unwrap_or(usize::MAX)
}

/// Distributes the follower's units over as few of the host's units as can hold them. With `alone`, over one, with as
/// many as fit.
fn deal(compiled: &Compiled<'_>, grouped: &mut Grouped, follower: usize, host: usize, alone: bool) {
    let mut followers = std::mem::take(&mut grouped.groups[follower].units);
    let hosts = grouped.groups[host].units.clone();
    let apart = most_beside(grouped, follower, host);
    let carries = |share: usize| {
        let own = &grouped.groups[host].sizes;
        let each = &grouped.groups[follower].sizes;
        let sum = |(own, each): (&i32, &i32)| own.saturating_add(each.saturating_mul(share as i32));
        let sizes: Vec<i32> = own.iter().zip(&**each).map(sum).collect();
        share <= apart && compiled.shapes.iter().any(|shape| fits(&sizes, &shape.room))
    };
    let mut carriers = (1..=hosts.len()).find(|&carriers| carries(followers.len().div_ceil(carriers)));
    if alone || carriers.is_none() {
        // Not all can be placed: followers beyond the capacity of the hosts stay on their own.
        carriers = Some(if alone { 1 } else { hosts.len() });
        let each = (1..=followers.len()).rev().find(|&share| carries(share)).unwrap_or(0);
        let rest = followers.split_off(followers.len().min(each.saturating_mul(carriers.unwrap_or(1))));
        grouped.groups[follower].units = rest;
    }
    let carriers = carriers.unwrap_or(1).min(hosts.len());
    let mut bundles: Vec<Vec<(usize, u32)>> = hosts[..carriers].iter().map(|&unit| vec![(host, unit)]).collect();
    for (number, &unit) in followers.iter().enumerate() {
        bundles[number % carriers].push((follower, unit));
    }
    grouped.groups[host].units = hosts[carriers..].to_vec();
    replace_units(compiled, grouped, bundles);
}

/// Makes each list of (group, unit) one unit of its own new group.
fn replace_units(compiled: &Compiled<'_>, grouped: &mut Grouped, bundles: Vec<Vec<(usize, u32)>>) {
    for pieces in bundles.into_iter().filter(|pieces| !pieces.is_empty()) {
        let mut part = Part::default();
        let mut sizes = vec![0_i32; compiled.columns.width()];
        let mut signatures = Vec::new();
        let mut pods = Vec::new();
        for &(group, unit) in &pieces {
            let of = &grouped.groups[group];
            part.owns_host.extend(of.part.owns_host.iter().copied());
            part.owns_domain.extend(of.part.owns_domain.iter().copied());
            add_targets(&mut part.targets_host, &of.part.targets_host);
            add_targets(&mut part.targets_domain, &of.part.targets_domain);
            sizes.iter_mut().zip(&*of.sizes).for_each(|(sum, &size)| *sum = sum.saturating_add(size));
            signatures.push(of.signature);
            pods.extend_from_slice(grouped.pods(&unit));
        }
        part.owns_host.sort_unstable();
        part.owns_host.dedup();
        part.owns_domain.sort_unstable();
        part.owns_domain.dedup();
        pods.sort_unstable();
        let signature = grouped.joint_signature(&signatures);
        let unit = grouped.first_bundle + grouped.bundles.len() as u32;
        grouped.bundles.push(pods);
        grouped.groups.push(Group { signature, sizes: Rc::from(sizes), part, units: vec![unit] });
    }
}

fn add_targets(sum: &mut smallvec::SmallVec<[(u32, i32); 2]>, more: &[(u32, i32)]) {
    for &(rule, count) in more {
        match sum.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, total)) => *total += count,
            None => sum.push((rule, count)),
        }
    }
    sum.sort_unstable();
}
