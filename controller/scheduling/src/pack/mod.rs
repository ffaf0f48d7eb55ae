//! Packing: domains, existing nodes, reserved capacity, new nodes, leftovers, static pools.
//!
//! ```text
//! per reading of the preferred terms; the cost decides which reading is used:
//!   groups ─► bundle ─► zones ─► remaining_demand ─► existing ─► reserved ─► construct (prices, fill, exact) ─► draft
//!                         ▲                                                     once per Settings             │
//!                         └── again without unplaced pods ◄──── balance ◄─────────────────────────────────────┤
//!                local_search (few nodes: some are emptied, their pods placed again in any zone) ◄────────────┤
//!                search (at most 8 pods: every placement) ◄───────────────────────────────────────────────────┘
//!   (if prices do not follow resources: construct ─► recombine ─► construct the rest, twice)
//!   (if few shapes are on offer, or nodes are small: construct ─► patterns ─► construct the rest)
//! around all: preferences (those with a price: planned with and without, and compared)
//! before all: shares (if rules use labels with many values) ─► order in which pods are planned
//!             hopeless ─► pods that no node can hold are set aside
//! after all: choosy (pods that limits with `minValues` leave: fewer types, other pools)
//! then:
//!   draft ─► finish (launches, limits) ─► scarce (unplaced pods: leftovers, priorities) ─► rival ─► replicas
//!                                                                                                 └─► Solution
//! as Karpenter packs: first_fit ─► another draft for a small plan; the Solution that rival compares, or one to look at
//! ```

mod balance;
mod bundle;
mod candidates;
mod choosy;
mod construct;
mod drafts;
mod exact;
mod existing;
pub(crate) mod existing_nodes;
mod fill;
mod finish;
mod first_fit;
pub(crate) mod groups;
mod headroom;
mod hopeless;
mod item_blocks;
mod leftovers;
mod local_search;
pub(crate) mod patterns;
mod preferences;
pub(crate) mod pricing;
mod recombine;
pub(crate) mod relaxation;
pub(crate) mod remaining_demand;
pub(crate) mod replicas;
mod reserved;
mod rival;
mod rulesets;
mod scarce;
mod search;
pub(crate) mod shape_index;
mod shares;
pub(crate) mod zones;

use std::cell::RefCell;
use std::cmp::Ordering;

use rustc_hash::FxHashSet;

use crate::compile::{Compiled, DomainRule, flexible};
use crate::explain::{Costly, Explainer};
use crate::model::{MinValuesPolicy, Options, Packing, PreferencePolicy, Problem};
use crate::solution::{Reason, Solution, Unschedulable};

use construct::OpenedNode;
use drafts::draft;
use groups::{EACH, Grouped, PreferenceMode};
use local_search::Effort;
pub use preferences::Forgone;
use remaining_demand::RemainingDemand;
use reserved::Reservations;
use shape_index::{Headroom, ShapeIndex};
use zones::ZonePolicy;

/// Plan before it is written as a [`Solution`].
#[derive(Clone, Default)]
pub(crate) struct Draft {
    pub(crate) opened: Vec<OpenedNode>,
    /// Units placed on existing nodes, as (index of the node in the problem, units).
    pub(crate) existing: Vec<(usize, Vec<u32>)>,
    /// Unplaced units, with the kind of rule that prevented placement if known.
    pub(crate) left: Vec<(u32, Option<Reason>)>,
    /// True if another [`ZonePolicy`] might have assigned other domains.
    pub(crate) tasted: bool,
}

impl Draft {
    /// Price of the new nodes, in USD per hour.
    fn price(&self) -> f64 {
        self.opened.iter().map(|node| node.price).sum()
    }

    /// Returns true if this draft is preferred to `known`, a draft of the same units.
    fn beats(&self, known: &Self) -> bool {
        let (price, least) = (self.price(), known.price());
        match self.left.len().cmp(&known.left.len()) {
            Ordering::Equal if price > ALIKE * least => false,
            Ordering::Equal if least > ALIKE * price => true,
            Ordering::Equal => (known.opened.len(), price) < (self.opened.len(), least),
            fewer => fewer == Ordering::Less,
        }
    }

    /// Returns true if this draft leaves fewer units unplaced than `known`, a draft of the same units, or equally many
    /// at a price lower by at least the fraction `share` of the price of `known`.
    fn saves(&self, known: &Self, share: f64) -> bool {
        let cheaper = self.price() < (1.0 - share) * known.price() - 1e-9;
        self.left.len() < known.left.len() || self.left.len() == known.left.len() && cheaper
    }

    /// Sum over the units on new nodes of the weight of their pool.
    fn weight(&self, compiled: &Compiled<'_>) -> i64 {
        let weight = |node: &OpenedNode| i64::from(compiled.problem.pools[compiled.shapes[node.shape].pool].weight);
        self.opened.iter().map(|node| weight(node) * node.units.len() as i64).sum()
    }

    /// Removes units whose domain rules no longer hold.
    fn settle(&mut self, compiled: &Compiled<'_>, grouped: &Grouped) {
        if balance::restore(compiled, grouped, self) {
            Reservations::reclaim(compiled, grouped, &mut self.opened);
        }
    }

    /// Returns the draft with bought nodes at the prices of `compiled`.
    fn repriced(mut self, compiled: &Compiled<'_>) -> Self {
        for node in self.opened.iter_mut().filter(|node| node.reserved.is_none()) {
            node.price = compiled.shapes[node.shape].price[node.cell];
        }
        self
    }

    /// Number of unplaced pods; each pod of a bundle counts.
    fn pods_left(&self, grouped: &Grouped) -> usize {
        self.left.iter().map(|(unit, _)| grouped.pods(unit).len()).sum()
    }
}

/// Number of hosts over which preferred anti-affinity spreads the replicas of a workload at any price. Charts request
/// availability this way, and a plan that ignores it puts all replicas on one node.
const REPLICA_HOSTS: u32 = 3;

/// Maximum number of nodes of a plan that is compared with one that ignores preferred spreads if zones cost the same.
/// In larger plans every workload fills nodes in each zone (0.2 % on a mixed fleet of 140 nodes).
const COMPARED_NODES: usize = 60;

/// Factor within which the prices of two drafts are considered equal. Preferred terms decide between such drafts, and
/// then the number of nodes: with more, smaller nodes the loss of one matters less, and kube-scheduler has more nodes
/// to choose from.
const ALIKE: f64 = 1.005;

/// Maximum price of a draft that is improved by local search, as a factor of the price of the chosen draft. Local
/// search takes equally long for each draft and saves at most a tenth.
const NEAR: f64 = 1.1;

/// Maximum number of units for which additional drafts are made. In larger plans the last, wasteful nodes weigh less.
const SMALL: usize = 500;

/// Maximum number of units, squared, times cells for which first fit makes another draft: it tries each unit on each
/// node, and compares the types of each cell. Labels with few values do not come near it.
const FIRST_FIT_STEPS: usize = 5_000_000;

/// Maximum number of cells times shapes for which all placements of a few pods are searched: each one is priced anew.
const SEARCHED: usize = 1 << 18;

/// Maximum price, as a factor, of a plan that limits the replicas of a spread per node (see [`apart`]). Without the
/// limit, four in ten of a thousand pods did not go to their planned node, and 3-4 % of the price was bought again.
const TELLING: f64 = 1.02;

/// Packs the pending pods of `problem`. The [example of the crate](crate#example) calls it.
pub fn solve(problem: &Problem, options: &Options) -> Solution {
    let costly = RefCell::new(None);
    let mut solution = preferences::weighed(problem, options, true, |problem| {
        hopeless::without(problem, &hopeless::too_large(problem), |rest| {
            let (solution, found) = shares::in_turn(rest, options, |part| match options.packing {
                Packing::Priced => hopeless::set_aside(part, options, packed),
                Packing::FirstFit => first_fit_alone(&Compiled::new(part, options)),
            });
            // The first plan is that of the problem itself, whose specs they name.
            costly.borrow_mut().get_or_insert(found);
            solution
        })
    });
    let costly = costly.into_inner().unwrap_or_default();
    if !solution.unschedulable.is_empty() {
        explain_left(problem, options, &mut solution, costly);
    }
    let replicas = replicas::missing(problem, options, &solution.new_nodes);
    solution.new_nodes.extend(replicas);
    solution
}

/// Returns the preferences that `solution`, a plan of [`solve`], does not keep for all pods, with what keeping each of
/// them would cost.
pub fn forgone(problem: &Problem, options: &Options, solution: &Solution) -> Vec<Forgone> {
    preferences::unkept(problem, options, solution, |problem| {
        shares::in_turn(problem, options, |part| hopeless::set_aside(part, options, packed)).0
    })
}

fn packed(compiled: &Compiled<'_>) -> Solution {
    rival::best(compiled, priced(compiled), priced)
}

fn priced(compiled: &Compiled<'_>) -> Solution {
    let solution = packed_within_limits(compiled);
    if solution.unschedulable.is_empty() {
        return solution;
    }
    choosy::place(compiled, solution, packed_within_limits)
}

fn packed_within_limits(compiled: &Compiled<'_>) -> Solution {
    let (grouped, mut draft) = decide(compiled, ZonePolicy::Cheapest, true);
    let solution = finish::write(compiled, &grouped, &mut draft);
    if solution.unschedulable.is_empty() { solution } else { scarce::place(compiled, grouped, draft, solution) }
}

fn first_fit_alone(compiled: &Compiled<'_>) -> Solution {
    first_fit::plan(compiled, usize::MAX).unwrap_or_default()
}

/// Packs the pending pods of `problem` without second passes and explanations.
pub(crate) fn plan(problem: &Problem, options: &Options) -> Solution {
    let in_turn = |rest: &Problem| shares::in_turn(rest, options, |part| plan_at_once(part, options)).0;
    preferences::weighed(problem, options, false, |problem| {
        hopeless::without(problem, &hopeless::too_large(problem), in_turn)
    })
}

/// Packs all pending pods at once, without the stages of [`shares`].
fn plan_at_once(problem: &Problem, options: &Options) -> Solution {
    let compiled = Compiled::new(problem, options);
    if options.packing == Packing::FirstFit {
        return first_fit_alone(&compiled);
    }
    let (mut grouped, mut draft) = decide(&compiled, ZonePolicy::Cheapest, false);
    if draft.tasted && !draft.left.is_empty() {
        let (others, other) = decide(&compiled, ZonePolicy::Emptiest, false);
        if other.pods_left(&others) < draft.pods_left(&grouped) {
            (grouped, draft) = (others, other);
        }
    }
    finish::write(&compiled, &grouped, &mut draft)
}

/// Returns the best draft. With `compares`, drafts with and without preferred terms are compared by unplaced pods and
/// price.
fn decide(compiled: &Compiled<'_>, zone_policy: ZonePolicy, compares: bool) -> (Grouped, Draft) {
    let respects = compiled.options.preferences == PreferencePolicy::Respect;
    let hosts = if respects && groups::prefers_hosts(compiled) { REPLICA_HOSTS } else { 0 };
    let first =
        PreferenceMode { spreads: respects && groups::prefers_spread(compiled), hosts, ..PreferenceMode::PLAIN };
    let effort = if compares { Effort::FULL } else { Effort::LITTLE };
    let (mut grouped, mut best) = read(compiled, &first, zone_policy, effort);
    if !compares {
        return (grouped, best);
    }
    let mut reading = first.clone();
    if first.spreads && (best.opened.len() <= COMPARED_NODES || existing_nodes::prices_differ_by_zone(compiled)) {
        let unspread = PreferenceMode { spreads: false, ..first.clone() };
        let (plain, other) = read(compiled, &unspread, zone_policy, effort);
        if (other.pods_left(&plain), other.price() * ALIKE) < (best.pods_left(&grouped), best.price()) {
            (grouped, best, reading) = (plain, other, unspread);
        }
    }
    // Preferred terms must not keep a pod pending.
    if first != PreferenceMode::PLAIN && !best.left.is_empty() {
        let (plain, other) = read(compiled, &PreferenceMode::PLAIN, zone_policy, effort);
        if other.pods_left(&plain) < best.pods_left(&grouped) {
            (grouped, best, reading) = (plain, other, PreferenceMode::PLAIN);
        }
    }
    apart(compiled, &reading, zone_policy, (&grouped, &best)).unwrap_or((grouped, best))
}

/// Returns a variant of the plan `known` of `reading` that limits the replicas of a spread per node: to `maxSkew`, or
/// else to ⌈replicas / new nodes of `known`⌉. `None` if neither limit is affordable.
fn apart(
    compiled: &Compiled<'_>,
    reading: &PreferenceMode,
    zone_policy: ZonePolicy,
    (grouped, known): (&Grouped, &Draft),
) -> Option<(Grouped, Draft)> {
    if !compiled.options.tells_nodes || known.opened.is_empty() || !groups::has_skews(compiled) {
        return None;
    }
    let (left, price) = (known.pods_left(grouped), TELLING * known.price());
    let found = [EACH, known.opened.len() as u32].into_iter().map(|skews| {
        let reading = PreferenceMode { skews, ..reading.clone() };
        read(compiled, &reading, zone_policy, Effort::FULL)
    });
    found.into_iter().find(|(grouped, draft)| draft.pods_left(grouped) <= left && draft.price() <= price)
}

fn read(
    compiled: &Compiled<'_>,
    reading: &PreferenceMode,
    zone_policy: ZonePolicy,
    effort: Effort,
) -> (Grouped, Draft) {
    let grouped = Grouped::new(compiled, reading, true);
    let draft = settled(compiled, &grouped, zone_policy);
    let draft = improved(compiled, &grouped, draft, zone_policy, effort);
    if compiled.problem.pods.len() <= search::MOST_PODS
        && compiled.cells.len().saturating_mul(compiled.shapes.len()) <= SEARCHED
        && let Some(found) = search_small(compiled, reading, &grouped, &draft)
    {
        return found;
    }
    (grouped, draft)
}

/// Returns the cheapest of `known` and other drafts of a small plan, each improved by local search.
fn improved(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    known: Draft,
    zone_policy: ZonePolicy,
    effort: Effort,
) -> Draft {
    // Pools with `minValues` are not planned by price alone.
    let strict = compiled.options.min_values == MinValuesPolicy::Strict;
    let choosy = strict && compiled.problem.pools.iter().any(|pool| !flexible::asked(pool).is_empty());
    let units: usize = grouped.groups.iter().map(|group| group.units.len()).sum();
    let mut others = Vec::new();
    // Nor are plans in which limits may leave pods pending.
    let limited = Headroom::new(compiled).binds();
    if !choosy && !limited && !known.opened.is_empty() && units <= SMALL {
        let tries = units.saturating_mul(units).saturating_mul(compiled.cells.len());
        if tries <= FIRST_FIT_STEPS {
            others.extend(first_fit::draft(compiled, grouped, effort.first_fit()));
        }
        if known.opened.len() <= local_search::MOST_NODES && effort.tries_others() && known.left.is_empty() {
            others.extend(drafts::others(compiled, grouped, zone_policy));
        }
    }
    let tasted = known.tasted;
    let mut best = known;
    let known = best.price();
    local_search::improve(compiled, grouped, &mut best, effort);
    for mut other in others {
        let is_near = other.left.len() <= best.left.len() && other.price() <= NEAR * known;
        if !is_near || other.price() <= known && other.price() >= known - 1e-9 {
            continue;
        }
        other.settle(compiled, grouped);
        if effort.tries_others() {
            local_search::improve(compiled, grouped, &mut other, effort);
        }
        // Pools of higher weight are used first, even if they cost more.
        if other.saves(&best, 0.0)
            && (other.left.len() < best.left.len() || other.weight(compiled) >= best.weight(compiled))
        {
            best = other;
        }
    }
    Draft { tasted, ..best }
}

/// Explains for every unplaced pod why no pool can hold it.
fn explain_left(problem: &Problem, options: &Options, solution: &mut Solution, costly: Vec<Costly>) {
    let left = std::mem::take(&mut solution.unschedulable);
    let mut explainer = Explainer::new(problem, options, solution).with_costly(costly);
    let explain = |one: Unschedulable| match one.reason {
        Reason::TooComplex => one,
        _ => explainer.unschedulable(one.pod),
    };
    let explained = left.into_iter().map(explain).collect();
    solution.unschedulable = explained;
}

/// Searches all placements of a few pods, placed individually instead of bundled, for a better draft than `known`.
fn search_small(
    compiled: &Compiled<'_>,
    reading: &PreferenceMode,
    bundled: &Grouped,
    known: &Draft,
) -> Option<(Grouped, Draft)> {
    let grouped = Grouped::new(compiled, reading, false);
    let units = grouped.groups.iter().map(|group| group.units.len()).sum::<usize>();
    let simple = compiled.problem.nodes.is_empty()
        && known.left.is_empty()
        && grouped.rules.host.is_empty()
        && grouped.rules.domain.is_empty();
    if units == 0 || simple && !Headroom::new(compiled).binds() {
        return None;
    }
    let standing = existing_nodes::standing(compiled);
    let standing_admits = existing_nodes::standing_admits(compiled, &standing);
    let counting = existing_nodes::counting_values(compiled, &grouped, &standing);
    let bound = zones::bound_counts(compiled, &grouped, &standing);
    let dimension = |rule: &DomainRule| compiled.cells.dimension(&rule.key);
    let dimension_of: index_vec::IndexVec<_, _> = grouped.rules.domain.iter().map(dimension).collect();
    let unplaced = RemainingDemand::of_groups(compiled, &grouped);
    let shape_index = ShapeIndex::new(compiled, &grouped, &unplaced, true);
    let input = search::SearchInput {
        compiled,
        grouped: &grouped,
        shape_index: &shape_index,
        standing: &standing,
        standing_admits: &standing_admits,
        counting: &counting,
        bound: &bound,
        dimension_of: &dimension_of,
    };
    let found = search::search(&input, bundled, known)?;
    Some((grouped, Draft { tasted: known.tasted, ..found }))
}

/// Maximum number of rounds in which unplaced pods are removed from the counts of the others.
const SETTLING_ROUNDS: usize = 3;

/// Returns a draft in which no pod depends on an unplaced one. If domains were assigned to pods that then found no node
/// (mostly because of limits), domains are assigned again without those pods.
fn settled(compiled: &Compiled<'_>, grouped: &Grouped, zone_policy: ZonePolicy) -> Draft {
    let mut without: FxHashSet<u32> = FxHashSet::default();
    let mut best = draft(compiled, grouped, &without, zone_policy);
    if grouped.rules.domain.is_empty() {
        return best;
    }
    let ruled = grouped.ruled_by_domains();
    for _ in 0..SETTLING_ROUNDS {
        let left = best.left.iter().filter(|(_, reason)| reason.is_none()).map(|&(unit, _)| unit);
        let left: Vec<u32> = left.filter(|unit| !without.contains(unit)).collect();
        if !left.iter().any(|unit| ruled.contains(unit)) {
            break;
        }
        without.extend(left);
        best = draft(compiled, grouped, &without, zone_policy);
    }
    // A spread may count a node depending on more than its domain, which is known only now.
    if !best.left.is_empty() || existing_nodes::counts_some_nodes(grouped) {
        best.settle(compiled, grouped);
    }
    best
}
