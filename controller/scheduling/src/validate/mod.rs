//! Independent check of a plan. It shares only the model with the packer: the packer's classes, shapes and rules are
//! derived again here from the problem, in another way.
//!
//! Rules between pods are checked in their final-state form, which holds in any order of binding: a spread holds if
//! every domain with one of its owners is at most `maxSkew` above the emptiest domain (for hostnames: above zero), and
//! an affinity if every domain with one of its owners has another pod to start from, except for one domain if no pod
//! matched before and the owners match themselves.
//!
//! Not checked: preferences (they forbid nothing), whether an unschedulable pod could have been placed (the oracle of
//! the tests does that), and affinities that wait for each other in a cycle.

mod capacity;
mod catalogue;
mod existing;
mod nodes;
pub(crate) mod rules;
pub(crate) mod specs;
mod topology;
mod violation;
mod volumes;

use crate::model::{Options, Problem};
use crate::solution::Solution;
use specs::Specs;
pub(crate) use violation::Findings;
pub use violation::{Place, Promise, Violation};

/// Returns the violations of `solution`, sorted by place. The [example of the crate](crate#example) calls it.
pub fn validate(problem: &Problem, options: &Options, solution: &Solution) -> Vec<Violation> {
    let mut findings = Findings::default();
    if !indices_hold(problem, solution, &mut findings) {
        return findings.into_sorted();
    }
    each_pod_once(problem, solution, &mut findings);
    let specs = Specs::new(problem);
    existing::check(&specs, solution, &mut findings);
    let choices = catalogue::daemon_choices(problem);
    let mut launch = nodes::Launch::new(&specs, options, &choices, &solution.new_nodes);
    let nodes = solution.new_nodes.iter().enumerate();
    let launches: Vec<usize> = nodes.map(|(number, node)| launch.check(number, node, &mut findings)).collect();
    capacity::check(&mut launch, solution, &launches, &mut findings);
    topology::check(&specs, solution, &mut findings);
    findings.into_sorted()
}

/// Returns true if every index is valid; the other checks rely on it.
fn indices_hold(problem: &Problem, solution: &Solution, findings: &mut Findings) -> bool {
    let mut hold = true;
    let mut require = |named: bool, place: Place, what: &str| {
        if !named {
            hold = false;
            findings.note(place, Promise::Index, format!("{what} does not exist"));
        }
    };
    let known = |pods: &[usize]| pods.iter().all(|&pod| pod < problem.pods.len());
    for (number, node) in solution.new_nodes.iter().enumerate() {
        let place = Place::New(number);
        require(known(&node.pods), place, "a pod");
        let Some(pool) = problem.pools.get(node.pool) else {
            require(false, place, "its pool");
            continue;
        };
        let types = &problem.catalogues[pool.catalogue];
        require(node.alternatives.iter().all(|&kind| kind < types.len()), place, "an alternative");
        let kind = types.get(node.instance_type);
        require(kind.is_some_and(|kind| node.offering < kind.offerings.len()), place, "its type or offering");
    }
    for (node, pods) in &solution.existing {
        require(*node < problem.nodes.len() && known(pods), Place::Existing(*node), "the node or a pod");
    }
    for refused in &solution.unschedulable {
        require(refused.pod < problem.pods.len(), Place::Pod(refused.pod), "the pod");
    }
    hold
}

fn each_pod_once(problem: &Problem, solution: &Solution, findings: &mut Findings) {
    let mut times = vec![0_u32; problem.pods.len()];
    let placed = solution.new_nodes.iter().flat_map(|node| &node.pods);
    let placed = placed.chain(solution.existing.iter().flat_map(|(_, pods)| pods));
    for &pod in placed {
        times[pod] += 1;
        if problem.spec_of(pod).refusal.is_some() {
            findings.note(Place::Pod(pod), Promise::Refusal, "it can be placed nowhere, and is");
        }
    }
    for refused in &solution.unschedulable {
        times[refused.pod] += 1;
    }
    for (pod, &times) in times.iter().enumerate().filter(|(_, times)| **times != 1) {
        findings.note(Place::Pod(pod), Promise::Once, format!("it is in {times} places"));
    }
    let mut nodes: Vec<usize> = solution.existing.iter().map(|(node, _)| *node).collect();
    nodes.sort_unstable();
    for pair in nodes.windows(2).filter(|pair| pair[0] == pair[1]) {
        findings.note(Place::Existing(pair[0]), Promise::Once, "it is listed twice");
    }
}
