//! Enforces pool limits on the types that launches name.

use crate::compile::Compiled;
use crate::model::{Catalogue, Offering, Resources};
use crate::pack::construct::OpenedNode;
use crate::solution::NewNode;

/// Removes the launch alternatives with which a pool would exceed its limits, assuming all other nodes are launched as
/// planned.
pub(super) fn keep(compiled: &Compiled<'_>, opened: &[OpenedNode], nodes: &mut [NewNode]) {
    let problem = compiled.problem;
    for (pool, one) in problem.pools.iter().enumerate() {
        let Some(limits) = &one.limits else { continue };
        let own = || opened.iter().enumerate().filter(|(_, node)| compiled.shapes[node.shape].pool == pool);
        if own().next().is_none() {
            continue;
        }
        let types = &problem.catalogues[one.catalogue];
        let uses = Uses::new(limits, types);
        let mut left: Vec<i64> =
            limits.iter().map(|(resource, limit)| limit.saturating_sub(one.usage.get(resource))).collect();
        for (_, node) in own() {
            let planned = uses.of(compiled.shapes[node.shape].instance_type);
            left.iter_mut().zip(planned).for_each(|(left, spent)| *left = left.saturating_sub(*spent));
        }
        let mut nodes_left = own().count() as i64;
        for (number, node) in own() {
            let planned = uses.of(compiled.shapes[node.shape].instance_type);
            // Every node may use its share of the rest, so that the pool stays within its limits whatever is launched.
            let share: Vec<i64> = left.iter().map(|left| (*left).max(0) / nodes_left.max(1)).collect();
            nodes_left -= 1;
            let within = |wanted: &[i64]| {
                let mut all = wanted.iter().zip(planned).zip(&share);
                all.all(|((wanted, planned), share)| wanted - planned <= *share)
            };
            if within(&uses.most) {
                for ((left, most), planned) in left.iter_mut().zip(&uses.most).zip(planned) {
                    *left = left.saturating_sub((most - planned).max(0));
                }
                continue;
            }
            let new = &mut nodes[number];
            let kept: Vec<usize> = new.alternatives.iter().copied().filter(|&one| within(uses.of(one))).collect();
            for (at, left) in left.iter_mut().enumerate() {
                let most = kept.iter().map(|&one| uses.of(one)[at]).max().unwrap_or(planned[at]);
                *left = left.saturating_sub((most - planned[at]).max(0));
            }
            if kept.len() == new.alternatives.len() || kept.is_empty() {
                continue;
            }
            if kept[0] != new.instance_type {
                launch_as(new, kept[0], types);
            }
            new.alternatives = kept.into();
        }
    }
}

/// Launches nodes of pools with limits as the planned type if the cheapest type has the same price: the plan did not
/// account for the other type's use of limits or its labels. With `all`, also nodes of other pools.
pub(super) fn keep_planned(compiled: &Compiled<'_>, opened: &[OpenedNode], nodes: &mut [NewNode], all: bool) {
    for (opened, node) in opened.iter().zip(nodes) {
        let pool = &compiled.problem.pools[node.pool];
        let planned = compiled.shapes[opened.shape].instance_type;
        let matters = all || pool.limits.is_some();
        if !matters || opened.reserved.is_some() || node.instance_type == planned {
            continue;
        }
        let Some(at) = node.alternatives.iter().position(|&one| one == planned) else { continue };
        let mut other = node.clone();
        launch_as(&mut other, planned, &compiled.problem.catalogues[pool.catalogue]);
        if other.price == node.price {
            let mut alternatives = node.alternatives.to_vec();
            alternatives[..=at].rotate_right(1);
            other.alternatives = alternatives.into();
            *node = other;
        }
    }
}

/// Amounts of instance types that count against the limits of a pool.
struct Uses {
    width: usize,
    /// Amounts by type and limit.
    amounts: Vec<i64>,
    /// Largest amount of any type, by limit.
    most: Vec<i64>,
}

impl Uses {
    fn new(limits: &Resources, types: &Catalogue) -> Self {
        let width = limits.iter().count();
        let mut uses = Self { width, amounts: Vec::with_capacity(width * types.len()), most: vec![i64::MIN; width] };
        for one in types {
            for ((resource, _), most) in limits.iter().zip(&mut uses.most) {
                let amount = one.capacity.against_limit(resource);
                uses.amounts.push(amount);
                *most = amount.max(*most);
            }
        }
        uses
    }

    fn of(&self, instance_type: usize) -> &[i64] {
        &self.amounts[instance_type * self.width..][..self.width]
    }
}

/// Changes the node to the cheapest offering of another type.
fn launch_as(node: &mut NewNode, instance_type: usize, types: &Catalogue) {
    node.instance_type = instance_type;
    let requirements = &node.requirements;
    let cheapest = types[instance_type].offerings.iter().enumerate().filter(|(_, offering)| {
        offering.launchable()
            && offering.capacity_type() != Some("reserved")
            && requirements.intersects(&offering.requirements)
    });
    let price = |offering: &Offering| offering.price.unwrap_or(f64::INFINITY);
    let spot_last = |offering: &Offering| offering.capacity_type() != Some("spot");
    if let Some((offering, one)) =
        cheapest.min_by(|a, b| price(a.1).total_cmp(&price(b.1)).then(spot_last(a.1).cmp(&spot_last(b.1))))
    {
        node.offering = offering;
        node.price = price(one);
    }
}
