//! Exhaustive search over the placements of a few pods with constraints, within a budget.
//!
//! Construction decides domains, existing nodes and new nodes one after the other, which can fail for a few pods with
//! rules, limits or reservations (an unconstrained pod takes the only node that a pinned one can use). With so few pods
//! all decisions can be made together: depth first over the pods, each on an existing node, on a node opened before, or
//! on a new node in some cell. Branches are cut off at the best price so far; rules between pods are checked on the
//! complete placement.

mod launch;
mod verdict;

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec, index_vec};
use smallvec::SmallVec;

use crate::compile::{CellId, Compiled, DomainRuleId, HostRuleId, Part, SignatureId};
use crate::pack::Draft;
use crate::pack::construct::OpenedNode;
use crate::pack::existing_nodes::ExistingNode;
use crate::pack::groups::{GroupId, Grouped};
use crate::pack::reserved::{Entry, Reservations};
use crate::pack::shape_index::{Headroom, ShapeIndex};
use crate::pack::zones::Counts;

/// Maximum number of pods: beyond it the tree is too large for the budget.
pub(crate) const MOST_PODS: usize = 8;

/// Maximum number of steps; counted, not timed, so that the result does not depend on the machine.
const MOST_STEPS: usize = 30_000;

/// Pod to place.
struct Piece<'a> {
    unit: u32,
    signature: SignatureId,
    sizes: &'a [i32],
    part: &'a Part,
    group: GroupId,
    /// Weight of the heaviest pool that can hold it, by cell; `i32::MIN` if none can.
    tiers: IndexVec<CellId, i32>,
}

/// Node of a placement.
#[derive(Clone)]
struct Seat {
    /// Position in [`SearchInput::standing`]; `None` for a new node.
    standing: Option<usize>,
    cell: CellId,
    sizes: Vec<i32>,
    pieces: SmallVec<[u8; 8]>,
    /// Number of owners, by host rule; `targets` likewise.
    owners: IndexVec<HostRuleId, i32>,
    targets: IndexVec<HostRuleId, i32>,
    /// Chosen shape.
    shape: usize,
    price: f64,
    /// Reserved capacity that it uses.
    reserved: Option<Entry>,
}

/// Shape in which a seat can be launched.
#[derive(Debug, Clone, Copy)]
struct Launch {
    shape: usize,
    price: f64,
    reserved: Option<Entry>,
}

/// Input shared by all placements.
pub(crate) struct SearchInput<'a> {
    pub(crate) compiled: &'a Compiled<'a>,
    /// Groups that are not bundled.
    pub(crate) grouped: &'a Grouped,
    pub(crate) shape_index: &'a ShapeIndex<'a>,
    pub(crate) standing: &'a [ExistingNode],
    pub(crate) standing_admits: &'a IndexSlice<SignatureId, [FixedBitSet]>,
    /// Values that count for the minimum of a spread, by domain rule.
    pub(crate) counting: &'a IndexSlice<DomainRuleId, [FixedBitSet]>,
    /// Counts of bound pods.
    pub(crate) bound: &'a Counts,
    /// Dimension of each domain rule; `None` if no node has its label.
    pub(crate) dimension_of: &'a IndexSlice<DomainRuleId, [Option<usize>]>,
}

struct Search<'a> {
    input: &'a SearchInput<'a>,
    pieces: Vec<Piece<'a>>,
    headroom: Headroom,
    reservations: Reservations,
    /// Launches by cell, cheapest first.
    launches_at: IndexVec<CellId, Vec<Launch>>,
    /// True if launches must be checked against limits and reservations.
    counted: bool,
    seats: Vec<Seat>,
    left: SmallVec<[u8; 8]>,
    price: f64,
    steps: usize,
    best: Option<Found>,
    /// Bound to beat: number of unplaced pods, price.
    ceiling: (usize, f64),
}

struct Found {
    seats: Vec<Seat>,
    left: SmallVec<[u8; 8]>,
}

/// Returns the best placement if it beats `known`, a draft of the `bundled` pods, or if `known` breaks a rule.
pub(crate) fn search(input: &SearchInput<'_>, bundled: &Grouped, known: &Draft) -> Option<Draft> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for (number, group) in input.grouped.groups.iter_enumerated() {
        let tiers = launch::tiers(input, group);
        for &unit in &group.units {
            pieces.push(Piece {
                unit,
                signature: group.signature,
                sizes: &group.sizes,
                part: &group.part,
                group: number,
                tiers: tiers.clone(),
            });
        }
    }
    // Large pods first; interchangeable ones are adjacent, so that their order can be fixed.
    pieces.sort_by(|a, b| b.sizes.cmp(a.sizes).then(a.group.cmp(&b.group)).then(a.unit.cmp(&b.unit)));
    let rules = input.grouped.rules.host.len();
    let seats = input
        .standing
        .iter()
        .enumerate()
        .map(|(position, one)| {
            let mut seat = Seat::new(Some(position), one.cell, one.room.len(), rules);
            let node = &input.compiled.problem.nodes[one.node];
            for (owns, targets) in node.bound.iter().map(|bound| input.grouped.bound_on_host(bound)) {
                owns.iter().for_each(|&rule| seat.owners[rule] += 1);
                targets.iter().for_each(|&(rule, count)| seat.targets[rule] += count);
            }
            seat
        })
        .collect();
    let (headroom, reservations) = (Headroom::new(input.compiled), Reservations::new(input.compiled));
    let mut search = Search {
        input,
        pieces,
        launches_at: launch::launches_at(input, &reservations, &headroom),
        counted: headroom.binds() || !reservations.entries.is_empty(),
        headroom,
        reservations,
        seats,
        left: SmallVec::new(),
        price: 0.0,
        steps: 0,
        best: None,
        ceiling: (usize::MAX, f64::INFINITY),
    };
    let held = search.holds_for(bundled, known);
    if held {
        let left = known.left.iter().map(|(unit, _)| bundled.pods(unit).len()).sum();
        search.ceiling = (left, known.price());
    }
    search.place(0);
    let nothing = || Found { seats: Vec::new(), left: (0..search.pieces.len() as u8).collect() };
    let found = match search.best.take() {
        Some(found) => found,
        None if held => return None,
        None => nothing(),
    };
    Some(search.draft(&found))
}

impl Seat {
    fn new(standing: Option<usize>, cell: CellId, width: usize, rules: usize) -> Self {
        Self {
            standing,
            cell,
            sizes: vec![0; width],
            pieces: SmallVec::new(),
            owners: index_vec![0; rules],
            targets: index_vec![0; rules],
            shape: usize::MAX,
            price: 0.0,
            reserved: None,
        }
    }

    fn launch(&mut self, launch: Launch) {
        (self.shape, self.price, self.reserved) = (launch.shape, launch.price, launch.reserved);
    }
}

impl Search<'_> {
    fn place(&mut self, piece: usize) {
        if self.steps >= MOST_STEPS || !self.promising() {
            return;
        }
        if piece == self.pieces.len() {
            if self.holds() {
                if self.counted {
                    self.buy(0, 0.0);
                } else {
                    self.keep(self.price);
                }
            }
            return;
        }
        for seat in 0..self.seats.len() {
            self.try_seat(piece, seat);
        }
        let (width, rules) = (self.pieces[piece].sizes.len(), self.input.grouped.rules.host.len());
        for cell in self.input.compiled.cells.indices() {
            self.seats.push(Seat::new(None, cell, width, rules));
            self.try_seat(piece, self.seats.len() - 1);
            self.seats.pop();
        }
        if self.left.len() < self.ceiling.0 {
            self.left.push(piece as u8);
            self.place(piece + 1);
            self.left.pop();
        }
    }

    /// Returns true if the rules between pods hold for `draft`.
    fn holds_for(&mut self, bundled: &Grouped, draft: &Draft) -> bool {
        let empty = self.seats.clone();
        let piece_of = |pod: &u32| self.pieces.iter().position(|piece| piece.unit == *pod);
        let pieces_of = |units: &[u32]| -> SmallVec<[u8; 8]> {
            let pods = units.iter().flat_map(|unit| bundled.pods(unit));
            pods.filter_map(piece_of).map(|piece| piece as u8).collect()
        };
        let mut seats = empty.clone();
        for (node, units) in &draft.existing {
            let position = self.input.standing.iter().position(|one| one.node == *node);
            position.into_iter().for_each(|position| seats[position].pieces = pieces_of(units));
        }
        for opened in &draft.opened {
            let mut seat = Seat::new(None, opened.cell, 0, 0);
            seat.pieces = pieces_of(&opened.units);
            seat.shape = opened.shape;
            seats.push(seat);
        }
        self.seats = seats;
        let holds = self.holds();
        self.seats = empty;
        holds
    }

    /// Returns true if this branch can still beat the best.
    fn promising(&self) -> bool {
        let (left, price) = self.ceiling;
        self.left.len() < left || self.left.len() == left && self.price < price - 1e-9
    }

    fn try_seat(&mut self, piece: usize, seat: usize) {
        self.steps += 1;
        let one = &self.pieces[piece];
        // Interchangeable pods are placed in order of seats; other orders only rename them.
        let alike = piece > 0 && self.pieces[piece - 1].group == one.group;
        let before = |other: &Seat| other.pieces.contains(&(piece as u8 - 1));
        if alike && self.seats[seat + 1..].iter().any(before) {
            return;
        }
        if one.part.is_blocked(&self.input.grouped.rules, &self.seats[seat].owners, &self.seats[seat].targets) {
            return;
        }
        let undo = self.seats[seat].clone();
        let old_price = undo.price;
        {
            let one = &self.pieces[piece];
            let node = &mut self.seats[seat];
            node.sizes.iter_mut().zip(one.sizes).for_each(|(sum, &size)| *sum = sum.saturating_add(size));
            node.pieces.push(piece as u8);
            one.part.owns_host.iter().for_each(|&rule| node.owners[rule] += 1);
            one.part.targets_host.iter().for_each(|&(rule, count)| node.targets[rule] += count);
        }
        if self.fit(piece, seat) {
            let sum = self.price;
            self.price += self.seats[seat].price - old_price;
            self.place(piece + 1);
            self.price = sum;
        }
        self.seats[seat] = undo;
    }

    fn draft(&self, found: &Found) -> Draft {
        let mut draft = Draft::default();
        for seat in found.seats.iter().filter(|seat| !seat.pieces.is_empty()) {
            let units: Vec<u32> = seat.pieces.iter().map(|&piece| self.pieces[piece as usize].unit).collect();
            match seat.standing {
                Some(position) => draft.existing.push((self.input.standing[position].node, units)),
                None => {
                    let (shape, cell, price) = (seat.shape, seat.cell, seat.price);
                    let reserved = seat.reserved.map(|entry| entry.offering);
                    draft.opened.push(OpenedNode { shape, cell, price, units, reserved });
                }
            }
        }
        draft.left = found.left.iter().map(|&piece| (self.pieces[piece as usize].unit, None)).collect();
        draft
    }
}
