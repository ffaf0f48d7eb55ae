//! Who has which place, and what room each node has left.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Move;
use crate::labels::HOSTNAME;
use crate::model::{PodSpec, Problem, SpreadConstraint};
use crate::validate::specs::{Specs, intern, label};

/// Nodes with their places, while pods go to and fro.
pub(super) struct Table<'a> {
    specs: Specs<'a>,
    pub(super) seats: Vec<Seat>,
    /// By pod of the problem: where it was meant to go. Only those with a place.
    meant: BTreeMap<usize, usize>,
    /// By spec: what it takes, and whom it may go to.
    habits: FxHashMap<usize, Habit>,
    /// Keys that specs are spread over.
    keys: Vec<&'a str>,
}

/// A node.
pub(super) struct Seat {
    /// Its index in the problem.
    node: usize,
    /// What is left when all are there; negative where they do not fit.
    free: Vec<i64>,
    /// The pods that are meant for it, ascending.
    pub(super) pods: Vec<usize>,
    /// By key: a number for its domain; 0 if it has none.
    domains: Vec<u32>,
}

/// A required spread of a spec.
struct Spread {
    /// Number of its key.
    key: usize,
    most: i64,
    /// By spec: whether its pods count.
    counted: Vec<bool>,
    /// By domain: pods that count, with those that are meant to go there. Of domain 0, which is none, nothing is known.
    counts: Vec<i64>,
}

/// What there is to know of a spec.
struct Habit {
    /// Whether rules between pods, ports or volumes keep it where it is.
    stays: bool,
    /// By seat: whether labels and taints let it go there.
    suits: Vec<bool>,
    /// Spreads that must hold.
    spreads: Vec<Spread>,
    /// How many of them one node takes: kube-scheduler counts who has been told of a node for a spread, and more than `maxSkew`
    /// there refuse each other.
    most: usize,
}

impl<'a> Table<'a> {
    pub(super) fn new(problem: &'a Problem, places: &[(usize, Vec<usize>)]) -> Self {
        let specs = Specs::new(problem);
        let mut keys: Vec<&str> = problem.specs.iter().flat_map(required_keys).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut numbers = vec![(FxHashMap::default(), vec![""]); keys.len()];
        let domains = problem.nodes.iter().map(|node| {
            let domains = keys.iter().zip(&mut numbers).map(|(key, (ids, items))| {
                // The first item stands for none.
                label(node, key).map_or(0, |value| intern(ids, items, value))
            });
            domains.collect()
        });
        let domains: Vec<Vec<u32>> = domains.collect();
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

    fn habit(&self, number: usize, domains: &[Vec<u32>]) -> Habit {
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

    fn spread(&self, spec: &PodSpec, constraint: &SpreadConstraint, domains: &[Vec<u32>]) -> Option<Spread> {
        let problem = self.specs.problem;
        let key = self.keys.binary_search(&&*constraint.topology_key).ok()?;
        let is_counted =
            |other: &PodSpec| other.namespace == spec.namespace && constraint.selector.matches(&other.labels);
        let counted: Vec<bool> = problem.specs.iter().map(is_counted).collect();
        let last = domains.iter().map(|of_node| of_node[key]).max().unwrap_or(0);
        let mut counts = vec![0; last as usize + 1];
        let bound = problem.nodes.iter().zip(domains).flat_map(|(node, of_node)| {
            let there = node.bound.iter().filter(|pod| pod.counts && !node.deleting);
            there.map(move |pod| (pod.spec, of_node[key]))
        });
        let meant =
            self.seats.iter().flat_map(|seat| seat.pods.iter().map(|pod| (problem.pods[*pod].spec, seat.domains[key])));
        for (_, domain) in bound.chain(meant).filter(|(spec, _)| counted[*spec]) {
            counts[domain as usize] += 1;
        }
        Some(Spread { key, most: constraint.max_skew.into(), counted, counts })
    }

    fn request(&self, pod: usize) -> &[i64] {
        self.specs.request(self.specs.problem.pods[pod].spec)
    }

    /// Whether the pods that are meant for the seat do not all fit.
    pub(super) fn is_short(&self, seat: usize) -> bool {
        let Seat { free, pods, .. } = &self.seats[seat];
        (0..free.len()).any(|at| free[at] < 0 && pods.iter().any(|pod| self.request(*pod)[at] > 0))
    }

    /// Of the pods of a seat one of each spec, the last one; the last of them first.
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

    /// Another pod of the seat that is like this one; none of a spread, of which only one goes at a time.
    pub(super) fn twin(&self, seat: usize, pod: usize) -> Option<usize> {
        if self.habit_of(pod).most != usize::MAX {
            return None;
        }
        let spec = |pod: usize| self.specs.problem.pods[pod].spec;
        self.seats[seat].pods.iter().rev().copied().find(|other| *other != pod && spec(*other) == spec(pod))
    }

    /// Whether the pod may go from one seat to the other as far as its rules go.
    pub(super) fn may_go(&self, pod: usize, from: usize, to: usize) -> bool {
        let habit = self.habit_of(pod);
        let allows = |one: &Spread| {
            let (here, there) = (self.seats[from].domains[one.key], self.seats[to].domains[one.key]);
            here != 0 && there != 0 && (here == there || self.keys[one.key] != HOSTNAME && one.allows(here, there))
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

    /// Whether the seat holds what is meant for it if some of that goes and others come.
    pub(super) fn holds(&self, seat: usize, gone: &[usize], come: &[usize]) -> bool {
        let free = &self.seats[seat].free;
        (0..free.len()).all(|at| {
            let sum = |pods: &[usize]| pods.iter().map(|pod| self.request(*pod)[at]).fold(0, i64::saturating_add);
            let (gone, come) = (sum(gone), sum(come));
            // What was short before and is asked for by nobody who stays or comes is nobody's affair.
            free[at].saturating_add(gone).saturating_sub(come) >= 0 || come == 0 && !self.is_asked_for(seat, at, gone)
        })
    }

    /// Whether pods that are meant for the seat ask for more of the resource than `gone`.
    fn is_asked_for(&self, seat: usize, at: usize, gone: i64) -> bool {
        let asked = self.seats[seat].pods.iter().map(|pod| self.request(*pod)[at]);
        asked.fold(0, i64::saturating_add) > gone
    }

    /// Has the pod go from one seat to the other.
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
            spread.counts[self.seats[from].domains[spread.key] as usize] -= 1;
            spread.counts[self.seats[to].domains[spread.key] as usize] += 1;
        }
    }

    /// Where everybody is by now.
    pub(super) fn places(&self) -> Vec<(usize, Vec<usize>)> {
        self.seats.iter().map(|seat| (seat.node, seat.pods.clone())).collect()
    }

    /// Who is not where it was meant to be.
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

    /// Takes places from pods where not all fit, and says from whom: from one to three that together are enough and ask for the
    /// least, else from one after the other, the largest first.
    pub(super) fn shed(&mut self) -> Vec<usize> {
        let mut left = Vec::new();
        for seat in 0..self.seats.len() {
            while self.is_short(seat) {
                for pod in self.worth_least(seat) {
                    let row = self.request(pod).to_vec();
                    let Seat { free, pods, .. } = &mut self.seats[seat];
                    pods.retain(|other| *other != pod);
                    free.iter_mut().zip(&row).for_each(|(free, one)| *free = free.saturating_add(*one));
                    left.push(pod);
                }
            }
        }
        left.sort_unstable();
        left
    }

    /// Pods of a seat that is short, at least one.
    fn worth_least(&self, seat: usize) -> Vec<usize> {
        // Three of each spec can be among them.
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

    /// How much of what is short on the seat the pod asks for, in millionths of the node; of several resources the sum.
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
    /// Whether the spread still holds where one comes, if it leaves the other domain for it.
    fn allows(&self, from: u32, to: u32) -> bool {
        let after = |(domain, count): (usize, &i64)| {
            count + i64::from(domain == to as usize) - i64::from(domain == from as usize)
        };
        let counts = self.counts.iter().enumerate().skip(1);
        let least = counts.clone().map(after).min().unwrap_or(0);
        counts.map(after).nth((to as usize).saturating_sub(1)).is_some_and(|count| count - least <= self.most)
    }
}

/// Keys over which a pod with this spec must be spread.
fn required_keys(spec: &PodSpec) -> impl Iterator<Item = &str> {
    spec.spread.iter().filter(|one| one.required).map(|one| &*one.topology_key)
}
