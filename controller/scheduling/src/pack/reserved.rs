//! Capacity that is paid for already is used before any other: exact counts, not Karpenter's pessimistic ones.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::construct::Opened;
use super::ground::Headroom;
use super::groups::Grouped;
use crate::compile::{Compiled, fits};

/// The label that names a reservation; offerings with the same one draw on the same instances.
const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// What is left of a reservation: by id, or by catalogue, type and offering where it has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Id(Arc<str>),
    Offering(usize, usize, usize),
}

/// Moves planned nodes onto reservations that hold them: the dearest node first, the cheapest reservation for it.
pub(crate) fn claim(compiled: &Compiled<'_>, grouped: &Grouped, opened: &mut [Opened]) {
    let mut left: FxHashMap<Key, u32> = FxHashMap::default();
    let key_of = |shape: usize, offering: usize| {
        let one = &compiled.shapes[shape];
        let catalogue = compiled.problem.pools[one.pool].catalogue;
        let requirements = &compiled.problem.catalogues[catalogue][one.instance_type].offerings[offering].requirements;
        match requirements.single(RESERVATION_ID) {
            Some(id) => Key::Id(id.into()),
            None => Key::Offering(catalogue, one.instance_type, offering),
        }
    };
    let mut reserved: Vec<(f64, usize, usize, usize)> = Vec::new();
    for (shape, one) in compiled.shapes.iter().enumerate() {
        for reservation in &one.reserved {
            let count = left.entry(key_of(shape, reservation.offering)).or_insert(reservation.count);
            *count = (*count).min(reservation.count);
            reserved.push((reservation.price, shape, reservation.cell, reservation.offering));
        }
    }
    if reserved.is_empty() {
        return;
    }
    reserved.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
    let mut order: Vec<usize> = (0..opened.len()).collect();
    order.sort_by(|&a, &b| opened[b].price.total_cmp(&opened[a].price).then(a.cmp(&b)));
    let mut headroom = Headroom::new(compiled);
    opened.iter().for_each(|node| headroom.spend(compiled, node.shape, 1));
    for number in order {
        let node = &mut opened[number];
        let pool = compiled.shapes[node.shape].pool;
        let pods = || node.units.iter().flat_map(|unit| grouped.pods(unit)).map(|&pod| compiled.class_of(pod as usize));
        let mut sizes = vec![0_i32; compiled.columns.width()];
        for class in pods() {
            sizes.iter_mut().zip(compiled.request(class)).for_each(|(sum, &size)| *sum += size);
        }
        let pinned = |cell: usize| {
            let mut dimensions = pods().flat_map(|class| grouped.pinned_of_spec[compiled.classes[class].spec].ones());
            dimensions.all(|dimension| {
                compiled.cells.value_index(cell, dimension) == compiled.cells.value_index(node.cell, dimension)
            })
        };
        headroom.refund(compiled, node.shape);
        let found = reserved.iter().copied().find(|&(price, shape, cell, offering)| {
            let one = &compiled.shapes[shape];
            let admitted = || {
                pods().all(|class| compiled.admits[compiled.classes[class].signature as usize][cell].contains(shape))
            };
            price <= node.price
                && one.pool == pool
                && left.get(&key_of(shape, offering)).is_some_and(|&left| left > 0)
                && fits(&sizes, &one.room)
                && headroom.allows(compiled, shape)
                && pinned(cell)
                && admitted()
        });
        if let Some((price, shape, cell, offering)) = found {
            if let Some(left) = left.get_mut(&key_of(shape, offering)) {
                *left -= 1;
            }
            (node.price, node.shape, node.cell, node.reserved) = (price, shape, cell, Some(offering));
        }
        headroom.spend(compiled, node.shape, 1);
    }
}
