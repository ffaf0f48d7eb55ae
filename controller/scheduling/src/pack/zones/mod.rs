//! Assigns domains: the zone (or other label value) of a pod is decided before any node is filled, so that every later
//! change of a node keeps the spread.
//!
//! Order: groups that can reach at most one cell; owners of affinity, largest first; owners of spreads, those whose
//! rule has the fewest targets first (an app before its tier); pods that are only targets. Each pod takes the allowed
//! value with the fewest targets over the rules it owns, then over those that only count it, then the cheapest, then
//! the one with the least load. Deciding all rules at once, by the sum of counts, breaks overlapping selectors; this
//! order does not. Pods that own no rule over a label may also go to nodes without it, where no rule counts them.

mod choice;
mod contest;
mod counts;

use std::cell::Cell;
use std::rc::Rc;

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec, index_vec};
use rustc_hash::{FxHashMap, FxHashSet};

use super::existing_nodes::{self, ExistingNode};
use super::groups::{GroupId, Grouped};
use crate::compile::{CPU, Compiled, Demand, DomainRuleId, MEMORY, SignatureId};
use crate::index::index_type;
use crate::solution::Reason;

use contest::Cost;
pub(crate) use counts::{Counts, bound_counts, dimensions, fewest};

index_type! {
    /// Position in [`Zoned::masks`].
    pub(crate) struct MaskId;
}

/// Interchangeable units with the same set of cells.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) group: GroupId,
    pub(crate) mask: MaskId,
    pub(crate) units: Vec<u32>,
}

/// Result of the assignment.
pub(crate) struct Zoned {
    pub(crate) placed: Vec<Placed>,
    /// Sets of cells.
    pub(crate) masks: IndexVec<MaskId, FixedBitSet>,
    /// Units without an allowed value, with the kind of rule that excludes them.
    pub(crate) rejected: Vec<(u32, Reason)>,
    /// True if the other [`ZonePolicy`] might have decided differently.
    pub(crate) tasted: bool,
}

/// Preference between values that the rules do not distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZonePolicy {
    /// Cheaper values first. If the best value of one label leaves none for the next label, the next best is tried.
    Cheapest,
    /// Values with less load first, and only the best value: limits and existing nodes may not have room for all units
    /// in the cheapest value, and units in a second choice may leave others without a value.
    Emptiest,
}

struct Zoning<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    standing: &'a [ExistingNode],
    standing_admits: &'a IndexSlice<SignatureId, [FixedBitSet]>,
    dimension_of: IndexVec<DomainRuleId, usize>,
    counting: IndexVec<DomainRuleId, FixedBitSet>,
    /// Values in which no node counts, by rule.
    deaf: IndexVec<DomainRuleId, FixedBitSet>,
    /// Cells without a value, by dimension.
    bare: Vec<FixedBitSet>,
    counts: Counts,
    zone_policy: ZonePolicy,
    tasted: bool,
    /// Load by dimension and value, as a share of all pending cpu plus a share of all memory. The last entry of each
    /// dimension is the load of cells without a value.
    load: Vec<Vec<f64>>,
    /// Costs of the values of a dimension.
    costs: FxHashMap<contest::Asked, Rc<[Cost]>>,
    masks: IndexVec<MaskId, FixedBitSet>,
    mask_ids: FxHashMap<FixedBitSet, MaskId>,
    /// Units assigned to values in which they violate a spread of others.
    intruders: Vec<Intruder>,
    /// Number of values that units have looked at, and what is left for second choices.
    looks: Cell<usize>,
    second_looks: Cell<usize>,
}

/// Unit that is a target of a spread that was violated in its value when the unit was assigned. Later units may restore
/// the balance.
struct Intruder {
    unit: u32,
    group: GroupId,
    chosen: Vec<(usize, usize)>,
}

/// Assigns cells to all units except those of `without`.
pub(crate) fn assign(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    standing: &[ExistingNode],
    standing_admits: &IndexSlice<SignatureId, [FixedBitSet]>,
    without: &FxHashSet<u32>,
    zone_policy: ZonePolicy,
) -> Zoned {
    let dimension_of = dimensions(compiled, grouped);
    let mut zoning = Zoning {
        compiled,
        grouped,
        standing,
        standing_admits,
        counting: existing_nodes::counting_values(compiled, grouped, standing),
        deaf: existing_nodes::deaf_values(compiled, grouped, standing),
        bare: compiled.cells.without_value(),
        counts: bound_counts(compiled, grouped, standing),
        dimension_of,
        zone_policy,
        tasted: false,
        load: compiled.cells.dimensions.iter().map(|dimension| vec![0.0; dimension.values.len() + 1]).collect(),
        costs: FxHashMap::default(),
        masks: IndexVec::new(),
        mask_ids: FxHashMap::default(),
        intruders: Vec::new(),
        looks: Cell::new(0),
        second_looks: Cell::new(choice::MOST_SECOND_LOOKS),
    };
    let totals = total_sizes(grouped, compiled.columns.width());
    let reaches = Rc::clone(grouped.reaches.get_or_init(|| Rc::new(zoning.reaches())));
    let mut zoned = Zoned { placed: Vec::new(), masks: IndexVec::new(), rejected: Vec::new(), tasted: false };
    let mut waiting = zoning.order(&reaches, &totals);
    while !waiting.is_empty() {
        let mut deferred = Vec::new();
        let before = waiting.len();
        for group in std::mem::take(&mut waiting) {
            if zoning.lacks_company(group) {
                deferred.push(group);
            } else {
                zoning.place_group(group, &reaches[group], &totals, without, &mut zoned);
            }
        }
        if deferred.len() == before {
            for group in deferred {
                let units = grouped.groups[group].units.iter().filter(|unit| !without.contains(unit));
                zoned.rejected.extend(units.map(|&unit| (unit, Reason::PodAffinity)));
            }
            break;
        }
        waiting = deferred;
    }
    zoning.turn_away(&mut zoned);
    zoned.masks = zoning.masks;
    zoned.tasted = zoning.tasted;
    zoned
}

/// Returns true if at least two values with a finite price differ in cost.
fn differ(costs: &[Cost]) -> bool {
    let mut real = costs.iter().filter(|(_, price)| price.is_finite());
    let first = real.next();
    real.any(|cost| Some(cost) != first)
}

fn total_sizes(grouped: &Grouped, width: usize) -> Vec<f64> {
    let mut totals = vec![0.0; width];
    for group in &grouped.groups {
        for (total, &size) in totals.iter_mut().zip(&*group.sizes) {
            *total += f64::from(size) * group.units.len() as f64;
        }
    }
    totals
}

impl Zoning<'_> {
    fn reaches(&self) -> IndexVec<GroupId, FixedBitSet> {
        let mut known: FxHashMap<(SignatureId, &[i32]), FixedBitSet> = FxHashMap::default();
        let groups = self.grouped.groups.iter();
        groups
            .map(|group| {
                let key = (group.signature, &*group.sizes);
                if let Some(reach) = known.get(&key) {
                    return reach.clone();
                }
                let reach = existing_nodes::reach(
                    self.compiled,
                    self.grouped,
                    group.signature,
                    &group.sizes,
                    self.standing,
                    self.standing_admits,
                );
                known.insert(key, reach.clone());
                reach
            })
            .collect()
    }

    /// Returns the groups in order of assignment.
    fn order(&self, reaches: &IndexSlice<GroupId, [FixedBitSet]>, totals: &[f64]) -> Vec<GroupId> {
        let groups = &self.grouped.groups;
        let mut targets: IndexVec<DomainRuleId, i64> = index_vec![0; self.grouped.rules.domain.len()];
        for group in groups {
            for &(rule, count) in &group.part.targets_domain {
                targets[rule] += i64::from(count) * group.units.len() as i64;
            }
        }
        let mut order: Vec<GroupId> = groups.indices().collect();
        order.sort_by_cached_key(|&group| {
            let part = &groups[group].part;
            let founds = self.owns_company(group);
            let rank = if reaches[group].count_ones(..) <= 1 {
                0
            } else if founds {
                1
            } else if !part.owns_domain.is_empty() {
                2
            } else {
                3
            };
            let fewest = part.owns_domain.iter().map(|&rule| targets[rule]).min().unwrap_or(i64::MAX);
            let weight = if founds { self.share(group, totals) * groups[group].units.len() as f64 } else { 0.0 };
            (rank, std::cmp::Reverse((weight * 1e9) as i64), fewest, group)
        });
        order
    }

    fn owns_company(&self, group: GroupId) -> bool {
        let mut owned = self.grouped.groups[group].part.owns_domain.iter();
        owned.any(|&rule| self.grouped.rules.domain[rule].demand == Demand::Company)
    }

    fn share(&self, group: GroupId, totals: &[f64]) -> f64 {
        let sizes = &self.grouped.groups[group].sizes;
        let of = |column: usize| if totals[column] > 0.0 { f64::from(sizes[column]) / totals[column] } else { 0.0 };
        of(CPU) + of(MEMORY)
    }

    /// Returns true if `group` needs targets that are still to be placed.
    fn lacks_company(&self, group: GroupId) -> bool {
        let part = &self.grouped.groups[group].part;
        part.owns_domain.iter().any(|&rule| {
            let own = part.targets_domain.iter().any(|&(target, _)| target == rule);
            self.grouped.rules.domain[rule].demand == Demand::Company && !own && self.counts.total[rule] == 0
        })
    }

    fn place_group(
        &mut self,
        group: GroupId,
        reach: &FixedBitSet,
        totals: &[f64],
        without: &FxHashSet<u32>,
        zoned: &mut Zoned,
    ) {
        let of = &self.grouped.groups[group];
        if !of.part.joins.is_empty() {
            // Bundling found no targets for them.
            let units = of.units.iter().filter(|unit| !without.contains(unit));
            zoned.rejected.extend(units.map(|&unit| (unit, Reason::PodAffinity)));
            return;
        }
        let dimension = |rule: DomainRuleId| self.dimension_of[rule];
        let mut dimensions: Vec<usize> = of.part.owns_domain.iter().map(|&rule| dimension(rule)).collect();
        let is_homeless = dimensions.contains(&usize::MAX);
        dimensions.extend(of.part.targets_domain.iter().map(|&(rule, _)| dimension(rule)));
        dimensions.retain(|&dimension| dimension != usize::MAX);
        dimensions.sort_unstable();
        dimensions.dedup();
        if is_homeless {
            // No node has the label of a rule that the pods own, so no node is in any of its domains.
            let reason = self.reason_of(group);
            let units = of.units.iter().filter(|unit| !without.contains(unit));
            zoned.rejected.extend(units.map(|&unit| (unit, reason)));
            return;
        }
        if dimensions.is_empty() {
            let mask = self.mask_id(reach.clone());
            let units = of.units.iter().copied().filter(|unit| !without.contains(unit)).collect();
            zoned.placed.push(Placed { group, mask, units });
            return;
        }
        let dimensions: Vec<(usize, Rc<[Cost]>)> =
            dimensions.into_iter().map(|dimension| (dimension, self.costs(group, reach, dimension))).collect();
        self.tasted |= dimensions.iter().any(|(_, costs)| differ(costs));
        let share = self.share(group, totals);
        let first = zoned.placed.len();
        let mut units = of.units.iter().copied().filter(|unit| !without.contains(unit));
        while let Some(unit) = units.next() {
            match self.choose(unit, group, reach, &dimensions, share) {
                Some(mask) => {
                    let id = self.mask_id(mask);
                    match zoned.placed[first..].iter_mut().find(|placed| placed.mask == id) {
                        Some(placed) => placed.units.push(unit),
                        None => zoned.placed.push(Placed { group, mask: id, units: vec![unit] }),
                    }
                }
                // The remaining units of the group are interchangeable with it.
                None => {
                    let reason = self.reason_of(group);
                    zoned.rejected.extend(std::iter::once(unit).chain(units.by_ref()).map(|unit| (unit, reason)));
                }
            }
        }
    }

    fn reason_of(&self, group: GroupId) -> Reason {
        let owned = self.grouped.groups[group].part.owns_domain.first();
        match owned.map(|&rule| &self.grouped.rules.domain[rule].demand) {
            Some(Demand::Spread { .. }) => Reason::TopologySpread,
            Some(Demand::Company) => Reason::PodAffinity,
            Some(Demand::AtMost(_)) | None => Reason::PodAntiAffinity,
        }
    }

    fn mask_id(&mut self, mask: FixedBitSet) -> MaskId {
        if let Some(&id) = self.mask_ids.get(&mask) {
            return id;
        }
        let id = self.masks.push(mask.clone());
        self.mask_ids.insert(mask, id);
        id
    }
}
