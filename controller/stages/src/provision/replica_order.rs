//! Order of replicas with a topology spread: similar pods exchange their places so that the first to arrive has the
//! first place.
//!
//! ```text
//!   planned by name   a ─► zone 1   b ─► zone 2   c ─► zone 3   d ─► zone 1
//!   arrived           c             a             d             b
//!   nominated         c ─► zone 1   a ─► zone 2   d ─► zone 3   b ─► zone 1
//! ```
//!
//! The plan distributes a spread over zones pod by pod. kube-scheduler tries the pods in the order in which they
//! arrived. A pod that is tried before its zone may take it is refused and loses its nomination.

use std::collections::BTreeMap;

use muster_scheduling::Solution;
use muster_scheduling::model::{Problem, SpecId};

use super::gang::is_spread;
use super::plan::PlacementView;

/// Returns the solution with the places of similar pods exchanged.
pub(super) fn in_turn(problem: &Problem, view: &PlacementView<'_>, solution: &Solution) -> Solution {
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
        // Pods of buffers have no arrival and come last: they are never tried.
        let arrival = |pod: &usize| view.pending_pod(&problem.pods[*pod].name).map_or(u64::MAX, |one| one.arrival);
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
