//! Division of work between namespaces, so that no namespace delays the others.
//!
//! Each value of a label that a rule is about is a domain. Zones have about three values. Instance types have hundreds:
//! every pod is checked against each, and several such labels together make thousands of kinds of nodes, among which
//! the pods of all namespaces must be packed. So the cost of rules is counted, in steps, before anything is planned. A
//! step is one domain of one rule for one pod: the steps, and hence the plan, depend on the input alone. A pod counts
//! for the rules of all others with which it is planned, so that many rules of many pods cost the product of both.
//!
//! ```text
//! pods ─┬─► no rule about a label of many values ─┬─► first, without the other pods ────────────────────┐
//!       │                                         ├─► in a doubtful namespace: first, or after those  ──┤
//!       │                                         └─► in a costly namespace: second ──────────────────┤
//!       └─► others ─┬─► within the share of their namespace: last, with some types for each domain ───┴─► Solution
//!                   └─► beyond it: `TooComplex`
//! ```
//!
//! Pods of later stages go to existing and new nodes, never to nodes planned before, so earlier stages do not depend on
//! later ones. The cheapest workloads of a namespace use its share first, so that an expensive one does not displace
//! them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use super::leftovers;
use crate::compile::{PoolUse, Selection, SignatureId, Signatures, is_decided, is_wide, topology_values};
use crate::explain::Costly;
use crate::labels::HOSTNAME;
use crate::model::{
    AffinityTerm, Catalogue, InstanceType, LabelSelector, NamespaceScope, NodePool, Options, PodSpec, Problem,
    Requirement, Resources, SpecId,
};
use crate::second_round;
use crate::solution::{Solution, Unschedulable};
use crate::validate::validate;

/// Maximum number of steps of a batch consisting only of pods with such rules that is planned at once, with every type.
const AT_ONCE: u64 = 2_000;

/// Number of steps beyond which all pods of a namespace are planned after those of the others. Sixty replicas with
/// anti-affinity over instance types take 80,000.
const COSTLY: u64 = 20_000;

/// The same for steps of rules about labels with few values, zones and capacity types aside. Pods of other namespaces
/// would be packed on kinds of nodes that only these rules tell apart.
const COSTLY_UNUSUAL: u64 = 500;

/// Maximum number of pods of a batch that is planned with and without pods of doubtful namespaces. In larger ones so
/// few pods weigh little.
const MOST_COMPARED: usize = 2_000;

/// Number of terms of a pod up to which those about zones and capacity types are not counted.
const USUAL_TERMS: usize = 4;

/// Total steps for the last stage, divided equally between its namespaces.
const LAST_SHARE: u64 = 1_500_000;

/// Maximum number of instance types considered in the last stage, over all pools.
const MOST_TYPES: usize = 384;

/// Number of these that are chosen by price.
const CHEAPEST_TYPES: usize = 192;

/// Pods of one spec in the last stage.
#[derive(Debug, Clone)]
struct Load {
    spec: SpecId,
    pods: Vec<usize>,
    /// Steps per pod.
    steps: u64,
    /// Label with the most steps; `values` is its number of values.
    key: Arc<str>,
    values: usize,
    /// Numbers of its rules, which pods with equal ones share, and of the domains of each.
    rules: Vec<(usize, u64)>,
}

impl Load {
    fn all_steps(&self) -> u64 {
        self.steps.saturating_mul(self.pods.len() as u64)
    }

    fn costly(&self) -> Costly {
        Costly { spec: self.spec, key: Arc::clone(&self.key), values: self.values }
    }
}

/// Plans `problem` in stages by `plan`. Also returns the specs whose pods were not planned with every type.
pub(crate) fn in_turn(
    problem: &Problem,
    options: &Options,
    plan: impl Fn(&Problem) -> Solution,
) -> (Solution, Vec<Costly>) {
    let Stages { first, doubtful, second, last } = stages(problem);
    if doubtful.is_empty() && second.is_empty() && last.is_empty() {
        return (plan(problem), Vec::new());
    }
    let solution = match first.as_slice() {
        [] => Solution::default(),
        first if doubtful.is_empty() => renumbered(plan(&only(problem, first)), first),
        first => compared(problem, options, (first, &doubtful), &plan),
    };
    // Nodes that are planned without a rule leave open the label that it is about.
    let both: Vec<usize> = [&first[..], &second].concat();
    let after = place_after(problem, &solution, &second, |_| {}, &plan);
    let after = after.filter(|after| second.is_empty() || keeps_promises(problem, options, &both, after));
    let refused = if after.is_some() { Vec::new() } else { refused(problem, &second) };
    let solution = after.unwrap_or(solution);
    let (tried, over) = divided(problem, last);
    let costly = tried.iter().chain(&over).map(Load::costly).collect();
    let told = |loads: &[Load]| -> Vec<Unschedulable> {
        let of_load = |load: &Load| {
            let costly = load.costly();
            load.pods.iter().map(|&pod| costly.told(problem, pod)).collect::<Vec<_>>()
        };
        loads.iter().flat_map(of_load).collect()
    };
    let complete = |mut solution: Solution, more: Vec<Unschedulable>| {
        solution.unschedulable.extend(more);
        solution.unschedulable.sort_by_key(|one| one.pod);
        solution
    };
    let mut pods: Vec<usize> = tried.iter().flat_map(|load| load.pods.iter().copied()).collect();
    pods.sort_unstable();
    let narrowed = |again: &mut Problem| keep_representatives(again, &tried);
    let last = place_after(problem, &solution, &pods, narrowed, |again| super::plan_at_once(again, options));
    let last = last.map(|last| complete(last, [told(&over), refused.clone()].concat()));
    match last.filter(|last| validate(problem, options, last).is_empty()) {
        Some(last) => (last, costly),
        None => {
            let all = [told(&tried), told(&over), refused].concat();
            (complete(solution, all), costly)
        }
    }
}

/// Pods by stage.
#[derive(Default)]
struct Stages {
    first: Vec<usize>,
    /// Pods of the first stage that are planned after the rest of it if the plan is cheaper then.
    doubtful: Vec<usize>,
    second: Vec<usize>,
    last: Vec<Load>,
}

fn stages(problem: &Problem) -> Stages {
    let Costs { mut loads, by_namespace } = costs(problem);
    let (mut costly, mut doubtful): (BTreeSet<&Arc<str>>, BTreeSet<&Arc<str>>) = Default::default();
    for (namespace, steps) in by_namespace {
        if steps.all > COSTLY || steps.unusual > COSTLY_UNUSUAL {
            costly.insert(namespace);
        } else if steps.unusual > 0 || steps.bars_others {
            doubtful.insert(namespace);
        }
    }
    if loads.is_empty() && costly.is_empty() && doubtful.is_empty() {
        return Stages::default();
    }
    if !loads.is_empty() {
        let mut pods_of: Vec<Vec<usize>> = vec![Vec::new(); problem.specs.len()];
        problem.pods.iter().enumerate().for_each(|(pod, one)| pods_of[one.spec].push(pod));
        follow(problem, &pods_of, &mut loads);
    }
    let mut comes_last = FixedBitSet::with_capacity(problem.pods.len());
    comes_last.extend(loads.iter().flat_map(|load| load.pods.iter().copied()));
    let rest = (0..problem.pods.len()).filter(|&pod| !comes_last.contains(pod));
    let (mut second, mut first): (Vec<usize>, Vec<usize>) =
        rest.partition(|&pod| costly.contains(&problem.spec_of(pod).namespace));
    if first.is_empty() {
        std::mem::swap(&mut first, &mut second);
    }
    let all: u64 = loads.iter().map(Load::all_steps).fold(0, u64::saturating_add);
    if first.is_empty() && all <= AT_ONCE {
        return Stages::default();
    }
    let is_doubtful = |pod: &&usize| doubtful.contains(&problem.spec_of(**pod).namespace);
    let mut doubtful: Vec<usize> = first.iter().filter(is_doubtful).copied().collect();
    if doubtful.len() == first.len() || first.len() > MOST_COMPARED {
        doubtful.clear();
    }
    Stages { first, doubtful, second, last: loads }
}

/// Costs of rules, in steps.
#[derive(Default)]
struct Costs<'a> {
    /// Specs with rules about labels of many values.
    loads: Vec<Load>,
    by_namespace: BTreeMap<&'a Arc<str>, NamespaceSteps>,
}

/// Steps of the pods of a namespace.
#[derive(Default)]
struct NamespaceSteps {
    all: u64,
    /// Steps of rules about labels with few values, except zones and capacity types.
    unusual: u64,
    /// True if a pod keeps pods of other namespaces off.
    bars_others: bool,
}

fn costs(problem: &Problem) -> Costs<'_> {
    let mut pending: Vec<usize> = vec![0; problem.specs.len()];
    problem.pods.iter().for_each(|pod| pending[pod.spec] += 1);
    let mut values: FxHashMap<&Arc<str>, usize> = FxHashMap::default();
    let mut numbers: FxHashMap<Rule<'_>, usize> = FxHashMap::default();
    let mut pools: Option<Vec<PoolUse>> = None;
    let mut costs = Costs::default();
    for (spec, one) in problem.specs.iter().enumerate().filter(|&(spec, _)| pending[spec] > 0) {
        if bars_others(one) {
            costs.by_namespace.entry(&one.namespace).or_default().bars_others = true;
        }
        if keys(one).next().is_none() {
            continue;
        }
        let mut wide: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        let (mut usual, mut unusual, mut terms) = (0_u64, 0_u64, 0);
        let mut own: Vec<(usize, u64)> = Vec::new();
        for rule in rules(one) {
            let key = rule.key;
            let count = *values.entry(key).or_insert_with(|| {
                let used = |pool: &NodePool| PoolUse::new(pool, problem.catalogues.get(pool.catalogue));
                let pools = pools.get_or_insert_with(|| problem.pools.iter().map(used).collect());
                topology_values(problem, pools, key)
            });
            terms += 1;
            let number = numbers.len();
            own.push((*numbers.entry(rule).or_insert(number), count as u64));
            let steps = match is_decided(key) {
                true => &mut usual,
                false if is_wide(key, count) => wide.entry(key).or_default(),
                false => &mut unusual,
            };
            *steps += count as u64;
        }
        own.sort_unstable();
        own.dedup();
        let mut steps: u64 = wide.values().sum::<u64>() + unusual;
        let most = wide.iter().max_by_key(|&(key, steps)| (*steps, Reverse(*key)));
        if let Some((&key, _)) = most {
            let (key, values) = (Arc::clone(key), values[key]);
            costs.loads.push(Load { spec, pods: Vec::with_capacity(pending[spec]), steps, key, values, rules: own });
        }
        if terms > USUAL_TERMS {
            steps += usual;
        }
        let of_namespace = costs.by_namespace.entry(&one.namespace).or_default();
        of_namespace.all += steps.saturating_mul(pending[spec] as u64);
        of_namespace.unusual += unusual.saturating_mul(pending[spec] as u64);
    }
    if !costs.loads.is_empty() {
        let load_of: FxHashMap<SpecId, usize> =
            costs.loads.iter().enumerate().map(|(at, load)| (load.spec, at)).collect();
        for (pod, one) in problem.pods.iter().enumerate() {
            if let Some(&at) = load_of.get(&one.spec) {
                costs.loads[at].pods.push(pod);
            }
        }
    }
    costs
}

/// A required rule about the values of a label.
#[derive(PartialEq, Eq, Hash)]
struct Rule<'a> {
    key: &'a Arc<str>,
    selector: &'a LabelSelector,
    /// Namespaces of affinity terms, or the one of a spread.
    namespaces: Result<&'a NamespaceScope, &'a Arc<str>>,
    demand: Demand,
}

#[derive(PartialEq, Eq, Hash)]
enum Demand {
    Affinity,
    AntiAffinity,
    Spread { max_skew: i32, min_domains: Option<i32> },
}

impl<'a> Rule<'a> {
    fn of(term: &'a AffinityTerm, demand: Demand) -> Self {
        let AffinityTerm { topology_key: key, selector, namespaces } = term;
        Self { key, selector, namespaces: Ok(namespaces), demand }
    }
}

/// Returns the required rules of a pod, except those about the hostname.
fn rules(spec: &PodSpec) -> impl Iterator<Item = Rule<'_>> {
    let affinity = spec.affinity.iter().map(|term| Rule::of(term, Demand::Affinity));
    let anti_affinity = spec.anti_affinity.iter().map(|term| Rule::of(term, Demand::AntiAffinity));
    let spreads = spec.spread.iter().filter(|spread| spread.required).map(|spread| Rule {
        key: &spread.topology_key,
        selector: &spread.selector,
        namespaces: Err(&spec.namespace),
        demand: Demand::Spread { max_skew: spread.max_skew, min_domains: spread.min_domains },
    });
    affinity.chain(anti_affinity).chain(spreads).filter(|rule| &**rule.key != HOSTNAME)
}

/// Returns the labels that required rules of a pod are about, except the hostname, once for each rule.
fn keys(spec: &PodSpec) -> impl Iterator<Item = &Arc<str>> {
    rules(spec).map(|rule| rule.key)
}

/// Returns true if a pod may keep pods of other namespaces off.
fn bars_others(spec: &PodSpec) -> bool {
    spec.anti_affinity.iter().any(|term| match &term.namespaces {
        NamespaceScope::Only(names) => names.iter().any(|name| *name != spec.namespace),
        NamespaceScope::All => true,
    })
}

/// Adds the pods of the same namespace with required affinity to pods of the last stage.
fn follow(problem: &Problem, pods_of: &[Vec<usize>], loads: &mut Vec<Load>) {
    let mut comes_last = FixedBitSet::with_capacity(problem.specs.len());
    comes_last.extend(loads.iter().map(|load| load.spec));
    let namespaces: BTreeSet<&Arc<str>> = loads.iter().map(|load| &problem.specs[load.spec].namespace).collect();
    let mut terms: Vec<(SpecId, &AffinityTerm)> = Vec::new();
    let mut selection = Selection::default();
    for (spec, one) in problem.specs.iter().enumerate() {
        if pods_of[spec].is_empty() || comes_last.contains(spec) || !namespaces.contains(&one.namespace) {
            continue;
        }
        let own = NamespaceScope::Only(BTreeSet::from([Arc::clone(&one.namespace)]));
        for term in one.affinity.iter().filter(|term| term.namespaces.contains(&one.namespace)) {
            selection.add(terms.len() as u32, &term.selector, &own);
            terms.push((spec, term));
        }
    }
    let mut next = 0;
    while next < loads.len() {
        let (leader, key, values) = (loads[next].spec, Arc::clone(&loads[next].key), loads[next].values);
        next += 1;
        let leader = &problem.specs[leader];
        let selects = |term: u32| terms[term as usize].1.selector.matches(&leader.labels);
        for term in selection.of(&leader.namespace, &leader.labels, selects) {
            let spec = terms[term as usize].0;
            if !comes_last.put(spec) {
                let pods = pods_of[spec].clone();
                loads.push(Load { spec, pods, steps: 1, key: Arc::clone(&key), values, rules: Vec::new() });
            }
        }
    }
}

/// Splits loads into those within the last-stage share of their namespace, and those beyond it.
fn divided(problem: &Problem, mut loads: Vec<Load>) -> (Vec<Load>, Vec<Load>) {
    loads.sort_by_key(|load| (&problem.specs[load.spec].namespace, load.all_steps(), load.spec));
    let namespace = |load: &Load| &problem.specs[load.spec].namespace;
    let of_namespaces: Vec<&[Load]> = loads.chunk_by(|a, b| namespace(a) == namespace(b)).collect();
    let share = LAST_SHARE / of_namespaces.len().max(1) as u64;
    let (mut tried, mut over) = (Vec::new(), Vec::new());
    for of_namespace in of_namespaces {
        let (mut planned, mut steps) = (0_u64, 0_u64);
        let mut known: BTreeSet<usize> = BTreeSet::new();
        for load in of_namespace {
            let more = load.rules.iter().filter(|(rule, _)| !known.contains(rule)).map(|&(_, domains)| domains);
            let more = steps.saturating_add(more.fold(0, u64::saturating_add));
            let most = (share / more.max(1)).saturating_sub(planned);
            let most = usize::try_from(most).unwrap_or(usize::MAX).min(load.pods.len());
            if most > 0 {
                known.extend(load.rules.iter().map(|&(rule, _)| rule));
                (planned, steps) = (planned + most as u64, more);
            }
            let (within, beyond) = load.pods.split_at(most);
            let part = |pods: &[usize]| Load { pods: pods.to_vec(), ..load.clone() };
            tried.extend((!within.is_empty()).then(|| part(within)));
            over.extend((!beyond.is_empty()).then(|| part(beyond)));
        }
    }
    (tried, over)
}

/// Returns the better plan for the pods `first`: of all of them at once, or of `doubtful` after the rest. Rules about
/// labels that nobody else asks for make kinds of nodes that the others would have to be packed on.
fn compared(
    problem: &Problem,
    options: &Options,
    (first, doubtful): (&[usize], &[usize]),
    plan: impl Fn(&Problem) -> Solution,
) -> Solution {
    let together = renumbered(plan(&only(problem, first)), first);
    let others: Vec<usize> = first.iter().filter(|pod| doubtful.binary_search(pod).is_err()).copied().collect();
    let alone = renumbered(plan(&only(problem, &others)), &others);
    let apart = place_after(problem, &alone, doubtful, |_| {}, plan);
    let cost = |one: &Solution| {
        let price: f64 = one.new_nodes.iter().map(|node| node.price).sum();
        (one.unschedulable.len(), price)
    };
    match apart {
        Some(apart) if cost(&apart) < cost(&together) && keeps_promises(problem, options, first, &apart) => apart,
        _ => together,
    }
}

/// Returns true if a plan of `pods`, all that it is about, passes the validator.
fn keeps_promises(problem: &Problem, options: &Options, pods: &[usize], solution: &Solution) -> bool {
    let mut position = vec![usize::MAX; problem.pods.len()];
    pods.iter().enumerate().for_each(|(at, &pod)| position[pod] = at);
    validate(&only(problem, pods), options, &renumbered(solution.clone(), &position)).is_empty()
}

/// Returns the verdicts for pods that cannot be planned after the others.
fn refused(problem: &Problem, pods: &[usize]) -> Vec<Unschedulable> {
    let used = |pool: &NodePool| PoolUse::new(pool, problem.catalogues.get(pool.catalogue));
    let pools: Vec<PoolUse> = problem.pools.iter().map(used).collect();
    let mut known: FxHashMap<SpecId, Costly> = FxHashMap::default();
    let costly = |spec: SpecId| {
        let key = keys(&problem.specs[spec]).next().cloned().unwrap_or_else(|| Arc::from(HOSTNAME));
        Costly { spec, values: topology_values(problem, &pools, &key), key }
    };
    let verdict = |&pod: &usize| {
        let spec = problem.pods[pod].spec;
        known.entry(spec).or_insert_with(|| costly(spec)).told(problem, pod)
    };
    pods.iter().map(verdict).collect()
}

/// Returns the problem with only the given pods.
pub(super) fn only(problem: &Problem, pods: &[usize]) -> Problem {
    let mut part = problem.clone();
    part.pods = pods.iter().map(|&pod| problem.pods[pod].clone()).collect();
    part
}

/// Renumbers the pods of a solution from n to `pods[n]`.
pub(super) fn renumbered(mut solution: Solution, pods: &[usize]) -> Solution {
    let new = solution.new_nodes.iter_mut().map(|node| &mut node.pods);
    let existing = solution.existing.iter_mut().map(|(_, pods)| pods);
    new.chain(existing).flatten().for_each(|pod| *pod = pods[*pod]);
    solution.unschedulable.iter_mut().for_each(|one| one.pod = pods[one.pod]);
    solution
}

/// Returns `solution` extended by the plan for `pods`, on existing nodes and new ones; planned nodes stay unchanged.
/// Returns `None` if some pods went to planned nodes.
pub(super) fn place_after(
    problem: &Problem,
    solution: &Solution,
    pods: &[usize],
    prepare: impl FnOnce(&mut Problem),
    plan: impl Fn(&Problem) -> Solution,
) -> Option<Solution> {
    let mut merged = solution.clone();
    if pods.is_empty() {
        return Some(merged);
    }
    let nodes = second_round::nodes_when_up(problem, solution);
    let places = leftovers::places(problem, solution);
    let mut again = second_round::problem(problem, solution, nodes, &places, pods, true);
    let standing = second_round::staying(problem);
    again.nodes[standing.len()..].iter_mut().for_each(|node| node.allocatable = Resources::new());
    prepare(&mut again);
    let mut found = renumbered(plan(&again), pods);
    for (node, pods) in found.existing.drain(..) {
        let node = *standing.get(node)?;
        match merged.existing.iter_mut().find(|(known, _)| *known == node) {
            Some((_, known)) => {
                known.extend(pods);
                known.sort_unstable();
            }
            None => merged.existing.push((node, pods)),
        }
    }
    merged.existing.sort_by_key(|(node, _)| *node);
    merged.new_nodes.extend(found.new_nodes);
    merged.unschedulable.extend(found.unschedulable);
    Some(merged)
}

/// Keeps on offer in each catalogue only the cheapest types that hold pods of `loads`, and the cheapest with each value
/// of the labels that their rules are about. The values of the other types still count as domains, but no pod is placed
/// in them.
fn keep_representatives(problem: &mut Problem, loads: &[Load]) {
    let mut keys: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut asked: BTreeMap<(SignatureId, &Resources), usize> = BTreeMap::new();
    let mut signatures = Signatures::default();
    for load in loads {
        let spec = &problem.specs[load.spec];
        keys.extend(self::keys(spec).cloned());
        *asked.entry((signatures.intern(spec), &spec.requests)).or_default() += load.pods.len();
    }
    let open = problem.pools.iter().filter(|pool| pool.missing_replicas.is_none()).count().max(1);
    let kept: Vec<FixedBitSet> = problem
        .catalogues
        .iter()
        .map(|types| {
            let mut suiting: FxHashMap<SignatureId, FixedBitSet> = FxHashMap::default();
            let mut order: Vec<usize> = (0..types.len()).filter(|&number| !types.offers(number).is_empty()).collect();
            let price =
                |number: usize| types.offers(number).iter().map(|offer| offer.price).fold(f64::INFINITY, f64::min);
            order.sort_by(|&a, &b| price(a).total_cmp(&price(b)).then(a.cmp(&b)));
            let mut kept = FixedBitSet::with_capacity(types.len());
            let each = (CHEAPEST_TYPES / open / asked.len().max(1)).max(2);
            for (&(signature, requests), &pods) in &asked {
                let suits = suiting.entry(signature).or_insert_with(|| {
                    let mut set = FixedBitSet::with_capacity(types.len());
                    for alternative in &signatures.all[signature].alternatives {
                        set.union_with(&types.suiting(alternative));
                    }
                    set
                });
                let holds = |number: &&usize| suits.contains(**number) && holds(types, **number, requests);
                let candidates: Vec<usize> = order.iter().filter(holds).copied().collect();
                kept.extend(candidates.iter().copied().take(each.min(pods.max(2))));
                for key in &keys {
                    let most = (MOST_TYPES / open).max(2);
                    let mut seen: BTreeSet<Option<&Requirement>> = BTreeSet::new();
                    for &number in &candidates {
                        if kept.count_ones(..) >= most {
                            break;
                        }
                        if seen.insert(types[number].requirements.get(key)) {
                            kept.insert(number);
                        }
                    }
                }
            }
            kept
        })
        .collect();
    for (types, kept) in problem.catalogues.iter_mut().zip(kept) {
        types.edit(|types: &mut Vec<InstanceType>| {
            for (_, one) in types.iter_mut().enumerate().filter(|(number, _)| !kept.contains(*number)) {
                one.offerings.iter_mut().for_each(|offering| offering.available = false);
            }
        });
    }
}

fn holds(types: &Catalogue, number: usize, requests: &Resources) -> bool {
    let allocatable = types.allocatable(number);
    requests.iter().all(|(resource, amount)| {
        let at = types.resources().binary_search(resource);
        amount <= at.map_or(0, |at| allocatable[at])
    })
}
