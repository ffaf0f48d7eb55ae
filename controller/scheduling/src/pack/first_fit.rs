//! First-fit packing, as Karpenter does it. Plans are compared with it, and it provides another draft for plans of some
//! hundred units, so that these never cost more than first fit.
//!
//! Pods are placed in descending order of cpu, then memory. Each goes to the first existing node that holds it, else to
//! the first planned node, those with the fewest pods first, else to a new node of the heaviest pool that allows it, at
//! any price. A planned node may become any type that holds its pods, in any cell that they allow, and a spread takes
//! the domain with the fewest targets. Types and prices are chosen after all pods are placed.
//!
//! It avoids two weaknesses of Karpenter: a zone is fixed, not left open, once anti-affinity constrains it, and all
//! preferred terms are dropped at once if a pod would stay pending. Plans that are compared may avoid a third: a pod
//! that a spread of other pods counts goes where that spread still holds.

mod domains;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexVec, index_vec};

use super::construct::OpenedNode;
use super::existing_nodes::{self, ExistingNode};
use super::groups::{EACH, GroupId, Grouped, PreferenceMode};
use super::headroom::Headroom;
use super::reserved::Reservations;
use super::zones::{self, Counts};
use super::{Draft, finish, groups};
use crate::compile::{CPU, CellId, Compiled, DomainRuleId, HostRuleId, MEMORY, Part, SignatureId, cells_in, fits};
use crate::model::{PoolState, PreferencePolicy};
use crate::solution::{Reason, Solution};

/// Returns a plan as Karpenter would make it; `None` if it would inspect more than `steps` claims and shapes.
pub(super) fn plan(compiled: &Compiled<'_>, steps: usize) -> Option<Solution> {
    planned(compiled, steps, Spreads::Own)
}

/// Returns a first-fit plan in which pods that spreads of others count get their domains at once; `None` if there are
/// none, or if it would inspect more than `steps` claims and shapes.
pub(super) fn counting_others(compiled: &Compiled<'_>, steps: usize) -> Option<Solution> {
    planned(compiled, steps, Spreads::Counted)
}

/// Returns a first-fit plan in which pods keep the spreads of others that count them; `None` as for
/// [`counting_others`].
pub(super) fn keeping_spreads(compiled: &Compiled<'_>, steps: usize) -> Option<Solution> {
    planned(compiled, steps, Spreads::Kept)
}

fn planned(compiled: &Compiled<'_>, steps: usize, spreads: Spreads) -> Option<Solution> {
    let respects = compiled.options.preferences == PreferencePolicy::Respect;
    let asks = respects && (groups::prefers_spread(compiled) || groups::prefers_hosts(compiled));
    let asked = || PreferenceMode { spreads: groups::prefers_spread(compiled), hosts: EACH, ..PreferenceMode::PLAIN };
    let first = if asks { asked() } else { PreferenceMode::PLAIN };
    let mut grouped = Grouped::new(compiled, &first, true);
    if spreads != Spreads::Own && !domains::has_foreign_spreads(&grouped) {
        return None;
    }
    let mut draft = Fitting::new(compiled, &grouped, steps, spreads).run()?;
    if asks && !draft.left.is_empty() {
        let plain = Grouped::new(compiled, &PreferenceMode::PLAIN, true);
        let other = Fitting::new(compiled, &plain, steps, spreads).run()?;
        if other.pods_left(&plain) < draft.pods_left(&grouped) {
            (grouped, draft) = (plain, other);
        }
    }
    Reservations::reclaim(compiled, &grouped, &mut draft.opened);
    Some(finish::write(compiled, &grouped, &mut draft))
}

/// Returns a first-fit draft for one reading; `None` if it would inspect more than `steps` claims and shapes.
pub(super) fn draft(compiled: &Compiled<'_>, grouped: &Grouped, steps: usize) -> Option<Draft> {
    let mut draft = Fitting::new(compiled, grouped, steps, Spreads::Own).run()?;
    Reservations::reclaim(compiled, grouped, &mut draft.opened);
    Some(draft)
}

/// Treatment of pods that spreads of other pods count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spreads {
    /// As in Karpenter and kube-scheduler: a pod is counted once the domain of its node is known, and keeps only its
    /// own spreads.
    Own,
    /// It gets a domain at once, and is counted there.
    Counted,
    /// The same, in a domain in which these spreads hold.
    Kept,
}

/// Units on a node, with the totals that decide whether others fit.
#[derive(Clone)]
struct Content {
    units: Vec<u32>,
    /// Group of each unit.
    groups: Vec<GroupId>,
    sizes: Vec<i32>,
    /// Number of owners, by host rule; `targets` likewise.
    owners: IndexVec<HostRuleId, i32>,
    targets: IndexVec<HostRuleId, i32>,
}

/// Planned node.
struct Claim {
    content: Content,
    /// Shapes that it may still become, by cell.
    options: IndexVec<CellId, FixedBitSet>,
    /// Largest room of any of these shapes, by column.
    most: Vec<i32>,
    /// Value that was chosen, by dimension.
    decided: Vec<Option<usize>>,
}

/// State of a claim after adding one unit.
struct Narrowed {
    options: IndexVec<CellId, FixedBitSet>,
    most: Vec<i32>,
    decided: Vec<Option<usize>>,
}

struct Fitting<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    standing: Vec<ExistingNode>,
    standing_admits: IndexVec<SignatureId, FixedBitSet>,
    /// Content by position in `standing`.
    on_standing: Vec<Content>,
    claims: Vec<Claim>,
    /// Claims ordered by the number of their units.
    order: BTreeSet<(usize, usize)>,
    /// Remaining number of claims and shapes that may be inspected.
    steps: usize,
    spreads: Spreads,
    headroom: Headroom,
    counts: Counts,
    counting: IndexVec<DomainRuleId, FixedBitSet>,
    /// Dimension by domain rule; `usize::MAX` if no node has the label.
    dimension_of: IndexVec<DomainRuleId, usize>,
    /// Open pools by descending weight, then by descending name.
    pools: Vec<usize>,
}

// === impl Content ===

impl Content {
    fn new(width: usize, rules: usize) -> Self {
        let zeros: IndexVec<HostRuleId, i32> = index_vec![0; rules];
        Self { units: Vec::new(), groups: Vec::new(), sizes: vec![0; width], owners: zeros.clone(), targets: zeros }
    }

    fn count(&mut self, owns: &[HostRuleId], targets: &[(HostRuleId, i32)]) {
        owns.iter().for_each(|&rule| self.owners[rule] += 1);
        targets.iter().for_each(|&(rule, count)| self.targets[rule] += count);
    }

    fn put(&mut self, unit: u32, group: GroupId, sizes: &[i32], part: &Part) {
        self.units.push(unit);
        self.groups.push(group);
        self.sizes.iter_mut().zip(sizes).for_each(|(sum, &size)| *sum = sum.saturating_add(size));
        self.count(&part.owns_host, &part.targets_host);
    }

    fn with(&self, sizes: &[i32]) -> Vec<i32> {
        self.sizes.iter().zip(sizes).map(|(&sum, &size)| sum.saturating_add(size)).collect()
    }
}

// === impl Fitting ===

impl<'a> Fitting<'a> {
    fn new(compiled: &'a Compiled<'a>, grouped: &'a Grouped, steps: usize, spreads: Spreads) -> Self {
        let standing = existing_nodes::standing(compiled);
        let standing_admits = existing_nodes::standing_admits(compiled, &standing);
        let (width, rules) = (compiled.columns.width(), grouped.rules.host.len());
        let preloaded = |one: &ExistingNode| {
            let mut content = Content::new(width, rules);
            for bound in &compiled.problem.nodes[one.node].bound {
                let (owns, targets) = grouped.bound_on_host(bound);
                content.count(&owns, &targets);
            }
            content
        };
        let problem = compiled.problem;
        let open = |pool: &usize| {
            let one = &problem.pools[*pool];
            one.state == PoolState::Ready && one.missing_replicas.is_none()
        };
        let mut pools: Vec<usize> = (0..problem.pools.len()).filter(open).collect();
        pools.sort_by_key(|&pool| Reverse((problem.pools[pool].weight, problem.pools[pool].name.clone())));
        Self {
            compiled,
            grouped,
            on_standing: standing.iter().map(preloaded).collect(),
            counts: zones::bound_counts(compiled, grouped, &standing),
            counting: existing_nodes::counting_values(compiled, grouped, &standing),
            standing,
            standing_admits,
            claims: Vec::new(),
            order: BTreeSet::new(),
            steps,
            spreads,
            headroom: Headroom::new(compiled),
            dimension_of: zones::dimensions(compiled, grouped),
            pools,
        }
    }

    /// Places all units. Units that found no node are retried as long as others are placed. Returns `None` if the steps
    /// are used up.
    fn run(mut self) -> Option<Draft> {
        let groups = self.grouped.groups.iter_enumerated();
        let units = groups.flat_map(|(number, group)| group.units.iter().map(move |&unit| (unit, number)));
        let mut queue: Vec<(u32, GroupId)> = units.collect();
        queue.sort_by_key(|&(unit, group)| {
            let sizes = &self.grouped.groups[group].sizes;
            (Reverse((sizes[CPU], sizes[MEMORY])), unit)
        });
        loop {
            let waiting = queue.len();
            queue.retain(|&(unit, group)| !self.place(unit, group));
            if self.steps == 0 {
                return None;
            }
            if queue.is_empty() || queue.len() == waiting {
                break;
            }
        }
        let existing = self.standing.iter().zip(&self.on_standing).filter(|(_, content)| !content.units.is_empty());
        let existing = existing.map(|(one, content)| (one.node, content.units.clone())).collect();
        let left = queue.iter().map(|&(unit, _)| (unit, None::<Reason>)).collect();
        let opened = self.claims.iter().filter_map(|claim| self.launched(claim)).collect();
        Some(Draft { opened, existing, left, tasted: false })
    }

    fn place(&mut self, unit: u32, group: GroupId) -> bool {
        let of = &self.grouped.groups[group];
        if !of.part.joins.is_empty() {
            return false;
        }
        if let Some(position) = (0..self.standing.len()).find(|&position| self.standing_takes(position, group)) {
            self.on_standing[position].put(unit, group, &of.sizes, &of.part);
            let cell = self.standing[position].cell;
            self.count(&of.part, |dimension| self.compiled.cells.value_index(cell, dimension));
            return true;
        }
        let mut looks = 0;
        let found = self.order.iter().find_map(|&(_, claim)| {
            looks += 1;
            Some((claim, self.narrowed(&self.claims[claim], group, &mut looks)?))
        });
        self.steps = self.steps.saturating_sub(looks);
        if let Some((claim, narrowed)) = found {
            self.put(claim, narrowed, unit, group);
            return true;
        }
        looks = 0;
        for number in 0..self.pools.len() {
            let claim = self.fresh(self.pools[number]);
            let narrowed = self.narrowed(&claim, group, &mut looks);
            self.steps = self.steps.saturating_sub(std::mem::take(&mut looks));
            if let Some(narrowed) = narrowed {
                self.claims.push(claim);
                let last = self.claims.len() - 1;
                self.order.insert((0, last));
                self.put(last, narrowed, unit, group);
                // Karpenter counts the largest shape that the node may become.
                let mut shapes = FixedBitSet::with_capacity(self.compiled.shapes.len());
                self.claims[last].options.iter().for_each(|set| shapes.union_with(set));
                self.headroom.spend_most(self.compiled, shapes.ones());
                return true;
            }
        }
        false
    }

    fn standing_takes(&self, position: usize, group: GroupId) -> bool {
        let of = &self.grouped.groups[group];
        let (one, content) = (&self.standing[position], &self.on_standing[position]);
        let parts = &self.grouped.signature_parts[of.signature];
        let value = |dimension: usize| self.compiled.cells.value_index(one.cell, dimension);
        parts.iter().all(|&part| self.standing_admits[part].contains(position))
            && self.grouped.confines(of.signature, one.node)
            && fits(&content.with(&of.sizes), &one.room)
            && !of.part.is_blocked(&self.grouped.rules, &content.owners, &content.targets)
            && self.ruled(&of.part).into_iter().all(|dimension| match value(dimension) {
                Some(value) => self.chosen(&of.part, dimension, &[value]).contains(&value),
                None => false,
            })
    }

    /// Returns an empty claim of a pool that may become any shape within the pool's limits.
    fn fresh(&self, pool: usize) -> Claim {
        let compiled = self.compiled;
        let mut shapes = FixedBitSet::with_capacity(compiled.shapes.len());
        let own = |shape: &usize| compiled.shapes[*shape].pool == pool && self.headroom.allows(compiled, *shape);
        shapes.extend((0..compiled.shapes.len()).filter(own));
        let at = |offered: &FixedBitSet| {
            let mut set = offered.clone();
            set.intersect_with(&shapes);
            set
        };
        Claim {
            content: Content::new(compiled.columns.width(), self.grouped.rules.host.len()),
            options: compiled.bought().iter().map(at).collect(),
            most: vec![i32::MAX; compiled.columns.width()],
            decided: vec![None; compiled.cells.dimensions.len()],
        }
    }

    /// Returns the state of a claim after adding a unit of `group`; `None` if no shape remains. Adds the shapes
    /// inspected to `looks`.
    fn narrowed(&self, claim: &Claim, group: GroupId, looks: &mut usize) -> Option<Narrowed> {
        let of = &self.grouped.groups[group];
        let sums = claim.content.sizes.iter().zip(&*of.sizes).zip(&claim.most);
        let mut sums = sums.map(|((&held, &size), &most)| (held.saturating_add(size), most));
        if sums.any(|(sum, most)| sum > most && sum > 0)
            || of.part.is_blocked(&self.grouped.rules, &claim.content.owners, &claim.content.targets)
        {
            return None;
        }
        let sizes = claim.content.with(&of.sizes);
        let compiled = self.compiled;
        let admits = &self.grouped.admits[of.signature];
        let mut options: IndexVec<CellId, FixedBitSet> = claim.options.clone();
        let mut all = FixedBitSet::with_capacity(compiled.shapes.len());
        for (set, admitted) in options.iter_mut().zip(&**admits) {
            set.intersect_with(admitted);
            all.union_with(set);
        }
        *looks += all.count_ones(..);
        let holds = |shape: &usize| fits(&sizes, &compiled.shapes[*shape].room);
        let mut holding = FixedBitSet::with_capacity(compiled.shapes.len());
        holding.extend(all.ones().filter(holds));
        options.iter_mut().for_each(|set| set.intersect_with(&holding));
        let mut decided = claim.decided.clone();
        for dimension in self.ruled(&of.part) {
            let values = compiled.cells.dimensions[dimension].values.len();
            let cells = compiled.cells.by_value(dimension);
            let possible = (0..values).filter(|&value| cells_in(&cells[value]).any(|cell| !options[cell].is_clear()));
            let possible: Vec<usize> = possible.collect();
            let &value = self.chosen(&of.part, dimension, &possible).first()?;
            decided[dimension] = Some(value);
            let inside = &cells[value];
            let outside = options.iter_mut_enumerated().filter(|(cell, _)| !inside.contains(cell.index()));
            outside.for_each(|(_, set)| set.clear());
        }
        let mut most = vec![0; sizes.len()];
        for shape in holding.ones() {
            most.iter_mut().zip(&compiled.shapes[shape].room).for_each(|(most, &room)| *most = room.max(*most));
        }
        options.iter().any(|set| !set.is_clear()).then_some(Narrowed { options, most, decided })
    }

    fn put(&mut self, claim: usize, narrowed: Narrowed, unit: u32, group: GroupId) {
        let grouped = self.grouped;
        let held = self.claims[claim].content.units.len();
        self.order.remove(&(held, claim));
        self.order.insert((held + 1, claim));
        let before = std::mem::replace(&mut self.claims[claim].decided, narrowed.decided);
        self.claims[claim].options = narrowed.options;
        self.claims[claim].most = narrowed.most;
        let decided = self.claims[claim].decided.clone();
        // Units already on the claim count once its domain is known.
        for other in self.claims[claim].content.groups.clone() {
            let fresh = |dimension: usize| decided[dimension].filter(|_| before[dimension].is_none());
            self.count(&grouped.groups[other].part, fresh);
        }
        let of = &grouped.groups[group];
        self.claims[claim].content.put(unit, group, &of.sizes, &of.part);
        self.count(&of.part, |dimension| decided[dimension]);
    }

    /// Returns the claim as a node of its cheapest shape and cell.
    fn launched(&self, claim: &Claim) -> Option<OpenedNode> {
        let compiled = self.compiled;
        let options = claim.options.iter_enumerated();
        let all = options
            .flat_map(|(cell, set)| set.ones().map(move |shape| (compiled.shapes[shape].price[cell], shape, cell)));
        let (price, shape, cell) = all.min_by(|a, b| a.0.total_cmp(&b.0).then((a.2, a.1).cmp(&(b.2, b.1))))?;
        Some(OpenedNode { shape, cell, price, units: claim.content.units.clone(), reserved: None })
    }
}
