//! Replicas of a spread take their places in turn: alike pods exchange them, so that the first to arrive is tried first.
//!
//! ```text
//!   planned by name   a ─► zone 1   b ─► zone 2   c ─► zone 3   d ─► zone 1
//!   arrived           c             a             d             b
//!   told              c ─► zone 1   a ─► zone 2   d ─► zone 3   b ─► zone 1
//! ```
//!
//! The plan deals a spread out over zones pod by pod. kube-scheduler tries them in the order in which they arrived, and one
//! that is tried before its zone has its turn is refused, and forgets what it was told.

use std::collections::BTreeMap;

use muster_scheduling::Solution;
use muster_scheduling::model::{Problem, SpecId};

use super::plan::Scene;
use super::together::is_spread;

/// The solution with the places of alike pods exchanged.
pub(super) fn in_turn(problem: &Problem, scene: &Scene<'_>, solution: &Solution) -> Solution {
    let mut turned = solution.clone();
    let on_new = solution.new_nodes.iter().map(|node| &node.pods);
    let places = on_new.chain(solution.existing.iter().map(|(_, pods)| pods));
    let mut placed: BTreeMap<SpecId, Vec<usize>> = BTreeMap::new();
    for pod in places.flatten().filter(|pod| is_spread(problem, **pod)) {
        placed.entry(problem.pods[*pod].spec).or_default().push(*pod);
    }
    let mut stand_ins: BTreeMap<usize, usize> = BTreeMap::new();
    for mut planned in placed.into_values() {
        planned.sort_unstable();
        let mut arrived = planned.clone();
        // Pods that nobody has seen arrive, of buffers, come last: no scheduler tries them.
        let arrival = |pod: &usize| scene.applicant(&problem.pods[*pod].name).map_or(u64::MAX, |one| one.arrival);
        arrived.sort_by_key(arrival);
        stand_ins.extend(planned.into_iter().zip(arrived));
    }
    let on_new = turned.new_nodes.iter_mut().map(|node| &mut node.pods);
    for pods in on_new.chain(turned.existing.iter_mut().map(|(_, pods)| pods)) {
        pods.iter_mut().for_each(|pod| *pod = stand_ins.get(pod).copied().unwrap_or(*pod));
        pods.sort_unstable();
    }
    turned
}
