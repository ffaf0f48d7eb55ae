//! Splits a trial of many nodes into parts that can be executed alone: nodes whose pods share a new node stay together.

use crate::solution::{NewNode, Solution, Unschedulable};

use super::world::Trial;

impl Trial {
    /// Returns true if every pod has a place.
    pub(super) fn places_all(&self) -> bool {
        self.solution.unschedulable.is_empty()
    }

    /// Returns true if it needs launches.
    pub(super) fn launches(&self) -> bool {
        !self.solution.new_nodes.is_empty()
    }

    /// Returns the price of its launches, in USD per hour.
    pub(super) fn price(&self) -> f64 {
        self.solution.new_nodes.iter().map(|node| node.price).sum()
    }

    /// Returns the nodes that have pods without a place.
    pub(super) fn stuck(&self) -> Vec<usize> {
        let mut nodes: Vec<usize> = self.solution.unschedulable.iter().map(|pod| self.pods[pod.pod].0).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Returns the smallest parts, in the order of their first nodes.
    pub(super) fn parts(&self) -> Vec<Self> {
        let position = |node: usize| self.nodes.iter().position(|&other| other == node);
        let owner: Vec<usize> = {
            // Pods are in the order of their nodes.
            let mut owner = Vec::with_capacity(self.pods.len());
            let mut at = 0;
            for &(node, _) in &self.pods {
                while self.nodes.get(at).is_some_and(|&other| other != node) {
                    at += 1;
                }
                owner.push(if at < self.nodes.len() { at } else { position(node).unwrap_or(0) });
            }
            owner
        };
        let mut leader: Vec<usize> = (0..self.nodes.len()).collect();
        for new in &self.solution.new_nodes {
            let mut owners = new.pods.iter().map(|&pod| owner[pod]);
            let Some(first) = owners.next() else { continue };
            for other in owners {
                let (a, b) = (find(&mut leader, first), find(&mut leader, other));
                leader[a.max(b)] = a.min(b);
            }
        }
        let group: Vec<usize> = (0..self.nodes.len()).map(|at| find(&mut leader, at)).collect();
        self.grouped(&owner, &group)
    }

    /// Joins parts that share no new node into one trial.
    pub(super) fn joined(parts: Vec<Self>) -> Self {
        let mut joined = Self { nodes: Vec::new(), pods: Vec::new(), solution: Solution::default() };
        let mut existing: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
        for part in parts {
            let first = joined.pods.len();
            joined.nodes.extend(part.nodes);
            joined.pods.extend(part.pods);
            let shifted = |pods: Vec<usize>| pods.into_iter().map(move |pod| first + pod);
            for (node, pods) in part.solution.existing {
                existing.entry(node).or_default().extend(shifted(pods));
            }
            joined.solution.new_nodes.extend(
                part.solution
                    .new_nodes
                    .into_iter()
                    .map(|node| NewNode { pods: shifted(node.pods).collect(), ..NewNode { pods: Vec::new(), ..node } }),
            );
            joined.solution.unschedulable.extend(
                part.solution.unschedulable.into_iter().map(|one| Unschedulable { pod: first + one.pod, ..one }),
            );
        }
        joined.solution.existing = existing.into_iter().collect();
        joined
    }

    /// Returns the trial with its pods in another order: `order` is a permutation of their indices.
    pub(super) fn in_order(&self, order: &[usize]) -> Self {
        let mut number = vec![0; self.pods.len()];
        order.iter().enumerate().for_each(|(new, &old)| number[old] = new);
        let renumber = |pods: &mut Vec<usize>| {
            pods.iter_mut().for_each(|pod| *pod = number[*pod]);
            pods.sort_unstable();
        };
        let mut other = self.clone();
        other.pods = order.iter().map(|&old| self.pods[old]).collect();
        other.solution.new_nodes.iter_mut().for_each(|node| renumber(&mut node.pods));
        other.solution.existing.iter_mut().for_each(|(_, pods)| renumber(pods));
        other.solution.unschedulable.iter_mut().for_each(|one| one.pod = number[one.pod]);
        other.solution.unschedulable.sort_by_key(|one| one.pod);
        other
    }

    fn grouped(&self, owner: &[usize], group: &[usize]) -> Vec<Self> {
        let mut part_of = vec![usize::MAX; self.nodes.len()];
        let mut parts: Vec<Self> = Vec::new();
        for (at, &leader) in group.iter().enumerate() {
            if part_of[leader] == usize::MAX {
                part_of[leader] = parts.len();
                parts.push(Self { nodes: Vec::new(), pods: Vec::new(), solution: Solution::default() });
            }
            parts[part_of[leader]].nodes.push(self.nodes[at]);
        }
        let part = |pod: usize| part_of[group[owner[pod]]];
        let mut number = vec![0; self.pods.len()];
        for (pod, &place) in self.pods.iter().enumerate() {
            let pods = &mut parts[part(pod)].pods;
            number[pod] = pods.len();
            pods.push(place);
        }
        for new in &self.solution.new_nodes {
            let Some(&first) = new.pods.first() else { continue };
            let pods = new.pods.iter().map(|&pod| number[pod]).collect();
            parts[part(first)].solution.new_nodes.push(NewNode { pods, ..new.clone() });
        }
        for (node, pods) in &self.solution.existing {
            for &pod in pods {
                let existing = &mut parts[part(pod)].solution.existing;
                match existing.last_mut() {
                    Some((last, pods)) if last == node => pods.push(number[pod]),
                    _ => existing.push((*node, vec![number[pod]])),
                }
            }
        }
        for one in &self.solution.unschedulable {
            parts[part(one.pod)].solution.unschedulable.push(Unschedulable { pod: number[one.pod], ..one.clone() });
        }
        parts
    }
}

fn find(leader: &mut [usize], mut at: usize) -> usize {
    while leader[at] != at {
        leader[at] = leader[leader[at]];
        at = leader[at];
    }
    at
}
