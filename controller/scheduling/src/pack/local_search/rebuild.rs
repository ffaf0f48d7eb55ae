//! Search for the cheapest placement of the units of a few emptied nodes: depth first over the units, cheapest choice
//! first, cut off by the price to beat.
//!
//! The order of choices is good but not perfect, and a budget that runs out among the last units of the first path
//! never reconsiders the first ones. So paths are searched by the number of their deviations from that order: none, one
//! anywhere, two (limited discrepancy search, Harvey and Ginsberg 1995).

use smallvec::SmallVec;

use super::seats::{Kind, Member, Seat, Table};
use crate::pack::groups::GroupId;

/// Maximum number of seats and of places, which are stored as bit sets.
pub(super) const MOST_SEATS: usize = 64;

/// Unit to place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) member: Member,
    /// Bit set of the places that pod affinity allows.
    pub(super) places: u64,
}

/// Bounds of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    /// Price that a plan must stay below, in USD per hour.
    pub(super) price: f64,
    /// Price that a plan with fewer nodes must stay below, in USD per hour.
    pub(super) price_of_fewer: f64,
    /// Number of nodes of the current plan.
    pub(super) nodes: usize,
    /// Maximum number of tries of a unit on a node.
    pub(super) steps: usize,
}

/// Possible location of a unit.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// Price that it adds, in USD per hour.
    adds: f64,
    /// Room left afterwards, as a share of the node, summed over columns.
    leaves: f32,
    to: To,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum To {
    Seat(usize),
    /// New node in a place.
    Place(usize),
}

/// Bit sets of seats and places in which interchangeable units were tried; trying them again would only rename units.
#[derive(Debug, Clone, Copy, Default)]
struct Tried {
    seats: u64,
    places: u64,
}

pub(super) struct Rebuild<'t, 'a> {
    table: &'t mut Table<'a>,
    /// Units to place, large ones first, interchangeable ones adjacent.
    pieces: &'t [Piece],
    goal: Goal,
    /// Checks a finished plan for constraints that are not checked during the search: limits, and the nodes that count
    /// for a spread.
    holds: &'t dyn Fn(&Table<'a>) -> bool,
    steps: usize,
    /// True if a choice was skipped because no discrepancies were left.
    is_cut: bool,
    best: Option<Vec<Seat>>,
}

impl<'t, 'a> Rebuild<'t, 'a> {
    /// Returns the seats of the best plan found, if any, and the steps used. `table` is unchanged afterwards.
    pub(super) fn search(
        table: &'t mut Table<'a>,
        pieces: &'t [Piece],
        goal: Goal,
        holds: &'t dyn Fn(&Table<'a>) -> bool,
    ) -> (Option<Vec<Seat>>, usize) {
        let mut rebuild = Self { table, pieces, goal, holds, steps: 0, is_cut: true, best: None };
        let mut discrepancies = 0;
        while std::mem::take(&mut rebuild.is_cut) && rebuild.steps < goal.steps {
            rebuild.place(0, Tried::default(), discrepancies);
            discrepancies += 1;
        }
        (rebuild.best, rebuild.steps)
    }

    /// Places the pieces from `number` on, with at most `discrepancies` of them not at their cheapest choice.
    fn place(&mut self, number: usize, tried: Tried, discrepancies: usize) {
        let Some(&piece) = self.pieces.get(number) else {
            self.finish();
            return;
        };
        let choices = self.choices(piece, tried);
        let next = self.pieces.get(number + 1);
        let alike = next.is_some_and(|next| next.member.1 == piece.member.1 && next.places == piece.places);
        let mut seen = tried;
        for (rank, choice) in choices.into_iter().enumerate() {
            if rank > 0 && discrepancies == 0 {
                self.is_cut = true;
                return;
            }
            if self.steps >= self.goal.steps {
                return;
            }
            if self.table.price + choice.adds >= self.goal.price {
                break;
            }
            let tried = if alike { seen } else { Tried::default() };
            self.go(number, piece, choice, (tried, discrepancies - rank.min(1)));
            match choice.to {
                To::Seat(seat) => seen.seats |= 1 << seat,
                To::Place(place) => seen.places |= 1 << place,
            }
        }
    }

    /// Places `piece` at `choice`, and then all pieces after it.
    fn go(&mut self, number: usize, piece: Piece, choice: Choice, (tried, discrepancies): (Tried, usize)) {
        let group = piece.member.1;
        let part = &self.table.grouped.groups[group].part;
        let (at, before) = match choice.to {
            To::Seat(seat) => (seat, self.table.seats[seat].kind),
            To::Place(place) => {
                let rules = self.table.grouped.rules.host.len();
                let width = self.table.compiled.columns.width();
                self.table.seats.push(Seat::new(choice.kind, place, width, rules));
                (self.table.seats.len() - 1, choice.kind)
            }
        };
        self.table.put(at, piece.member, choice.kind);
        self.table.tally.lift(part, -1);
        if self.table.tally.is_balanced(part) {
            self.place(number + 1, tried, discrepancies);
        }
        self.table.tally.lift(part, 1);
        self.table.take_back(at, before);
        if matches!(choice.to, To::Place(_)) {
            self.table.seats.pop();
        }
    }

    /// Returns the choices of a piece, cheapest first; of equals, those that leave the least room.
    fn choices(&mut self, piece: Piece, tried: Tried) -> SmallVec<[Choice; 24]> {
        let group = piece.member.1;
        let below = self.goal.price - self.table.price;
        let mut choices: SmallVec<[Choice; 24]> = SmallVec::new();
        for (at, seat) in self.table.seats.iter().enumerate() {
            let emptied = matches!(seat.kind, Kind::Bought(_)) && seat.members.is_empty();
            if emptied || tried.seats >> at & 1 == 1 || piece.places >> seat.place & 1 == 0 {
                continue;
            }
            self.steps += 1;
            if let Some(kind) = self.table.with_one_more(seat, seat.place, group, below) {
                choices.push(self.choice(To::Seat(at), (seat, seat.place), kind, group));
            }
        }
        for place in 0..self.table.market.places.len() {
            let full = self.table.seats.len() >= MOST_SEATS;
            if full || tried.places >> place & 1 == 1 || piece.places >> place & 1 == 0 {
                continue;
            }
            self.steps += 1;
            let blank = &self.table.blank;
            if let Some(kind) = self.table.with_one_more(blank, place, group, below) {
                choices.push(self.choice(To::Place(place), (blank, place), kind, group));
            }
        }
        choices.sort_by(|a, b| a.adds.total_cmp(&b.adds).then(a.leaves.total_cmp(&b.leaves)));
        choices
    }

    fn choice(&self, to: To, (seat, place): (&Seat, usize), kind: Kind, group: GroupId) -> Choice {
        let room = self.table.room_at(place, kind);
        let sizes = &self.table.grouped.groups[group].sizes;
        let free = room.iter().zip(&seat.sizes).zip(&**sizes).filter(|((room, _), _)| **room > 0);
        let leaves = free.map(|((&room, &sum), &size)| (room - sum - size) as f32 / room as f32).sum();
        Choice { adds: self.table.price_at(place, kind) - self.table.price_of(seat), leaves, to, kind }
    }

    /// Records the plan if it beats the goal; called when all pieces are placed.
    fn finish(&mut self) {
        let bought = |seat: &&Seat| matches!(seat.kind, Kind::Bought(_)) && !seat.members.is_empty();
        let nodes = self.table.seats.iter().filter(bought).count();
        let most =
            if nodes < self.goal.nodes { self.goal.price_of_fewer.min(self.goal.price) } else { self.goal.price };
        if self.table.price < most && (self.holds)(self.table) {
            self.goal.price = self.table.price - 1e-9;
            self.best = Some(self.table.seats.clone());
        }
    }
}
