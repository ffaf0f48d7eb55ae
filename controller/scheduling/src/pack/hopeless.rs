//! Pods that are larger than every node that may hold them. They are set aside before anything is planned, so that the
//! others get the plan that they get alone, and so that no draft tries them.

use fixedbitset::FixedBitSet;

use super::{existing_nodes, shares};
use crate::compile::{Compiled, fits};
use crate::model::{Options, Problem, Resources};
use crate::second_round;
use crate::solution::{Reason, Solution, Unschedulable};

/// Plans `problem` by `plan` without the pods that no shape and no existing node can hold.
pub(super) fn set_aside(problem: &Problem, options: &Options, plan: impl Fn(&Compiled<'_>) -> Solution) -> Solution {
    let compiled = Compiled::new(problem, options);
    let hopeless = pods(&compiled);
    if hopeless.is_clear() {
        return plan(&compiled);
    }
    let others: Vec<usize> = (0..problem.pods.len()).filter(|&pod| !hopeless.contains(pod)).collect();
    let mut solution = Solution::default();
    if !others.is_empty() {
        let rest = shares::only(problem, &others);
        solution = shares::renumbered(plan(&Compiled::new(&rest, options)), &others);
    }
    let left = |pod: usize| Unschedulable { pod, reason: Reason::Resources, message: String::new(), pools: Vec::new() };
    solution.unschedulable.extend(hopeless.ones().map(left));
    solution.unschedulable.sort_unstable_by_key(|one| one.pod);
    solution
}

/// Returns the pending pods that no shape and no existing node can hold.
fn pods(compiled: &Compiled<'_>) -> FixedBitSet {
    let problem = compiled.problem;
    let staying = second_round::staying(problem);
    let rooms: Vec<Resources> =
        staying.into_iter().map(|node| existing_nodes::room_left(problem, &problem.nodes[node])).collect();
    let mut admitted: Vec<Option<FixedBitSet>> = vec![None; compiled.signatures.len()];
    let mut hopeless = FixedBitSet::with_capacity(problem.pods.len());
    for (number, class) in compiled.classes.iter().enumerate() {
        let spec = &problem.specs[class.spec];
        if spec.refusal.is_some() {
            continue;
        }
        let request = compiled.request(number);
        let admitted = admitted[class.signature as usize].get_or_insert_with(|| {
            let mut all = FixedBitSet::with_capacity(compiled.shapes.len());
            compiled.admits[class.signature as usize].iter().for_each(|set| all.union_with(set));
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
