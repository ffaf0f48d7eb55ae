//! Nodes of a plan during local search: bought, reserved and existing ones.

use index_vec::{IndexSlice, IndexVec, index_vec};
use smallvec::SmallVec;

use super::market::{Market, Offer};
use super::tally::Tally;
use crate::compile::{CellId, Compiled, HostRuleId, Part, SignatureId, fits};
use crate::pack::construct::OpenedNode;
use crate::pack::existing_nodes::ExistingNode;
use crate::pack::groups::{GroupId, Grouped};

/// Unit and its group.
pub(super) type Member = (u32, GroupId);

/// Origin of the node of a seat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Bought for its content: index of the offer in its place.
    Bought(usize),
    /// Reserved, with a fixed shape: shape, cell, offering, USD per hour.
    Reserved(usize, CellId, usize, f64),
    /// Existing node: position in [`Table::standing`].
    ExistingNode(usize),
}

/// Node of the plan.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) kind: Kind,
    pub(super) place: usize,
    /// Total requests of the units, without bound pods.
    pub(super) sizes: Vec<i32>,
    pub(super) members: SmallVec<[Member; 8]>,
    /// Number of owners on it, by host rule; `targets` likewise.
    owners: IndexVec<HostRuleId, i32>,
    targets: IndexVec<HostRuleId, i32>,
    /// Identifier, renewed with each change, so that each combination of seats is tried once.
    pub(super) name: u32,
}

/// All seats, and the counts of the rules.
pub(super) struct Table<'a> {
    pub(super) compiled: &'a Compiled<'a>,
    pub(super) grouped: &'a Grouped,
    pub(super) market: &'a Market<'a>,
    pub(super) standing: &'a [ExistingNode],
    pub(super) standing_admits: &'a IndexSlice<SignatureId, [fixedbitset::FixedBitSet]>,
    pub(super) tally: Tally<'a>,
    pub(super) seats: Vec<Seat>,
    /// Price of the bought nodes, in USD per hour.
    pub(super) price: f64,
    /// Empty seat, as a template.
    pub(super) blank: Seat,
}

// === impl Seat ===

impl Seat {
    pub(super) fn new(kind: Kind, place: usize, width: usize, rules: usize) -> Self {
        Self {
            kind,
            place,
            sizes: vec![0; width],
            members: SmallVec::new(),
            owners: index_vec![0; rules],
            targets: index_vec![0; rules],
            name: 0,
        }
    }

    /// Counts a pod that is bound to the node.
    pub(super) fn preload(&mut self, owns: &[HostRuleId], targets: &[(HostRuleId, i32)]) {
        owns.iter().for_each(|&rule| self.owners[rule] += 1);
        targets.iter().for_each(|&(rule, count)| self.targets[rule] += count);
    }

    /// Returns true if the node is bought and has units.
    pub(super) fn can_be_emptied(&self) -> bool {
        matches!(self.kind, Kind::Bought(_)) && !self.members.is_empty()
    }

    fn change(&mut self, part: &Part, sizes: &[i32], times: i32) {
        self.sizes.iter_mut().zip(sizes).for_each(|(sum, &size)| *sum = sum.saturating_add(size * times));
        part.owns_host.iter().for_each(|&rule| self.owners[rule] += times);
        part.targets_host.iter().for_each(|&(rule, count)| self.targets[rule] += count * times);
    }
}

// === impl Table ===

impl Table<'_> {
    /// Returns the price of a seat in USD per hour; 0 if it is empty or not bought.
    pub(super) fn price_of(&self, seat: &Seat) -> f64 {
        if seat.members.is_empty() { 0.0 } else { self.price_at(seat.place, seat.kind) }
    }

    /// Returns the price of a non-empty seat of `kind` in `place`, in USD per hour.
    pub(super) fn price_at(&self, place: usize, kind: Kind) -> f64 {
        match kind {
            Kind::Bought(offer) => self.market.places[place].offers[offer].price,
            Kind::Reserved(..) | Kind::ExistingNode(_) => 0.0,
        }
    }

    /// Returns the room of a seat of `kind`, by column.
    pub(super) fn room_at(&self, place: usize, kind: Kind) -> &[i32] {
        match kind {
            Kind::Bought(offer) => {
                let offer = self.market.places[place].offers[offer];
                &self.compiled.shapes[offer.shape].room
            }
            Kind::Reserved(shape, ..) => &self.compiled.shapes[shape].room,
            Kind::ExistingNode(position) => &self.standing[position].room,
        }
    }

    /// Returns the kind of the seat after adding a unit of `group`, if that is possible for less than `below` USD per
    /// hour more.
    pub(super) fn with_one_more(&self, seat: &Seat, place: usize, group: GroupId, below: f64) -> Option<Kind> {
        let of = &self.grouped.groups[group];
        if of.part.is_blocked(&self.grouped.rules, &seat.owners, &seat.targets) || !self.tally.admits(&of.part, place) {
            return None;
        }
        let mut sizes: SmallVec<[i32; 8]> = SmallVec::from_slice(&seat.sizes);
        sizes.iter_mut().zip(&*of.sizes).for_each(|(sum, &size)| *sum = sum.saturating_add(size));
        let held = match seat.kind {
            Kind::Bought(offer) => {
                // An empty seat has no offer yet, and its place may not have any.
                let present = self.market.places[place].offers.get(offer).filter(|_| !seat.members.is_empty());
                let stays = |present: &Offer| {
                    fits(&sizes, &self.compiled.shapes[present.shape].room)
                        && self.market.admits(present, std::iter::once(group))
                };
                if present.is_some_and(stays) {
                    return Some(seat.kind);
                }
                let groups = seat.members.iter().map(|&(_, group)| group).chain([group]);
                let most = self.price_of(seat) + below;
                return self.market.cheapest(place, offer, &sizes, groups, most).map(Kind::Bought);
            }
            Kind::Reserved(shape, cell, ..) => {
                self.grouped.admits[of.signature][cell].contains(shape)
                    && fits(&sizes, &self.compiled.shapes[shape].room)
            }
            Kind::ExistingNode(position) => {
                let one = &self.standing[position];
                let parts = &self.grouped.signature_parts[of.signature];
                parts.iter().all(|&part| self.standing_admits[part].contains(position))
                    && self.grouped.confines(of.signature, one.node)
                    && fits(&sizes, &one.room)
            }
        };
        held.then_some(seat.kind)
    }

    /// Adds a unit to a seat, whose kind becomes `kind`.
    pub(super) fn put(&mut self, at: usize, (unit, group): Member, kind: Kind) {
        let of = &self.grouped.groups[group];
        self.price -= self.price_of(&self.seats[at]);
        let seat = &mut self.seats[at];
        seat.kind = kind;
        seat.members.push((unit, group));
        seat.change(&of.part, &of.sizes, 1);
        self.tally.count(&of.part, self.seats[at].place, 1);
        self.price += self.price_of(&self.seats[at]);
    }

    /// Removes the last unit of a seat, whose kind becomes `kind` again.
    pub(super) fn take_back(&mut self, at: usize, kind: Kind) {
        self.price -= self.price_of(&self.seats[at]);
        let seat = &mut self.seats[at];
        seat.kind = kind;
        if let Some((_, group)) = seat.members.pop() {
            let of = &self.grouped.groups[group];
            seat.change(&of.part, &of.sizes, -1);
            self.tally.count(&of.part, self.seats[at].place, -1);
        }
        self.price += self.price_of(&self.seats[at]);
    }

    /// Empties a seat and returns its previous state.
    pub(super) fn clear(&mut self, at: usize) -> Seat {
        let old = &self.seats[at];
        let price = self.price_of(old);
        let empty = Seat::new(old.kind, old.place, old.sizes.len(), old.owners.len());
        self.price -= price;
        let old = std::mem::replace(&mut self.seats[at], empty);
        for &(_, group) in &old.members {
            self.tally.count(&self.grouped.groups[group].part, old.place, -1);
        }
        old
    }

    /// Restores a seat that was cleared.
    pub(super) fn restore(&mut self, at: usize, old: Seat) {
        for &(_, group) in &old.members {
            self.tally.count(&self.grouped.groups[group].part, old.place, 1);
        }
        self.price += self.price_of(&old);
        self.seats[at] = old;
    }

    /// Returns the nodes of `seats` to launch, in order.
    pub(super) fn opened(&self, seats: &[Seat]) -> Vec<OpenedNode> {
        let full = seats.iter().filter(|seat| !seat.members.is_empty());
        full.filter_map(|seat| {
            let units = seat.members.iter().map(|&(unit, _)| unit).collect();
            match seat.kind {
                Kind::Bought(offer) => {
                    let offer = self.market.places[seat.place].offers[offer];
                    Some(OpenedNode { shape: offer.shape, cell: offer.cell, price: offer.price, units, reserved: None })
                }
                Kind::Reserved(shape, cell, offering, price) => {
                    Some(OpenedNode { shape, cell, price, units, reserved: Some(offering) })
                }
                Kind::ExistingNode(_) => None,
            }
        })
        .collect()
    }

    /// Returns the existing nodes of `seats` that get units.
    pub(super) fn standing_of(&self, seats: &[Seat]) -> Vec<(usize, Vec<u32>)> {
        let full = seats.iter().filter(|seat| !seat.members.is_empty());
        full.filter_map(|seat| match seat.kind {
            Kind::ExistingNode(position) => {
                Some((self.standing[position].node, seat.members.iter().map(|&(unit, _)| unit).collect()))
            }
            Kind::Bought(_) | Kind::Reserved(..) => None,
        })
        .collect()
    }
}
