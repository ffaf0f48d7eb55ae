//! Removal of units whose domain rules broke when other units were not placed: a spread that counted unplaced pods, or
//! affinity to pods that were removed.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use index_vec::IndexVec;

use super::Draft;
use super::existing_nodes;
use super::groups::{GroupId, Grouped};
use super::zones::{self, Counts};
use crate::compile::{CellId, Compiled, Demand, DomainRuleId};
use crate::solution::Reason;

/// Placed unit, with its group and location.
struct Placed {
    unit: u32,
    group: GroupId,
    cell: CellId,
    /// Index of the opened node; `None` for an existing node.
    opened: Option<usize>,
    node: usize,
}

/// Removes units from `draft` until every domain rule holds for the remaining ones. Returns true if any was removed.
pub(crate) fn restore(compiled: &Compiled<'_>, grouped: &Grouped, draft: &mut Draft) -> bool {
    if grouped.rules.domain.is_empty() {
        return false;
    }
    let standing = existing_nodes::standing(compiled);
    let dimension_of = zones::dimensions(compiled, grouped);
    let counting = existing_nodes::counting_values(compiled, grouped, &standing);
    let bound = zones::bound_counts(compiled, grouped, &standing);
    let mut group_of = vec![None; grouped.first_bundle as usize + grouped.bundles.len()];
    for (number, group) in grouped.groups.iter_enumerated() {
        group.units.iter().for_each(|&unit| group_of[unit as usize] = Some(number));
    }
    let value = |rule: DomainRuleId, cell: CellId| {
        (dimension_of[rule] != usize::MAX).then(|| compiled.cells.value_index(cell, dimension_of[rule])).flatten()
    };
    let depends_on_nodes = existing_nodes::counts_some_nodes(grouped);
    let mut placed = placed(compiled, draft, &group_of);
    let mut any = false;
    let owners = bound.targets.iter().map(|values| vec![0; values.len()]).collect();
    let mut tally = Tally { compiled, grouped, value, counts: bound.clone(), owners };
    placed.iter().for_each(|one| tally.add(draft, one, 1));
    // Rules to check: after a removal, those of the unit.
    let mut unchecked: BTreeSet<DomainRuleId> = grouped.rules.domain.indices().collect();
    while let Some(&rule) = unchecked.first() {
        let owners = &tally.owners[rule];
        let broken = |value: &usize| broken(grouped, &tally.counts, &counting[rule], rule, *value, owners[*value] > 0);
        let Some(at) = (0..owners.len()).find(broken) else {
            unchecked.remove(&rule);
            continue;
        };
        // Remove the last unit that contributes to the violation. For affinity, only owners are removed.
        let involved = |one: &Placed| {
            let part = &grouped.groups[one.group].part;
            let owns = part.owns_domain.contains(&rule);
            let targets = part.targets_domain.iter().any(|&(target, _)| target == rule);
            let company = grouped.rules.domain[rule].demand == Demand::Company;
            (tally.value)(rule, one.cell) == Some(at) && (if company { owns } else { targets || owns })
        };
        let Some(position) = placed.iter().rposition(involved) else { return any };
        let one = placed.remove(position);
        if !depends_on_nodes {
            tally.add(draft, &one, -1);
        }
        let gone = remove(draft, &one);
        if let Some(gone) = gone {
            placed.iter_mut().filter_map(|one| one.opened.as_mut()).filter(|at| **at > gone).for_each(|at| *at -= 1);
        }
        if depends_on_nodes {
            // The labels of a node may depend on all of its pods.
            tally.counts = bound.clone();
            tally.owners.iter_mut().for_each(|values| values.fill(0));
            placed.iter().for_each(|one| tally.add(draft, one, 1));
            unchecked.extend(grouped.rules.domain.indices());
        } else {
            let part = &grouped.groups[one.group].part;
            unchecked.extend(part.owns_domain.iter().copied());
            unchecked.extend(part.targets_domain.iter().map(|&(rule, _)| rule));
        }
        let reason = match grouped.rules.domain[rule].demand {
            Demand::Company => Reason::PodAffinity,
            _ => Reason::TopologySpread,
        };
        draft.left.push((one.unit, Some(reason)));
        any = true;
    }
    any
}

/// Counts of the placed units by rule and value.
struct Tally<'t, V> {
    compiled: &'t Compiled<'t>,
    grouped: &'t Grouped,
    /// Returns the value of a rule's label in a cell.
    value: V,
    counts: Counts,
    /// Units that own each rule.
    owners: IndexVec<DomainRuleId, Vec<i32>>,
}

impl<V: Fn(DomainRuleId, CellId) -> Option<usize>> Tally<'_, V> {
    /// Adds a placed unit `times` times; -1 takes it out.
    fn add(&mut self, draft: &Draft, one: &Placed, times: i32) {
        let (compiled, grouped) = (self.compiled, self.grouped);
        let part = &grouped.groups[one.group].part;
        for &rule in &part.owns_domain {
            if let Some(value) = (self.value)(rule, one.cell) {
                self.owners[rule][value] += times;
            }
        }
        for &(rule, count) in &part.targets_domain {
            let value = (self.value)(rule, one.cell);
            if let Some(value) = value.filter(|_| counts_for(compiled, grouped, rule, one, draft)) {
                self.counts.targets[rule][value] += count * times;
            }
        }
    }
}

fn placed(compiled: &Compiled<'_>, draft: &Draft, group_of: &[Option<GroupId>]) -> Vec<Placed> {
    let on_existing = draft.existing.iter().flat_map(|(node, units)| {
        let cell = compiled.cells.of_node(&compiled.problem.nodes[*node].labels);
        units.iter().map(move |&unit| (unit, cell, None, *node))
    });
    let on_new = draft
        .opened
        .iter()
        .enumerate()
        .flat_map(|(number, node)| node.units.iter().map(move |&unit| (unit, node.cell, Some(number), usize::MAX)));
    let all = on_existing.chain(on_new);
    all.filter_map(|(unit, cell, opened, node)| {
        group_of[unit as usize].map(|group| Placed { unit, group, cell, opened, node })
    })
    .collect()
}

fn counts_for(compiled: &Compiled<'_>, grouped: &Grouped, rule: DomainRuleId, one: &Placed, draft: &Draft) -> bool {
    let Demand::Spread { filter: Some(filter), .. } = &grouped.rules.domain[rule].demand else { return true };
    match one.opened {
        Some(number) => {
            let node = &draft.opened[number];
            let pods = node.units.iter().flat_map(|unit| grouped.pods(unit)).copied();
            existing_nodes::counts_on_new(compiled, grouped, filter, (node.shape, one.cell), pods)
        }
        None => filter.counts_on(&compiled.problem.nodes[one.node]),
    }
}

fn broken(
    grouped: &Grouped,
    counts: &Counts,
    counting: &FixedBitSet,
    rule: DomainRuleId,
    value: usize,
    owned: bool,
) -> bool {
    if !owned {
        return false;
    }
    let targets = &counts.targets[rule];
    match &grouped.rules.domain[rule].demand {
        Demand::Spread { max_skew, min_domains, required: true, .. } => {
            targets[value] - zones::fewest(targets, counting, *min_domains) > *max_skew
        }
        Demand::Company => targets[value] == 0,
        Demand::Spread { .. } | Demand::AtMost(_) => false,
    }
}

/// Removes a unit; returns the number of its new node if that is empty now, and gone.
fn remove(draft: &mut Draft, one: &Placed) -> Option<usize> {
    match one.opened {
        Some(number) => {
            draft.opened[number].units.retain(|&unit| unit != one.unit);
            if draft.opened[number].units.is_empty() {
                draft.opened.remove(number);
                return Some(number);
            }
        }
        None => {
            if let Some((_, units)) = draft.existing.iter_mut().find(|(node, _)| *node == one.node) {
                units.retain(|&unit| unit != one.unit);
            }
            draft.existing.retain(|(_, units)| !units.is_empty());
        }
    }
    None
}
