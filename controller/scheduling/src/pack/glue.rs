//! Pods that must share a node become one unit before anything is packed.
//!
//! Required affinity on hostnames asks for a node that holds a target. Pods that select themselves can only ever live on
//! one node together (the first one founds it); pods that select others are glued to one of those, or dealt over several
//! where one node cannot hold all.

use std::rc::Rc;

use super::groups::{Group, Grouped};
use crate::compile::{Compiled, Part, fits};

/// Glues; what needs company that no pending pod gives is left as it is (an existing node may have it).
pub(crate) fn glue(compiled: &Compiled<'_>, grouped: &mut Grouped) {
    let mut waiting: Vec<usize> =
        (0..grouped.groups.len()).filter(|&group| !grouped.groups[group].part.joins.is_empty()).collect();
    // A group whose host is itself a follower waits until that one is glued.
    while let Some(position) = (0..waiting.len()).find(|&at| host_is_ready(compiled, grouped, waiting[at], &waiting)) {
        let follower = waiting.remove(position);
        join(compiled, grouped, follower);
    }
}

fn host_is_ready(compiled: &Compiled<'_>, grouped: &Grouped, follower: usize, waiting: &[usize]) -> bool {
    host_of(compiled, grouped, follower).is_none_or(|host| !waiting.contains(&host))
}

/// Whether some bound pod is a target of `subject`: then existing nodes give company.
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
        pods.any(|&pod| grouped.rules.selects(subject, compiled.problem.spec_of(pod as usize)))
    })
}

/// The group that `follower` must share nodes with, if it is another one.
fn host_of(compiled: &Compiled<'_>, grouped: &Grouped, follower: usize) -> Option<usize> {
    let strangers = grouped.groups[follower].part.joins.iter().copied();
    let mut strangers = strangers.filter(|&subject| !selects_group(compiled, grouped, subject, follower));
    let subject = strangers.next()?;
    (0..grouped.groups.len()).find(|&other| other != follower && selects_group(compiled, grouped, subject, other))
}

fn join(compiled: &Compiled<'_>, grouped: &mut Grouped, follower: usize) {
    let joins = grouped.groups[follower].part.joins.clone();
    if joins.iter().any(|&subject| has_bound_target(compiled, grouped, subject)) {
        return;
    }
    if joins.iter().all(|&subject| selects_group(compiled, grouped, subject, follower)) {
        let all = std::mem::take(&mut grouped.groups[follower].units);
        bundle(compiled, grouped, vec![all.iter().map(|&unit| (follower, unit)).collect()]);
    } else if let Some(host) = host_of(compiled, grouped, follower) {
        deal(compiled, grouped, follower, host);
    }
}

/// Deals the follower's units over as few of the host's units as can carry them.
fn deal(compiled: &Compiled<'_>, grouped: &mut Grouped, follower: usize, host: usize) {
    let followers = std::mem::take(&mut grouped.groups[follower].units);
    let hosts = grouped.groups[host].units.clone();
    let carriers = (1..=hosts.len())
        .find(|&carriers| {
            let share = followers.len().div_ceil(carriers) as i32;
            let sizes: Vec<i32> = grouped.groups[host]
                .sizes
                .iter()
                .zip(&*grouped.groups[follower].sizes)
                .map(|(own, each)| own.saturating_add(each.saturating_mul(share)))
                .collect();
            compiled.shapes.iter().any(|shape| fits(&sizes, &shape.room))
        })
        .unwrap_or(hosts.len());
    let mut bundles: Vec<Vec<(usize, u32)>> = hosts[..carriers].iter().map(|&unit| vec![(host, unit)]).collect();
    for (number, &unit) in followers.iter().enumerate() {
        bundles[number % carriers].push((follower, unit));
    }
    grouped.groups[host].units = hosts[carriers..].to_vec();
    bundle(compiled, grouped, bundles);
}

/// Makes each list of (group, unit) one unit of a new group.
fn bundle(compiled: &Compiled<'_>, grouped: &mut Grouped, bundles: Vec<Vec<(usize, u32)>>) {
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
            signatures.extend(grouped.signature_parts[of.signature as usize].iter().copied());
            pods.extend_from_slice(grouped.pods(&unit));
        }
        part.owns_host.sort_unstable();
        part.owns_host.dedup();
        part.owns_domain.sort_unstable();
        part.owns_domain.dedup();
        pods.sort_unstable();
        let signature = grouped.joint_signature(signatures);
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
