//! Realistic part of a proposal's savings. Evicted pods are recreated under new names, and kube-scheduler scores nodes
//! for them differently from the plan: new nodes are bought for pods that it leaves without a place.
//!
//! ```text
//!   parts of a proposal ──► replay of kube-scheduler's profile ──► pods left over ──► second solve ──► their price
//!                                                                                            │
//!     the part that saves most ◄── try all parts, then half as many, ... ◄── savings − price ◄┘
//! ```

use std::collections::BTreeSet;

use super::consolidate::Proposal;
use super::pass::Pass;
use super::savings::Offer;
use super::world::Trial;
use crate::replay::replay;

impl Pass<'_> {
    /// Returns the part of `proposal` that saves most once kube-scheduler has placed the pods; empty if that saves
    /// nothing. Parts with the highest savings per moved pod come first.
    pub(super) fn deliverable(&mut self, mut proposal: Proposal) -> Proposal {
        if !self.world.settings.replayed || proposal.parts.is_empty() {
            return proposal;
        }
        let worth = |(part, offer): &(Trial, Offer)| offer.savings / self.world.moves(part).max(1) as f64;
        let by_worth = |a: &(Trial, Offer), b: &(Trial, Offer)| worth(b).total_cmp(&worth(a));
        proposal.parts.sort_by(|a, b| by_worth(a, b).then_with(|| a.0.nodes.cmp(&b.0.nodes)));
        let mut best = (0, 0.0);
        let mut count = proposal.parts.len();
        while count > 0 {
            let gain = self.delivered(&proposal.parts[..count]);
            if gain > best.1 {
                best = (count, gain);
            }
            // Half of a failing proposal may succeed; less of a succeeding one saves less.
            if best.0 > 0 && gain < best.1 {
                break;
            }
            count /= 2;
        }
        proposal.parts.truncate(best.0);
        proposal.gain = best.1;
        proposal
    }

    /// Returns the savings of executing `parts` together, in USD per hour, minus the price of the moves, for the worst
    /// of some orders in which pods are recreated, since the order is not known. Pods for which a node is bought again
    /// count as two moves. Negative infinity if some pods would have no place.
    fn delivered(&mut self, parts: &[(Trial, Offer)]) -> f64 {
        let joined = Trial::joined(parts.iter().map(|(part, _)| part.clone()).collect());
        let savings: f64 = parts.iter().map(|(_, offer)| offer.savings).sum();
        let move_price = self.world.settings.move_price;
        let moved = self.world.moves(&joined);
        let has_volumes = |pod: usize| {
            let spec = &self.world.problem.specs[self.world.pod(joined.pods[pod]).spec];
            !spec.attachments.is_empty() || !spec.volume_terms.is_empty()
        };
        let gain = orders(&joined.pods, has_volumes).into_iter().map(|order| {
            let trial = joined.in_order(&order);
            let replayed = self.world.as_scheduled(|world| {
                world.without(&trial.nodes, &trial.pods, |world| {
                    replay(&world.problem, &world.settings.options, &trial.solution)
                })
            });
            if replayed.unplaced > 0 {
                return f64::NEG_INFINITY;
            }
            let moves = moved + replayed.left_over;
            savings - (replayed.expected_price - trial.price()) - moves as f64 * move_price
        });
        gain.fold(f64::INFINITY, f64::min)
    }
}

/// Returns orders in which pods, listed by node, may be recreated. Draining a consolidated node evicts pods with
/// volumes before others, and these return once the volume is free: before all others at the soonest, and unless a
/// budget holds them, after the pods of nodes without volumes at the latest.
///
/// Without volumes: as listed, and reversed. With volumes, up to four: those with volumes first; after the pods of
/// other nodes, these as listed or reversed; after those, node by node.
fn orders(pods: &[(usize, usize)], has_volumes: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let (with, without): (Vec<usize>, Vec<usize>) = (0..pods.len()).partition(|&pod| has_volumes(pod));
    let wait: BTreeSet<usize> = with.iter().map(|&pod| pods[pod].0).collect();
    let (last, first): (Vec<usize>, Vec<usize>) = without.iter().copied().partition(|&pod| wait.contains(&pods[pod].0));
    let soonest: Vec<usize> = with.iter().chain(&without).copied().collect();
    let reversed: Vec<usize> = first.iter().rev().chain(&with).chain(last.iter().rev()).copied().collect();
    let mut orders = vec![soonest, reversed];
    if !with.is_empty() {
        orders.push(first.iter().chain(&with).chain(&last).copied().collect());
        let mut waiting: Vec<usize> = with.iter().chain(&last).copied().collect();
        // Stable: of each node those with volumes come first.
        waiting.sort_by_key(|&pod| pods[pod].0);
        orders.push(first.into_iter().chain(waiting).collect());
    }
    orders.sort_unstable();
    orders.dedup();
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_with_volumes_return_soon_late_and_node_by_node() {
        // Two pods of node 0 without volumes; of nodes 1 and 2 the second pod has one.
        let pods = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
        let orders_of = |with: &[usize]| orders(&pods, |pod| with.contains(&pod));
        assert_eq!(orders_of(&[]), [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]]);
        let expected = [[0, 1, 3, 2, 5, 4], [0, 1, 3, 5, 2, 4], [1, 0, 3, 5, 4, 2], [3, 5, 0, 1, 2, 4]];
        assert_eq!(orders_of(&[3, 5]), expected);
    }

    #[test]
    fn equal_orders_are_replayed_once() {
        assert_eq!(orders(&[(0, 0), (0, 1)], |pod| pod == 0), [[0, 1]]);
        assert_eq!(orders(&[(0, 0)], |_| false), [[0]]);
    }
}
