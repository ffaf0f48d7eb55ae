//! Counts of the domain rules while units are added and removed.

use fixedbitset::FixedBitSet;
use index_vec::{IndexVec, index_vec};

use super::market::Market;
use crate::compile::{CellId, Compiled, Demand, DomainRuleId, Part};
use crate::pack::existing_nodes::{self, ExistingNode};
use crate::pack::groups::Grouped;
use crate::pack::zones::{self, Counts};

/// Marker for places whose nodes lack the label.
const NONE: usize = usize::MAX;

/// Counts by rule and value, including units still to be placed.
pub(super) struct Tally<'a> {
    grouped: &'a Grouped,
    counts: Counts,
    /// Number of pending owners and targets, by rule and value; values with bound pods only are not checked.
    touched: IndexVec<DomainRuleId, Vec<i32>>,
    /// Number of lifted targets, by rule.
    lifted: IndexVec<DomainRuleId, i32>,
    /// Values that count for the minimum of a spread, by rule.
    counting: IndexVec<DomainRuleId, FixedBitSet>,
    /// Value by rule and place.
    value_of: IndexVec<DomainRuleId, Vec<usize>>,
    /// Allowed skew, by rule.
    most_skew: IndexVec<DomainRuleId, i32>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(
        compiled: &'a Compiled<'a>,
        grouped: &'a Grouped,
        standing: &[ExistingNode],
        market: &Market<'_>,
    ) -> Self {
        let counts = zones::bound_counts(compiled, grouped, standing);
        let value_in = |dimension: usize, cell: CellId| {
            if dimension == NONE { NONE } else { compiled.cells.value_index(cell, dimension).unwrap_or(NONE) }
        };
        let by_place = |&dimension: &usize| market.places.iter().map(|place| value_in(dimension, place.cell)).collect();
        Self {
            grouped,
            touched: counts.targets.iter().map(|values| vec![0; values.len()]).collect(),
            counts,
            lifted: index_vec![0; grouped.rules.domain.len()],
            counting: existing_nodes::counting_values(compiled, grouped, standing),
            value_of: zones::dimensions(compiled, grouped).iter().map(by_place).collect(),
            most_skew: IndexVec::new(),
        }
    }

    /// Allows the current skews where they exceed `maxSkew`, as preferred spreads may.
    pub(super) fn allow_what_is(&mut self) {
        let rules = self.grouped.rules.domain.iter_enumerated();
        self.most_skew = rules
            .map(|(rule, one)| match one.demand {
                Demand::Spread { max_skew, min_domains, .. } => {
                    let fewest = zones::fewest(&self.counts.targets[rule], &self.counting[rule], min_domains);
                    self.most_judged(rule).map_or(max_skew, |most| max_skew.max(most - fewest))
                }
                Demand::AtMost(_) | Demand::Company => 0,
            })
            .collect();
    }

    /// Counts a unit that is added to a place (`times` is 1) or removed (-1).
    pub(super) fn count(&mut self, part: &Part, place: usize, times: i32) {
        for &rule in &part.owns_domain {
            let value = self.value_of[rule][place];
            if value != NONE {
                self.counts.owners[rule][value] += times;
                self.touched[rule][value] += times;
            }
        }
        for &(rule, count) in &part.targets_domain {
            let value = self.value_of[rule][place];
            if value != NONE {
                self.counts.targets[rule][value] += count * times;
                self.touched[rule][value] += times;
            }
        }
    }

    /// Counts a unit as to be placed (`times` is 1), or no longer (-1).
    pub(super) fn lift(&mut self, part: &Part, times: i32) {
        part.targets_domain.iter().for_each(|&(rule, count)| self.lifted[rule] += count * times);
    }

    /// Returns true if a unit may go to a place, without checking spreads.
    pub(super) fn admits(&self, part: &Part, place: usize) -> bool {
        let value = |rule: DomainRuleId| self.value_of[rule][place];
        let demand = |rule: DomainRuleId| &self.grouped.rules.domain[rule].demand;
        let owned = part.owns_domain.iter().all(|&rule| match *demand(rule) {
            _ if value(rule) == NONE => false,
            Demand::AtMost(limit) => {
                let own = part.targets_domain.iter().find(|(target, _)| *target == rule).map_or(0, |&(_, count)| count);
                self.counts.targets[rule][value(rule)] + own <= limit
            }
            Demand::Spread { .. } | Demand::Company => true,
        });
        owned
            && part.targets_domain.iter().all(|&(rule, count)| match *demand(rule) {
                Demand::AtMost(limit) if value(rule) != NONE => {
                    let value = value(rule);
                    self.counts.owners[rule][value] == 0 || self.counts.targets[rule][value] + count <= limit
                }
                _ => true,
            })
    }

    /// Returns true if the lifted units can still satisfy the spreads that `part` takes part in; once none is lifted,
    /// true if these hold.
    pub(super) fn is_balanced(&self, part: &Part) -> bool {
        let targets = part.targets_domain.iter().map(|&(rule, _)| rule);
        part.owns_domain.iter().copied().chain(targets).all(|rule| self.can_balance(rule))
    }

    /// Returns false if the emptiest domains need more targets than are lifted.
    fn can_balance(&self, rule: DomainRuleId) -> bool {
        let Demand::Spread { min_domains, .. } = self.grouped.rules.domain[rule].demand else { return true };
        let Some(most) = self.most_judged(rule) else { return true };
        let counting = &self.counting[rule];
        let least = most - self.most_skew[rule];
        if (counting.count_ones(..) as i32) < min_domains {
            return least <= 0;
        }
        let lacks = counting.ones().map(|value| (least - self.counts.targets[rule][value]).max(0));
        lacks.sum::<i32>() <= self.lifted[rule]
    }

    /// Returns the number of targets in the fullest value that has an owner and a pending unit.
    fn most_judged(&self, rule: DomainRuleId) -> Option<i32> {
        let values = self.counts.targets[rule].iter().zip(&self.counts.owners[rule]).zip(&self.touched[rule]);
        let judged = values.filter(|&((_, &owners), &touched)| owners > 0 && touched > 0);
        judged.map(|((&targets, _), _)| targets).max()
    }

    /// Returns the bit set of places that a unit in `place` can move to without breaking pod affinity, its own or that
    /// of others.
    pub(super) fn in_company(&self, part: &Part, place: usize) -> u64 {
        let places = self.value_of.first().map_or(64, Vec::len).min(64);
        let all = if places == 64 { u64::MAX } else { (1 << places) - 1 };
        let involved = part.owns_domain.iter().copied().chain(part.targets_domain.iter().map(|&(rule, _)| rule));
        let company = involved.filter(|&rule| self.grouped.rules.domain[rule].demand == Demand::Company);
        company.fold(all, |mask, rule| {
            let values = &self.value_of[rule];
            let same = (0..places).filter(|&other| values[other] == values[place]);
            mask & same.fold(0, |mask, place| mask | 1 << place)
        })
    }
}
