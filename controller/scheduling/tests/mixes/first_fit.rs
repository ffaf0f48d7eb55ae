//! Plain first fit for workloads with rules about hosts only: the largest pod first, each to the first node that takes it,
//! a new one of the type on which such a pod costs least. Written apart from the engine, to hold it against.

use std::sync::Arc;

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::*;
use rustc_hash::{FxHashMap, FxHashSet};

struct Node {
    room: Vec<i64>,
    pods: Vec<usize>,
}

fn row(requests: &Resources) -> Vec<i64> {
    [Resource::Cpu, Resource::Memory, Resource::Pods].iter().map(|resource| requests.get(resource)).collect()
}

/// Specs that may not share a host, and spreads over hosts, read as final states.
struct Conflicts<'p> {
    problem: &'p Problem,
    /// By spec: those that it or the other excludes.
    excluded: Vec<FxHashSet<SpecId>>,
    has_spreads: bool,
}

impl<'p> Conflicts<'p> {
    fn new(problem: &'p Problem) -> Self {
        let mut by_label: FxHashMap<(&str, &str), Vec<SpecId>> = FxHashMap::default();
        for (number, spec) in problem.specs.iter().enumerate() {
            spec.labels.iter().for_each(|(key, value)| by_label.entry((&**key, &**value)).or_default().push(number));
        }
        let mut excluded = vec![FxHashSet::default(); problem.specs.len()];
        for (number, spec) in problem.specs.iter().enumerate() {
            for term in spec.anti_affinity.iter().filter(|term| &*term.topology_key == HOSTNAME) {
                let LabelSelector::Terms(terms) = &term.selector else { continue };
                let targets: Vec<SpecId> = match terms.as_slice() {
                    [SelectorTerm { key, operator: SelectorOperator::In, values }] => {
                        let of = |value: &Arc<str>| by_label.get(&(&**key, &**value)).cloned().unwrap_or_default();
                        values.iter().flat_map(of).collect()
                    }
                    _ => (0..problem.specs.len())
                        .filter(|&other| term.selector.matches(&problem.specs[other].labels))
                        .collect(),
                };
                for target in targets {
                    excluded[number].insert(target);
                    excluded[target].insert(number);
                }
            }
        }
        let spreads = problem.specs.iter().flat_map(|spec| &spec.spread);
        let has_spreads = spreads.into_iter().any(|spread| &*spread.topology_key == HOSTNAME);
        Self { problem, excluded, has_spreads }
    }

    /// Returns true if `pod` may join `others`.
    fn allow(&self, pod: usize, others: &[usize]) -> bool {
        let spec = self.problem.pods[pod].spec;
        let excluded = &self.excluded[spec];
        if !excluded.is_empty() && others.iter().any(|&other| excluded.contains(&self.problem.pods[other].spec)) {
            return false;
        }
        let own = &self.problem.specs[spec];
        let crowded = |spec: &PodSpec| {
            spec.spread.iter().filter(|spread| &*spread.topology_key == HOSTNAME).any(|spread| {
                let all = others.iter().map(|&other| self.problem.spec_of(other)).chain([own]);
                all.filter(|spec| spread.selector.matches(&spec.labels)).count() > spread.max_skew as usize
            })
        };
        !self.has_spreads || !crowded(own) && !others.iter().any(|&other| crowded(self.problem.spec_of(other)))
    }
}

/// USD per hour of plain first fit, and its nodes.
pub fn price(problem: &Problem) -> (f64, usize) {
    let types: Vec<(Vec<i64>, f64)> = problem.catalogues[0]
        .iter()
        .map(|one| {
            let room: Vec<i64> =
                row(&one.capacity).iter().zip(row(&one.overhead)).map(|(all, less)| all - less).collect();
            (room, one.offerings[0].price.expect("a price"))
        })
        .collect();
    let fits = |size: &[i64], room: &[i64]| size.iter().zip(room).all(|(size, room)| size <= room);
    let sizes: Vec<Vec<i64>> = (0..problem.pods.len()).map(|pod| row(&problem.spec_of(pod).requests)).collect();
    let mut order: Vec<usize> = (0..problem.pods.len()).collect();
    order.sort_by_key(|&pod| (std::cmp::Reverse((sizes[pod][0], sizes[pod][1])), pod));
    let conflicts = Conflicts::new(problem);
    let (mut nodes, mut total): (Vec<Node>, f64) = (Vec::new(), 0.0);
    let mut first_open = 0;
    for pod in order {
        let size = &sizes[pod];
        while nodes.get(first_open).is_some_and(|node| node.room[0] < 50) {
            first_open += 1;
        }
        let found =
            nodes[first_open..].iter().position(|node| fits(size, &node.room) && conflicts.allow(pod, &node.pods));
        let at = found.map_or_else(
            || {
                let per_pod = |(room, price): &(Vec<i64>, f64)| {
                    let most = room.iter().zip(size).map(|(room, size)| room / size.max(&1)).min().unwrap_or(0);
                    price / most as f64
                };
                let holding = types.iter().filter(|(room, _)| fits(size, room));
                let (room, price) = holding.min_by(|a, b| per_pod(a).total_cmp(&per_pod(b))).expect("a type");
                nodes.push(Node { room: room.clone(), pods: Vec::new() });
                total += price;
                nodes.len() - 1
            },
            |at| at + first_open,
        );
        nodes[at].room.iter_mut().zip(size).for_each(|(room, size)| *room -= size);
        nodes[at].pods.push(pod);
    }
    (total, nodes.len())
}
