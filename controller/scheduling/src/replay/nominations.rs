//! Pods whose `nominatedNodeName` is set before they are bound.

use super::books::{Books, rules_of};
use super::scheduler::Floor;
use crate::model::Problem;
use crate::validate::specs::Specs;

/// A pod with a nominated node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nominated {
    /// Its index in [`Problem::specs`].
    pub spec: usize,
    /// Index of its nominated node.
    pub node: usize,
}

/// Returns, by position in `nominated`, true for each pod that can still be bound to its node by requests, host ports,
/// attach limits, required anti-affinity and required spreads over hosts. Rules that a later pod may satisfy are not
/// checked: the pods of a spread over zones arrive one zone after the other. None of `nominated` may be among the pods
/// bound there.
pub fn nominations_that_hold(problem: &Problem, nominated: &[Nominated]) -> Vec<bool> {
    if nominated.is_empty() {
        return Vec::new();
    }
    let specs = Specs::new(problem);
    let mut placed = vec![false; problem.specs.len()];
    nominated.iter().for_each(|one| placed[one.spec] = true);
    let rules = rules_of(&specs, problem, &problem.nodes, &placed);
    let mut books = Books::new(&specs, &rules, &problem.nodes);
    let mut floor = Floor::new(&specs, &problem.nodes);
    let holds = nominated.iter().map(|&Nominated { spec, node }| {
        let about = &problem.nodes[node];
        let holds = floor.has_room(spec, node) && floor.takes(about, spec, node) && !books.is_closed(spec, node);
        if holds {
            floor.put(about, spec, node);
            books.enter(spec, node);
        }
        holds
    });
    holds.collect()
}
