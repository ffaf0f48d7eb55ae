//! Nominations of pods, and the room that each node has left.

use std::collections::BTreeMap;

use index_vec::{Idx, IndexVec, index_vec};
use rustc_hash::FxHashMap;

use super::Move;
use crate::index::index_type;
use crate::labels::HOSTNAME;
use crate::model::{PodSpec, Problem, SpreadConstraint};
use crate::validate::specs::{Specs, intern, label};

/// Nodes with their nominated pods, while pods move between them.
pub(super) struct Table<'a> {
    specs: Specs<'a>,
    pub(super) seats: Vec<Seat>,
    /// Original seat by pod of the problem. Only pods with a place.
    meant: BTreeMap<usize, usize>,
    /// Properties by spec.
    habits: FxHashMap<usize, Habit>,
    /// Topology keys of required spreads.
    keys: Vec<&'a str>,
}

index_type! {
    /// Number of a value of a topology key, in the order in which nodes have it.
    struct DomainId;
}

/// A node.
pub(super) struct Seat {
    /// Index in the problem.
    node: usize,
    /// Room left once all nominated pods are bound; negative if they do not fit.
    free: Vec<i64>,
    /// The pods nominated to it, ascending.
    pub(super) pods: Vec<usize>,
    /// Its domain, by key.
    domains: Vec<Option<DomainId>>,
}

/// A required spread of a spec.
struct Spread {
    /// Index of its key.
    key: usize,
    most: i64,
    /// True if pods of the spec count, by spec.
    counted: Vec<bool>,
    /// Counted pods, nominated ones included, by domain.
    counts: IndexVec<DomainId, i64>,
}

/// Properties of a spec.
struct Habit {
    /// True if pod affinity, anti-affinity, host ports or volumes keep its pods on their nodes.
    stays: bool,
    /// True if labels and taints allow its pods there, by seat.
    suits: Vec<bool>,
    /// Spreads that must hold.
    spreads: Vec<Spread>,
    /// Maximum number of its pods on one node: for a spread, kube-scheduler counts nominated pods, and refuses all of
    /// them if more than `maxSkew` are on one node.
    most: usize,
}

impl<'a> Table<'a> {
    pub(super) fn new(problem: &'a Problem, places: &[(usize, Vec<usize>)]) -> Self {
        let specs = Specs::new(problem);
        let mut keys: Vec<&str> = problem.specs.iter().flat_map(required_keys).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut numbers = vec![(FxHashMap::default(), IndexVec::new()); keys.len()];
        let domains = problem.nodes.iter().map(|node| {
            let keys = keys.iter().zip(&mut numbers);
            keys.map(|(key, (ids, values))| Some(intern(ids, values, label(node, key)?))).collect()
        });
        let domains: Vec<Vec<Option<DomainId>>> = domains.collect();
        let mut seats: Vec<Seat> = Vec::with_capacity(places.len());
        for (node, pods) in places {
            let there = &problem.nodes[*node];
            let mut free = specs.row(&there.allocatable);
            let mut take =
                |row: &[i64]| free.iter_mut().zip(row).for_each(|(free, one)| *free = free.saturating_sub(*one));
            take(&specs.row(&there.daemon_requests));
            there.bound.iter().for_each(|bound| take(specs.request(bound.spec)));
            pods.iter().for_each(|pod| take(specs.request(problem.pods[*pod].spec)));
            let mut pods = pods.clone();
            pods.sort_unstable();
            seats.push(Seat { node: *node, free, pods, domains: domains[*node].clone() });
        }
        let meant = seats.iter().enumerate().flat_map(|(seat, one)| one.pods.iter().map(move |pod| (*pod, seat)));
        let mut table = Self { meant: meant.collect(), habits: FxHashMap::default(), keys, specs, seats };
        for pod in table.meant.keys() {
            let spec = problem.pods[*pod].spec;
            if !table.habits.contains_key(&spec) {
                let habit = table.habit(spec, &domains);
                table.habits.insert(spec, habit);
            }
        }
        table
    }

    fn habit(&self, number: usize, domains: &[Vec<Option<DomainId>>]) -> Habit {
        let problem = self.specs.problem;
        let spec = &problem.specs[number];
        let stays = !spec.affinity.is_empty()
            || !spec.anti_affinity.is_empty()
            || !spec.host_ports.is_empty()
            || !spec.attachments.is_empty()
            || spec.refusal.is_some();
        let (placement, tolerance) = (self.specs.placement_id(number), self.specs.tolerance_id(number));
        let suits = self.seats.iter().map(|seat| {
            let node = &problem.nodes[seat.node];
            !node.deleting
                && self.specs.suits(placement, node)
                && self.specs.repelled_by(tolerance, &node.taints).is_none()
        });
        let required = spec.spread.iter().filter(|one| one.required);
        let spreads = required.clone().filter_map(|one| self.spread(spec, one, domains)).collect();
        let most = required.map(|one| usize::try_from(one.max_skew).unwrap_or(0)).min().unwrap_or(usize::MAX);
        Habit { stays, suits: suits.collect(), spreads, most }
    }

    fn spread(
        &self,
        spec: &PodSpec,
        constraint: &SpreadConstraint,
        domains: &[Vec<Option<DomainId>>],
    ) -> Option<Spread> {
        let problem = self.specs.problem;
        let key = self.keys.binary_search(&&*constraint.topology_key).ok()?;
        let is_counted =
            |other: &PodSpec| other.namespace == spec.namespace && constraint.selector.matches(&other.labels);
        let counted: Vec<bool> = problem.specs.iter().map(is_counted).collect();
        let last = domains.iter().filter_map(|of_node| of_node[key]).max();
        let mut counts = index_vec![0; last.map_or(0, |last| last.index() + 1)];
        let bound = problem.nodes.iter().zip(domains).flat_map(|(node, of_node)| {
            let there = node.bound.iter().filter(|pod| pod.counts && !node.deleting);
            there.map(move |pod| (pod.spec, of_node[key]))
        });
        let meant =
            self.seats.iter().flat_map(|seat| seat.pods.iter().map(|pod| (problem.pods[*pod].spec, seat.domains[key])));
        for domain in bound.chain(meant).filter(|(spec, _)| counted[*spec]).filter_map(|(_, domain)| domain) {
            counts[domain] += 1;
        }
        Some(Spread { key, most: constraint.max_skew.into(), counted, counts })
    }

    fn request(&self, pod: usize) -> &[i64] {
        self.specs.request(self.specs.problem.pods[pod].spec)
    }

    /// Returns true if the pods that are nominated to the seat do not all fit.
    pub(super) fn is_short(&self, seat: usize) -> bool {
        let Seat { free, pods, .. } = &self.seats[seat];
        (0..free.len()).any(|at| free[at] < 0 && pods.iter().any(|pod| self.request(*pod)[at] > 0))
    }

    /// Returns the last pod of each spec on a seat, in descending order.
    pub(super) fn different(&self, seat: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        let mut different = Vec::new();
        for pod in self.seats[seat].pods.iter().rev() {
            let spec = self.specs.problem.pods[*pod].spec;
            if !seen.contains(&spec) {
                seen.push(spec);
                different.push(*pod);
            }
        }
        different
    }

    /// Returns another pod of the seat with the same spec; `None` for pods with a spread, of which only one moves at a
    /// time.
    pub(super) fn twin(&self, seat: usize, pod: usize) -> Option<usize> {
        if self.habit_of(pod).most != usize::MAX {
            return None;
        }
        let spec = |pod: usize| self.specs.problem.pods[pod].spec;
        self.seats[seat].pods.iter().rev().copied().find(|other| *other != pod && spec(*other) == spec(pod))
    }

    /// Returns true if the pod's constraints allow it to move from one seat to the other.
    pub(super) fn may_go(&self, pod: usize, from: usize, to: usize) -> bool {
        let habit = self.habit_of(pod);
        let allows = |one: &Spread| match (self.seats[from].domains[one.key], self.seats[to].domains[one.key]) {
            (Some(here), Some(there)) => here == there || self.keys[one.key] != HOSTNAME && one.allows(here, there),
            _ => false,
        };
        let is_alike = |other: &&usize| self.specs.problem.pods[**other].spec == self.specs.problem.pods[pod].spec;
        !habit.stays
            && habit.suits[to]
            && habit.spreads.iter().all(allows)
            && (habit.most == usize::MAX || self.seats[to].pods.iter().filter(is_alike).count() < habit.most)
    }

    fn habit_of(&self, pod: usize) -> &Habit {
        &self.habits[&self.specs.problem.pods[pod].spec]
    }

    /// Returns true if the seat holds its pods after those in `gone` leave and those in `come` arrive.
    pub(super) fn holds(&self, seat: usize, gone: &[usize], come: &[usize]) -> bool {
        let free = &self.seats[seat].free;
        (0..free.len()).all(|at| {
            let sum = |pods: &[usize]| pods.iter().map(|pod| self.request(*pod)[at]).fold(0, i64::saturating_add);
            let (gone, come) = (sum(gone), sum(come));
            // An earlier shortage of a resource that no remaining or arriving pod requests does not matter.
            free[at].saturating_add(gone).saturating_sub(come) >= 0 || come == 0 && !self.is_asked_for(seat, at, gone)
        })
    }

    /// Returns true if the seat's pods request more of the resource than `gone`.
    fn is_asked_for(&self, seat: usize, at: usize, gone: i64) -> bool {
        let asked = self.seats[seat].pods.iter().map(|pod| self.request(*pod)[at]);
        asked.fold(0, i64::saturating_add) > gone
    }

    /// Moves the pod from one seat to the other.
    pub(super) fn shift(&mut self, pod: usize, from: usize, to: usize) {
        let row = self.request(pod).to_vec();
        let Seat { free, pods, .. } = &mut self.seats[from];
        pods.retain(|other| *other != pod);
        free.iter_mut().zip(&row).for_each(|(free, one)| *free = free.saturating_add(*one));
        let Seat { free, pods, .. } = &mut self.seats[to];
        let at = pods.partition_point(|other| *other < pod);
        pods.insert(at, pod);
        free.iter_mut().zip(&row).for_each(|(free, one)| *free = free.saturating_sub(*one));
        let spec = self.specs.problem.pods[pod].spec;
        for spread in self.habits.values_mut().flat_map(|habit| &mut habit.spreads).filter(|one| one.counted[spec]) {
            for (seat, change) in [(from, -1), (to, 1)] {
                if let Some(domain) = self.seats[seat].domains[spread.key] {
                    spread.counts[domain] += change;
                }
            }
        }
    }

    /// Returns the current places.
    pub(super) fn places(&self) -> Vec<(usize, Vec<usize>)> {
        self.seats.iter().map(|seat| (seat.node, seat.pods.clone())).collect()
    }

    /// Returns the moves of pods that are not on their original seat.
    pub(super) fn moves(&self) -> Vec<Move> {
        let all = self.seats.iter().enumerate();
        let moved = all.flat_map(|(to, seat)| {
            let from = seat.pods.iter().map(move |pod| (*pod, self.meant[pod]));
            from.filter(move |(_, from)| *from != to).map(move |(pod, from)| Move {
                pod,
                from: self.seats[from].node,
                to: seat.node,
            })
        });
        let mut moves: Vec<Move> = moved.collect();
        moves.sort_unstable();
        moves
    }

    /// Removes pods whose volumes their node cannot attach, the last ones first, and returns them.
    pub(super) fn shed_volumes(&mut self) -> Vec<usize> {
        let mut left = Vec::new();
        for seat in 0..self.seats.len() {
            while let Some(pod) = self.last_over_attached(seat) {
                self.remove(seat, pod);
                left.push(pod);
            }
        }
        left
    }

    /// Removes pods from seats where not all fit, and returns them: the one to three pods that free enough and request
    /// least, otherwise one pod after the other, the largest first.
    pub(super) fn shed(&mut self) -> Vec<usize> {
        let mut left = Vec::new();
        for seat in 0..self.seats.len() {
            while self.is_short(seat) {
                for pod in self.worth_least(seat) {
                    self.remove(seat, pod);
                    left.push(pod);
                }
            }
        }
        left
    }

    fn remove(&mut self, seat: usize, pod: usize) {
        let row = self.request(pod).to_vec();
        let Seat { free, pods, .. } = &mut self.seats[seat];
        pods.retain(|other| *other != pod);
        free.iter_mut().zip(&row).for_each(|(free, one)| *free = free.saturating_add(*one));
    }

    /// Returns the last pod of a seat that has a volume of its own of a driver that cannot attach all; else the last
    /// one with a volume that others use, too. A node that is not initialized may have the limit of its type only, and
    /// keeps them.
    fn last_over_attached(&self, seat: usize) -> Option<usize> {
        let problem = self.specs.problem;
        let Seat { node, pods, .. } = &self.seats[seat];
        let node = Some(&problem.nodes[*node]).filter(|node| node.initialized)?;
        let driver = node.over_attached(&problem.specs, pods.iter().map(|pod| problem.pods[*pod].spec))?;
        let volumes = |pod: usize| &problem.specs[problem.pods[pod].spec].attachments;
        let there = node.volumes(&problem.specs);
        let new = |pod: usize| volumes(pod).iter().filter(|one| one.driver == *driver && !there.contains(one));
        let is_shared = |pod: usize, one| pods.iter().any(|other| *other != pod && volumes(*other).contains(one));
        let last = |is_it: &dyn Fn(usize) -> bool| pods.iter().rev().copied().find(|pod| is_it(*pod));
        last(&|pod| new(pod).any(|one| !is_shared(pod, one))).or_else(|| last(&|pod| new(pod).next().is_some()))
    }

    /// Returns the next pods to remove from an overcommitted seat, at least one.
    fn worth_least(&self, seat: usize) -> Vec<usize> {
        // Up to three pods of each spec can be among them.
        let mut pods: Vec<usize> = Vec::new();
        for one in self.different(seat) {
            let spec = |pod: usize| self.specs.problem.pods[pod].spec;
            let alike = self.seats[seat].pods.iter().rev().filter(|other| spec(**other) == spec(one));
            pods.extend(alike.take(3));
        }
        let shares: Vec<i64> = pods.iter().map(|pod| self.share(seat, *pod)).collect();
        let mut best: Option<(i64, Vec<usize>)> = None;
        let mut consider = |chosen: &[usize]| {
            let share = chosen.iter().fold(0_i64, |sum, at| sum.saturating_add(shares[*at]));
            let gone: Vec<usize> = chosen.iter().map(|at| pods[*at]).collect();
            if best.as_ref().is_none_or(|(least, _)| share < *least) && self.holds(seat, &gone, &[]) {
                best = Some((share, gone));
            }
        };
        for one in 0..pods.len() {
            consider(&[one]);
        }
        for one in 0..pods.len() {
            for two in one + 1..pods.len() {
                consider(&[one, two]);
                for three in two + 1..pods.len() {
                    consider(&[one, two, three]);
                }
            }
        }
        let largest = || (0..pods.len()).max_by_key(|at| (shares[*at], pods[*at])).map(|at| pods[at]);
        best.map_or_else(|| largest().into_iter().collect(), |(_, gone)| gone)
    }

    /// Returns the pod's requests of the scarce resources of the seat, in millionths of the node's allocatable, summed.
    fn share(&self, seat: usize, pod: usize) -> i64 {
        let Seat { node, free, .. } = &self.seats[seat];
        let all = self.specs.row(&self.specs.problem.nodes[*node].allocatable);
        let asked = self.request(pod).iter().zip(&all).zip(free);
        let short = asked.filter(|((asked, _), free)| **free < 0 && **asked > 0);
        short.map(|((asked, all), _)| asked.saturating_mul(1_000_000) / (*all).max(1)).fold(0, i64::saturating_add)
    }
}

// === impl Spread ===

impl Spread {
    /// Returns true if the spread still holds after one pod moves from one domain to the other.
    fn allows(&self, from: DomainId, to: DomainId) -> bool {
        let after = |domain| self.counts[domain] + i64::from(domain == to) - i64::from(domain == from);
        let least = self.counts.indices().map(after).min().unwrap_or(0);
        after(to) - least <= self.most
    }
}

/// Returns the topology keys of the required spreads of a spec.
fn required_keys(spec: &PodSpec) -> impl Iterator<Item = &str> {
    spec.spread.iter().filter(|one| one.required).map(|one| &*one.topology_key)
}
