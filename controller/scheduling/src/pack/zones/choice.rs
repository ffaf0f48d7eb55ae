//! Choice of the value of a unit: the best one that the rules allow.

use std::rc::Rc;

use fixedbitset::FixedBitSet;

use super::contest::{Claim, Contest, Cost};
use super::{Intruder, ZonePolicy, Zoned, Zoning};
use crate::compile::{Demand, DomainRuleId};
use crate::pack::groups::GroupId;
use crate::solution::Reason;

/// Maximum number of values tried for one unit, over all dimensions: the best value in one dimension may leave none in
/// the next.
const MOST_TRIALS: usize = 256;

/// Maximum number of values looked at by all units for a second or later choice. Labels with few values do not come
/// near it; a thousand pods with rules about several labels of a thousand values would take minutes.
pub(super) const MOST_SECOND_LOOKS: usize = 20_000_000;

impl Zoning<'_> {
    /// Chooses a value per dimension for one unit of `group`, and counts it. Returns the cells with these values;
    /// `None` if none are allowed.
    pub(super) fn choose(
        &mut self,
        unit: u32,
        group: GroupId,
        reach: &FixedBitSet,
        dimensions: &[(usize, Rc<[Cost]>)],
        share: f64,
    ) -> Option<FixedBitSet> {
        let contests: Vec<Contest> =
            dimensions.iter().map(|(dimension, costs)| self.contest(group, *dimension, costs)).collect();
        let mut best: Vec<Claim> = Vec::with_capacity(contests.len());
        let mut trials = if self.second_looks.get() == 0 { contests.len() } else { MOST_TRIALS };
        let (most, before) = (trials, self.looks.get());
        let found = self.descend(&contests, reach.clone(), &mut best, &mut trials);
        let tried = most - trials;
        self.tasted |= tried > contests.len();
        if tried > contests.len() {
            let looks = self.looks.get().saturating_sub(before);
            self.second_looks.set(self.second_looks.get().saturating_sub(looks));
        }
        let mask = found?;
        let chosen: Vec<(usize, usize)> =
            contests.iter().zip(&best).map(|(contest, claim)| (contest.dimension, claim.5)).collect();
        self.count(group, &chosen, share);
        if best.iter().any(|claim| claim.0) {
            self.intruders.push(Intruder { unit, group, chosen });
        }
        Some(mask)
    }

    /// Returns the cells of `mask` in the best combination of values; `None` if there is none or the trials are used
    /// up.
    fn descend(
        &self,
        contests: &[Contest],
        mask: FixedBitSet,
        best: &mut Vec<Claim>,
        trials: &mut usize,
    ) -> Option<FixedBitSet> {
        let Some((contest, others)) = contests.split_first() else { return Some(mask) };
        let mut claims = contest.claims(self, &mask);
        let order = |a: &Claim, b: &Claim| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
        if others.is_empty() {
            let least = claims.into_iter().min_by(order);
            claims = least.into_iter().collect();
        } else {
            claims.sort_unstable_by(order);
        }
        if self.zone_policy == ZonePolicy::Emptiest {
            claims.truncate(1);
        }
        for claim in claims {
            *trials = trials.checked_sub(1)?;
            let mut inside = mask.clone();
            inside.intersect_with(self.cells(contest.dimension, claim.5));
            best.push(claim);
            if let Some(found) = self.descend(others, inside, best, trials) {
                return Some(found);
            }
            best.pop();
        }
        None
    }

    /// Returns true if a required spread with an owner in `value` is violated there after adding `more` targets.
    fn skewed(&self, rule: DomainRuleId, value: usize, more: i32) -> bool {
        let Demand::Spread { max_skew, min_domains, required: true, .. } = self.grouped.rules.domain[rule].demand
        else {
            return false;
        };
        let Some(targets) = self.counts.targets[rule].get(value) else { return false };
        self.counts.owners[rule][value] > 0 && targets + more - self.fewest(rule, min_domains) > max_skew
    }

    /// Rejects the units that still violate a spread at the end, last ones first.
    pub(super) fn turn_away(&mut self, zoned: &mut Zoned) {
        loop {
            let offends = |intruder: &Intruder| {
                let part = &self.grouped.groups[intruder.group].part;
                let mut targets = part.targets_domain.iter().map(|&(rule, _)| rule);
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
