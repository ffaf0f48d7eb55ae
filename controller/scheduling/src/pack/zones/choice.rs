//! Which value a unit takes: what the rules allow, and of that what suits it best.

use fixedbitset::FixedBitSet;

use super::{Intruder, Zoned, Zoning};
use crate::compile::Demand;
use crate::solution::Reason;

/// How little a value suits a unit: unbalances others, targets of its own rules there, of others' rules, load, number.
type Claim = (bool, i64, i64, f64, usize);

impl Zoning<'_> {
    /// Chooses a value per dimension for one unit of `group`, and counts it.
    pub(super) fn choose(
        &mut self,
        unit: u32,
        group: usize,
        reach: &FixedBitSet,
        dimensions: &[usize],
        share: f64,
    ) -> Option<FixedBitSet> {
        let mut mask = reach.clone();
        let mut chosen: Vec<(usize, usize)> = Vec::with_capacity(dimensions.len());
        let mut intrudes = false;
        for &dimension in dimensions {
            let values = self.compiled.cells.dimensions[dimension].values.len();
            let mut best: Option<(Claim, FixedBitSet)> = None;
            for value in 0..values {
                let mut cells = FixedBitSet::with_capacity(mask.len());
                let inside =
                    mask.ones().filter(|&cell| self.compiled.cells.value_index(cell, dimension) == Some(value));
                cells.extend(inside);
                if cells.is_clear() || !self.allowed(group, dimension, value) {
                    continue;
                }
                let (owned, targeted) = self.counts_at(group, dimension, value);
                let key =
                    (self.unbalances(group, dimension, value), owned, targeted, self.load[dimension][value], value);
                if best.as_ref().is_none_or(|(least, _)| key.partial_cmp(least) == Some(std::cmp::Ordering::Less)) {
                    best = Some((key, cells));
                }
            }
            let ((unbalances, .., value), cells) = best?;
            intrudes |= unbalances;
            chosen.push((dimension, value));
            mask = cells;
        }
        self.count(group, &chosen, share);
        if intrudes {
            self.intruders.push(Intruder { unit, group, chosen });
        }
        Some(mask)
    }

    /// Whether the required rules let a unit of `group` into `value`.
    fn allowed(&self, group: usize, dimension: usize, value: usize) -> bool {
        let part = &self.grouped.groups[group].part;
        let counted =
            |rule: u32| part.targets_domain.iter().find(|&&(target, _)| target == rule).map_or(0, |&(_, count)| count);
        let owned = part.owns_domain.iter().copied().filter(|&rule| self.dimension_of[rule as usize] == dimension);
        for rule in owned {
            let at = rule as usize;
            let there = self.counts.targets[at][value];
            let own = counted(rule);
            let holds = match &self.grouped.rules.domain[at].demand {
                Demand::Spread { required: false, .. } => true,
                Demand::Spread { max_skew, min_domains, .. } => {
                    there + own - self.fewest(at, *min_domains) <= *max_skew
                }
                Demand::AtMost(limit) => there + own <= *limit,
                Demand::Company => there > 0 || (own > 0 && self.counts.total[at] == 0),
            };
            if !holds {
                return false;
            }
        }
        // What others own here must still hold when this unit has come.
        let mut targeted =
            part.targets_domain.iter().filter(|&&(rule, _)| self.dimension_of[rule as usize] == dimension);
        targeted.all(|&(rule, count)| match self.grouped.rules.domain[rule as usize].demand {
            Demand::AtMost(limit) if self.counts.owners[rule as usize][value] > 0 => {
                self.counts.targets[rule as usize][value] + count <= limit
            }
            _ => true,
        })
    }

    /// Whether a spread that others own in `value` does not hold, for now, with a unit of `group` there.
    fn unbalances(&self, group: usize, dimension: usize, value: usize) -> bool {
        let part = &self.grouped.groups[group].part;
        let others = part.targets_domain.iter().filter(|(rule, _)| !part.owns_domain.contains(rule));
        let mut others = others.filter(|&&(rule, _)| self.dimension_of[rule as usize] == dimension);
        others.any(|&(rule, count)| self.skewed(rule as usize, value, count))
    }

    /// Whether a required spread that somebody owns in `value` does not hold there with `more` targets.
    fn skewed(&self, rule: usize, value: usize, more: i32) -> bool {
        let Demand::Spread { max_skew, min_domains, required: true, .. } = self.grouped.rules.domain[rule].demand
        else {
            return false;
        };
        let there = self.counts.targets[rule][value] + more;
        self.counts.owners[rule][value] > 0 && there - self.fewest(rule, min_domains) > max_skew
    }

    /// Takes away the units that unbalance a spread to the end, the last ones first.
    pub(super) fn turn_away(&mut self, zoned: &mut Zoned) {
        loop {
            let offends = |intruder: &Intruder| {
                let part = &self.grouped.groups[intruder.group].part;
                let mut targets = part.targets_domain.iter().map(|&(rule, _)| rule as usize);
                targets.any(|rule| {
                    let of_rule = |&&(dimension, _): &&(usize, usize)| dimension == self.dimension_of[rule];
                    let value = intruder.chosen.iter().find(of_rule).map(|&(_, value)| value);
                    value.is_some_and(|value| self.skewed(rule, value, 0))
                })
            };
            let Some(position) = self.intruders.iter().rposition(offends) else { break };
            let Intruder { unit, group, chosen } = self.intruders.remove(position);
            self.recount(group, &chosen, -1);
            for placed in zoned.placed.iter_mut().filter(|placed| placed.group == group) {
                placed.units.retain(|&known| known != unit);
            }
            zoned.rejected.push((unit, Reason::TopologySpread));
        }
    }
}
