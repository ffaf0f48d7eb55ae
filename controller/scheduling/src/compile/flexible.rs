//! `minValues`: a launch must leave a choice, so a node is filled only as far as enough other types would hold the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::shapes::Shape;
use crate::model::{InstanceType, MinValuesPolicy, NodePool, Options, Problem, Requirement};

/// What one pool asks: labels, and how many values of each.
type Asked<'a> = Vec<(&'a Arc<str>, usize)>;

/// What `pool` asks of the launches of its nodes.
pub(crate) fn asked(pool: &NodePool) -> Asked<'_> {
    let least = |requirement: &Requirement| requirement.min_values.map(|least| least as usize);
    pool.requirements.iter().filter_map(|(key, requirement)| Some((key, least(requirement)?))).collect()
}

/// The first label of which `types` have fewer values than asked, and how many they have.
pub(crate) fn first_miss<'a>(
    asked: &Asked<'a>,
    types: impl Iterator<Item = &'a InstanceType> + Clone,
) -> Option<(&'a Arc<str>, usize)> {
    asked.iter().find_map(|&(key, least)| {
        let mut values: BTreeSet<&str> = BTreeSet::new();
        for one in types.clone() {
            let label = one.requirements.get(key).filter(|label| label.is_finite());
            values.extend(label.into_iter().flat_map(Requirement::values).map(|value| &**value));
            if values.len() >= least {
                return None;
            }
        }
        Some((key, values.len()))
    })
}

/// Lowers the room of shapes of pools that ask for `minValues` to what enough types have, and takes away what a signature
/// leaves too few types of. With `BestEffort` nothing is held back.
pub(crate) fn hold_back(problem: &Problem, options: &Options, shapes: &mut [Shape], admits: &mut [Vec<FixedBitSet>]) {
    if options.min_values == MinValuesPolicy::BestEffort {
        return;
    }
    for (number, pool) in problem.pools.iter().enumerate() {
        let asked = asked(pool);
        let own: Vec<usize> = (0..shapes.len()).filter(|&shape| shapes[shape].pool == number).collect();
        if asked.is_empty() || own.is_empty() {
            continue;
        }
        let types = &problem.catalogues[pool.catalogue];
        for by_cell in admits.iter_mut() {
            let admitted = |shape: &&usize| by_cell.iter().any(|set| set.contains(**shape));
            let left = own.iter().filter(admitted).map(|&shape| &types[shapes[shape].instance_type]);
            if first_miss(&asked, left).is_some() {
                by_cell.iter_mut().for_each(|set| own.iter().for_each(|&shape| set.set(shape, false)));
            }
        }
        let type_of = |other: &(f64, usize)| &types[shapes[other.1].instance_type];
        let lowered: Vec<Option<Vec<i32>>> = own
            .iter()
            .map(|&shape| {
                let room = &shapes[shape].room;
                let losses = own.iter().map(|&other| (loss(room, &shapes[other].room), other));
                let (mut together, mut others): (Vec<_>, Vec<_>) = losses.partition(|&(loss, _)| loss <= 1.0);
                if first_miss(&asked, together.iter().map(type_of)).is_none() {
                    return Some(room.clone());
                }
                // The nearest of those that hold less, until they are enough.
                others.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                let mut lowered = room.clone();
                for other in others {
                    lowered.iter_mut().zip(&shapes[other.1].room).for_each(|(room, &there)| *room = (*room).min(there));
                    together.push(other);
                    if first_miss(&asked, together.iter().map(type_of)).is_none() {
                        return Some(lowered);
                    }
                }
                None
            })
            .collect();
        for (&shape, lowered) in own.iter().zip(lowered) {
            let one = &mut shapes[shape];
            // Too few types in all: nothing can be launched.
            let room = lowered.unwrap_or_else(|| vec![-1; one.room.len()]);
            one.whole = Some(std::mem::replace(&mut one.room, room).into());
        }
    }
}

/// How much less `other` holds than `room` in the scarcest column: 1 or less if it holds all.
fn loss(room: &[i32], other: &[i32]) -> f64 {
    let columns = room.iter().zip(other).filter(|&(&room, _)| room > 0);
    let ratio = |(&room, &there): (&i32, &i32)| if there > 0 { f64::from(room) / f64::from(there) } else { f64::MAX };
    // All that hold everything are alike.
    columns.map(ratio).fold(1.0, f64::max)
}
