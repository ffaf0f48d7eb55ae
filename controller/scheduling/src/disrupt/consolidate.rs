//! Consolidation: decides which nodes to keep by their value per dollar, and where the pods of the others move.
//!
//! Candidates are sorted by value, lowest first. A trial takes a number of them from the front and places all their
//! pods in the room of the others and, if that is not enough, on new nodes. The number is found by bisection (the
//! maximum without a launch), and then numbers above it are tried, where launches pay. A trial is split into commands
//! that do not depend on each other. Remaining nodes are tried one by one.

use super::decision::{Block, Method};
use super::input::Cause;
use super::pass::Pass;
use super::ranking::worst_first;
use super::savings::Offer;
use super::world::Trial;

/// Number of candidates up to which every prefix is tried.
const FEW: usize = 12;

/// Number of candidates above which the bisection stops early, at a precision of one in this many: the next pass finds
/// the rest, and every step of the bisection is a trial.
const EXACTLY_UP_TO: usize = 100;

/// Maximum number of rounds in which parts that are not worth it, or whose pods do not fit, are left out of a trial.
const REPAIRS: usize = 4;

/// Maximum number of nodes that are tried one by one. A count, not a time: a plan does not depend on the load of the
/// machine.
const SINGLES: usize = 200;

/// Maximum number of nodes that wait for the same launches. Groups of this size fill new nodes nearly as well as all
/// together.
pub(super) const MOST_TOGETHER: usize = 100;

/// A trial that can be executed: its parts, and their savings minus the price of the moves.
pub(super) struct Proposal {
    pub(super) parts: Vec<(Trial, Offer)>,
    pub(super) gain: f64,
}

impl Pass<'_> {
    pub(super) fn consolidate(&mut self) {
        // Nodes whose own pods changed recently take no pods from consolidation.
        for (node, managed_node) in self.managed_nodes() {
            let after = managed_node.pool.and_then(|pool| self.input().policies[pool].consolidate_after);
            if after.is_some() && !managed_node.is_consolidatable(after, self.world.now) {
                self.world.close(node);
            }
        }
        let candidates: Vec<(usize, usize)> = self.consolidatable(false);
        self.many(&candidates);
        if self.world.settings.first && self.commands.iter().any(|command| !command.cause.forceful()) {
            return;
        }
        self.one_by_one(&candidates);
    }

    // === many at once ===

    fn many(&mut self, candidates: &[(usize, usize)]) {
        let nodes: Vec<usize> = candidates.iter().map(|&(node, _)| node).collect();
        if nodes.len() < 2 {
            return;
        }
        let ordered = worst_first(&mut self.world, &nodes);
        let list = self.within_budgets(ordered);
        let Some((list, whole)) = self.without_stuck(list) else { return };
        let mut best: Option<Proposal> = None;
        let mut numbers: Vec<usize> = if list.len() <= FEW {
            (1..list.len()).collect()
        } else {
            let most = self.most_without_launch(&list);
            let rest = list.len() - most;
            let beyond = [1, 2, 3].map(|quarter| most + rest * quarter / 4);
            std::iter::once(most).chain(beyond).filter(|&number| number > 0 && number < list.len()).collect()
        };
        numbers.dedup();
        let trials = numbers.into_iter().map(Some).chain([None]);
        for number in trials {
            let trial = match number {
                Some(number) => self.world.attempt(&list[..number]),
                None => whole.clone(),
            };
            let proposal = self.propose(trial);
            if proposal.gain > 0.0 && best.as_ref().is_none_or(|best| proposal.gain > best.gain) {
                best = Some(proposal);
            }
        }
        let Some(mut best) = best else { return };
        if list.len() <= FEW {
            best = self.without_needless(best);
        }
        let best = self.deliverable(best);
        self.carry_out(best);
    }

    /// Returns the proposal without nodes whose removal saves nothing.
    fn without_needless(&mut self, mut best: Proposal) -> Proposal {
        let mut nodes: Vec<usize> = best.parts.iter().flat_map(|(part, _)| part.nodes.clone()).collect();
        for node in nodes.clone() {
            let others: Vec<usize> = nodes.iter().copied().filter(|&other| other != node).collect();
            if others.is_empty() {
                break;
            }
            let trial = self.world.attempt(&others);
            let proposal = self.propose(trial);
            if proposal.gain >= best.gain {
                nodes = proposal.parts.iter().flat_map(|(part, _)| part.nodes.clone()).collect();
                best = proposal;
            }
        }
        best
    }

    /// Returns the nodes of `ordered` that the budgets allow, in order.
    fn within_budgets(&self, ordered: Vec<usize>) -> Vec<usize> {
        let mut ledger = self.ledger.clone();
        let pool_of =
            |node: usize| self.input().managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool);
        let mut goes = |&node: &usize| {
            let Some(pool) = pool_of(node) else { return false };
            let free = ledger.left(pool, Cause::Underutilized) > 0 && ledger.pods_left(self.input(), node).is_none();
            if free {
                ledger.take(Some(pool));
                ledger.evict(self.input(), node);
            }
            free
        };
        ordered.into_iter().filter(|node| goes(node)).collect()
    }

    /// Returns the list without nodes whose pods do not even fit on new nodes, and the trial of the rest.
    fn without_stuck(&mut self, mut list: Vec<usize>) -> Option<(Vec<usize>, Trial)> {
        for _ in 0..REPAIRS {
            if list.is_empty() {
                return None;
            }
            let trial = self.world.attempt(&list);
            let stuck = trial.stuck();
            if stuck.is_empty() {
                return Some((list, trial));
            }
            list.retain(|node| !stuck.contains(node));
        }
        None
    }

    /// Returns the maximum number of nodes of `list` whose pods all fit on the remaining nodes.
    fn most_without_launch(&mut self, list: &[usize]) -> usize {
        let (mut fits, mut too_many) = (0, list.len() + 1);
        while too_many - fits > 1 + list.len() / EXACTLY_UP_TO {
            let middle = fits.midpoint(too_many);
            let trial = self.world.attempt(&list[..middle]);
            if trial.places_all() && !trial.launches() { fits = middle } else { too_many = middle }
        }
        fits
    }

    /// Returns the parts of a trial that are worth executing.
    fn propose(&mut self, mut trial: Trial) -> Proposal {
        for round in 0..=REPAIRS {
            let parts = trial.parts();
            let all = parts.len();
            let offers = parts.into_iter().filter_map(|part| Some((self.offer(&part).ok()?, part)));
            let parts: Vec<(Trial, Offer)> = offers.map(|(offer, part)| (part, offer)).collect();
            // If a part is left out, the others are tried again: rules between pods may now have another result.
            if parts.len() == all || round == REPAIRS && parts.iter().all(|(part, _)| !part.launches()) {
                let moves: usize = parts.iter().map(|(part, _)| self.world.moves(part)).sum();
                let savings: f64 = parts.iter().map(|(_, offer)| offer.savings).sum();
                let gain = savings - moves as f64 * self.world.settings.move_price;
                return Proposal { parts, gain };
            }
            let nodes: Vec<usize> = parts.iter().flat_map(|(part, _)| part.nodes.iter().copied()).collect();
            if nodes.is_empty() {
                break;
            }
            // Launches are what is refused repeatedly: the last round tries only parts without launches.
            let nodes: Vec<usize> = if round + 1 < REPAIRS {
                nodes
            } else {
                let free = parts.iter().filter(|(part, _)| !part.launches());
                free.flat_map(|(part, _)| part.nodes.iter().copied()).collect()
            };
            trial = self.world.attempt(&nodes);
        }
        Proposal { parts: Vec::new(), gain: 0.0 }
    }

    /// Accepts the parts: those without launches as one command, each of the others as its own.
    fn carry_out(&mut self, proposal: Proposal) {
        let (launching, free): (Vec<_>, Vec<_>) = proposal.parts.into_iter().partition(|(part, _)| part.launches());
        let method = |trial: &Trial| if trial.nodes.len() > 1 { Method::MultiNode } else { Method::SingleNode };
        if !free.is_empty() {
            let joined = Trial::joined(free.into_iter().map(|(part, _)| part).collect());
            self.accept((Cause::Underutilized, method(&joined)), &joined, Vec::new());
        }
        // None of these nodes takes pods of the others, in any order.
        for &node in launching.iter().flat_map(|(part, _)| &part.nodes) {
            self.world.close(node);
        }
        for (part, offer) in launching {
            if part.nodes.len() <= MOST_TOGETHER {
                self.accept((Cause::Underutilized, method(&part)), &part, offer.launches);
                continue;
            }
            // All of these would wait for the slowest launch, and fail with the first that fails: use smaller groups,
            // each with its own new nodes.
            for batch in part.nodes.chunks(MOST_TOGETHER) {
                let trial = self.world.attempt(batch);
                if let Ok(offer) = self.offer(&trial) {
                    self.accept((Cause::Underutilized, method(&trial)), &trial, offer.launches);
                }
            }
        }
    }

    // === one by one ===

    fn one_by_one(&mut self, candidates: &[(usize, usize)]) {
        let mut tried = 0;
        let still: Vec<usize> = self.managed_nodes().into_iter().map(|(node, _)| node).collect();
        for &(node, pool) in candidates {
            if still.binary_search(&node).is_err() {
                continue;
            }
            // A node that takes pods in this pass is not disrupted in it.
            if self.world.received[node] > 0 {
                continue;
            }
            if self.ledger.left(pool, Cause::Underutilized) == 0 {
                self.keep_by_budget(&self.ledger.clone(), node, pool, Cause::Underutilized);
                continue;
            }
            if !self.evictions_are_left(node) {
                continue;
            }
            tried += 1;
            if tried > SINGLES {
                self.keep(node, Block::NothingToGain, "removing it as well would save nothing".to_owned());
                continue;
            }
            let trial = self.world.attempt(&[node]);
            match self.offer(&trial) {
                Ok(offer) => {
                    let proposal = self.deliverable(Proposal { parts: vec![(trial, offer)], gain: 0.0 });
                    let Some((trial, offer)) = proposal.parts.into_iter().next() else {
                        let message =
                            "kube-scheduler would put its pods elsewhere than planned, and nothing would be saved";
                        self.keep(node, Block::NothingToGain, message.to_owned());
                        continue;
                    };
                    self.accept((Cause::Underutilized, Method::SingleNode), &trial, offer.launches);
                    if self.world.settings.first {
                        return;
                    }
                }
                Err((block, message)) => self.keep(node, block, message),
            }
        }
    }
}
