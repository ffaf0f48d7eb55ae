//! Nodes that have grown: as few as the rules and the largest type leave, priced last. Not what anybody should launch, but
//! what first-come, first-served comes to when every node may become whatever type still holds its pods, as in Karpenter. A
//! plan is changed into such a one for comparison.

use std::sync::Arc;

use crate::model::{InstanceType, Options, Problem, Requirements, Resources};
use crate::solution::{NewNode, Solution};
use crate::validate::validate;

/// Joins nodes, each with the first before it that may hold its pods too.
pub(super) fn grow(problem: &Problem, options: &Options, solution: &mut Solution) {
    let mut at = 1;
    while at < solution.new_nodes.len() {
        let joined = (0..at).find_map(|first| {
            let together = together(problem, &solution.new_nodes[first], &solution.new_nodes[at])?;
            let mut trial = solution.clone();
            trial.new_nodes[first] = together;
            trial.new_nodes.remove(at);
            validate(problem, options, &trial).is_empty().then_some(trial)
        });
        match joined {
            Some(trial) => *solution = trial,
            None => at += 1,
        }
    }
}

/// One node for the pods of two, if there is a type for it.
fn together(problem: &Problem, one: &NewNode, other: &NewNode) -> Option<NewNode> {
    if one.pool != other.pool || one.pods.is_empty() || other.pods.is_empty() {
        return None;
    }
    let mut requirements = Requirements::clone(&one.requirements);
    if !requirements.intersects(&other.requirements) {
        return None;
    }
    requirements.add_all(&other.requirements);
    let mut requests = one.requests.clone();
    other.pods.iter().for_each(|&pod| requests.add(&problem.spec_of(pod).requests));
    let types = problem.catalogues[problem.pools[one.pool].catalogue].types();
    let both = one.alternatives.iter().copied().filter(|kind| other.alternatives.contains(kind));
    let mut launches: Vec<(f64, usize, usize)> = both
        .filter(|&kind| requests.first_shortage(&types[kind].allocatable()).is_none())
        .filter_map(|kind| {
            let (price, offering) = cheapest(&types[kind], &requirements)?;
            Some((price, kind, offering))
        })
        .collect();
    launches.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let &(price, instance_type, offering) = launches.first()?;
    let mut pods: Vec<usize> = one.pods.iter().chain(&other.pods).copied().collect();
    pods.sort_unstable();
    Some(NewNode {
        pool: one.pool,
        pods,
        instance_type,
        offering,
        price,
        alternatives: launches.iter().map(|launch| launch.1).collect(),
        requirements: Arc::new(requirements),
        requests: Resources::clone(&requests),
        min_values_relaxed: one.min_values_relaxed.or(other.min_values_relaxed),
    })
}

/// Price and index of the cheapest offering of a type that the requirements leave.
fn cheapest(one: &InstanceType, requirements: &Requirements) -> Option<(f64, usize)> {
    let offered = one.offerings.iter().enumerate().filter(|(_, offering)| {
        offering.launchable() && !offering.reserved() && offering.requirements.intersects(requirements)
    });
    let priced = offered.filter_map(|(number, offering)| Some((offering.price?, number)));
    priced.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
}
