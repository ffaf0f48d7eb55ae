//! What a seat can be launched as, and what all seats are bought as together.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Found, Launch, MOST_STEPS, Scene, Search, Seat};
use crate::compile::fits;
use crate::model::PodSpec;
use crate::pack::groups::Group;
use crate::pack::reserved::Reservations;

/// All ways to launch a node, by cell, cheapest first.
pub(super) fn launches_at(scene: &Scene<'_>, reservations: &Reservations) -> Vec<Vec<Launch>> {
    let bought = scene.ground.by_price.iter().enumerate().map(|(cell, shapes)| {
        let price = |shape: usize| scene.compiled.shapes[shape].price[cell];
        shapes.iter().map(|&shape| Launch { shape, price: price(shape), reserved: None }).collect()
    });
    let mut launches: Vec<Vec<Launch>> = bought.collect();
    for &entry in &reservations.entries {
        launches[entry.cell].push(Launch { shape: entry.shape, price: entry.price, reserved: Some(entry) });
    }
    launches.iter_mut().for_each(|at| at.sort_by(|a, b| a.price.total_cmp(&b.price)));
    launches
}

/// The weight of the heaviest pool that can hold a unit of `group`, by cell: among the cells that the rules between its
/// pods and others cannot tell from this one.
pub(super) fn tiers(scene: &Scene<'_>, group: &Group) -> Vec<i32> {
    let compiled = scene.compiled;
    let admits = &scene.grouped.admits[group.signature as usize];
    let cells = compiled.cells.len();
    let mut heaviest = vec![i32::MIN; cells];
    for (shape, one) in compiled.shapes.iter().enumerate().filter(|(_, one)| fits(&group.sizes, &one.room)) {
        for (cell, tier) in heaviest.iter_mut().enumerate() {
            if one.offered(cell) && admits[cell].contains(shape) {
                *tier = (*tier).max(scene.ground.weight_of(shape));
            }
        }
    }
    let pinned: Vec<usize> = group.units.first().map_or(Vec::new(), |&pod| {
        scene.grouped.pinned_of_spec[compiled.problem.pods[pod as usize].spec].ones().collect()
    });
    let alike = |one: usize, other: usize| {
        let value = |cell: usize, dimension: usize| compiled.cells.value_index(cell, dimension);
        pinned.iter().all(|&dimension| value(one, dimension) == value(other, dimension))
    };
    let reached = |cell: usize| (0..cells).filter(|&other| alike(cell, other)).map(|other| heaviest[other]).max();
    (0..cells).map(|cell| reached(cell).unwrap_or(i32::MIN)).collect()
}

impl Search<'_> {
    /// Whether the seat, with `piece` on it already, has a node that holds it; chooses the cheapest.
    pub(super) fn fit(&mut self, piece: usize, seat: usize) -> bool {
        let scene = self.scene;
        let one = &self.pieces[piece];
        let node = &self.seats[seat];
        if let Some(position) = node.standing {
            return scene.standing_admits[one.signature as usize].contains(position)
                && fits(&self.with_shared_volumes(node, position), &scene.standing[position].room);
        }
        // How often a launch may be repeated is looked at when all pods are placed.
        let Some(launch) = self.launches(node).next() else { return false };
        self.seats[seat].launch(launch);
        true
    }

    /// Ways to launch a seat, cheapest first, whatever is left of limits and reservations.
    fn launches<'b>(&'b self, seat: &'b Seat) -> impl Iterator<Item = Launch> + 'b {
        let scene = self.scene;
        let cell = seat.cell;
        let members = || seat.pieces.iter().map(|&member| &self.pieces[member as usize]);
        // Where limits are used up, lighter pools have their turn.
        let limited = self.headroom.binds();
        let suits = move |shape: usize| {
            let weight = scene.ground.weight_of(shape);
            fits(&seat.sizes, &scene.compiled.shapes[shape].room)
                && (limited || members().any(|member| member.tiers[cell] <= weight))
                && members().all(|member| scene.grouped.admits[member.signature as usize][cell].contains(shape))
        };
        self.launches_at[cell].iter().copied().filter(move |launch| suits(launch.shape))
    }

    /// Chooses launches for the seats from number `seat` on, within limits and reservations; `price` is that of the seats
    /// before it.
    pub(super) fn buy(&mut self, seat: usize, price: f64) {
        self.steps += 1;
        let (left, most) = self.ceiling;
        if self.steps >= MOST_STEPS || self.left.len() == left && price >= most - 1e-9 {
            return;
        }
        let Some(one) = self.seats.get(seat) else {
            // Which pool a node is of decides whether its pods count for some spreads.
            if self.holds() {
                self.keep(price);
            }
            return;
        };
        if one.standing.is_some() || one.pieces.is_empty() {
            self.buy(seat + 1, price);
            return;
        }
        let heaviest = one.pieces.iter().map(|&piece| self.pieces[piece as usize].tiers[one.cell]).min();
        let mut launches: Vec<Launch> = self.launches(one).collect();
        let weight = |launch: &Launch| self.scene.ground.weight_of(launch.shape);
        let due = |launch: &Launch| heaviest.is_none_or(|heaviest| weight(launch) >= heaviest);
        launches.retain(|launch| {
            launch.reserved.is_none_or(|entry| self.reservations.has(&entry))
                && self.headroom.allows(self.scene.compiled, launch.shape)
        });
        if launches.iter().any(due) {
            launches.retain(due);
        }
        for launch in launches {
            let (headroom, reservations) = (self.headroom.clone(), self.reservations.clone());
            self.headroom.spend(self.scene.compiled, launch.shape, 1);
            launch.reserved.iter().for_each(|entry| self.reservations.take(entry));
            self.seats[seat].launch(launch);
            self.buy(seat + 1, price + launch.price);
            (self.headroom, self.reservations) = (headroom, reservations);
        }
    }

    pub(super) fn keep(&mut self, price: f64) {
        if self.left.len() < self.ceiling.0 || price < self.ceiling.1 {
            self.ceiling = (self.left.len(), price);
            self.best = Some(Found { seats: self.seats.clone(), left: self.left.clone() });
        }
    }

    /// What the pods of a seat on a standing node take, a volume that several of them use counted once, and not at all if
    /// the node has it.
    fn with_shared_volumes(&self, seat: &Seat, position: usize) -> Vec<i32> {
        let problem = self.scene.compiled.problem;
        let mut sizes = seat.sizes.clone();
        for (driver, column) in self.scene.compiled.columns.drivers() {
            let of = |spec: &'_ PodSpec| -> Vec<Arc<str>> {
                let volumes = spec.attachments.iter().filter(|volume| volume.driver == *driver);
                volumes.map(|volume| Arc::clone(&volume.claim)).collect()
            };
            let bound = &problem.nodes[self.scene.standing[position].node].bound;
            let here: BTreeSet<Arc<str>> = bound.iter().flat_map(|pod| of(&problem.specs[pod.spec])).collect();
            let pods = seat.pieces.iter().map(|&piece| self.pieces[piece as usize].unit as usize);
            let mut wanted: BTreeSet<Arc<str>> = pods.flat_map(|pod| of(problem.spec_of(pod))).collect();
            wanted.retain(|claim| !here.contains(claim));
            sizes[column] = wanted.len() as i32;
        }
        sizes
    }
}
