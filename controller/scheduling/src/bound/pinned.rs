//! Pods that spreads force into each value of a label.
//!
//! If `n` pods are spread over `d` domains and no two domains may differ by more than `k`, a domain with `x` pods
//! leaves at most `(d − 1)·(x + k)` for the others, so `x ≥ (n − (d − 1)·k) / d`. A zone in which little is on offer
//! makes such pods dear, and no plan can avoid it.

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec};

use crate::compile::{Compiled, Demand, DomainRuleId};
use crate::pack::existing_nodes;
use crate::pack::groups::{Group, GroupId, Grouped};
use crate::pack::zones::{Placed, Zoned};

/// Returns the cells for all units: those that a spread forces into a value of its label may only go to its cells, all
/// others to any.
pub(super) fn pinned(compiled: &Compiled<'_>, grouped: &Grouped) -> Zoned {
    let mut anywhere = FixedBitSet::with_capacity(compiled.cells.len());
    anywhere.insert_range(..);
    let mut zoned = Zoned { placed: Vec::new(), masks: IndexVec::new(), rejected: Vec::new(), tasted: false };
    let anywhere = zoned.masks.push(anywhere);
    // Bound pods count as well, and those on nodes that are being removed do not.
    let values = if compiled.problem.nodes.is_empty() {
        existing_nodes::counting_values(compiled, grouped, &[])
    } else {
        IndexVec::new()
    };
    for (number, group) in grouped.groups.iter_enumerated() {
        let mut units = &group.units[..];
        if let Some((dimension, each)) = spread(compiled, grouped, &values, (number, group)) {
            let rule = group.part.owns_domain[0];
            for value in values[rule].ones() {
                let cells = &compiled.cells.by_value(dimension)[value];
                let mask =
                    zoned.masks.position(|mask| mask == cells).unwrap_or_else(|| zoned.masks.push(cells.clone()));
                let (here, rest) = units.split_at(each.min(units.len()));
                zoned.placed.push(Placed { group: number, mask, units: here.to_vec() });
                units = rest;
            }
        }
        zoned.placed.push(Placed { group: number, mask: anywhere, units: units.to_vec() });
    }
    zoned.placed.retain(|placed| !placed.units.is_empty());
    zoned
}

/// Returns the dimension over which a group is spread and the least number of its units in each value; `None` if it
/// is not, or if its rule counts other pods too or only some nodes.
fn spread(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    values: &IndexSlice<DomainRuleId, [FixedBitSet]>,
    (number, group): (GroupId, &Group),
) -> Option<(usize, usize)> {
    let [rule] = group.part.owns_domain[..] else { return None };
    let domain = &grouped.rules.domain[rule];
    let Demand::Spread { max_skew, min_domains, filter: None, required: true } = &domain.demand else { return None };
    let counts = |group: &Group| group.part.targets_domain.iter().any(|&(target, _)| target == rule);
    let counts_once = group.part.targets_domain[..] == [(rule, 1)];
    let mut others = grouped.groups.iter_enumerated().filter(|&(other, _)| other != number);
    if !counts_once || others.any(|(_, other)| counts(other)) {
        return None;
    }
    let dimension = compiled.cells.dimension(&domain.key)?;
    let counting = values.get(rule)?;
    // A value that is offered and does not count may hold more than others.
    let offered = compiled.cells.by_value(dimension).iter().enumerate().filter(|(_, cells)| !cells.is_clear());
    if offered.map(|(value, _)| value).any(|value| !counting.contains(value)) {
        return None;
    }
    let domains = counting.count_ones(..);
    if domains < 2 || (*min_domains).max(0) as usize > domains {
        return None;
    }
    let spared = (domains - 1) * (*max_skew).max(1) as usize;
    let each = group.units.len().saturating_sub(spared).div_ceil(domains);
    (each > 0).then_some((dimension, each))
}
