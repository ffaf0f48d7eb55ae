//! Values of one label that the units of a group choose between, with the criteria for each.

use std::rc::Rc;

use fixedbitset::FixedBitSet;
use index_vec::Idx;
use smallvec::SmallVec;

use super::{ZonePolicy, Zoning};
use crate::compile::{Demand, DomainRuleId, SignatureId, fits};
use crate::pack::groups::GroupId;

/// Rule, and the highest number of targets in a value that still allows a unit.
type Aim = (DomainRuleId, i32);

/// Cost of a value: negated pool weight, so that lighter pools come later, then USD per hour for the units that go
/// there together.
pub(super) type Cost = (i32, f64);

/// Key of costs: signature, sizes, number of units that go together, dimension.
pub(super) type Asked = (SignatureId, Rc<[i32]>, usize, usize);

/// Rank of a value for a unit, lowest first: violates spreads of others, targets of its own rules there, targets of
/// others' rules, cost, load, index of the value. The number of values stands for the absence of the label.
pub(super) type Claim = (bool, i64, i64, Cost, f64, usize);

/// Constraints and costs of the values of one dimension for one unit.
pub(super) struct Contest {
    pub(super) dimension: usize,
    /// Owned rules that are violated in a value with more targets than this.
    ceilings: SmallVec<[Aim; 2]>,
    /// Owned affinity rules; true if a unit is a target of its own rule.
    company: SmallVec<[(DomainRuleId, bool); 1]>,
    /// Anti-affinity rules of others, violated in a value with an owner and more targets than this.
    barriers: SmallVec<[Aim; 2]>,
    /// Spreads of others, violated in a value with an owner and more targets than this.
    balances: SmallVec<[Aim; 2]>,
    /// True if no rule over the dimension is owned: then a node without the label will do, too.
    free: bool,
    /// Affinity rules of others.
    led: SmallVec<[DomainRuleId; 1]>,
    /// Owned rules, without affinity; `targeted` are the rules that count a unit, likewise.
    owned: SmallVec<[DomainRuleId; 2]>,
    targeted: SmallVec<[DomainRuleId; 2]>,
    /// Cost by value, then of cells without one.
    costs: Rc<[Cost]>,
}

impl Contest {
    fn claim(&self, zoning: &Zoning<'_>, value: usize) -> Option<Claim> {
        let counts = &zoning.counts;
        let targets = |rule: DomainRuleId| counts.targets[rule][value];
        let keeps = self.ceilings.iter().all(|&(rule, most)| targets(rule) <= most)
            && self.company.iter().all(|&(rule, own)| targets(rule) > 0 || own && counts.total[rule] == 0)
            && self.barriers.iter().all(|&(rule, most)| counts.owners[rule][value] == 0 || targets(rule) <= most);
        if !keeps {
            return None;
        }
        let unbalances =
            self.balances.iter().any(|&(rule, most)| counts.owners[rule][value] > 0 && targets(rule) > most);
        let sum = |rules: &[DomainRuleId]| rules.iter().map(|&rule| i64::from(targets(rule))).sum::<i64>();
        let load = zoning.load[self.dimension][value];
        Some((unbalances, sum(&self.owned), sum(&self.targeted), self.cost(zoning, value), load, value))
    }

    /// Returns the claims of the values that have cells in `mask` and that the rules allow.
    pub(super) fn claims(&self, zoning: &Zoning<'_>, mask: &FixedBitSet) -> Vec<Claim> {
        let (values, lacks_value) = zoning.compiled.cells.values_in(self.dimension, mask);
        zoning.looks.set(zoning.looks.get().saturating_add(values.len()));
        let mut claims: Vec<Claim> = values.into_iter().filter_map(|value| self.claim(zoning, value)).collect();
        if self.free && lacks_value {
            let absence = self.absence(zoning, &claims);
            claims.push(absence);
        }
        claims
    }

    /// Returns the claim of the cells without a value. No rule counts a unit there, so that cost decides between them
    /// and the best of the other `claims`. The first target of an affinity rule goes there only if it must: its owners
    /// need one in a domain.
    fn absence(&self, zoning: &Zoning<'_>, claims: &[Claim]) -> Claim {
        let value = self.costs.len() - 1;
        let is_missed = self.led.iter().any(|&rule| zoning.counts.total[rule] == 0);
        let fewest = claims.iter().filter(|claim| !claim.0).map(|claim| claim.2).min().unwrap_or(0);
        let targets = if is_missed { i64::MAX } else { fewest };
        (false, 0, targets, self.cost(zoning, value), zoning.load[self.dimension][value], value)
    }

    fn cost(&self, zoning: &Zoning<'_>, value: usize) -> Cost {
        if zoning.zone_policy == ZonePolicy::Cheapest { self.costs[value] } else { (0, 0.0) }
    }
}

impl Zoning<'_> {
    /// Returns the contest over a dimension for the next unit of `group`.
    pub(super) fn contest(&self, group: GroupId, dimension: usize, costs: &Rc<[Cost]>) -> Contest {
        let part = &self.grouped.groups[group].part;
        let here = |rule: DomainRuleId| self.dimension_of[rule] == dimension;
        let mut contest = Contest {
            dimension,
            ceilings: SmallVec::new(),
            company: SmallVec::new(),
            barriers: SmallVec::new(),
            balances: SmallVec::new(),
            free: !part.owns_domain.iter().copied().any(here),
            led: SmallVec::new(),
            owned: SmallVec::new(),
            targeted: SmallVec::new(),
            costs: Rc::clone(costs),
        };
        for rule in part.owns_domain.iter().copied().filter(|&rule| here(rule)) {
            let own = part.targets_domain.iter().find(|&&(target, _)| target == rule).map_or(0, |&(_, count)| count);
            match self.grouped.rules.domain[rule].demand {
                Demand::Spread { required: false, .. } => {}
                Demand::Spread { max_skew, min_domains, .. } => {
                    contest.ceilings.push((rule, max_skew.saturating_add(self.fewest(rule, min_domains)) - own));
                }
                Demand::AtMost(limit) => contest.ceilings.push((rule, limit - own)),
                Demand::Company => {
                    contest.company.push((rule, own > 0));
                    continue;
                }
            }
            contest.owned.push(rule);
        }
        for &(rule, count) in part.targets_domain.iter().filter(|&&(rule, _)| here(rule)) {
            match self.grouped.rules.domain[rule].demand {
                Demand::Spread { max_skew, min_domains, required: true, .. } if !part.owns_domain.contains(&rule) => {
                    contest.balances.push((rule, max_skew.saturating_add(self.fewest(rule, min_domains)) - count));
                }
                Demand::Spread { .. } => {}
                // Rules of others must still hold after adding this unit.
                Demand::AtMost(limit) => contest.barriers.push((rule, limit - count)),
                Demand::Company => {
                    contest.led.push(rule);
                    continue;
                }
            }
            contest.targeted.push(rule);
        }
        contest
    }

    /// Returns the cost of units of `group` in each value of a dimension that they reach: the cheapest nodes of the
    /// heaviest pools for the units that go there together; 0 if an existing node has room for one. The last cost is
    /// that of the cells without a value.
    pub(super) fn costs(&mut self, group: GroupId, reach: &FixedBitSet, dimension: usize) -> Rc<[Cost]> {
        let of = &self.grouped.groups[group];
        let together = if self.owns_company(group) { of.units.len() } else { 1 };
        let key = (of.signature, Rc::clone(&of.sizes), together, dimension);
        if let Some(costs) = self.costs.get(&key) {
            return Rc::clone(costs);
        }
        let compiled = self.compiled;
        let values = compiled.cells.dimensions[dimension].values.len();
        let admits = &self.grouped.admits[of.signature];
        let mut costs: Vec<Cost> = vec![(i32::MAX, f64::INFINITY); values + 1];
        for (number, shape) in compiled.shapes.iter().enumerate() {
            let nodes = nodes(&of.sizes, &shape.room, together);
            if nodes == 0.0 {
                continue;
            }
            let lightness = compiled.problem.pools[shape.pool].weight.saturating_neg();
            for &cell in &compiled.offered_in()[number] {
                if !reach.contains(cell.index()) || !admits[cell].contains(number) {
                    continue;
                }
                let reserved = shape.reserved.iter().filter(|reserved| reserved.cell == cell);
                let price = reserved.map(|reserved| reserved.price).fold(shape.price[cell], f64::min);
                let least = &mut costs[compiled.cells.value_index(cell, dimension).unwrap_or(values)];
                let cost = (lightness, price * nodes);
                if cost < *least {
                    *least = cost;
                }
            }
        }
        let parts = &self.grouped.signature_parts[of.signature];
        for (position, one) in self.standing.iter().enumerate() {
            let value = compiled.cells.value_index(one.cell, dimension).unwrap_or(values);
            let admitted = parts.iter().all(|&part| self.standing_admits[part].contains(position));
            if admitted && self.grouped.confines(of.signature, one.node) && fits(&of.sizes, &one.room) {
                costs[value] = (i32::MIN, 0.0);
            }
        }
        let costs: Rc<[Cost]> = costs.into();
        self.costs.insert(key, Rc::clone(&costs));
        costs
    }
}

/// Returns the number of nodes with `room` that `together` units need; 0 if `room` holds none.
fn nodes(sizes: &[i32], room: &[i32], together: usize) -> f64 {
    let asked = sizes.iter().zip(room).filter(|&(&size, _)| size > 0);
    let held = asked.map(|(&size, &room)| (room / size).max(0) as usize).min().unwrap_or(together);
    if held == 0 { 0.0 } else { together.div_ceil(held) as f64 }
}
