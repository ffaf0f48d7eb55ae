//! What is left to place: kinds of pods, and lots of interchangeable ones.
//!
//! A kind is (size, signature): all that a node's room and labels can see. A lot is (kind, host rules, cells): all that
//! packing can see. Labels that no selector reads never get this far: 20,000 pods of 3,188 classes are 30 kinds.

use std::rc::Rc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::groups::{Group, Grouped};
use super::zones::{Placed, Zoned};

/// Size and signature.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) signature: u32,
    pub(crate) sizes: Rc<[i32]>,
}

/// Host rules that a unit takes part in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ruleset {
    pub(crate) owns: SmallVec<[u32; 2]>,
    pub(crate) targets: SmallVec<[(u32, i32); 2]>,
}

/// Units that packing cannot tell apart.
#[derive(Debug, Clone)]
pub(crate) struct Lot {
    pub(crate) kind: u32,
    pub(crate) ruleset: u32,
    pub(crate) mask: u32,
    /// In the order of the input; those from `taken` on are left.
    pub(crate) units: Vec<u32>,
    pub(crate) taken: usize,
}

impl Lot {
    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.units.len() - self.taken
    }
}

/// Everything that is left to place.
#[derive(Debug, Clone)]
pub(crate) struct Stock {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) lots: Vec<Lot>,
    pub(crate) rulesets: Vec<Ruleset>,
    pub(crate) masks: Vec<FixedBitSet>,
    /// `lots_at[cell][kind]`: lots of the kind that may go to the cell; those with the fewest cells first, then those
    /// that own rules.
    pub(crate) lots_at: Vec<Vec<Vec<u32>>>,
    /// Units left, by kind.
    pub(crate) left_of_kind: Vec<usize>,
    /// Units left that own the host rule.
    pub(crate) owners_left: Vec<usize>,
    pub(crate) left: usize,
}

impl Stock {
    pub(crate) fn new(grouped: &Grouped, zoned: &Zoned, cells: usize) -> Self {
        let mut kind_ids: FxHashMap<(u32, Rc<[i32]>), u32> = FxHashMap::default();
        let mut ruleset_ids: FxHashMap<Ruleset, u32> = FxHashMap::default();
        let mut lot_ids: FxHashMap<(u32, u32, u32), u32> = FxHashMap::default();
        let (mut kinds, mut rulesets, mut lots) = (Vec::new(), Vec::new(), Vec::<Lot>::new());
        // Rules without owners among the pending pods bind nothing on new nodes; on existing ones, bound owners count.
        for placed in &zoned.placed {
            let group = &grouped.groups[placed.group];
            let kind = *kind_ids.entry((group.signature, Rc::clone(&group.sizes))).or_insert_with(|| {
                kinds.push(Kind { signature: group.signature, sizes: Rc::clone(&group.sizes) });
                kinds.len() as u32 - 1
            });
            let rules = Ruleset { owns: group.part.owns_host.clone(), targets: group.part.targets_host.clone() };
            let ruleset = *ruleset_ids.entry(rules.clone()).or_insert_with(|| {
                rulesets.push(rules);
                rulesets.len() as u32 - 1
            });
            let lot = *lot_ids.entry((kind, ruleset, placed.mask)).or_insert_with(|| {
                lots.push(Lot { kind, ruleset, mask: placed.mask, units: Vec::new(), taken: 0 });
                lots.len() as u32 - 1
            });
            lots[lot as usize].units.extend_from_slice(&placed.units);
        }
        let mut left_of_kind = vec![0; kinds.len()];
        let mut owners_left = vec![0; grouped.rules.host.len()];
        let mut left = 0;
        for lot in &mut lots {
            lot.units.sort_unstable();
            left_of_kind[lot.kind as usize] += lot.units.len();
            left += lot.units.len();
            for &rule in &rulesets[lot.ruleset as usize].owns {
                owners_left[rule as usize] += lot.units.len();
            }
        }
        let mut lots_at = vec![vec![Vec::new(); kinds.len()]; cells];
        let mut order: Vec<u32> = (0..lots.len() as u32).collect();
        order.sort_by_key(|&lot| {
            let one = &lots[lot as usize];
            let cells = zoned.masks[one.mask as usize].count_ones(..);
            (cells, std::cmp::Reverse(rulesets[one.ruleset as usize].owns.len()), lot)
        });
        for lot in order {
            for cell in zoned.masks[lots[lot as usize].mask as usize].ones() {
                lots_at[cell][lots[lot as usize].kind as usize].push(lot);
            }
        }
        Self { kinds, lots, rulesets, masks: zoned.masks.clone(), lots_at, left_of_kind, owners_left, left }
    }

    /// All groups as if they could go to any cell, and the kind of each.
    pub(crate) fn of_groups(grouped: &Grouped, cells: usize) -> (Self, Vec<u32>) {
        let mut anywhere = FixedBitSet::with_capacity(cells);
        anywhere.insert_range(..);
        let groups = grouped.groups.iter().enumerate();
        let placed = groups.map(|(group, one)| Placed { group, mask: 0, units: one.units.clone() }).collect();
        let stock = Self::new(grouped, &Zoned { placed, masks: vec![anywhere], rejected: Vec::new() }, cells);
        let kind_of = |group: &Group| {
            let same = |kind: &Kind| kind.signature == group.signature && kind.sizes == group.sizes;
            stock.kinds.iter().position(same).unwrap_or(0) as u32
        };
        let kinds = grouped.groups.iter().map(kind_of).collect();
        (stock, kinds)
    }

    /// Takes `count` units of `lot`.
    pub(crate) fn take(&mut self, lot: u32, count: usize) -> &[u32] {
        let one = &mut self.lots[lot as usize];
        let from = one.taken;
        one.taken += count;
        self.left -= count;
        self.left_of_kind[one.kind as usize] -= count;
        for &rule in &self.rulesets[one.ruleset as usize].owns {
            self.owners_left[rule as usize] -= count;
        }
        &one.units[from..from + count]
    }

    /// Forgets lots that are used up, so that later fills do not walk over them.
    pub(crate) fn compact(&mut self) {
        for by_kind in &mut self.lots_at {
            for lots in by_kind.iter_mut().filter(|lots| !lots.is_empty()) {
                lots.retain(|&lot| self.lots[lot as usize].taken < self.lots[lot as usize].units.len());
            }
        }
    }
}
