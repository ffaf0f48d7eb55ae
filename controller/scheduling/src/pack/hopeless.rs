//! Pods that are larger than every node that may hold them. They are set aside before anything is planned, so that the
//! others get the plan that they get alone, and so that no draft tries them. A small plan is also compared with a first
//! fit that has them, since it takes the others in another order. Those that are larger than every instance type are
//! found without compiling the problem: they wait for hours, and each round and each pass sees them again.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use index_vec::{IndexVec, index_vec};

use super::{existing_nodes, rival, shares};
use crate::compile::{Compiled, SignatureId, fits};
use crate::model::{Catalogue, Options, Problem, Resource, Resources};
use crate::second_round;
use crate::solution::{Reason, Solution, Unschedulable};

/// Plans `problem` by `plan` without the pods that no shape and no existing node can hold, or by first fit with them if
/// that is better.
pub(super) fn set_aside(problem: &Problem, options: &Options, plan: impl Fn(&Compiled<'_>) -> Solution) -> Solution {
    let compiled = Compiled::new(problem, options);
    let hopeless = pods(&compiled);
    if hopeless.is_clear() {
        return plan(&compiled);
    }
    let solution = without(problem, &hopeless, |rest| plan(&Compiled::new(rest, options)));
    rival::better(&compiled, solution)
}

/// Plans `problem` by `plan` without the pods `hopeless`, which stay unplaced.
pub(super) fn without(problem: &Problem, hopeless: &FixedBitSet, plan: impl FnOnce(&Problem) -> Solution) -> Solution {
    if hopeless.is_clear() {
        return plan(problem);
    }
    let others: Vec<usize> = (0..problem.pods.len()).filter(|&pod| !hopeless.contains(pod)).collect();
    let mut solution = Solution::default();
    if !others.is_empty() {
        solution = shares::renumbered(plan(&shares::only(problem, &others)), &others);
    }
    let left = |pod: usize| Unschedulable { pod, reason: Reason::Resources, message: String::new(), pools: Vec::new() };
    solution.unschedulable.extend(hopeless.ones().map(left));
    solution.unschedulable.sort_unstable_by_key(|one| one.pod);
    solution
}

/// Returns the pending pods that ask for more of some resource than any instance type and any existing node has.
pub(super) fn too_large(problem: &Problem) -> FixedBitSet {
    let mut too_large = FixedBitSet::with_capacity(problem.pods.len());
    let used: BTreeSet<usize> = problem.pools.iter().map(|pool| pool.catalogue).collect();
    let types: Vec<&Catalogue> = used.into_iter().filter_map(|number| problem.catalogues.get(number)).collect();
    let mut known: BTreeMap<&Resource, i64> = BTreeMap::new();
    let mut most = |resource| {
        *known.entry(resource).or_insert_with(|| {
            let of_nodes = problem.nodes.iter().map(|node| node.allocatable.get(resource));
            types.iter().map(|types| types.most(resource)).chain(of_nodes).max().unwrap_or(0)
        })
    };
    let mut of_spec: Vec<Option<bool>> = vec![None; problem.specs.len()];
    for (number, pod) in problem.pods.iter().enumerate() {
        let spec = &problem.specs[pod.spec];
        let mut exceeds = || spec.requests.iter().any(|(name, amount)| amount > most(name));
        if *of_spec[pod.spec].get_or_insert_with(|| spec.refusal.is_none() && exceeds()) {
            too_large.insert(number);
        }
    }
    too_large
}

/// Returns the pending pods that no shape and no existing node can hold.
fn pods(compiled: &Compiled<'_>) -> FixedBitSet {
    let problem = compiled.problem;
    let staying = second_round::staying(problem);
    let rooms: Vec<Resources> =
        staying.into_iter().map(|node| existing_nodes::room_left(problem, &problem.nodes[node])).collect();
    let mut admitted: IndexVec<SignatureId, Option<FixedBitSet>> = index_vec![None; compiled.signatures.len()];
    let mut hopeless = FixedBitSet::with_capacity(problem.pods.len());
    for (number, class) in compiled.classes.iter().enumerate() {
        let spec = &problem.specs[class.spec];
        if spec.refusal.is_some() {
            continue;
        }
        let request = compiled.request(number);
        let admitted = admitted[class.signature].get_or_insert_with(|| {
            let mut all = FixedBitSet::with_capacity(compiled.shapes.len());
            compiled.admits[class.signature].iter().for_each(|set| all.union_with(set));
            all
        });
        let holds = |shape: usize| fits(request, &compiled.shapes[shape].room);
        // By requests alone: a volume that is attached to the node already takes no more of its limit.
        let has_room = |room: &Resources| spec.requests.iter().all(|(name, amount)| amount <= room.get(name));
        if !admitted.ones().any(holds) && !rooms.iter().any(has_room) {
            hopeless.extend(class.pods.iter().map(|&pod| pod as usize));
        }
    }
    hopeless
}
