//! Second passes for unplaced pods, with the planned nodes taken as existing.
//!
//! Domains are assigned before nodes are filled, and a pod may be assigned to one without room for it. Once all other
//! pods are placed, the unplaced ones are planned as a separate problem. The result is used only if the whole plan is
//! valid.

use super::groups::Grouped;
use super::zones::ZonePolicy;
use super::{Draft, existing_nodes, finish, plan_at_once};
use crate::compile::{Compiled, Shape, fits};
use crate::model::{Problem, Resources};
use crate::second_round;
use crate::solution::{Reason, Solution};
use crate::validate::validate;

/// Maximum number of passes: the first finds most placements, the second those that the first made room for.
const LOOKS: usize = 2;

/// Number of priority classes that are distinguished; lower priorities are handled together with the last.
const MOST_CLASSES: usize = 4;

/// Places unplaced pods of `draft` with at least `least_priority`, as far as possible. `solution` is `draft` written
/// out.
pub(crate) fn place(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    draft: &mut Draft,
    mut solution: Solution,
    least_priority: i32,
) -> Solution {
    let problem = compiled.problem;
    for _ in 0..LOOKS {
        let mut left = could_be_held(compiled, &solution);
        left.retain(|&pod| problem.spec_of(pod).priority >= least_priority);
        if left.is_empty() {
            break;
        }
        let nodes = second_round::nodes_when_up(problem, &solution);
        let mut again = second_round::problem(problem, &solution, nodes, &places(problem, &solution), &[], true);
        find_room(compiled, &again, &mut left);
        if left.is_empty() {
            break;
        }
        again.pods = left.iter().map(|&pod| problem.pods[pod].clone()).collect();
        let found = plan_at_once(&again, compiled.options);
        if found.existing.is_empty() && found.new_nodes.is_empty() {
            break;
        }
        match merged(compiled, grouped, draft, &solution, &found, &left) {
            Some((wider, better)) if validate(problem, compiled.options, &better).is_empty() => {
                *draft = wider;
                solution = better;
            }
            _ => break,
        }
    }
    solution
}

/// Places pods in order of their priority classes, so that limits and reservations go to the most important ones.
/// Returns `None` if that improves nothing over `solution`, the plan that ignores priorities.
pub(crate) fn by_priority(compiled: &Compiled<'_>, grouped: &Grouped, solution: &Solution) -> Option<Solution> {
    let problem = compiled.problem;
    let priority = |pod: usize| problem.spec_of(pod).priority;
    let wanting = could_be_held(compiled, solution).into_iter().map(priority).max()?;
    let on_new = solution.new_nodes.iter().flat_map(|node| &node.pods);
    let placed = on_new.chain(solution.existing.iter().flat_map(|(_, pods)| pods));
    // No placed pod has a lower priority than the most important unplaced one.
    if placed.copied().map(priority).min()? >= wanting {
        return None;
    }
    let mut classes: Vec<i32> = (0..problem.pods.len()).map(priority).collect();
    classes.sort_unstable_by_key(|&class| std::cmp::Reverse(class));
    classes.dedup();
    classes.truncate(MOST_CLASSES);
    let units = grouped.groups.iter().flat_map(|group| &group.units);
    let lower = |unit: &&u32| grouped.pods(unit).iter().all(|&pod| priority(pod as usize) < classes[0]);
    let without = units.filter(lower).copied().collect();
    let mut draft = super::draft(compiled, grouped, &without, ZonePolicy::Cheapest);
    draft.settle(compiled, grouped);
    let mut staged = finish::write(compiled, grouped, &mut draft);
    let last = classes.len() - 1;
    for (number, &class) in classes.iter().enumerate() {
        let least = if number == last { i32::MIN } else { class };
        staged = place(compiled, grouped, &mut draft, staged, least);
    }
    (left_by_priority(compiled, &staged) < left_by_priority(compiled, solution)).then_some(staged)
}

/// Returns the number of unplaced pods of each priority, highest first. Of two plans the lesser is better.
pub(crate) fn left_by_priority(compiled: &Compiled<'_>, solution: &Solution) -> Vec<(i32, usize)> {
    let left = solution.unschedulable.iter().map(|one| compiled.problem.spec_of(one.pod).priority);
    let mut left: Vec<i32> = left.collect();
    left.sort_unstable_by_key(|&class| std::cmp::Reverse(class));
    left.chunk_by(|a, b| a == b).map(|alike| (alike[0], alike.len())).collect()
}

/// Returns the unplaced pods that some shape or existing node could hold.
pub(crate) fn could_be_held(compiled: &Compiled<'_>, solution: &Solution) -> Vec<usize> {
    let mut known = vec![None; compiled.classes.len()];
    let standing = existing_nodes::standing(compiled);
    let mut left = Vec::new();
    for one in &solution.unschedulable {
        if compiled.problem.spec_of(one.pod).refusal.is_some() {
            continue;
        }
        let class = compiled.class_of(one.pod);
        let sizes = compiled.request(class);
        let worth = *known[class].get_or_insert_with(|| {
            let admits = &compiled.admits[compiled.classes[class].signature];
            let mut shapes = compiled.shapes.iter().enumerate();
            shapes.any(|(shape, one)| fits(sizes, &one.room) && admits.iter().any(|set| set.contains(shape)))
                || standing.iter().any(|node| fits(sizes, &node.room))
        });
        if worth {
            left.push(one.pod);
        }
    }
    left
}

/// Keeps in `left` the pods for which there may be room in `again`, the problem with the planned nodes up: on one of
/// its nodes, or on another node within the limits.
fn find_room(compiled: &Compiled<'_>, again: &Problem, left: &mut Vec<usize>) {
    let rooms: Vec<Resources> = again.nodes.iter().map(|node| existing_nodes::room_left(again, node)).collect();
    let opens = |shape: &Shape| {
        let pool = &again.pools[shape.pool];
        pool.allows_one_more(&again.catalogues[pool.catalogue][shape.instance_type].capacity)
    };
    let opens: Vec<bool> = compiled.shapes.iter().map(opens).collect();
    let mut known = vec![None; compiled.classes.len()];
    left.retain(|&pod| {
        let class = compiled.class_of(pod);
        *known[class].get_or_insert_with(|| {
            let of = &compiled.classes[class];
            let (signature, asked) = (&compiled.signatures[of.signature], &again.specs[of.spec].requests);
            let admits = &compiled.admits[of.signature];
            let sizes = compiled.request(class);
            let mut shapes = compiled.shapes.iter().enumerate().filter(|&(shape, _)| opens[shape]);
            let mut nodes = again.nodes.iter().zip(&rooms);
            shapes.any(|(shape, one)| fits(sizes, &one.room) && admits.iter().any(|set| set.contains(shape)))
                || nodes.any(|(node, room)| {
                    asked.iter().all(|(resource, amount)| amount <= room.get(resource).max(0))
                        && signature.tolerates(&node.taints)
                        && signature.admits_labels(&node.labels)
                })
        })
    });
}

/// Returns every placed pod with its node, numbered as in [`second_round::nodes_when_up`].
pub(super) fn places(problem: &Problem, solution: &Solution) -> Vec<(usize, usize)> {
    let standing = second_round::staying(problem);
    let position = |node: usize| standing.binary_search(&node).unwrap_or(usize::MAX);
    let on_existing = solution.existing.iter().flat_map(|(node, pods)| {
        let node = position(*node);
        pods.iter().map(move |&pod| (pod, node))
    });
    let mut places: Vec<(usize, usize)> = on_existing.collect();
    let new = (standing.len()..).zip(&solution.new_nodes);
    let on_new = new.flat_map(|(number, node)| node.pods.iter().map(move |&pod| (pod, number)));
    places.extend(on_new);
    places
}

/// Merges `found`, the plan for the pods `left`, into the plan. Returns `None` if `found` uses nodes that `draft` does
/// not contain.
fn merged(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    draft: &Draft,
    solution: &Solution,
    found: &Solution,
    left: &[usize],
) -> Option<(Draft, Solution)> {
    let problem = compiled.problem;
    let standing = second_round::staying(problem);
    let mut wider = draft.clone();
    let added = solution.new_nodes.get(wider.opened.len()..)?;
    for (node, pods) in &found.existing {
        let units = pods.iter().map(|&pod| left[pod] as u32);
        match standing.get(*node) {
            Some(&existing) => match wider.existing.iter_mut().find(|(known, _)| *known == existing) {
                Some((_, known)) => known.extend(units),
                None => wider.existing.push((existing, units.collect())),
            },
            None => wider.opened.get_mut(node - standing.len())?.units.extend(units),
        }
    }
    wider.existing.sort_by_key(|(node, _)| *node);
    let still: Vec<usize> = found.unschedulable.iter().map(|one| left[one.pod]).collect();
    // Some pods of a bundle may have been placed.
    let waits = |pod: &u32| !left.contains(&(*pod as usize)) || still.contains(&(*pod as usize));
    let waiting: Vec<(u32, Option<Reason>)> = wider
        .left
        .iter()
        .flat_map(|(unit, reason)| match grouped.pods(unit) {
            pods if pods.iter().all(waits) => vec![(*unit, *reason)],
            pods => pods.iter().copied().filter(waits).map(|pod| (pod, *reason)).collect(),
        })
        .collect();
    wider.left = waiting;
    let mut better = finish::write(compiled, grouped, &mut wider);
    better.new_nodes.extend(added.iter().cloned());
    for node in &found.new_nodes {
        let mut node = node.clone();
        node.pods.iter_mut().for_each(|pod| *pod = left[*pod]);
        better.new_nodes.push(node);
    }
    Some((wider, better))
}
