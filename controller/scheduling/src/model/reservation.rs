//! Reserved capacity: which offerings share the same instances, and how many instances are left.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Offering, Problem};
use crate::labels;

/// Identity of the reserved instances that an offering uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Reservation {
    /// The reservation with this id, for any type.
    Id(Arc<str>),
    /// The offering itself, if it has no reservation id: by catalogue, type and offering.
    Offering(usize, usize, usize),
}

impl Reservation {
    /// Returns the reservation of the offering at `place`: catalogue, type, number.
    pub(crate) fn of(offering: &Offering, place: (usize, usize, usize)) -> Self {
        match offering.requirements.single(labels::CAPACITY_RESERVATION_ID) {
            Some(id) => Self::Id(id.into()),
            None => Self::Offering(place.0, place.1, place.2),
        }
    }
}

/// Returns the instances left by reservation. Offerings of one reservation may have been described at different times
/// or for different types: as in Karpenter, the lowest count applies to all of them.
pub(crate) fn reservations_left(problem: &Problem) -> FxHashMap<Reservation, u32> {
    let mut left = FxHashMap::default();
    for (catalogue, types) in problem.catalogues.iter().enumerate().filter(|(_, types)| types.reserves()) {
        for (number, one) in types.iter().enumerate() {
            for (at, offering) in one.offerings.iter().enumerate().filter(|(_, offering)| offering.reserved()) {
                let count = left.entry(Reservation::of(offering, (catalogue, number, at))).or_insert(u32::MAX);
                *count = offering.reservation_capacity.min(*count);
            }
        }
    }
    left
}

/// Takes instances from the reservations of `problem`: one for each entry of `drawn`, which are pool, type and
/// offering.
pub(crate) fn draw(problem: &mut Problem, drawn: impl Iterator<Item = (usize, usize, usize)>) {
    let mut taken: FxHashMap<Reservation, u32> = FxHashMap::default();
    for (pool, instance_type, number) in drawn {
        let catalogue = problem.pools[pool].catalogue;
        let offering = &problem.catalogues[catalogue][instance_type].offerings[number];
        if offering.reserved() {
            *taken.entry(Reservation::of(offering, (catalogue, instance_type, number))).or_default() += 1;
        }
    }
    take(problem, &taken);
}

impl Problem {
    /// Takes instances from the reservations with these IDs.
    pub fn take_reserved(&mut self, taken: &BTreeMap<Arc<str>, u32>) {
        take(self, &taken.iter().map(|(id, count)| (Reservation::Id(Arc::clone(id)), *count)).collect());
    }
}

fn take(problem: &mut Problem, taken: &FxHashMap<Reservation, u32>) {
    if taken.is_empty() {
        return;
    }
    for (catalogue, types) in problem.catalogues.iter_mut().enumerate().filter(|(_, types)| types.reserves()) {
        types.edit(|types| {
            for (number, one) in types.iter_mut().enumerate() {
                for (at, offering) in one.offerings.iter_mut().enumerate().filter(|(_, offering)| offering.reserved()) {
                    if let Some(taken) = taken.get(&Reservation::of(offering, (catalogue, number, at))) {
                        offering.reservation_capacity = offering.reservation_capacity.saturating_sub(*taken);
                    }
                }
            }
        });
    }
}

/// Adds one instance to the reservation with this id. One that is closed stays closed.
pub(crate) fn credit(problem: &mut Problem, id: &str) {
    for types in problem.catalogues.iter_mut().filter(|types| types.reserves()) {
        types.edit(|types| {
            let offerings = types.iter_mut().flat_map(|one| &mut one.offerings).filter(|one| one.reserved());
            let its = |one: &&mut Offering| one.requirements.single(labels::CAPACITY_RESERVATION_ID) == Some(id);
            for offering in offerings.filter(its) {
                offering.reservation_capacity = offering.reservation_capacity.saturating_add(1);
            }
        });
    }
}
