//! Preferences that are weighed in money: preferred node affinity, preferred pod affinity and anti-affinity, and taints
//! with `PreferNoSchedule`. (Preferred spreads, and preferences for other hosts than the rest of the workload, are read
//! in [`super::groups`].)
//!
//! ```text
//! problem ─► plan without preferences ─────────────────────────────────────────┐
//!         ─► all preferences required ─► plan ─► again without those of pods ──┼─► fewest pods left, then
//!                                                that this left unplaced       │   price less worth of what is kept
//!         ─► one preference after the other required, the heaviest first ──────┘   (small plans)
//! ```
//!
//! A preference that is made required is a rule that the packer already knows, and a plan that keeps more rules is
//! nearly always a plan of the original problem, which the validator checks. So nothing is packed in another way here:
//! plans are made by the caller's function, and compared.

mod forgone;
mod kept;
mod required;

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::groups::is_own;
use crate::labels::HOSTNAME;
use crate::model::{AffinityTerm, Options, Packing, PodSpec, PreferencePolicy, Problem, Requirements, SpecId, Taint};
use crate::solution::Solution;
use crate::validate::validate;

pub use forgone::Forgone;
pub(super) use forgone::unkept;
use required::Selection;

/// Maximum number of preferences that are tried one after the other; more are tried by kind.
const MOST_SINGLE: usize = 8;

/// Maximum number of pods of a plan for which preferences are tried one after the other.
const MOST_PODS: usize = 500;

/// Maximum number of distinct preferences of the pods of a namespace that are weighed: each is compared with all pods.
const MOST_OF_NAMESPACE: usize = 64;

/// Weight of the preference for nodes without an untolerated `PreferNoSchedule` taint: the highest that a term can
/// have.
const TAINT_WEIGHT: i32 = 100;

/// Difference between prices, in USD per hour, that is none.
const EQUAL: f64 = 1e-9;

/// A preference, with all specs of pending pods that have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Preference {
    pub(super) kind: Kind,
    /// 1–100.
    pub(super) weight: i32,
    /// Ascending.
    pub(super) specs: Vec<SpecId>,
}

/// Subject of a preference.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Nodes without untolerated taints of effect `PreferNoSchedule`.
    CleanNodes,
    /// Nodes with these labels.
    Nodes(Requirements),
    /// The same domain as other pods.
    Together(AffinityTerm),
    /// Other domains than other pods.
    Apart(AffinityTerm),
}

impl Kind {
    /// Order in which kinds of equal weight are tried, and by which they are grouped.
    fn rank(&self) -> usize {
        match self {
            Self::CleanNodes => 0,
            Self::Nodes(_) => 1,
            Self::Together(_) => 2,
            Self::Apart(_) => 3,
        }
    }
}

/// A plan, with what it keeps of the preferences.
struct Judged {
    solution: Solution,
    /// Unplaced pods by priority, highest first.
    left: Vec<(i32, usize)>,
    /// Price of the new nodes less the worth of the preferences that are kept, in USD per hour.
    net: f64,
    /// Sum of the weights of the preferences that are kept, over all pods.
    weight: i64,
    /// Preferences that all of their placed pods keep.
    complete: FixedBitSet,
}

impl Judged {
    /// Price of the new nodes, in USD per hour.
    fn price(&self) -> f64 {
        self.solution.new_nodes.iter().map(|node| node.price).sum()
    }

    /// Returns true if this plan is preferred to `known`.
    fn beats(&self, known: &Self) -> bool {
        if self.left != known.left {
            return self.left < known.left;
        }
        self.net < known.net - EQUAL || self.net < known.net + EQUAL && self.weight > known.weight
    }
}

/// Plans `problem` by `plan`, keeping the preferences that are worth their price. `thorough` also tries them one after
/// the other.
pub(super) fn weighed(
    problem: &Problem,
    options: &Options,
    thorough: bool,
    plan: impl Fn(&Problem) -> Solution,
) -> Solution {
    let plain = plan(problem);
    if options.preferences == PreferencePolicy::Ignore || options.packing == Packing::FirstFit {
        return plain;
    }
    let preferences = of_pending(problem);
    if preferences.is_empty() {
        return plain;
    }
    let unplaced = plain.unschedulable.iter().map(|one| one.pod).collect();
    let weighing = Weighing { problem, options, preferences: &preferences, unplaced, plan: &plan };
    let mut best = weighing.judge(plain);
    if best.complete.is_full() {
        return best.solution;
    }
    let mut all = Selection::none(problem, preferences.len());
    all.preferences.insert_range(..);
    let whole = weighing.attempt(&mut all).filter(|whole| whole.beats(&best));
    if thorough && problem.pods.len() <= MOST_PODS && !whole.as_ref().is_some_and(|whole| whole.complete.is_full()) {
        best = weighing.one_by_one(best);
    }
    match whole {
        Some(whole) if whole.beats(&best) => whole.solution,
        _ => best.solution,
    }
}

struct Weighing<'a, F> {
    problem: &'a Problem,
    options: &'a Options,
    preferences: &'a [Preference],
    /// Pods that are unplaced without any preference.
    unplaced: FixedBitSet,
    plan: &'a F,
}

impl<F: Fn(&Problem) -> Solution> Weighing<'_, F> {
    fn judge(&self, solution: Solution) -> Judged {
        let kept = kept::count(self.problem, self.preferences, &solution);
        let sum = |kept: &kept::Kept, one: &Preference| kept.holds as i64 * i64::from(one.weight);
        let weight = kept.iter().zip(self.preferences).map(|(kept, one)| sum(kept, one)).sum();
        let complete = kept.iter().enumerate().filter(|(_, kept)| kept.missing.is_empty()).map(|(number, _)| number);
        let mut set = FixedBitSet::with_capacity(self.preferences.len());
        set.extend(complete);
        let price: f64 = solution.new_nodes.iter().map(|node| node.price).sum();
        let net = price - self.options.preference_worth(weight);
        Judged { left: left_by_priority(self.problem, &solution), net, weight, complete: set, solution }
    }

    /// Returns the plan in which the preferences of `selection` are required, except of pods that would stay unplaced
    /// for it; these are added to those that are dropped. `None` if it breaks a rule.
    fn attempt(&self, selection: &mut Selection) -> Option<Judged> {
        let mut solution = (self.plan)(&required::with(self.problem, self.preferences, selection));
        let mut newly: FixedBitSet = solution.unschedulable.iter().map(|one| one.pod).collect();
        newly.difference_with(&self.unplaced);
        if !newly.is_clear() {
            selection.dropped.union_with(&newly);
            solution = (self.plan)(&required::with(self.problem, self.preferences, selection));
        }
        validate(self.problem, self.options, &solution).is_empty().then(|| self.judge(solution))
    }

    /// Adds one preference after the other to the plan `best`, the heaviest first, if it is worth its price.
    fn one_by_one(&self, mut best: Judged) -> Judged {
        let stages = stages(self.preferences);
        let mut selection = Selection::none(self.problem, self.preferences.len());
        for stage in stages.iter().filter(|_| stages.len() > 1) {
            let mut wider = selection.clone();
            wider.preferences.extend(stage.iter().copied());
            if let Some(found) = self.attempt(&mut wider).filter(|found| found.beats(&best)) {
                (best, selection) = (found, wider);
            }
        }
        best
    }
}

/// Returns the preferences that are tried together: each alone, or those of one kind if there are many.
fn stages(preferences: &[Preference]) -> Vec<Vec<usize>> {
    if preferences.len() <= MOST_SINGLE {
        return (0..preferences.len()).map(|number| vec![number]).collect();
    }
    let of_rank = |rank: usize| (0..preferences.len()).filter(|&at| preferences[at].kind.rank() == rank).collect();
    (0..4).map(of_rank).filter(|stage: &Vec<usize>| !stage.is_empty()).collect()
}

fn left_by_priority(problem: &Problem, solution: &Solution) -> Vec<(i32, usize)> {
    let mut left: Vec<i32> = solution.unschedulable.iter().map(|one| problem.spec_of(one.pod).priority).collect();
    left.sort_unstable_by_key(|&class| std::cmp::Reverse(class));
    left.chunk_by(|a, b| a == b).map(|alike| (alike[0], alike.len())).collect()
}

/// Returns the preferences of the pending pods, heaviest first.
fn of_pending(problem: &Problem) -> Vec<Preference> {
    let mut pending = vec![0_usize; problem.specs.len()];
    problem.pods.iter().for_each(|pod| pending[pod.spec] += 1);
    let taints = soft_taints(problem);
    let mut collected = Collected::default();
    for (id, spec) in problem.specs.iter().enumerate() {
        if pending[id] == 0 || spec.refusal.is_some() {
            continue;
        }
        if taints.iter().any(|taint| !spec.tolerations.iter().any(|it| it.tolerates(taint))) {
            collected.add((id, spec), Kind::CleanNodes, TAINT_WEIGHT, || true);
        }
        for preferred in &spec.preferred_node_terms {
            collected.add((id, spec), Kind::Nodes(preferred.term.clone()), preferred.weight, || true);
        }
        for preferred in &spec.preferred_affinity {
            let (term, weight) = (&preferred.term, preferred.weight);
            collected.add((id, spec), Kind::Together(term.clone()), weight, || has_others(problem, &pending, id, term));
        }
        let is_weighed = |term: &AffinityTerm| !(&*term.topology_key == HOSTNAME && is_own(spec, term));
        for preferred in spec.preferred_anti_affinity.iter().filter(|preferred| is_weighed(&preferred.term)) {
            let (term, weight) = (&preferred.term, preferred.weight);
            collected.add((id, spec), Kind::Apart(term.clone()), weight, || has_others(problem, &pending, id, term));
        }
    }
    let mut all = collected.all;
    all.sort_by_key(|one| (std::cmp::Reverse(one.weight), one.kind.rank()));
    all
}

/// Distinct preferences of the specs so far.
#[derive(Default)]
struct Collected {
    all: Vec<Preference>,
    /// Number of preferences that were looked at, by namespace.
    looked_at: FxHashMap<Arc<str>, usize>,
}

impl Collected {
    /// Adds a preference of a spec, if it `has_others`: those are looked for among all pods. Beyond
    /// [`MOST_OF_NAMESPACE`], preferences that no other spec has are left out.
    fn add(&mut self, (id, spec): (SpecId, &PodSpec), kind: Kind, weight: i32, has_others: impl FnOnce() -> bool) {
        if let Some(known) = self.all.iter_mut().find(|one| one.weight == weight && one.kind == kind) {
            if known.specs.last() != Some(&id) {
                known.specs.push(id);
            }
            return;
        }
        let looked_at = self.looked_at.entry(Arc::clone(&spec.namespace)).or_default();
        if *looked_at == MOST_OF_NAMESPACE {
            return;
        }
        *looked_at += 1;
        if has_others() {
            self.all.push(Preference { kind, weight, specs: vec![id] });
        }
    }
}

/// Returns the distinct taints that only repel by preference, of pools that may launch nodes and of nodes that stay.
fn soft_taints(problem: &Problem) -> Vec<&Taint> {
    let pools = problem.pools.iter().filter(|pool| pool.missing_replicas.is_none()).flat_map(|pool| &pool.taints);
    let nodes = problem.nodes.iter().filter(|node| !node.deleting).flat_map(|node| &node.taints);
    let mut taints: Vec<&Taint> = pools.chain(nodes).filter(|taint| !taint.repels()).collect();
    taints.sort();
    taints.dedup();
    taints
}

/// Returns true if `term` of a pod of spec `own` selects a pod other than itself.
fn has_others(problem: &Problem, pending: &[usize], own: SpecId, term: &AffinityTerm) -> bool {
    let selects = |spec: &PodSpec| term.namespaces.contains(&spec.namespace) && term.selector.matches(&spec.labels);
    let waiting = problem.specs.iter().enumerate().filter(|&(id, _)| pending[id] > usize::from(id == own));
    let nodes = problem.nodes.iter().filter(|node| !node.deleting);
    let bound = nodes.flat_map(|node| &node.bound).filter(|bound| bound.counts).map(|bound| &problem.specs[bound.spec]);
    waiting.map(|(_, spec)| spec).any(selects) || bound.clone().any(selects)
}
