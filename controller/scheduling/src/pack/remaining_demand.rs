//! Units left to place: kinds of pods, and batches of interchangeable ones.
//!
//! A kind is (size, signature, pools), all that the room, labels and weight of a node depend on. A batch is (kind, host
//! rules, cells), all that packing distinguishes. Labels that no selector reads are ignored: 20,000 pods of 3,188
//! classes are 30 kinds.

use std::rc::Rc;

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexSlice, IndexVec, index_vec};
use rustc_hash::FxHashMap;

use super::fill::Content;
use super::groups::{Group, Grouped};
use super::rulesets::{Ruleset, RulesetId, Rulesets};
use super::zones::{MaskId, Placed, Zoned};
use crate::compile::{CellId, Compiled, HostRule, HostRuleId, SignatureId, cells_in, fits};
use crate::index::index_type;

index_type! {
    /// Position in [`RemainingDemand::kinds`].
    pub(crate) struct KindId;
}

index_type! {
    /// Position in [`RemainingDemand::batches`].
    pub(crate) struct BatchId;
}

/// Requests of a unit, by column.
type Sizes = Rc<[i32]>;

/// Size and signature of pods, and where nodes are opened for them.
#[derive(Debug, Clone)]
pub(crate) struct ItemType {
    pub(crate) signature: SignatureId,
    pub(crate) sizes: Rc<[i32]>,
    /// Pools with nodes for them in their cells: the heaviest pool of one zone may have none in another.
    pub(crate) pools: Rc<FixedBitSet>,
}

/// Units that packing does not distinguish.
#[derive(Debug, Clone)]
pub(crate) struct DemandBatch {
    pub(crate) kind: KindId,
    pub(crate) ruleset: RulesetId,
    pub(crate) mask: MaskId,
    /// Units in order of the input; those from `taken` on are left.
    pub(crate) units: Rc<[u32]>,
    pub(crate) taken: usize,
}

impl DemandBatch {
    /// Returns the number of units left.
    pub(crate) fn left(&self) -> usize {
        self.units.len() - self.taken
    }
}

/// Pools with nodes for units, by group of them and cells.
struct PoolReach<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    /// All pools.
    all: Rc<FixedBitSet>,
    /// True if all pools have the same weight: then nothing depends on where they have nodes.
    alike: bool,
    /// By signature, sizes and mask.
    known: FxHashMap<(SignatureId, Sizes, MaskId), Rc<FixedBitSet>>,
}

/// All units left to place.
#[derive(Debug, Clone)]
pub(crate) struct RemainingDemand {
    pub(crate) kinds: IndexVec<KindId, ItemType>,
    pub(crate) batches: IndexVec<BatchId, DemandBatch>,
    pub(crate) rulesets: Rc<Rulesets>,
    pub(crate) masks: IndexVec<MaskId, FixedBitSet>,
    /// Cells of each mask, ascending.
    pub(crate) cells_of: Rc<IndexVec<MaskId, Vec<CellId>>>,
    /// Batches that had units left when it was last compacted.
    pub(crate) open: Vec<BatchId>,
    /// Batches by cell and kind, stored as consecutive lists; read by [`RemainingDemand::batches_at`]. `lists` has the
    /// start and end of each.
    listed: Vec<BatchId>,
    lists: Vec<(u32, u32)>,
    /// Number of units left that own a host rule and are targets of it, by rule.
    apart_left: IndexVec<HostRuleId, usize>,
    /// Number of units left, by kind.
    pub(crate) left_of_kind: IndexVec<KindId, usize>,
    /// Number of units left that own a host rule, by rule.
    pub(crate) owners_left: IndexVec<HostRuleId, usize>,
    pub(crate) left: usize,
}

impl<'a> PoolReach<'a> {
    fn new(compiled: &'a Compiled<'a>, grouped: &'a Grouped) -> Self {
        let pools = &compiled.problem.pools;
        let mut all = FixedBitSet::with_capacity(pools.len());
        all.insert_range(..);
        let alike = pools.iter().all(|pool| pool.weight == pools[0].weight);
        Self { compiled, grouped, all: Rc::new(all), alike, known: FxHashMap::default() }
    }

    /// Returns the pools with a shape that holds a unit of `group` in one of `cells`, the cells of `mask`.
    fn of(&mut self, group: &Group, mask: MaskId, cells: &FixedBitSet) -> Rc<FixedBitSet> {
        if self.alike || cells.is_full() {
            return Rc::clone(&self.all);
        }
        let (compiled, grouped) = (self.compiled, self.grouped);
        let found = self.known.entry((group.signature, Rc::clone(&group.sizes), mask)).or_insert_with(|| {
            let mut pools = FixedBitSet::with_capacity(compiled.problem.pools.len());
            for cell in cells_in(cells) {
                for shape in grouped.admits[group.signature][cell].intersection(&compiled.bought()[cell]) {
                    let one = &compiled.shapes[shape];
                    if !pools.contains(one.pool) && fits(&group.sizes, &one.room) {
                        pools.insert(one.pool);
                    }
                }
            }
            Rc::new(pools)
        });
        Rc::clone(found)
    }
}

impl RemainingDemand {
    pub(crate) fn new(compiled: &Compiled<'_>, grouped: &Grouped, zoned: &Zoned) -> Self {
        let mut reach = PoolReach::new(compiled, grouped);
        let mut kind_ids: FxHashMap<(SignatureId, Sizes, Rc<FixedBitSet>), KindId> = FxHashMap::default();
        let mut ruleset_ids: FxHashMap<Rc<Ruleset>, RulesetId> = FxHashMap::default();
        let mut batch_ids: FxHashMap<(KindId, RulesetId, MaskId), BatchId> = FxHashMap::default();
        let mut kinds: IndexVec<KindId, ItemType> = IndexVec::new();
        let mut rulesets: IndexVec<RulesetId, Rc<Ruleset>> = IndexVec::new();
        let mut batches: IndexVec<BatchId, DemandBatch> = IndexVec::new();
        let mut units: IndexVec<BatchId, Vec<u32>> = IndexVec::new();
        // Rules without pending owners have no effect on new nodes; on existing nodes, bound owners count.
        for placed in &zoned.placed {
            let group = &grouped.groups[placed.group];
            let pools = reach.of(group, placed.mask, &zoned.masks[placed.mask]);
            let kind = (group.signature, Rc::clone(&group.sizes), Rc::clone(&pools));
            let kind = *kind_ids.entry(kind).or_insert_with(|| {
                kinds.push(ItemType { signature: group.signature, sizes: Rc::clone(&group.sizes), pools })
            });
            let rules = Ruleset { owns: group.part.owns_host.clone(), targets: group.part.targets_host.clone() };
            let ruleset = match ruleset_ids.get(&rules) {
                Some(&known) => known,
                None => {
                    let rules = Rc::new(rules);
                    let id = rulesets.push(Rc::clone(&rules));
                    ruleset_ids.insert(rules, id);
                    id
                }
            };
            let batch = *batch_ids.entry((kind, ruleset, placed.mask)).or_insert_with(|| {
                units.push(Vec::new());
                batches.push(DemandBatch { kind, ruleset, mask: placed.mask, units: Rc::from([]), taken: 0 })
            });
            units[batch].extend_from_slice(&placed.units);
        }
        let mut left_of_kind = index_vec![0; kinds.len()];
        let mut owners_left = index_vec![0; grouped.rules.host.len()];
        let mut apart_left = index_vec![0; grouped.rules.host.len()];
        drop(ruleset_ids);
        let rulesets = Rc::new(Rulesets::new(rulesets, &grouped.rules.host));
        let mut left = 0;
        for (batch, mut units) in batches.iter_mut().zip(units) {
            units.sort_unstable();
            batch.units = units.into();
            for &(rule, _) in &rulesets.on_itself[batch.ruleset] {
                apart_left[rule] += batch.units.len();
            }
            left_of_kind[batch.kind] += batch.units.len();
            left += batch.units.len();
            for &rule in &rulesets[batch.ruleset].owns {
                owners_left[rule] += batch.units.len();
            }
        }
        let mut demand = Self {
            kinds,
            open: batches.indices().collect(),
            batches,
            rulesets,
            masks: zoned.masks.clone(),
            cells_of: Rc::default(),
            listed: Vec::new(),
            lists: Vec::new(),
            apart_left,
            left_of_kind,
            owners_left,
            left,
        };
        demand.list(compiled.cells.len());
        demand
    }

    /// Lists the batches by cell and kind.
    fn list(&mut self, cells: usize) {
        let cells_of: Rc<IndexVec<MaskId, Vec<CellId>>> =
            Rc::new(self.masks.iter().map(|mask| cells_in(mask).collect()).collect());
        let mut order = self.open.clone();
        order.sort_by_key(|&batch| {
            let one = &self.batches[batch];
            let cells = cells_of[one.mask].len();
            (cells, std::cmp::Reverse(self.rulesets[one.ruleset].owns.len()), batch)
        });
        (self.listed, self.lists) = list(&self.batches, &order, &cells_of, self.kinds.len(), cells);
        self.cells_of = cells_of;
    }

    /// Restricts batches to cells, as far as they may go to these.
    pub(crate) fn restrict(&mut self, restrictions: &[(Vec<BatchId>, FixedBitSet)]) {
        let cells = self.masks.first().map_or(0, FixedBitSet::len);
        for (batches, cells) in restrictions {
            let mut ids: FxHashMap<MaskId, MaskId> = FxHashMap::default();
            for &batch in batches {
                let one = &mut self.batches[batch];
                one.mask = *ids.entry(one.mask).or_insert_with(|| {
                    let mut mask = self.masks[one.mask].clone();
                    mask.intersect_with(cells);
                    if mask.is_clear() {
                        return one.mask;
                    }
                    let known = self.masks.position(|known| *known == mask);
                    known.unwrap_or_else(|| self.masks.push(mask))
                });
            }
        }
        self.list(cells);
    }

    /// Returns the batches of `kind` that may go to `cell`: those with the fewest cells first, then those with the most
    /// owned rules.
    pub(crate) fn batches_at(&self, cell: CellId, kind: KindId) -> &[BatchId] {
        let (from, to) = self.lists[cell.index() * self.kinds.len() + kind.index()];
        &self.listed[from as usize..to as usize]
    }

    /// Returns the minimum number of nodes that rules require: owners that are targets of the same rule, at most
    /// `limit` per node.
    pub(crate) fn least_nodes(&self, rules: &IndexSlice<HostRuleId, [HostRule]>) -> f64 {
        self.tightest(rules).map_or(0.0, |(_, nodes)| nodes as f64)
    }

    /// Returns the rule that requires the most nodes, the first of equals, and their number.
    pub(crate) fn tightest(&self, rules: &IndexSlice<HostRuleId, [HostRule]>) -> Option<(HostRuleId, usize)> {
        let nodes = rules.iter().zip(&self.apart_left).map(|(rule, &count)| count.div_ceil(rule.limit.max(1) as usize));
        let most = rules.indices().zip(nodes).max_by_key(|&(rule, nodes)| (nodes, std::cmp::Reverse(rule)));
        most.filter(|&(_, nodes)| nodes > 0)
    }

    /// Returns the rules that units of a batch own and are targets of.
    pub(crate) fn rules_on_itself(&self, batch: BatchId) -> impl Iterator<Item = HostRuleId> {
        self.rulesets.on_itself[self.batches[batch].ruleset].iter().map(|&(rule, _)| rule)
    }

    /// Returns the number of units left that own a host rule and are targets of it.
    pub(crate) fn apart_left(&self, rule: HostRuleId) -> usize {
        self.apart_left[rule]
    }

    /// Returns by kind the number of units left that own `rule` and are targets of it.
    pub(crate) fn apart_of_kind(&self, rule: HostRuleId) -> IndexVec<KindId, usize> {
        let mut apart = index_vec![0; self.kinds.len()];
        let is_apart =
            |batch: &&DemandBatch| self.rulesets.on_itself[batch.ruleset].iter().any(|&(own, _)| own == rule);
        for batch in self.batches.iter().filter(is_apart) {
            apart[batch.kind] += batch.left();
        }
        apart
    }

    /// Creates the demand of all groups as if they could go to any cell.
    pub(crate) fn of_groups(compiled: &Compiled<'_>, grouped: &Grouped) -> Self {
        let mut anywhere = FixedBitSet::with_capacity(compiled.cells.len());
        anywhere.insert_range(..);
        let groups = grouped.groups.iter_enumerated();
        let mut masks = IndexVec::new();
        let mask = masks.push(anywhere);
        let placed = groups.map(|(group, one)| Placed { group, mask, units: one.units.clone() }).collect();
        let zoned = Zoned { placed, masks, rejected: Vec::new(), tasted: false };
        Self::new(compiled, grouped, &zoned)
    }

    /// Removes `count` units of `batch` and returns them.
    pub(crate) fn take(&mut self, batch: BatchId, count: usize) -> &[u32] {
        let one = &mut self.batches[batch];
        let from = one.taken;
        one.taken += count;
        self.left -= count;
        self.left_of_kind[one.kind] -= count;
        for &(rule, _) in &self.rulesets.on_itself[one.ruleset] {
            self.apart_left[rule] -= count;
        }
        for &rule in &self.rulesets[one.ruleset].owns {
            self.owners_left[rule] -= count;
        }
        &one.units[from..from + count]
    }

    /// Removes the content of a node and returns its units.
    pub(crate) fn take_all(&mut self, content: &Content) -> Vec<u32> {
        let mut units = Vec::with_capacity(content.iter().map(|&(_, count)| count as usize).sum());
        for &(batch, count) in content {
            units.extend_from_slice(self.take(batch, count as usize));
        }
        units
    }

    /// Removes used-up batches from the lists, so that later fills skip them.
    pub(crate) fn compact(&mut self) {
        let batches = &self.batches;
        let lasts = |batch: BatchId| batches[batch].taken < batches[batch].units.len();
        self.open.retain(|&batch| lasts(batch));
        for (from, to) in &mut self.lists {
            let mut kept = *from;
            for at in *from..*to {
                let batch = self.listed[at as usize];
                if lasts(batch) {
                    self.listed[kept as usize] = batch;
                    kept += 1;
                }
            }
            *to = kept;
        }
    }
}

/// Lists `batches`, in `order`, by cell and kind. Returns the lists and the bounds of each.
fn list(
    batches: &IndexSlice<BatchId, [DemandBatch]>,
    order: &[BatchId],
    cells_of: &IndexSlice<MaskId, [Vec<CellId>]>,
    kinds: usize,
    cells: usize,
) -> (Vec<BatchId>, Vec<(u32, u32)>) {
    let mut lists = vec![(0_u32, 0_u32); cells * kinds];
    for &batch in order {
        let one = &batches[batch];
        for &cell in &cells_of[one.mask] {
            lists[cell.index() * kinds + one.kind.index()].1 += 1;
        }
    }
    let mut end = 0;
    for list in &mut lists {
        let count = list.1;
        *list = (end, end);
        end += count;
    }
    let mut listed = vec![BatchId::from_usize(0); end as usize];
    for &batch in order {
        let one = &batches[batch];
        for &cell in &cells_of[one.mask] {
            let list = &mut lists[cell.index() * kinds + one.kind.index()];
            listed[list.1 as usize] = batch;
            list.1 += 1;
        }
    }
    (listed, lists)
}
