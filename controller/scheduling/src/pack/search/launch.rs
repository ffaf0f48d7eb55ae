//! Launches of single seats, and of all seats together within limits and reservations.

use index_vec::{IndexVec, index_vec};
use rustc_hash::FxHashSet;

use super::{Found, Launch, MOST_STEPS, Piece, Search, SearchInput, Seat};
use crate::compile::{CellId, fits};
use crate::model::{Attachment, of_driver};
use crate::pack::groups::Group;
use crate::pack::reserved::Reservations;
use crate::pack::shape_index::Headroom;

/// Returns all launches of a node, by cell, cheapest first.
pub(super) fn launches_at(
    input: &SearchInput<'_>,
    reservations: &Reservations,
    headroom: &Headroom,
) -> IndexVec<CellId, Vec<Launch>> {
    let bought = input.shape_index.by_price.iter_enumerated().map(|(cell, shapes)| {
        let price = |shape: usize| input.compiled.shapes[shape].price[cell];
        let within = shapes.iter().filter(|&&shape| headroom.allows(input.compiled, shape));
        within.map(|&shape| Launch { shape, price: price(shape), reserved: None }).collect()
    });
    let mut launches: IndexVec<CellId, Vec<Launch>> = bought.collect();
    for &entry in &reservations.entries {
        launches[entry.cell].push(Launch { shape: entry.shape, price: entry.price, reserved: Some(entry) });
    }
    launches.iter_mut().for_each(|at| at.sort_by(|a, b| a.price.total_cmp(&b.price)));
    launches
}

/// Returns by cell the weight of the heaviest pool that can hold a unit of `group` in any cell that rules between its
/// pods and others do not distinguish from it; `i32::MIN` if none can.
pub(super) fn tiers(input: &SearchInput<'_>, group: &Group) -> IndexVec<CellId, i32> {
    let compiled = input.compiled;
    let admits = &input.grouped.admits[group.signature];
    let mut heaviest: IndexVec<CellId, i32> = index_vec![i32::MIN; compiled.cells.len()];
    for (shape, one) in compiled.shapes.iter().enumerate().filter(|(_, one)| fits(&group.sizes, &one.room)) {
        for (cell, tier) in heaviest.iter_mut_enumerated() {
            if one.offered(cell) && admits[cell].contains(shape) {
                *tier = (*tier).max(input.shape_index.weight_of(shape));
            }
        }
    }
    let Some(&pod) = group.units.first() else { return heaviest };
    let reached = |cell: CellId| {
        compiled.cells.indices().filter(|&other| alike(input, pod, cell, other)).map(|at| heaviest[at]).max()
    };
    compiled.cells.indices().map(|cell| reached(cell).unwrap_or(i32::MIN)).collect()
}

/// Returns true if rules between `pod` and others do not distinguish the two cells.
fn alike(input: &SearchInput<'_>, pod: u32, one: CellId, other: CellId) -> bool {
    let compiled = input.compiled;
    let value = |cell: CellId, dimension: usize| compiled.cells.value_index(cell, dimension);
    let mut pinned = input.grouped.pinned_of_spec[compiled.problem.pods[pod as usize].spec].ones();
    pinned.all(|dimension| value(one, dimension) == value(other, dimension))
}

impl Search<'_> {
    /// Chooses the cheapest launch for the seat, to which `piece` is already added. Returns false if no node can hold
    /// it.
    pub(super) fn fit(&mut self, piece: usize, seat: usize) -> bool {
        let input = self.input;
        let one = &self.pieces[piece];
        let node = &self.seats[seat];
        if let Some(position) = node.standing {
            return input.standing_admits[one.signature].contains(position)
                && fits(&self.with_shared_volumes(node, position), &input.standing[position].room);
        }
        // Limits and reservations are checked when all pods are placed.
        let Some(launch) = self.launches(node).next() else { return false };
        self.seats[seat].launch(launch);
        true
    }

    /// Returns the launches of a seat, cheapest first, regardless of remaining limits and reservations.
    fn launches<'b>(&'b self, seat: &'b Seat) -> impl Iterator<Item = Launch> + 'b {
        let input = self.input;
        let cell = seat.cell;
        let members = || seat.pieces.iter().map(|&member| &self.pieces[member as usize]);
        // With limits, lighter pools are allowed too, since heavier ones may be used up.
        let limited = self.headroom.binds();
        let suits = move |shape: usize| {
            fits(&seat.sizes, &input.compiled.shapes[shape].room)
                && (limited || members().any(|member| member.tiers[cell] <= input.shape_index.weight_of(shape)))
                && members().all(|member| input.grouped.admits[member.signature][cell].contains(shape))
        };
        self.launches_at[cell].iter().copied().filter(move |launch| suits(launch.shape))
    }

    /// Chooses launches for the seats from index `seat` on, within limits and reservations. `price` is that of the
    /// seats before it.
    pub(super) fn buy(&mut self, seat: usize, price: f64) {
        self.steps += 1;
        let (left, most) = self.ceiling;
        if self.steps >= MOST_STEPS || self.left.len() == left && price >= most - 1e-9 {
            return;
        }
        let Some(one) = self.seats.get(seat) else {
            // For some spreads the pool of a node decides whether its pods count.
            if self.heavier_pools_come_first() && self.holds() {
                self.keep(price);
            }
            return;
        };
        if one.standing.is_some() || one.pieces.is_empty() {
            self.buy(seat + 1, price);
            return;
        }
        let heaviest = one.pieces.iter().map(|&piece| self.pieces[piece as usize].tiers[one.cell]).min();
        let weight = |launch: &Launch| self.input.shape_index.weight_of(launch.shape);
        let due = |launch: &Launch| heaviest.is_none_or(|heaviest| weight(launch) >= heaviest);
        let had = |launch: &Launch| {
            launch.reserved.is_none_or(|entry| self.reservations.has(&entry))
                && self.headroom.allows(self.input.compiled, launch.shape)
        };
        // Launches more expensive than the best so far are skipped, but a heavier pool that is too expensive still
        // excludes lighter ones.
        let affordable = |launch: &Launch| self.left.len() < left || price + launch.price < most - 1e-9;
        let mut launches: Vec<Launch> = self.launches(one).take_while(affordable).filter(had).collect();
        if launches.iter().any(due) {
            launches.retain(due);
        } else if !launches.is_empty() && self.launches(one).any(|launch| due(&launch) && had(&launch)) {
            return;
        }
        for launch in launches {
            let (headroom, reservations) = (self.headroom.clone(), self.reservations.clone());
            self.headroom.spend(self.input.compiled, launch.shape, 1);
            launch.reserved.iter().for_each(|entry| self.reservations.take(entry));
            self.seats[seat].launch(launch);
            self.buy(seat + 1, price + launch.price);
            (self.headroom, self.reservations) = (headroom, reservations);
        }
    }

    /// Returns true if every new seat has a pod that no heavier pool can hold, that has required affinity, or for which
    /// the limits left by all seats allow no node of a heavier pool.
    fn heavier_pools_come_first(&self) -> bool {
        let new = |seat: &&Seat| seat.standing.is_none() && !seat.pieces.is_empty();
        self.seats.iter().filter(new).all(|seat| {
            let weight = self.input.shape_index.weight_of(seat.shape);
            seat.pieces.iter().any(|&piece| {
                let one = &self.pieces[piece as usize];
                one.tiers[seat.cell] <= weight || self.follows(one) || !self.finds_heavier(one, seat.cell, weight)
            })
        })
    }

    /// Returns true if a node of a pool heavier than `weight` could still be bought for the pod alone.
    fn finds_heavier(&self, piece: &Piece<'_>, cell: CellId, weight: i32) -> bool {
        let input = self.input;
        let admits = &input.grouped.admits[piece.signature];
        let cells = self.launches_at.iter_enumerated().filter(|&(at, _)| alike(input, piece.unit, cell, at));
        let bought = cells.flat_map(|(at, launches)| launches.iter().map(move |launch| (at, launch)));
        bought.filter(|(_, launch)| launch.reserved.is_none()).any(|(at, launch)| {
            input.shape_index.weight_of(launch.shape) > weight
                && fits(piece.sizes, &input.compiled.shapes[launch.shape].room)
                && admits[at].contains(launch.shape)
                && self.headroom.allows(input.compiled, launch.shape)
        })
    }

    pub(super) fn keep(&mut self, price: f64) {
        if self.left.len() < self.ceiling.0 || price < self.ceiling.1 {
            self.ceiling = (self.left.len(), price);
            self.best = Some(Found { seats: self.seats.clone(), left: self.left.clone() });
        }
    }

    /// Returns the requests of the pods of a seat on an existing node. A volume that several of them use counts once,
    /// and not at all if it is attached to the node already.
    fn with_shared_volumes(&self, seat: &Seat, position: usize) -> Vec<i32> {
        let problem = self.input.compiled.problem;
        let mut sizes = seat.sizes.clone();
        let here = problem.nodes[self.input.standing[position].node].volumes(&problem.specs);
        let pods = seat.pieces.iter().map(|&piece| self.pieces[piece as usize].unit as usize);
        let wanted = pods.flat_map(|pod| &problem.spec_of(pod).attachments);
        let new: FxHashSet<&Attachment> = wanted.filter(|volume| !here.contains(volume)).collect();
        for (driver, column) in self.input.compiled.columns.drivers() {
            sizes[column] = of_driver(&new, driver) as i32;
        }
        sizes
    }
}
