//! Preferences that a plan keeps.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::leftovers;
use super::{Kind, Preference};
use crate::labels::HOSTNAME;
use crate::model::{AffinityTerm, Node, Problem, Requirements, SpecId, Taint};
use crate::second_round;
use crate::solution::{NewNode, Solution};

/// Result for one preference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Number of placed pods for which it holds, whichever of its types the node is launched as.
    pub(super) holds: usize,
    /// The other placed pods that have it.
    pub(super) missing: Vec<usize>,
}

/// A node with the pods of the plan on it.
struct Place<'a> {
    /// The node, or what is known of it before its launch.
    node: Side<'a>,
    /// Planned pods, by spec.
    planned: Vec<(SpecId, Vec<usize>)>,
}

enum Side<'a> {
    Existing(&'a Node),
    New(&'a NewNode),
}

/// Counts for each preference the placed pods that have it, and those for which it holds.
pub(super) fn count(problem: &Problem, preferences: &[Preference], solution: &Solution) -> Vec<Kept> {
    let places = places(problem, solution);
    preferences.iter().map(|one| count_one(problem, one, &places)).collect()
}

fn places<'a>(problem: &'a Problem, solution: &'a Solution) -> Vec<Place<'a>> {
    let staying = second_round::staying(problem);
    let existing = staying.iter().map(|&node| Side::Existing(&problem.nodes[node]));
    let new = solution.new_nodes.iter().map(Side::New);
    let mut places: Vec<Place<'a>> = existing.chain(new).map(|node| Place { node, planned: Vec::new() }).collect();
    for (pod, place) in leftovers::places(problem, solution) {
        let Some(place) = places.get_mut(place) else { continue };
        let spec = problem.pods[pod].spec;
        match place.planned.iter_mut().find(|(known, _)| *known == spec) {
            Some((_, pods)) => pods.push(pod),
            None => place.planned.push((spec, vec![pod])),
        }
    }
    places
}

fn count_one(problem: &Problem, preference: &Preference, places: &[Place<'_>]) -> Kept {
    let counts = match &preference.kind {
        Kind::Together(term) | Kind::Apart(term) => counts(problem, term, places),
        Kind::CleanNodes | Kind::Nodes(_) => FxHashMap::default(),
    };
    let mut kept = Kept::default();
    for (number, place) in places.iter().enumerate() {
        for (spec, pods) in &place.planned {
            let spec = *spec;
            if preference.specs.binary_search(&spec).is_err() {
                continue;
            }
            let holds = match &preference.kind {
                Kind::CleanNodes => is_clean(problem, spec, taints(problem, place)),
                Kind::Nodes(term) => has_labels(problem, place, term),
                Kind::Together(term) | Kind::Apart(term) => {
                    let own = usize::from(selects(problem, term, spec));
                    let company = domain(problem, number, place, &term.topology_key)
                        .map(|domain| counts.get(&domain).copied().unwrap_or(0).saturating_sub(own) > 0);
                    company == Some(matches!(preference.kind, Kind::Together(_)))
                }
            };
            if holds {
                kept.holds += pods.len();
            } else {
                kept.missing.extend(pods);
            }
        }
    }
    kept
}

fn taints<'a>(problem: &'a Problem, place: &Place<'a>) -> &'a [Taint] {
    match place.node {
        Side::Existing(node) => &node.taints,
        Side::New(node) => &problem.pools[node.pool].taints,
    }
}

fn is_clean(problem: &Problem, spec: SpecId, taints: &[Taint]) -> bool {
    let tolerations = &problem.specs[spec].tolerations;
    taints.iter().all(|taint| taint.repels() || tolerations.iter().any(|it| it.tolerates(taint)))
}

fn selects(problem: &Problem, term: &AffinityTerm, spec: SpecId) -> bool {
    let spec = &problem.specs[spec];
    term.namespaces.contains(&spec.namespace) && term.selector.matches(&spec.labels)
}

/// Returns true if the node has labels that meet `term`, whichever of its types it is launched as.
fn has_labels(problem: &Problem, place: &Place<'_>, term: &Requirements) -> bool {
    let node = match place.node {
        Side::Existing(node) => {
            return Requirements::from_labels(&node.labels).first_conflict(term, |_| false).is_none();
        }
        Side::New(node) => node,
    };
    let pool = &problem.pools[node.pool];
    let types = &problem.catalogues[pool.catalogue];
    term.iter().all(|(key, wanted)| {
        let holds = |type_index: &usize| {
            let own = types[*type_index].requirements.get(key);
            let known = match (node.requirements.get(key), own) {
                (Some(asked), Some(own)) => Some(asked.intersection(own)),
                (one, other) => one.or(other).cloned(),
            };
            let known = known.or_else(|| Requirements::from_labels(&pool.labels).get(key).cloned());
            match known {
                Some(known) => known.intersection(wanted) == known,
                None => wanted.allows_absence(),
            }
        };
        node.alternatives.iter().all(holds)
    })
}

/// Domain of a node: a value of the label, or the number of the place for hostnames.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Domain {
    Place(usize),
    Value(Arc<str>),
}

/// Returns the domain of the node, if it is decided.
fn domain(problem: &Problem, number: usize, place: &Place<'_>, key: &str) -> Option<Domain> {
    if key == HOSTNAME {
        return Some(Domain::Place(number));
    }
    let value = match place.node {
        Side::Existing(node) => node.labels.get(key).cloned(),
        Side::New(node) => {
            let pool = &problem.pools[node.pool];
            let types = &problem.catalogues[pool.catalogue];
            let of_type = |&index: &usize| types[index].requirements.get(key).and_then(|own| own.single()).cloned();
            let asked = node.requirements.get(key).and_then(|asked| asked.single()).cloned();
            let first = || node.alternatives.first().and_then(of_type);
            let same = |value: &Arc<str>| node.alternatives.iter().all(|at| of_type(at).as_ref() == Some(value));
            asked.or_else(|| first().filter(same)).or_else(|| pool.labels.get(key).cloned())
        }
    };
    value.map(Domain::Value)
}

/// Counts the pods that `term` selects, by domain.
fn counts(problem: &Problem, term: &AffinityTerm, places: &[Place<'_>]) -> FxHashMap<Domain, usize> {
    let mut counts = FxHashMap::default();
    for (number, place) in places.iter().enumerate() {
        let Some(domain) = domain(problem, number, place, &term.topology_key) else { continue };
        let bound: Vec<SpecId> = match place.node {
            Side::Existing(node) => node.bound.iter().filter(|bound| bound.counts).map(|bound| bound.spec).collect(),
            Side::New(_) => Vec::new(),
        };
        let bound = bound.into_iter().filter(|&spec| selects(problem, term, spec)).count();
        let planned = place.planned.iter().filter(|(spec, _)| selects(problem, term, *spec));
        let planned = planned.map(|(_, pods)| pods.len());
        *counts.entry(domain).or_insert(0) += bound + planned.sum::<usize>();
    }
    counts
}
