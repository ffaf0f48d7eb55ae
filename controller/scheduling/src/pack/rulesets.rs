//! Host rules during filling: the batches that a rule bars once a pod is on the node.
//!
//! Every pod placed on a node changes the rules for it, and nearly all batches are checked after each. So the effect of
//! a pod on others is computed once, when it is placed: each rule lists its owners and its targets, and a batch that it
//! excludes is barred until the node is full.

use std::rc::Rc;

use index_vec::{Idx, IndexSlice, IndexVec, index_vec};
use smallvec::SmallVec;

use crate::compile::{HostRule, HostRuleId};
use crate::index::index_type;

index_type! {
    /// Position in [`Rulesets`].
    pub(crate) struct RulesetId;
}

/// Host rules that a unit owns or is a target of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ruleset {
    pub(crate) owns: SmallVec<[HostRuleId; 2]>,
    /// Sorted by rule.
    pub(crate) targets: SmallVec<[(HostRuleId, i32); 2]>,
}

/// All rulesets of a demand, with indexes by rule.
#[derive(Debug, Default)]
pub(crate) struct Rulesets {
    all: IndexVec<RulesetId, Rc<Ruleset>>,
    /// Rules that each ruleset owns and is a target of, with the number of targets that a unit counts as.
    pub(super) on_itself: IndexVec<RulesetId, SmallVec<[(HostRuleId, i32); 2]>>,
    /// True if no node can hold a unit, by ruleset.
    never: IndexVec<RulesetId, bool>,
    /// Rulesets that own a rule, with the number of its targets that a unit counts as.
    owners: ByRule,
    /// Rulesets that are targets of a rule, with the number of its targets that a unit counts as.
    targets: ByRule,
}

/// Rulesets by rule, stored as consecutive lists.
#[derive(Debug, Default)]
struct ByRule {
    /// Start of the list of each rule, and the end of the last.
    from: Vec<u32>,
    listed: Vec<(RulesetId, i32)>,
    /// Largest count of a ruleset, by rule.
    most: IndexVec<HostRuleId, i32>,
}

impl ByRule {
    /// Creates the lists from `entries`, which are (rule, ruleset, count) and are iterated twice.
    fn new<I: Iterator<Item = (HostRuleId, RulesetId, i32)>>(rules: usize, entries: impl Fn() -> I) -> Self {
        let mut from = vec![0_u32; rules + 1];
        entries().for_each(|(rule, ..)| from[rule.index() + 1] += 1);
        for rule in 0..rules {
            from[rule + 1] += from[rule];
        }
        let mut next = from.clone();
        let mut listed = vec![(RulesetId::from_usize(0), 0); from[rules] as usize];
        let mut most = index_vec![0; rules];
        for (rule, ruleset, count) in entries() {
            let at = &mut next[rule.index()];
            listed[*at as usize] = (ruleset, count);
            *at += 1;
            most[rule] = count.max(most[rule]);
        }
        Self { from, listed, most }
    }

    fn of(&self, rule: HostRuleId) -> &[(RulesetId, i32)] {
        &self.listed[self.from[rule.index()] as usize..self.from[rule.index() + 1] as usize]
    }
}

impl Rulesets {
    pub(super) fn new(all: IndexVec<RulesetId, Rc<Ruleset>>, rules: &IndexSlice<HostRuleId, [HostRule]>) -> Self {
        let own = |ruleset: &Ruleset, rule: HostRuleId| {
            let found = ruleset.targets.binary_search_by_key(&rule, |&(target, _)| target);
            found.ok().map(|at| ruleset.targets[at].1)
        };
        let on_itself: IndexVec<RulesetId, SmallVec<[(HostRuleId, i32); 2]>> =
            all.iter().map(|one| one.owns.iter().filter_map(|&rule| Some((rule, own(one, rule)?))).collect()).collect();
        let exceeds = |&(rule, count): &(HostRuleId, i32)| count > rules[rule].limit;
        let never = on_itself.iter().map(|owned| owned.iter().any(exceeds)).collect();
        let numbered = || all.iter_enumerated();
        let owners = ByRule::new(rules.len(), || {
            numbered()
                .flat_map(|(number, one)| one.owns.iter().map(move |&rule| (rule, number, own(one, rule).unwrap_or(0))))
        });
        let targets = ByRule::new(rules.len(), || {
            numbered().flat_map(|(number, one)| one.targets.iter().map(move |&(rule, count)| (rule, number, count)))
        });
        Self { all, on_itself, never, owners, targets }
    }
}

impl Rulesets {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the rulesets that own `rule`.
    pub(super) fn owning(&self, rule: HostRuleId) -> impl Iterator<Item = RulesetId> {
        self.owners.of(rule).iter().map(|&(ruleset, _)| ruleset)
    }
}

impl std::ops::Index<RulesetId> for Rulesets {
    type Output = Ruleset;

    fn index(&self, ruleset: RulesetId) -> &Ruleset {
        &self.all[ruleset]
    }
}

/// Rulesets barred by the pods on one node.
pub(crate) struct Bars<'a> {
    rules: &'a IndexSlice<HostRuleId, [HostRule]>,
    rulesets: Rc<Rulesets>,
    owners: IndexVec<HostRuleId, i32>,
    targets: IndexVec<HostRuleId, i32>,
    touched: Vec<HostRuleId>,
    /// True if the ruleset is barred, by ruleset.
    is_barred: IndexVec<RulesetId, bool>,
    barred: Vec<RulesetId>,
}

impl<'a> Bars<'a> {
    pub(super) fn new(rules: &'a IndexSlice<HostRuleId, [HostRule]>, rulesets: &Rc<Rulesets>) -> Self {
        Self {
            rules,
            rulesets: Rc::clone(rulesets),
            owners: index_vec![0; rules.len()],
            targets: index_vec![0; rules.len()],
            touched: Vec::new(),
            is_barred: rulesets.never.clone(),
            barred: Vec::new(),
        }
    }

    /// Returns true if a rule excludes units of a ruleset. Adding pods only tightens rules, so this stays true until
    /// [`Bars::reset`].
    pub(super) fn bar(&self, ruleset: RulesetId) -> bool {
        self.is_barred[ruleset]
    }

    /// Counts a pod on the node.
    pub(super) fn add(&mut self, owns: &[HostRuleId], targets: &[(HostRuleId, i32)]) {
        for &rule in owns {
            self.touched.push(rule);
            self.owners[rule] += 1;
        }
        for &(rule, count) in targets {
            self.touched.push(rule);
            self.targets[rule] += count;
        }
        for &rule in owns {
            // Further owners of a rule exclude nothing more.
            if self.owners[rule] == 1 {
                self.bar_targets(rule);
            }
        }
        for &(rule, _) in targets {
            if self.targets[rule] + self.rulesets.owners.most[rule] > self.rules[rule].limit {
                let owners = self.rulesets.owners.of(rule);
                bar_beyond(self.rules[rule].limit - self.targets[rule], owners, &mut self.is_barred, &mut self.barred);
            }
            if self.owners[rule] > 0 {
                self.bar_targets(rule);
            }
        }
    }

    /// Counts a unit of `ruleset` that is placed on the node.
    pub(super) fn place(&mut self, ruleset: RulesetId) {
        let rules = Rc::clone(&self.rulesets.all[ruleset]);
        self.add(&rules.owns, &rules.targets);
    }

    fn bar_targets(&mut self, rule: HostRuleId) {
        if self.targets[rule] + self.rulesets.targets.most[rule] > self.rules[rule].limit {
            let targets = self.rulesets.targets.of(rule);
            bar_beyond(self.rules[rule].limit - self.targets[rule], targets, &mut self.is_barred, &mut self.barred);
        }
    }

    /// Resets the counts for another node.
    pub(super) fn reset(&mut self) {
        for rule in self.touched.drain(..) {
            self.owners[rule] = 0;
            self.targets[rule] = 0;
        }
        for ruleset in self.barred.drain(..) {
            self.is_barred[ruleset] = false;
        }
    }
}

/// Bars the rulesets of `rulesets` whose units count as more than `left` targets.
fn bar_beyond(
    left: i32,
    rulesets: &[(RulesetId, i32)],
    is_barred: &mut IndexSlice<RulesetId, [bool]>,
    barred: &mut Vec<RulesetId>,
) {
    for &(ruleset, _) in rulesets.iter().filter(|&&(_, count)| count > left) {
        if !std::mem::replace(&mut is_barred[ruleset], true) {
            barred.push(ruleset);
        }
    }
}
