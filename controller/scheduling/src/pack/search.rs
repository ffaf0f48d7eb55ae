//! A handful of pods with constraints: every placement is tried, within a budget.
//!
//! Construction decides domains, existing nodes and new nodes one after the other, which a few pods with rules, limits or
//! reservations can defeat (a free pod takes the only node that a pinned one can use). With so few pods the whole
//! question can be asked at once: depth first over the pods, each on an existing node, on a node opened before, or on a
//! new node in some cell; cut off by the price reached; rules between pods judged on the finished placement.

use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::Draft;
use super::construct::Opened;
use super::ground::{Ground, Headroom};
use super::groups::{Group, Grouped};
use super::reserved::{Entry, Reservations};
use super::terrain::Standing;
use super::zones::Counts;
use crate::compile::{Compiled, Demand, Filter, Part, fits};
use crate::model::PodSpec;

/// Beyond this many pods the tree is too large to be worth a budget.
pub(crate) const MOST_PODS: usize = 8;

/// Placements tried at most; counted, so that the answer does not depend on the machine.
const MOST_STEPS: usize = 30_000;

/// A pod to place.
struct Piece<'a> {
    unit: u32,
    signature: u32,
    sizes: &'a [i32],
    part: &'a Part,
    group: usize,
    /// Weight of the heaviest pool that can hold it, by cell; `i32::MIN` if none can.
    tiers: Vec<i32>,
}

/// A node in the making.
#[derive(Clone)]
struct Seat {
    /// Position among the standing nodes.
    standing: Option<usize>,
    cell: usize,
    sizes: Vec<i32>,
    pieces: SmallVec<[u8; 8]>,
    /// Owners and targets per host rule.
    owners: Vec<i32>,
    targets: Vec<i32>,
    /// Chosen shape.
    shape: usize,
    price: f64,
    /// Reserved capacity that it uses.
    reserved: Option<Entry>,
}

/// A way to launch a seat.
#[derive(Debug, Clone, Copy)]
struct Launch {
    shape: usize,
    price: f64,
    reserved: Option<Entry>,
}

/// What all placements share.
pub(crate) struct Scene<'a> {
    pub(crate) compiled: &'a Compiled<'a>,
    /// Not glued.
    pub(crate) grouped: &'a Grouped,
    pub(crate) ground: &'a Ground<'a>,
    pub(crate) standing: &'a [Standing],
    pub(crate) standing_admits: &'a [FixedBitSet],
    /// Values that count for the minimum of each domain rule.
    pub(crate) counting: &'a [FixedBitSet],
    /// What bound pods count for.
    pub(crate) bound: &'a Counts,
}

struct Search<'a> {
    scene: &'a Scene<'a>,
    pieces: Vec<Piece<'a>>,
    headroom: Headroom,
    reservations: Reservations,
    /// By cell, cheapest first.
    launches_at: Vec<Vec<Launch>>,
    /// Whether launches are counted at all.
    counted: bool,
    seats: Vec<Seat>,
    left: SmallVec<[u8; 8]>,
    price: f64,
    steps: usize,
    best: Option<Found>,
    /// Nothing worse than this is looked for: pods left over, price.
    ceiling: (usize, f64),
}

struct Found {
    seats: Vec<Seat>,
    left: SmallVec<[u8; 8]>,
}

/// The best placement, if it beats `known`, a draft of the `glued` pods, or if that breaks a rule.
pub(crate) fn search(scene: &Scene<'_>, glued: &Grouped, known: &Draft) -> Option<Draft> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for (number, group) in scene.grouped.groups.iter().enumerate() {
        let tiers = tiers(scene, group);
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
    // Large pods first; alike ones stay together, so that their order can be fixed.
    pieces.sort_by(|a, b| b.sizes.cmp(a.sizes).then(a.group.cmp(&b.group)).then(a.unit.cmp(&b.unit)));
    let rules = scene.grouped.rules.host.len();
    let seats = scene
        .standing
        .iter()
        .enumerate()
        .map(|(position, one)| {
            let mut seat = Seat::new(Some(position), one.cell, one.room.len(), rules);
            let node = &scene.compiled.problem.nodes[one.node];
            for (owns, targets) in node.bound.iter().map(|bound| scene.grouped.bound_on_host(bound)) {
                for rule in owns {
                    let symmetric = scene.grouped.rules.host[rule as usize].symmetric;
                    seat.owners[rule as usize] += i32::from(symmetric);
                }
                targets.iter().for_each(|&(rule, count)| seat.targets[rule as usize] += count);
            }
            seat
        })
        .collect();
    let (headroom, reservations) = (Headroom::new(scene.compiled), Reservations::new(scene.compiled));
    let mut search = Search {
        scene,
        pieces,
        launches_at: launches_at(scene, &reservations),
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
    let held = search.holds_for(glued, known);
    if held {
        let left = known.left.iter().map(|(unit, _)| glued.pods(unit).len()).sum();
        search.ceiling = (left, known.price);
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

/// All ways to launch a node, by cell, cheapest first.
fn launches_at(scene: &Scene<'_>, reservations: &Reservations) -> Vec<Vec<Launch>> {
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
fn tiers(scene: &Scene<'_>, group: &Group) -> Vec<i32> {
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

impl Seat {
    fn new(standing: Option<usize>, cell: usize, width: usize, rules: usize) -> Self {
        Self {
            standing,
            cell,
            sizes: vec![0; width],
            pieces: SmallVec::new(),
            owners: vec![0; rules],
            targets: vec![0; rules],
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
        let cells = self.scene.compiled.cells.len();
        let (width, rules) = (self.pieces[piece].sizes.len(), self.scene.grouped.rules.host.len());
        for cell in 0..cells {
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

    /// Whether the rules hold for `draft`.
    fn holds_for(&mut self, glued: &Grouped, draft: &Draft) -> bool {
        let empty = self.seats.clone();
        let piece_of = |pod: &u32| self.pieces.iter().position(|piece| piece.unit == *pod);
        let pieces_of = |units: &[u32]| -> SmallVec<[u8; 8]> {
            let pods = units.iter().flat_map(|unit| glued.pods(unit));
            pods.filter_map(piece_of).map(|piece| piece as u8).collect()
        };
        let mut seats = empty.clone();
        for (node, units) in &draft.existing {
            let position = self.scene.standing.iter().position(|one| one.node == *node);
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

    /// Whether this branch can still beat the best.
    fn promising(&self) -> bool {
        let (left, price) = self.ceiling;
        self.left.len() < left || self.left.len() == left && self.price < price - 1e-9
    }

    fn try_seat(&mut self, piece: usize, seat: usize) {
        self.steps += 1;
        let one = &self.pieces[piece];
        // Alike pods are placed in order of seats: the rest is a renaming.
        let alike = piece > 0 && self.pieces[piece - 1].group == one.group;
        let before = |other: &Seat| other.pieces.contains(&(piece as u8 - 1));
        if alike && self.seats[seat + 1..].iter().any(before) {
            return;
        }
        if self.blocked(one.part, &self.seats[seat]) {
            return;
        }
        let undo = self.seats[seat].clone();
        let old_price = undo.price;
        {
            let one = &self.pieces[piece];
            let node = &mut self.seats[seat];
            node.sizes.iter_mut().zip(one.sizes).for_each(|(sum, &size)| *sum = sum.saturating_add(size));
            node.pieces.push(piece as u8);
            one.part.owns_host.iter().for_each(|&rule| node.owners[rule as usize] += 1);
            one.part.targets_host.iter().for_each(|&(rule, count)| node.targets[rule as usize] += count);
        }
        if self.fit(piece, seat) {
            let sum = self.price;
            self.price += self.seats[seat].price - old_price;
            self.place(piece + 1);
            self.price = sum;
        }
        self.seats[seat] = undo;
    }

    fn blocked(&self, part: &Part, seat: &Seat) -> bool {
        let rules = &self.scene.grouped.rules.host;
        let own = |rule: u32| part.targets_host.iter().find(|&&(one, _)| one == rule).map_or(0, |&(_, count)| count);
        part.owns_host.iter().any(|&rule| seat.targets[rule as usize] + own(rule) > rules[rule as usize].limit)
            || part.targets_host.iter().any(|&(rule, count)| {
                seat.owners[rule as usize] > 0 && seat.targets[rule as usize] + count > rules[rule as usize].limit
            })
    }

    /// Whether the seat, with `piece` on it already, has a node that holds it; chooses the cheapest.
    fn fit(&mut self, piece: usize, seat: usize) -> bool {
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
    fn buy(&mut self, seat: usize, price: f64) {
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

    fn keep(&mut self, price: f64) {
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

    /// Whether the rules between pods hold for the placement as a whole.
    fn holds(&self) -> bool {
        let rules = &self.scene.grouped.rules;
        let cells = &self.scene.compiled.cells;
        let mut counts = self.scene.bound.clone();
        // Values to which some pod was added: what bound pods did to each other is not ours to judge.
        let mut touched: Vec<Vec<bool>> = counts.targets.iter().map(|values| vec![false; values.len()]).collect();
        let mut pending_owners: Vec<Vec<bool>> =
            counts.targets.iter().map(|values| vec![false; values.len()]).collect();
        for seat in self.seats.iter().filter(|seat| !seat.pieces.is_empty()) {
            let counts_for = |rule: usize| match &rules.domain[rule].demand {
                Demand::Spread { filter: Some(filter), .. } => self.passes(filter, seat),
                _ => true,
            };
            for part in seat.pieces.iter().map(|&piece| self.pieces[piece as usize].part) {
                for &rule in &part.owns_domain {
                    let at = rule as usize;
                    let dimension = cells.dimension(&rules.domain[at].key);
                    let Some(value) = dimension.and_then(|dimension| cells.value_index(seat.cell, dimension)) else {
                        return false;
                    };
                    counts.owners[at][value] += 1;
                    pending_owners[at][value] = true;
                    touched[at][value] = true;
                }
                for &(rule, count) in part.targets_domain.iter().filter(|&&(rule, _)| counts_for(rule as usize)) {
                    let at = rule as usize;
                    let dimension = cells.dimension(&rules.domain[at].key);
                    if let Some(value) = dimension.and_then(|dimension| cells.value_index(seat.cell, dimension)) {
                        counts.targets[at][value] += count;
                        touched[at][value] = true;
                    }
                }
            }
        }
        let domains = rules.domain.iter().enumerate().all(|(at, rule)| match &rule.demand {
            Demand::Spread { required: false, .. } => true,
            Demand::Spread { max_skew, min_domains, .. } => {
                let counting = &self.scene.counting[at];
                let fewest = if (counting.count_ones(..) as i32) < *min_domains {
                    0
                } else {
                    counting.ones().map(|value| counts.targets[at][value]).min().unwrap_or(0)
                };
                let owned = pending_owners[at].iter().enumerate().filter(|&(_, &owned)| owned);
                owned.into_iter().all(|(value, _)| counts.targets[at][value] - fewest <= *max_skew)
            }
            Demand::AtMost(limit) => {
                let mut values = counts.owners[at].iter().zip(&counts.targets[at]).zip(&touched[at]);
                values.all(|((&owners, &targets), &touched)| !touched || owners == 0 || targets <= *limit)
            }
            // In some order of binding: judged below.
            Demand::Company => true,
        });
        domains && self.company_comes_first()
    }

    /// Whether pods on a seat count for a spread.
    fn passes(&self, filter: &Filter, seat: &Seat) -> bool {
        let compiled = self.scene.compiled;
        if let Some(position) = seat.standing {
            let node = &compiled.problem.nodes[self.scene.standing[position].node];
            return filter.tolerates(&node.taints) && (filter.every_node || filter.suits(&node.labels));
        }
        let Some(shape) = compiled.shapes.get(seat.shape) else { return true };
        let pool = &compiled.problem.pools[shape.pool];
        let own = &compiled.problem.catalogues[pool.catalogue][shape.instance_type].requirements;
        let label = |key: &str| match compiled.cells.dimension(key) {
            Some(dimension) => compiled.cells.value(seat.cell, dimension),
            None => own.single(key).or_else(|| compiled.pools[shape.pool].requirements.single(key)),
        };
        filter.tolerates(&pool.taints) && (filter.every_node || filter.suits_labels(label))
    }

    /// Whether the pods can be bound in some order, each finding those whom it must follow: searched over sets of bound
    /// pods.
    fn company_comes_first(&self) -> bool {
        let rules = &self.scene.grouped.rules;
        let company = |rule: &u32| rules.domain[*rule as usize].demand == Demand::Company;
        let follows = |piece: &Piece<'_>| !piece.part.joins.is_empty() || piece.part.owns_domain.iter().any(company);
        if !self.pieces.iter().any(follows) {
            return true;
        }
        let mut seat_of = vec![usize::MAX; self.pieces.len()];
        for (number, seat) in self.seats.iter().enumerate() {
            seat.pieces.iter().for_each(|&piece| seat_of[piece as usize] = number);
        }
        let placed =
            (0..seat_of.len()).filter(|&piece| seat_of[piece] != usize::MAX).fold(0, |set, piece| set | 1 << piece);
        let mut reached = vec![false; placed + 1];
        reached[0] = true;
        for bound in 0..placed {
            if !reached[bound] {
                continue;
            }
            for piece in (0..seat_of.len()).filter(|&piece| placed >> piece & 1 == 1 && bound >> piece & 1 == 0) {
                let next = bound | 1 << piece;
                if !reached[next] {
                    reached[next] = self.finds_company(piece, bound, &seat_of);
                }
            }
        }
        reached[placed]
    }

    /// Whether `piece` has all the company it asks for once the pieces of the set `bound` are bound.
    fn finds_company(&self, piece: usize, bound: usize, seat_of: &[usize]) -> bool {
        let scene = self.scene;
        let (problem, rules, cells) = (scene.compiled.problem, &scene.grouped.rules, &scene.compiled.cells);
        let one = &self.pieces[piece];
        let others = || (0..self.pieces.len()).filter(move |&other| bound >> other & 1 == 1);
        let selected =
            |subject: u32, piece: usize| rules.selects(subject, problem.spec_of(self.pieces[piece].unit as usize));
        let on_hosts = one.part.joins.iter().all(|&subject| {
            let bound_on = |position: usize| {
                let pods = &problem.nodes[scene.standing[position].node].bound;
                pods.iter().any(|pod| pod.counts && rules.selects(subject, &problem.specs[pod.spec]))
            };
            let here = self.seats[seat_of[piece]].standing.is_some_and(bound_on)
                || others().any(|other| seat_of[other] == seat_of[piece] && selected(subject, other));
            let nobody = || !(0..scene.standing.len()).any(bound_on) && !others().any(|other| selected(subject, other));
            here || selected(subject, piece) && nobody()
        });
        let counted =
            |piece: usize, rule: u32| self.pieces[piece].part.targets_domain.iter().any(|&(target, _)| target == rule);
        let mut owned = one.part.owns_domain.iter().copied();
        on_hosts
            && owned.all(|rule| {
                let of = &rules.domain[rule as usize];
                let Some(dimension) = cells.dimension(&of.key).filter(|_| of.demand == Demand::Company) else {
                    return of.demand != Demand::Company;
                };
                let value_of = |piece: usize| cells.value_index(self.seats[seat_of[piece]].cell, dimension);
                let Some(value) = value_of(piece) else { return false };
                let mut leaders = others().filter(|&other| counted(other, rule));
                let here = scene.bound.targets[rule as usize][value] > 0
                    || leaders.clone().any(|leader| value_of(leader) == Some(value));
                here || counted(piece, rule) && scene.bound.total[rule as usize] == 0 && leaders.next().is_none()
            })
    }

    fn draft(&self, found: &Found) -> Draft {
        let mut draft = Draft { opened: Vec::new(), existing: Vec::new(), left: Vec::new(), price: 0.0 };
        for seat in found.seats.iter().filter(|seat| !seat.pieces.is_empty()) {
            let units: Vec<u32> = seat.pieces.iter().map(|&piece| self.pieces[piece as usize].unit).collect();
            match seat.standing {
                Some(position) => draft.existing.push((self.scene.standing[position].node, units)),
                None => {
                    draft.price += seat.price;
                    let (shape, cell, price) = (seat.shape, seat.cell, seat.price);
                    let reserved = seat.reserved.map(|entry| entry.offering);
                    draft.opened.push(Opened { shape, cell, price, units, reserved });
                }
            }
        }
        draft.left = found.left.iter().map(|&piece| (self.pieces[piece as usize].unit, None)).collect();
        draft
    }
}
