//! Domains of claims: those that the rules of a unit allow, and what is counted in them.

use super::{Fitting, Spreads};
use crate::compile::{Demand, DomainRuleId, Part};
use crate::pack::groups::Grouped;
use crate::pack::zones;

/// Returns true if a required spread counts units that do not own it.
pub(super) fn has_foreign_spreads(grouped: &Grouped) -> bool {
    grouped.groups.iter().any(|group| foreign_spreads(grouped, &group.part).next().is_some())
}

/// Returns the required spreads of other units that count a unit.
fn foreign_spreads<'a>(grouped: &'a Grouped, part: &'a Part) -> impl Iterator<Item = DomainRuleId> + 'a {
    let demand = |rule: DomainRuleId| &grouped.rules.domain[rule].demand;
    let counted = part.targets_domain.iter().map(|&(rule, _)| rule);
    counted.filter(move |&rule| {
        matches!(demand(rule), Demand::Spread { required: true, .. }) && !part.owns_domain.contains(&rule)
    })
}

// === impl Fitting ===

impl Fitting<'_> {
    /// Returns the spreads of other units that decide the domain of a unit.
    fn spreads_of_others<'p>(&'p self, part: &'p Part) -> impl Iterator<Item = DomainRuleId> + 'p {
        foreign_spreads(self.grouped, part).filter(move |_| self.spreads != Spreads::Own)
    }

    /// Returns the dimensions that rules of a unit are about: rules it owns, anti-affinity of other pods, and spreads
    /// of others that decide its domain.
    pub(super) fn ruled(&self, part: &Part) -> Vec<usize> {
        let keeps_off = |rule: &DomainRuleId| matches!(self.grouped.rules.domain[*rule].demand, Demand::AtMost(_));
        let targeted = part.targets_domain.iter().map(|&(rule, _)| rule).filter(keeps_off);
        let mut dimensions: Vec<usize> = part
            .owns_domain
            .iter()
            .copied()
            .chain(targeted)
            .chain(self.spreads_of_others(part))
            .map(|rule| self.dimension_of[rule])
            .filter(|&dimension| dimension != usize::MAX)
            .collect();
        dimensions.sort_unstable();
        dimensions.dedup();
        dimensions
    }

    /// Returns the values among `possible` that the rules allow for a unit, in ascending order of spread targets.
    pub(super) fn chosen(&self, part: &Part, dimension: usize, possible: &[usize]) -> Vec<usize> {
        let here = |rule: &&DomainRuleId| self.dimension_of[**rule] == dimension;
        let own = |rule: DomainRuleId| {
            part.targets_domain.iter().find(|(one, _)| *one == rule).map_or(0, |&(_, count)| count)
        };
        let targets = |rule: DomainRuleId, value: usize| self.counts.targets[rule][value];
        let demand = |rule: DomainRuleId| &self.grouped.rules.domain[rule].demand;
        let allows = |rule: DomainRuleId, value: usize| match *demand(rule) {
            Demand::Spread { max_skew, min_domains, .. } => {
                let (all, counting) = (&self.counts.targets[rule], &self.counting[rule]);
                targets(rule, value) + own(rule) - zones::fewest(all, counting, min_domains) <= max_skew
            }
            Demand::AtMost(limit) => targets(rule, value) + own(rule) <= limit,
            Demand::Company => targets(rule, value) > 0 || own(rule) > 0 && self.counts.total[rule] == 0,
        };
        let kept_off = |value: usize| {
            part.targets_domain.iter().any(|&(rule, count)| match *demand(rule) {
                Demand::AtMost(limit) if self.dimension_of[rule] == dimension => {
                    self.counts.owners[rule][value] > 0 && targets(rule, value) + count > limit
                }
                _ => false,
            })
        };
        let owned: Vec<DomainRuleId> = part.owns_domain.iter().filter(here).copied().collect();
        let kept: Vec<DomainRuleId> = match self.spreads {
            Spreads::Own | Spreads::Counted => Vec::new(),
            Spreads::Kept => self.spreads_of_others(part).filter(|rule| here(&rule)).collect(),
        };
        // Without owners in a domain there is nothing to keep; later ones choose another.
        let keeps = |rule: DomainRuleId, value: usize| self.counts.owners[rule][value] == 0 || allows(rule, value);
        let suits = |value: &usize| {
            owned.iter().all(|&rule| allows(rule, *value))
                && kept.iter().all(|&rule| keeps(rule, *value))
                && !kept_off(*value)
        };
        let mut values: Vec<usize> = possible.iter().copied().filter(suits).collect();
        let spread = |rule: &&DomainRuleId| matches!(demand(**rule), Demand::Spread { .. });
        let sum = |rules: &[DomainRuleId], value: usize| -> i32 {
            rules.iter().filter(spread).map(|&rule| targets(rule, value)).sum()
        };
        values.sort_by_key(|&value| (sum(&owned, value), sum(&kept, value)));
        values
    }

    /// Counts a unit in the domains that `value` returns.
    pub(super) fn count(&mut self, part: &Part, value: impl Fn(usize) -> Option<usize>) {
        let dimension_of = &self.dimension_of;
        let value_of = |rule: DomainRuleId| Some(dimension_of[rule]).filter(|&at| at != usize::MAX).and_then(&value);
        for &(rule, count) in &part.targets_domain {
            if let Some(value) = value_of(rule) {
                self.counts.total[rule] += count;
                self.counts.targets[rule][value] += count;
            }
        }
        for &rule in &part.owns_domain {
            if let Some(value) = value_of(rule) {
                self.counts.owners[rule][value] += 1;
            }
        }
    }
}
