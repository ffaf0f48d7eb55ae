//! `minValues`: a launch must allow a choice, so a node is filled only as far as enough other types could hold the same
//! pods.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec};
use rustc_hash::FxHashMap;

use super::cells::CellId;
use super::columns::fits;
use super::shapes::Shape;
use super::signatures::SignatureId;
use crate::model::{Catalogue, InstanceType, MinValuesPolicy, NodePool, Options, Problem, Requirement};

/// Labels with `minValues` of a pool, and the minimum number of values of each.
type Asked<'a> = Vec<(&'a Arc<str>, usize)>;

/// Returns the labels of `pool` with `minValues`.
pub(crate) fn asked(pool: &NodePool) -> Asked<'_> {
    let least = |requirement: &Requirement| requirement.min_values.map(|least| least as usize);
    pool.requirements.iter().filter_map(|(key, requirement)| Some((key, least(requirement)?))).collect()
}

/// Returns the first label of which `types` have fewer values than required, and their number.
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

/// Lowers the room of shapes of pools with `minValues` to the room that enough types have, and stops admitting
/// signatures to a pool that leaves them too few types. Does nothing with `BestEffort`.
pub(crate) fn hold_back(
    problem: &Problem,
    options: &Options,
    kinds: &[(SignatureId, &[i32])],
    shapes: &mut Vec<Shape>,
    admits: &mut IndexSlice<SignatureId, [IndexVec<CellId, FixedBitSet>]>,
) {
    if options.min_values == MinValuesPolicy::BestEffort {
        return;
    }
    for (number, pool) in problem.pools.iter().enumerate() {
        let asked = asked(pool);
        if asked.is_empty() {
            continue;
        }
        let types = &problem.catalogues[pool.catalogue];
        // A type that the limits forbid is not a choice.
        let within = |shape: &Shape| pool.allows_one_more(&types[shape.instance_type].capacity);
        let own: Vec<usize> =
            (0..shapes.len()).filter(|&shape| shapes[shape].pool == number && within(&shapes[shape])).collect();
        if own.is_empty() {
            continue;
        }
        let mut choice = Choice::new(&asked, types, own.iter().map(|&shape| shapes[shape].instance_type));
        let mut admitted: IndexVec<SignatureId, FixedBitSet> = IndexVec::with_capacity(admits.len());
        for by_cell in admits.iter_mut() {
            let mut somewhere = FixedBitSet::with_capacity(shapes.len());
            by_cell.iter().for_each(|set| somewhere.union_with(set));
            if !choice.reached_by((0..own.len()).filter(|&one| somewhere.contains(own[one]))) {
                by_cell.iter_mut().for_each(|set| own.iter().for_each(|&shape| set.set(shape, false)));
                somewhere.clear();
            }
            admitted.push(somewhere);
        }
        let rooms: Vec<Vec<i32>> = own.iter().map(|&shape| shapes[shape].room.clone()).collect();
        let all: Vec<usize> = (0..own.len()).collect();
        for (one, &shape) in own.iter().enumerate() {
            // Too few types in total: nothing can be launched.
            let room = choice.shared(one, &all, &rooms).unwrap_or_else(|| vec![-1; rooms[one].len()]);
            let whole = std::mem::replace(&mut shapes[shape].room, room);
            shapes[shape].whole = Some(whole.into());
        }
        // If enough types hold the pods, but no shape does together with its nearest types, add a shape with the room
        // that these types share.
        for &(signature, sizes) in kinds {
            let admitted = |one: usize| admitted[signature].contains(own[one]);
            let holders: Vec<usize> = (0..own.len()).filter(|&one| admitted(one) && fits(sizes, &rooms[one])).collect();
            let price = |one: usize| shapes[own[one]].cheapest;
            let cheapest = holders.iter().copied().min_by(|&a, &b| price(a).total_cmp(&price(b)).then(a.cmp(&b)));
            let Some(base) = cheapest else { continue };
            let serves =
                |shape: &Shape, base: usize| fits(sizes, &shape.room) && own.binary_search(&base).is_ok_and(admitted);
            let mut every = shapes.iter().enumerate().filter(|(_, shape)| shape.pool == number);
            if every.any(|(at, shape)| serves(shape, shape.twin_of.unwrap_or(at))) {
                continue;
            }
            if let Some(room) = choice.shared(base, &holders, &rooms) {
                let twin = Shape { room, twin_of: Some(own[base]), ..shapes[own[base]].clone() };
                for set in admits.iter_mut().flatten() {
                    set.grow(shapes.len() + 1);
                    set.set(shapes.len(), set.contains(own[base]));
                }
                shapes.push(twin);
            }
        }
    }
}

/// Values that the types of a pool have for the labels with `minValues`.
struct Choice {
    /// Minimum number of values, by label.
    least: Vec<usize>,
    /// Label and index of each value, by type.
    values: Vec<Vec<(usize, usize)>>,
    /// Values counted so far and their number, by label.
    seen: Vec<(FixedBitSet, usize)>,
}

impl Choice {
    fn new(asked: &Asked<'_>, types: &Catalogue, own: impl Iterator<Item = usize>) -> Self {
        let mut numbers: Vec<FxHashMap<Arc<str>, usize>> = vec![FxHashMap::default(); asked.len()];
        let mut values = Vec::new();
        for one in own {
            let mut of_type = Vec::new();
            for (label, (&(key, _), numbers)) in asked.iter().zip(&mut numbers).enumerate() {
                let listed = types[one].requirements.get(key).filter(|listed| listed.is_finite());
                for value in listed.into_iter().flat_map(Requirement::values) {
                    let next = numbers.len();
                    of_type.push((label, *numbers.entry(Arc::clone(value)).or_insert(next)));
                }
            }
            values.push(of_type);
        }
        let seen = numbers.iter().map(|numbers| (FixedBitSet::with_capacity(numbers.len()), 0)).collect();
        Self { least: asked.iter().map(|&(_, least)| least).collect(), values, seen }
    }

    /// Starts a new count; returns true as soon as the first of `types` have enough values.
    fn reached_by(&mut self, mut types: impl Iterator<Item = usize>) -> bool {
        for (seen, count) in &mut self.seen {
            seen.clear();
            *count = 0;
        }
        types.any(|one| self.reached_with(one))
    }

    /// Counts one more type; returns true if there are enough values now.
    fn reached_with(&mut self, one: usize) -> bool {
        for &(label, value) in &self.values[one] {
            let (seen, count) = &mut self.seen[label];
            *count += usize::from(!seen.put(value));
        }
        self.seen.iter().zip(&self.least).all(|((_, count), least)| count >= least)
    }

    /// Returns the room that type number `one` shares with the nearest types of `among` that give enough values; `None`
    /// if all of them together have too few.
    fn shared(&mut self, one: usize, among: &[usize], rooms: &[Vec<i32>]) -> Option<Vec<i32>> {
        let mut room = rooms[one].clone();
        let holds_all = |&other: &usize| loss(&rooms[one], &rooms[other]) <= 1.0;
        if self.reached_by(among.iter().copied().filter(holds_all)) {
            return Some(room);
        }
        // Take the nearest of those that hold less. Losses are positive, so their bits sort like their values.
        let less = among.iter().map(|&other| (loss(&rooms[one], &rooms[other]), other)).filter(|&(loss, _)| loss > 1.0);
        let mut less: BinaryHeap<Reverse<(u64, usize)>> =
            less.map(|(loss, other)| Reverse((loss.to_bits(), other))).collect();
        while let Some(Reverse((_, other))) = less.pop() {
            room.iter_mut().zip(&rooms[other]).for_each(|(room, &there)| *room = (*room).min(there));
            if self.reached_with(other) {
                return Some(room);
            }
        }
        None
    }
}

/// Returns the ratio of `room` to `other` in the scarcest column: 1 if `other` holds as much in every column.
fn loss(room: &[i32], other: &[i32]) -> f64 {
    let columns = room.iter().zip(other).filter(|&(&room, _)| room > 0);
    let ratio = |(&room, &there): (&i32, &i32)| if there > 0 { f64::from(room) / f64::from(there) } else { f64::MAX };
    // All that hold everything are equally near.
    columns.map(ratio).fold(1.0, f64::max)
}
