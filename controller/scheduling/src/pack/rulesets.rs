//! Host rules during filling: the batches that a rule bars once a pod is on the node.
//!
//! Every pod placed on a node changes the rules for it, and nearly all batches are checked after each. So the effect of
//! a pod on others is computed once, when it is placed: each rule lists its owners and its targets, and a batch that it
//! excludes is barred until the node is full.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::compile::HostRule;

/// Host rules that a unit owns or is a target of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ruleset {
    pub(crate) owns: SmallVec<[u32; 2]>,
    /// Sorted by rule.
    pub(crate) targets: SmallVec<[(u32, i32); 2]>,
}

/// All rulesets of a demand, with indexes by rule.
#[derive(Debug, Default)]
pub(crate) struct Rulesets {
    all: Vec<Rc<Ruleset>>,
    /// Rules that each ruleset owns and is a target of, with the number of targets that a unit counts as.
    pub(super) on_itself: Vec<SmallVec<[(u32, i32); 2]>>,
    /// True if no node can hold a unit, by ruleset.
    never: Vec<bool>,
    /// Rulesets that own a rule, with the number of its targets that a unit counts as.
    owners: ByRule,
    /// Rulesets that are targets of a rule, with the number of its targets that a unit counts as.
    targets: ByRule,
}

/// Rulesets by rule, stored as consecutive lists.
#[derive(Debug, Default)]
struct ByRule {
    from: Vec<u32>,
    listed: Vec<(u32, i32)>,
    /// Largest count of a ruleset, by rule.
    most: Vec<i32>,
}

impl ByRule {
    /// Creates the lists from `entries`, which are (rule, ruleset, count) and are iterated twice.
    fn new<I: Iterator<Item = (u32, u32, i32)>>(rules: usize, entries: impl Fn() -> I) -> Self {
        let mut from = vec![0_u32; rules + 1];
        entries().for_each(|(rule, ..)| from[rule as usize + 1] += 1);
        for rule in 0..rules {
            from[rule + 1] += from[rule];
        }
        let mut next = from.clone();
        let mut listed = vec![(0, 0); from[rules] as usize];
        let mut most = vec![0; rules];
        for (rule, ruleset, count) in entries() {
            let rule = rule as usize;
            listed[next[rule] as usize] = (ruleset, count);
            next[rule] += 1;
            most[rule] = count.max(most[rule]);
        }
        Self { from, listed, most }
    }

    fn of(&self, rule: usize) -> &[(u32, i32)] {
        &self.listed[self.from[rule] as usize..self.from[rule + 1] as usize]
    }
}

impl Rulesets {
    pub(super) fn new(all: Vec<Rc<Ruleset>>, rules: &[HostRule]) -> Self {
        let own = |ruleset: &Ruleset, rule: u32| {
            let found = ruleset.targets.binary_search_by_key(&rule, |&(target, _)| target);
            found.ok().map(|at| ruleset.targets[at].1)
        };
        let on_itself: Vec<SmallVec<[(u32, i32); 2]>> =
            all.iter().map(|one| one.owns.iter().filter_map(|&rule| Some((rule, own(one, rule)?))).collect()).collect();
        let exceeds = |&(rule, count): &(u32, i32)| count > rules[rule as usize].limit;
        let never = on_itself.iter().map(|owned| owned.iter().any(exceeds)).collect();
        let numbered = || (0_u32..).zip(&all);
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
    pub(super) fn owning(&self, rule: u32) -> impl Iterator<Item = u32> {
        self.owners.of(rule as usize).iter().map(|&(ruleset, _)| ruleset)
    }
}

impl std::ops::Index<usize> for Rulesets {
    type Output = Ruleset;

    fn index(&self, ruleset: usize) -> &Ruleset {
        &self.all[ruleset]
    }
}

/// Rulesets barred by the pods on one node.
pub(crate) struct Bars<'a> {
    rules: &'a [HostRule],
    rulesets: Rc<Rulesets>,
    owners: Vec<i32>,
    targets: Vec<i32>,
    touched: Vec<u32>,
    /// True if the ruleset is barred, by ruleset.
    is_barred: Vec<bool>,
    barred: Vec<u32>,
}

impl<'a> Bars<'a> {
    pub(super) fn new(rules: &'a [HostRule], rulesets: &Rc<Rulesets>) -> Self {
        Self {
            rules,
            rulesets: Rc::clone(rulesets),
            owners: vec![0; rules.len()],
            targets: vec![0; rules.len()],
            touched: Vec::new(),
            is_barred: rulesets.never.clone(),
            barred: Vec::new(),
        }
    }

    /// Returns true if a rule excludes units of a ruleset. Adding pods only tightens rules, so this stays true until
    /// [`Bars::reset`].
    pub(super) fn bar(&self, ruleset: u32) -> bool {
        self.is_barred[ruleset as usize]
    }

    /// Counts a pod on the node.
    pub(super) fn add(&mut self, owns: &[u32], targets: &[(u32, i32)]) {
        for &rule in owns {
            self.touched.push(rule);
            self.owners[rule as usize] += 1;
        }
        for &(rule, count) in targets {
            self.touched.push(rule);
            self.targets[rule as usize] += count;
        }
        for &rule in owns {
            // Further owners of a rule exclude nothing more.
            if self.owners[rule as usize] == 1 {
                self.bar_targets(rule as usize);
            }
        }
        for &(rule, _) in targets {
            let rule = rule as usize;
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
    pub(super) fn place(&mut self, ruleset: u32) {
        let rules = Rc::clone(&self.rulesets.all[ruleset as usize]);
        self.add(&rules.owns, &rules.targets);
    }

    fn bar_targets(&mut self, rule: usize) {
        if self.targets[rule] + self.rulesets.targets.most[rule] > self.rules[rule].limit {
            let targets = self.rulesets.targets.of(rule);
            bar_beyond(self.rules[rule].limit - self.targets[rule], targets, &mut self.is_barred, &mut self.barred);
        }
    }

    /// Resets the counts for another node.
    pub(super) fn reset(&mut self) {
        for rule in self.touched.drain(..) {
            self.owners[rule as usize] = 0;
            self.targets[rule as usize] = 0;
        }
        for ruleset in self.barred.drain(..) {
            self.is_barred[ruleset as usize] = false;
        }
    }
}

/// Bars the rulesets of `rulesets` whose units count as more than `left` targets.
fn bar_beyond(left: i32, rulesets: &[(u32, i32)], is_barred: &mut [bool], barred: &mut Vec<u32>) {
    for &(ruleset, _) in rulesets.iter().filter(|&&(_, count)| count > left) {
        if !std::mem::replace(&mut is_barred[ruleset as usize], true) {
            barred.push(ruleset);
        }
    }
}
