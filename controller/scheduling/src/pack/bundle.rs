//! Combines pods that must share a node into one unit before packing.
//!
//! Required pod affinity with topology key `kubernetes.io/hostname` needs a node with a target. Pods that select
//! themselves can only run together on one node, which the first of them chooses. Pods that select others are combined
//! with one of those, or distributed over several if one node cannot hold all.

use std::cmp::Ordering;
use std::rc::Rc;

use fixedbitset::FixedBitSet;
use index_vec::Idx;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::groups::{Group, GroupId, Grouped};
use crate::compile::{Compiled, HostRuleId, Part, SignatureId, fits};

/// Rules that a unit is a target of, with the number of targets that it counts as; sorted by rule.
type Targets<R> = SmallVec<[(R, i32); 2]>;

/// Bundles all groups with such affinity. Groups whose targets do not exist stay unchanged and are not placed.
pub(crate) fn bundle_followers(compiled: &Compiled<'_>, grouped: &mut Grouped) {
    let mut waiting: Vec<GroupId> =
        grouped.groups.indices().filter(|&group| !grouped.groups[group].part.joins.is_empty()).collect();
    if waiting.is_empty() {
        return;
    }
    let mut waits: FixedBitSet = waiting.iter().map(|group| group.index()).collect();
    let mut known = Followers::new(compiled);
    // A group whose host is itself a follower is bundled after the host.
    let is_ready = |known: &mut Followers<'_>, grouped: &Grouped, follower: GroupId, waits: &FixedBitSet| {
        known.host_of(grouped, follower).is_none_or(|host| !waits.contains(host.index()))
    };
    while let Some(position) = (0..waiting.len()).find(|&at| is_ready(&mut known, grouped, waiting[at], &waits)) {
        let follower = waiting.remove(position);
        waits.remove(follower.index());
        known.join(grouped, follower);
    }
}

/// Known facts of groups and subjects, so that no follower asks again.
struct Followers<'a> {
    compiled: &'a Compiled<'a>,
    /// Host of each follower that was asked for it.
    hosts: FxHashMap<GroupId, Option<GroupId>>,
    /// True if some bound pod is a target, by subject.
    bound_targets: FxHashMap<u32, bool>,
    /// Shapes admitted in some cell, by signature.
    admitted: FxHashMap<SignatureId, FixedBitSet>,
    /// Room of the existing nodes.
    rooms: Vec<Vec<i32>>,
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

fn selects_group(compiled: &Compiled<'_>, grouped: &Grouped, subject: u32, group: GroupId) -> bool {
    grouped.groups[group].units.first().is_some_and(|unit| {
        let mut pods = grouped.pods(unit).iter();
        pods.any(|&pod| grouped.selected_by[compiled.class_of(pod as usize)].contains(subject as usize))
    })
}

/// Returns the first other group that `follower` must share nodes with, if any.
fn host_of(compiled: &Compiled<'_>, grouped: &Grouped, follower: GroupId) -> Option<GroupId> {
    let strangers = grouped.groups[follower].part.joins.iter().copied();
    let mut strangers = strangers.filter(|&subject| !selects_group(compiled, grouped, subject, follower));
    let subject = strangers.next()?;
    grouped.groups.indices().find(|&other| other != follower && selects_group(compiled, grouped, subject, other))
}

impl<'a> Followers<'a> {
    fn new(compiled: &'a Compiled<'a>) -> Self {
        Self {
            compiled,
            hosts: FxHashMap::default(),
            bound_targets: FxHashMap::default(),
            admitted: FxHashMap::default(),
            rooms: super::existing_nodes::standing(compiled).into_iter().map(|node| node.room).collect(),
        }
    }

    /// Returns the first other group that `follower` must share nodes with, if any. Groups only lose units, and bundles
    /// follow all groups, so that a known answer holds while that group has units.
    fn host_of(&mut self, grouped: &Grouped, follower: GroupId) -> Option<GroupId> {
        match self.hosts.get(&follower) {
            Some(None) => None,
            Some(&Some(host)) if !grouped.groups[host].units.is_empty() => Some(host),
            _ => {
                let host = host_of(self.compiled, grouped, follower);
                self.hosts.insert(follower, host);
                host
            }
        }
    }

    fn join(&mut self, grouped: &mut Grouped, follower: GroupId) {
        let compiled = self.compiled;
        let joins = grouped.groups[follower].part.joins.clone();
        // Followers that select themselves can use the node of the first of them, unless a bound pod is a target.
        let founded: Vec<bool> = joins
            .iter()
            .map(|&subject| {
                selects_group(compiled, grouped, subject, follower) && !self.has_bound_target(grouped, subject)
            })
            .collect();
        let subjects = |host: &GroupId| joins.iter().any(|&subject| selects_group(compiled, grouped, subject, *host));
        // A follower that still lacks a target cannot be a host.
        let anchored = |host: &GroupId| *host != follower && grouped.groups[*host].part.joins.is_empty();
        let given = |host: GroupId, subject: u32| selects_group(compiled, grouped, subject, host);
        let holds =
            |host: &GroupId| joins.iter().zip(&founded).all(|(&subject, &founds)| founds || given(*host, subject));
        let host = grouped.groups.indices().find(|host| anchored(host) && subjects(host) && holds(host));
        match host {
            Some(host) => {
                let alone = joins.iter().any(|&subject| !given(host, subject));
                deal(compiled, grouped, &self.rooms, (follower, host), alone);
            }
            // The first such group starts a node; later groups join it.
            None if founded.iter().all(|&founds| founds) => {
                let units = std::mem::take(&mut grouped.groups[follower].units);
                let fitting = self.most_on_one_node(grouped, follower).min(most_alike(grouped, follower));
                let fitting = fitting.clamp(1, units.len().max(1));
                let (first, rest) = units.split_at(fitting.min(units.len()));
                grouped.groups[follower].units = rest.to_vec();
                replace_units(compiled, grouped, vec![first.iter().map(|&unit| (follower, unit)).collect()]);
            }
            None => follow_bound(compiled, grouped, follower),
        }
    }

    fn has_bound_target(&mut self, grouped: &Grouped, subject: u32) -> bool {
        *self.bound_targets.entry(subject).or_insert_with(|| has_bound_target(self.compiled, grouped, subject))
    }

    /// Maximum number of units of a group that an admitted shape or an existing node holds.
    fn most_on_one_node(&mut self, grouped: &Grouped, group: GroupId) -> usize {
        let one = &grouped.groups[group];
        let admitted = self.admitted.entry(one.signature).or_insert_with(|| {
            let mut all = FixedBitSet::with_capacity(self.compiled.shapes.len());
            grouped.admits[one.signature].iter().for_each(|set| all.union_with(set));
            all
        });
        let times = |room: &[i32]| {
            let columns = one.sizes.iter().zip(room).filter(|&(&size, _)| size > 0);
            columns.map(|(&size, &room)| (room / size).max(0) as usize).min().unwrap_or(usize::MAX)
        };
        let existing = self.rooms.iter().map(|room| times(room));
        let new = admitted.ones().map(|shape| times(&self.compiled.shapes[shape].room));
        new.chain(existing).max().unwrap_or(0)
    }
}

/// Restricts a group to the existing nodes that have targets for all of its affinity terms.
fn follow_bound(compiled: &Compiled<'_>, grouped: &mut Grouped, follower: GroupId) {
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

/// Maximum number of units of a group that rules allow on one node.
fn most_alike(grouped: &Grouped, group: GroupId) -> usize {
    let part = &grouped.groups[group].part;
    let counts =
        part.owns_host.iter().flat_map(|rule| part.targets_host.iter().filter(move |(target, _)| target == rule));
    let most = counts.map(|&(rule, count)| (grouped.rules.host[rule].limit / count.max(1)).max(0) as usize);
    most.min().unwrap_or(usize::MAX)
}

/// Maximum number of units of `follower` that rules allow on the node of one unit of `host`.
fn most_beside(grouped: &Grouped, follower: GroupId, host: GroupId) -> usize {
    let (one, other) = (&grouped.groups[follower].part, &grouped.groups[host].part);
    let count = |part: &Part, rule: HostRuleId| {
        part.targets_host.iter().find(|&&(target, _)| target == rule).map_or(0, |&(_, count)| count)
    };
    let owned = one.owns_host.iter().chain(&other.owns_host);
    let most = owned.map(|&rule| {
        let left = grouped.rules.host[rule].limit - count(other, rule);
        match count(one, rule) {
            0 if left < 0 => 0,
            0 => usize::MAX,
            each => (left / each).max(0) as usize,
        }
    });
    most.min().unwrap_or(usize::MAX)
}

/// Returns the shapes that admit units of both groups in some cell.
fn admitted_together(compiled: &Compiled<'_>, grouped: &Grouped, (one, other): (GroupId, GroupId)) -> FixedBitSet {
    let admits = |group: GroupId| &grouped.admits[grouped.groups[group].signature];
    let mut common = FixedBitSet::with_capacity(compiled.shapes.len());
    for (one, other) in admits(one).iter().zip(admits(other).iter()) {
        let mut both = one.clone();
        both.intersect_with(other);
        common.union_with(&both);
    }
    common
}

/// Distributes the follower's units over as few of the host's units as can hold them. With `alone`, over one, with as
/// many as fit.
fn deal(
    compiled: &Compiled<'_>,
    grouped: &mut Grouped,
    rooms: &[Vec<i32>],
    (follower, host): (GroupId, GroupId),
    alone: bool,
) {
    let mut followers = std::mem::take(&mut grouped.groups[follower].units);
    let hosts = grouped.groups[host].units.clone();
    let apart = most_beside(grouped, follower, host);
    let common = admitted_together(compiled, grouped, (follower, host));
    let carries = |share: usize| {
        let own = &grouped.groups[host].sizes;
        let each = &grouped.groups[follower].sizes;
        let sum = |(own, each): (&i32, &i32)| own.saturating_add(each.saturating_mul(share as i32));
        let sizes: Vec<i32> = own.iter().zip(&**each).map(sum).collect();
        let holds = |shape: usize| fits(&sizes, &compiled.shapes[shape].room);
        share <= apart && (common.ones().any(holds) || rooms.iter().any(|room| fits(&sizes, room)))
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
    let mut bundles: Vec<Vec<(GroupId, u32)>> = hosts[..carriers].iter().map(|&unit| vec![(host, unit)]).collect();
    for (number, &unit) in followers.iter().enumerate() {
        bundles[number % carriers].push((follower, unit));
    }
    grouped.groups[host].units = hosts[carriers..].to_vec();
    replace_units(compiled, grouped, bundles);
}

/// Makes each list of (group, unit) one unit of its own new group.
fn replace_units(compiled: &Compiled<'_>, grouped: &mut Grouped, bundles: Vec<Vec<(GroupId, u32)>>) {
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

/// Adds the counts of `more`; both are sorted by rule.
fn add_targets<R: Copy + Ord>(sum: &mut Targets<R>, more: &[(R, i32)]) {
    let mut all = Targets::<R>::with_capacity(sum.len() + more.len());
    let (mut left, mut right) = (sum.iter().copied().peekable(), more.iter().copied().peekable());
    while let (Some(&one), Some(&other)) = (left.peek(), right.peek()) {
        match one.0.cmp(&other.0) {
            Ordering::Less => all.extend(left.next()),
            Ordering::Greater => all.extend(right.next()),
            Ordering::Equal => {
                all.push((one.0, one.1 + other.1));
                left.next();
                right.next();
            }
        }
    }
    all.extend(left);
    all.extend(right);
    *sum = all;
}
