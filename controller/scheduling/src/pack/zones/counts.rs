//! Counts of the domain rules: targets and owners by value, starting with those of bound pods.

use fixedbitset::FixedBitSet;
use index_vec::{IndexVec, index_vec};

use super::Zoning;
use crate::compile::{CellId, Compiled, Demand, DomainRuleId};
use crate::pack::existing_nodes::ExistingNode;
use crate::pack::groups::{GroupId, Grouped};

/// Counts by rule and value.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(crate) targets: IndexVec<DomainRuleId, Vec<i32>>,
    pub(crate) owners: IndexVec<DomainRuleId, Vec<i32>>,
    /// Number of targets by rule, in all domains. As for kube-scheduler, a pod on a node without the label is not a
    /// target.
    pub(crate) total: IndexVec<DomainRuleId, i32>,
}

/// Returns the dimension of each domain rule; `usize::MAX` if no node has its label.
pub(crate) fn dimensions(compiled: &Compiled<'_>, grouped: &Grouped) -> IndexVec<DomainRuleId, usize> {
    let rules = grouped.rules.domain.iter();
    rules.map(|rule| compiled.cells.dimension(&rule.key).unwrap_or(usize::MAX)).collect()
}

/// Returns the counts of bound pods on nodes that are not being deleted.
pub(crate) fn bound_counts(compiled: &Compiled<'_>, grouped: &Grouped, standing: &[ExistingNode]) -> Counts {
    let dimension_of = dimensions(compiled, grouped);
    let values = |rule: &usize| compiled.cells.dimensions.get(*rule).map_or(0, |dimension| dimension.values.len());
    let empty: IndexVec<DomainRuleId, Vec<i32>> = dimension_of.iter().map(|rule| vec![0; values(rule)]).collect();
    let mut counts = Counts { targets: empty.clone(), owners: empty, total: index_vec![0; dimension_of.len()] };
    if dimension_of.is_empty() {
        return counts;
    }
    for one in standing {
        let node = &compiled.problem.nodes[one.node];
        for bound in node.bound.iter().filter(|bound| bound.counts) {
            let Some(part) = &grouped.bound_parts[bound.spec] else { continue };
            for &(rule, count) in &part.targets_domain {
                if passes_filter(compiled, grouped, rule, one.node)
                    && let Some(value) = value_of(compiled, dimension_of[rule], one.cell)
                {
                    counts.total[rule] += count;
                    counts.targets[rule][value] += count;
                }
            }
            for &rule in &part.owns_domain {
                if let Some(value) = value_of(compiled, dimension_of[rule], one.cell) {
                    counts.owners[rule][value] += 1;
                }
            }
        }
    }
    counts
}

fn value_of(compiled: &Compiled<'_>, dimension: usize, cell: CellId) -> Option<usize> {
    if dimension == usize::MAX { None } else { compiled.cells.value_index(cell, dimension) }
}

/// Returns true if the pods on an existing node count for the rule.
fn passes_filter(compiled: &Compiled<'_>, grouped: &Grouped, rule: DomainRuleId, node: usize) -> bool {
    let Demand::Spread { filter: Some(filter), .. } = &grouped.rules.domain[rule].demand else { return true };
    filter.counts_on(&compiled.problem.nodes[node])
}

/// Returns the minimum number of targets over the values that count for a spread; 0 if fewer than `min_domains` values
/// count.
pub(crate) fn fewest(targets: &[i32], counting: &FixedBitSet, min_domains: i32) -> i32 {
    if (counting.count_ones(..) as i32) < min_domains {
        return 0;
    }
    counting.ones().map(|value| targets[value]).min().unwrap_or(0)
}

impl Zoning<'_> {
    /// Returns the minimum number of targets over the values that count for a spread.
    pub(super) fn fewest(&self, rule: DomainRuleId, min_domains: i32) -> i32 {
        fewest(&self.counts.targets[rule], &self.counting[rule], min_domains)
    }

    /// Returns the cells with a value of a dimension; those without one if `value` is their number.
    pub(super) fn cells(&self, dimension: usize, value: usize) -> &FixedBitSet {
        self.compiled.cells.by_value(dimension).get(value).unwrap_or(&self.bare[dimension])
    }

    /// Counts a unit of `group`, and its `share` of the load, in the chosen values.
    pub(super) fn count(&mut self, group: GroupId, chosen: &[(usize, usize)], share: f64) {
        for &(dimension, value) in chosen {
            self.load[dimension][value] += share;
        }
        self.recount(group, chosen, 1);
    }

    /// Adds `times` units of `group` to the counts, in the chosen values.
    pub(super) fn recount(&mut self, group: GroupId, chosen: &[(usize, usize)], times: i32) {
        let part = &self.grouped.groups[group].part;
        let value_in = |dimension: usize| {
            let value = chosen.iter().find(|&&(at, _)| at == dimension).map(|&(_, value)| value);
            value.filter(|&value| value < self.compiled.cells.dimensions[dimension].values.len())
        };
        for &(rule, count) in &part.targets_domain {
            let Some(value) = value_in(self.dimension_of[rule]) else { continue };
            self.counts.total[rule] += count * times;
            if !self.deaf[rule].contains(value) {
                self.counts.targets[rule][value] += count * times;
            }
        }
        for &rule in &part.owns_domain {
            if let Some(value) = value_in(self.dimension_of[rule]) {
                self.counts.owners[rule][value] += times;
            }
        }
    }
}
