//! Local search on small plans: repeatedly empties a few nodes and places their units again, as long as the plan gets
//! cheaper.
//!
//! ```text
//!   draft ─► table (seats, rule counts) ─► one, two or three seats emptied ─► rebuild (depth first, all places)
//!                ▲                                                               │
//!                └─────────────────── cheaper: replaces the table ◄──────────────┘
//! ```
//!
//! Construction assigns the domains of pods before it fills nodes, one after the other. In a plan of ten nodes, the
//! last node of each zone is then half empty, which is a third of the price. Here a unit may go to every place that the
//! rules allow, and the rules are checked for the plan as a whole. The remaining nodes may take more units, and become
//! larger for it.
//!
//! The search is bounded by counts and uses no random numbers: the same draft always gives the same plan.

mod market;
mod rebuild;
mod seats;
mod tally;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::construct::OpenedNode;
use super::existing_nodes;
use super::groups::{GroupId, Grouped};
use super::remaining_demand::RemainingDemand;
use super::reserved::Reservations;
use super::shape_index::{Headroom, ShapeIndex};
use super::{Draft, balance, exact};
use crate::compile::{CPU, Compiled, MEMORY, flexible};
use crate::model::MinValuesPolicy;

use market::Market;
use rebuild::{Goal, MOST_SEATS, Piece, Rebuild};
use seats::{Kind, Member, Seat, Table};
use tally::Tally;

/// Maximum number of new nodes of a plan to improve. In larger plans the waste on the last node of each zone is a small
/// part.
pub(super) const MOST_NODES: usize = 40;

/// Maximum number of units lifted at a time; with more, depth-first search covers little beyond its first path.
const MOST_LIFTED: usize = 24;

/// Maximum number of existing nodes with room that are considered.
const MOST_STANDING: usize = 16;

/// Search budget for a plan, counted in tries of a unit on a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Budget of a single search, by round: a little search everywhere gains more than much search in one place.
    each: &'static [usize],
    /// Budget of all searches together.
    all: usize,
    /// Maximum number of claims and shapes that first fit may inspect.
    first_fit: usize,
    /// True if other drafts than the chosen one are improved too.
    others: bool,
}

impl Effort {
    /// Budget for a plan that is carried out.
    pub(super) const FULL: Self = Self { each: &[500, 2_000, 8_000], all: 60_000, first_fit: 1_500_000, others: true };
    /// Budget for one of many plans that are compared.
    pub(super) const LITTLE: Self = Self { each: &[300], all: 8_000, first_fit: 50_000, others: false };

    /// Returns the maximum number of claims and shapes that first fit may inspect.
    pub(super) fn first_fit(self) -> usize {
        self.first_fit
    }

    /// Returns true if other drafts than the chosen one are improved too.
    pub(super) fn tries_others(self) -> bool {
        self.others
    }
}

/// Minimum saving for a plan with fewer nodes, as a share of the price of the emptied nodes: with more, smaller nodes
/// the loss of one matters less.
const WORTH_A_NODE: f64 = 0.005;

/// Maximum number of nodes of a plan in which three nodes are emptied at a time; in larger plans one or two.
const FEW_NODES: usize = 10;

/// Makes `draft` cheaper if possible.
pub(super) fn improve(compiled: &Compiled<'_>, grouped: &Grouped, draft: &mut Draft, effort: Effort) {
    let can_be_lifted = |node: &OpenedNode| node.units.len() <= MOST_LIFTED;
    if draft.opened.len() > MOST_NODES || !draft.opened.iter().any(can_be_lifted) {
        return;
    }
    let unplaced = RemainingDemand::of_groups(compiled, grouped);
    let shape_index = ShapeIndex::new(compiled, grouped, &unplaced, true);
    let headroom = Headroom::new(compiled);
    let nothing_decided = grouped.rules.domain.is_empty() && draft.existing.is_empty() && draft.left.is_empty();
    let strict = compiled.options.min_values == MinValuesPolicy::Strict;
    let choosy = strict && compiled.problem.pools.iter().any(|pool| !flexible::asked(pool).is_empty());
    if nothing_decided && exact::applies(&shape_index, &unplaced, &headroom)
        || headroom.binds() && !draft.left.is_empty()
        || choosy
    {
        return;
    }
    let standing = existing_nodes::standing(compiled);
    let standing_admits = existing_nodes::standing_admits(compiled, &standing);
    let market = Market::new(compiled, grouped, &shape_index);
    if market.places.len() > MOST_SEATS {
        return;
    }
    let tally = Tally::new(compiled, grouped, &standing, &market);
    let blank = Seat::new(Kind::Bought(0), 0, compiled.columns.width(), grouped.rules.host.len());
    let (standing, standing_admits) = (&standing[..], &standing_admits[..]);
    let (seats, market) = (Vec::new(), &market);
    let mut table = Table { compiled, grouped, market, standing, standing_admits, tally, seats, price: 0.0, blank };
    if !seat_all(&mut table, draft) {
        return;
    }
    let counts_some = existing_nodes::counts_some_nodes(grouped);
    let holds = |table: &Table<'_>| {
        (!headroom.binds() || within_limits(table, headroom.clone()))
            && (!counts_some || !balance::restore(compiled, grouped, &mut drafted(table, draft)))
    };
    if Search::new(&mut table, &holds, effort).run() {
        let mut improved = drafted(&table, draft);
        Reservations::reclaim(compiled, grouped, &mut improved.opened);
        *draft = improved;
    }
}

/// Adds the units of `draft` to the table. Returns false if a node of it is not one that local search could open.
fn seat_all(table: &mut Table<'_>, draft: &Draft) -> bool {
    let (compiled, grouped) = (table.compiled, table.grouped);
    let mut group_of = vec![grouped.groups.next_idx(); grouped.first_bundle as usize + grouped.bundles.len()];
    for (number, group) in grouped.groups.iter_enumerated() {
        group.units.iter().for_each(|&unit| group_of[unit as usize] = number);
    }
    for node in &draft.opened {
        let place = table.market.place_of[node.cell];
        let kind = match node.reserved {
            Some(offering) => Kind::Reserved(node.shape, node.cell, offering, node.price),
            None => match offer_of(table.market, place, node) {
                Some(offer) => Kind::Bought(offer),
                None => return false,
            },
        };
        let offer = market::Offer { price: node.price, shape: node.shape, cell: node.cell };
        let groups = || node.units.iter().map(|&unit| group_of[unit as usize]);
        let is_due = groups().any(|group| table.market.is_for(place, &offer, group));
        if !is_due || !table.market.admits(&offer, groups()) {
            return false;
        }
        let at = table.seats.len();
        table.seats.push(Seat::new(kind, place, compiled.columns.width(), grouped.rules.host.len()));
        node.units.iter().for_each(|&unit| table.put(at, (unit, group_of[unit as usize]), kind));
    }
    seat_standing(table, draft, &group_of);
    table.tally.allow_what_is();
    let seats = table.seats.iter_mut();
    (0..).zip(seats).for_each(|(name, seat)| seat.name = name);
    table.seats.len() + MOST_LIFTED <= MOST_SEATS
}

fn offer_of(market: &Market<'_>, place: usize, node: &OpenedNode) -> Option<usize> {
    market.places[place].offers.iter().position(|offer| offer.shape == node.shape && offer.cell == node.cell)
}

/// Adds the existing nodes with room for more units, with the units of the draft on them.
fn seat_standing(table: &mut Table<'_>, draft: &Draft, group_of: &[GroupId]) {
    let (compiled, grouped) = (table.compiled, table.grouped);
    let on_new: FxHashSet<GroupId> =
        draft.opened.iter().flat_map(|node| &node.units).map(|&unit| group_of[unit as usize]).collect();
    let units_of: FxHashMap<usize, &[u32]> = draft.existing.iter().map(|(node, units)| (*node, &units[..])).collect();
    let mut sums = vec![0_i32; compiled.columns.width()];
    let mut taken = 0;
    for (position, one) in table.standing.iter().enumerate() {
        let units = units_of.get(&one.node).copied().unwrap_or_default();
        sums.fill(0);
        for &unit in units {
            let sizes = &grouped.groups[group_of[unit as usize]].sizes;
            sums.iter_mut().zip(&**sizes).for_each(|(sum, &size)| *sum = sum.saturating_add(size));
        }
        let has_room = |group: &GroupId| {
            let sizes = grouped.groups[*group].sizes.iter();
            let mut all = sizes.zip(&sums).zip(&one.room);
            all.all(|((&size, &sum), &room)| size == 0 || size.saturating_add(sum) <= room)
        };
        let is_seat = taken < MOST_STANDING && on_new.iter().any(has_room);
        if !is_seat {
            // Units on other existing nodes stay there and are only counted.
            for &unit in units {
                let part = &grouped.groups[group_of[unit as usize]].part;
                table.tally.count(part, table.market.place_of[one.cell], 1);
            }
            continue;
        }
        taken += 1;
        let place = table.market.place_of[one.cell];
        let mut seat =
            Seat::new(Kind::ExistingNode(position), place, compiled.columns.width(), grouped.rules.host.len());
        for bound in &compiled.problem.nodes[one.node].bound {
            let (owns, targets) = grouped.bound_on_host(bound);
            seat.preload(&owns, &targets);
        }
        let at = table.seats.len();
        table.seats.push(seat);
        units.iter().for_each(|&unit| table.put(at, (unit, group_of[unit as usize]), Kind::ExistingNode(position)));
    }
}

/// Returns the table as a draft of the same units as `of`.
fn drafted(table: &Table<'_>, of: &Draft) -> Draft {
    let mut existing = table.standing_of(&table.seats);
    let seated = |node: usize| {
        let position = |seat: &Seat| match seat.kind {
            Kind::ExistingNode(position) => Some(position),
            Kind::Bought(_) | Kind::Reserved(..) => None,
        };
        table.seats.iter().filter_map(position).any(|position| table.standing[position].node == node)
    };
    existing.extend(of.existing.iter().filter(|(node, _)| !seated(*node)).cloned());
    existing.sort_by_key(|(node, _)| *node);
    Draft { opened: table.opened(&table.seats), existing, left: of.left.clone(), tasted: of.tasted }
}

fn within_limits(table: &Table<'_>, mut headroom: Headroom) -> bool {
    table.opened(&table.seats).iter().all(|node| {
        let allowed = headroom.allows(table.compiled, node.shape);
        headroom.spend(table.compiled, node.shape, 1);
        allowed
    })
}

/// Search over the neighbourhoods of a plan.
struct Search<'t, 'a> {
    table: &'t mut Table<'a>,
    holds: &'t dyn Fn(&Table<'a>) -> bool,
    /// Value of one unit of each column, in USD per hour.
    values: Vec<f64>,
    /// Names of the seats that were emptied together.
    tried: FxHashSet<SmallVec<[u32; 3]>>,
    names: u32,
    /// Remaining budget of all searches.
    left: usize,
    each: &'static [usize],
}

impl<'t, 'a> Search<'t, 'a> {
    fn new(table: &'t mut Table<'a>, holds: &'t dyn Fn(&Table<'a>) -> bool, effort: Effort) -> Self {
        let mut totals = vec![0.0; table.compiled.columns.width()];
        for seat in &table.seats {
            totals.iter_mut().zip(&seat.sizes).for_each(|(total, &size): (&mut f64, _)| *total += f64::from(size));
        }
        // The price of all nodes is divided equally between cpu and memory.
        let value = |(column, &total): (usize, &f64)| {
            if (column == CPU || column == MEMORY) && total > 0.0 { 0.5 * table.price / total } else { 0.0 }
        };
        let values = totals.iter().enumerate().map(value).collect();
        let names = table.seats.len() as u32;
        Self { table, holds, values, tried: FxHashSet::default(), names, left: effort.all, each: effort.each }
    }

    /// Runs the search. Returns true if it improved the plan.
    fn run(mut self) -> bool {
        let mut improved = false;
        for &each in self.each {
            self.tried.clear();
            while self.left > 0 && self.step(each) {
                improved = true;
            }
        }
        improved
    }

    /// Empties combinations of seats not tried in this round, most wasteful first, until one improves the plan. Returns
    /// true if one did.
    fn step(&mut self, each: usize) -> bool {
        let mut order: Vec<usize> =
            (0..self.table.seats.len()).filter(|&at| self.table.seats[at].can_be_emptied()).collect();
        let waste = |at: usize| {
            let seat = &self.table.seats[at];
            self.table.price_of(seat) - self.worth(&seat.sizes)
        };
        order.sort_by(|&a, &b| waste(b).total_cmp(&waste(a)).then(a.cmp(&b)));
        let count = order.len();
        let deepest = if count <= FEW_NODES { count } else { 0 };
        let single = (0..count).map(|a| SmallVec::from_slice(&[order[a]]));
        let pairs = (0..count).flat_map(|b| (0..b).map(move |a| (a, b)));
        let pairs = pairs.map(|(a, b)| SmallVec::from_slice(&[order[a], order[b]]));
        let triples = (0..deepest).flat_map(|c| (0..c).flat_map(move |b| (0..b).map(move |a| (a, b, c))));
        let triples = triples.map(|(a, b, c)| SmallVec::from_slice(&[order[a], order[b], order[c]]));
        let all: Vec<SmallVec<[usize; 3]>> = single.chain(pairs).chain(triples).collect();
        for lifted in all {
            let mut names: SmallVec<[u32; 3]> = lifted.iter().map(|&at| self.table.seats[at].name).collect();
            names.sort_unstable();
            if self.left == 0 {
                return false;
            }
            if self.tried.insert(names) && self.take_apart(&lifted, each) {
                return true;
            }
        }
        false
    }

    fn worth(&self, sizes: &[i32]) -> f64 {
        sizes.iter().zip(&self.values).map(|(&size, value)| f64::from(size) * value).sum()
    }

    /// Lifts the units of some seats and places them again at a lower price. Returns false, with the table unchanged,
    /// if that is not possible.
    fn take_apart(&mut self, lifted: &[usize], each: usize) -> bool {
        let units: usize = lifted.iter().map(|&at| self.table.seats[at].members.len()).sum();
        if units > MOST_LIFTED {
            return false;
        }
        let (price, nodes) = (self.table.price, self.nodes());
        let old: Vec<Seat> = lifted.iter().map(|&at| self.table.clear(at)).collect();
        let apart = price - self.table.price;
        let mut pieces: Vec<Piece> = Vec::with_capacity(units);
        for seat in &old {
            pieces.extend(seat.members.iter().map(|&member| self.piece(member, seat.place)));
        }
        let size = |piece: &Piece| self.worth(&self.table.grouped.groups[piece.member.1].sizes);
        pieces.sort_by(|a, b| {
            size(b)
                .total_cmp(&size(a))
                .then((a.member.1, a.places, a.member.0).cmp(&(b.member.1, b.places, b.member.0)))
        });
        for piece in &pieces {
            self.table.tally.lift(&self.table.grouped.groups[piece.member.1].part, 1);
        }
        let steps = each.min(self.left);
        let goal = Goal { price: price - 1e-9, price_of_fewer: price - WORTH_A_NODE * apart, nodes, steps };
        let (best, steps) = Rebuild::search(self.table, &pieces, goal, self.holds);
        self.left = self.left.saturating_sub(steps);
        for piece in &pieces {
            self.table.tally.lift(&self.table.grouped.groups[piece.member.1].part, -1);
        }
        lifted.iter().zip(old).for_each(|(&at, old)| self.table.restore(at, old));
        let Some(best) = best else { return false };
        self.adopt(best);
        true
    }

    fn piece(&self, member: Member, place: usize) -> Piece {
        let part = &self.table.grouped.groups[member.1].part;
        Piece { member, places: self.table.tally.in_company(part, place) }
    }

    fn nodes(&self) -> usize {
        self.table.seats.iter().filter(|seat| seat.can_be_emptied()).count()
    }

    /// Makes `best` the plan. Unchanged seats keep their names.
    fn adopt(&mut self, best: Vec<Seat>) {
        let old: Vec<Seat> = (0..self.table.seats.len()).map(|at| self.table.clear(at)).collect();
        self.table.seats.clear();
        self.table.price = 0.0;
        for (number, mut seat) in best.into_iter().enumerate() {
            if seat.members.is_empty() && matches!(seat.kind, Kind::Bought(_)) {
                continue;
            }
            let same = |old: &Seat| old.kind == seat.kind && old.members == seat.members;
            if !old.get(number).is_some_and(same) {
                seat.name = self.names;
                self.names += 1;
            }
            self.table.seats.push(self.table.blank.clone());
            self.table.restore(self.table.seats.len() - 1, seat);
        }
    }
}
