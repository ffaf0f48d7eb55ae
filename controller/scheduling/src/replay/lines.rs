//! Scores of nodes for pods with equal constraints, processed in blocks so that most of the work is on plain bytes.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::books::{Gate, Gates};
use super::scheduler::Floor;
use crate::model::{Node, Resource};
use crate::validate::specs::{PlacementId, Specs, ToleranceId, fits};

/// Number of nodes in a block.
pub(super) const BLOCK: usize = 64;

/// Maximum number of domains of a cached mask: those of more domains are rarely used again.
const KEPT_DOMAINS: usize = 8;

/// Pods with equal requests and equal suitable nodes. Room only shrinks, so a node that is full for them stays full.
pub(super) struct Line<'a> {
    request: &'a [i64],
    /// Cpu and memory of the request.
    load: [f64; 2],
    /// Score of each node plus one; zero if the node does not suit or is full.
    score: Vec<u8>,
    /// Number of pods on each node at the time of its score.
    seen: Vec<u32>,
    /// Number of changes to each block at the time of its last update.
    seen_block: Vec<u32>,
    /// Number of scores that are not zero, by block.
    open: Vec<u8>,
}

/// A gate in the form that blocks are filtered with.
pub(super) enum Filter<'s> {
    /// Range of allowed counts on a node.
    Host { counts: &'s [u32], least: u32, span: u32 },
    /// All ones for allowed nodes, zero for the others.
    Mask(Rc<[u8]>),
}

/// The gates of one pod.
pub(super) type Filters<'s> = SmallVec<[Filter<'s>; 4]>;

/// Cached masks by allowed domains. Only few combinations of a few zones occur.
pub(super) struct Masks {
    kept: FxHashMap<Opened, Rc<[u8]>>,
    /// Mask of the pod before, without the nodes that must not have it.
    apart: Rc<[u8]>,
    /// These nodes.
    kept_off: Vec<u32>,
}

/// Index of the label, true if nodes without it are allowed, and the allowed domains.
type Opened = (usize, bool, SmallVec<[bool; 16]>);

impl Masks {
    /// Creates the masks of a number of nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Self { kept: FxHashMap::default(), apart: vec![u8::MAX; nodes].into(), kept_off: Vec::new() }
    }

    /// Returns the filters of a pod with these gates.
    pub(super) fn of<'s>(&mut self, gates: &Gates<'s>) -> Filters<'s> {
        let mut filters = self.of_counts(&gates.others);
        if !gates.apart.is_empty() {
            let apart = Rc::make_mut(&mut self.apart);
            self.kept_off.drain(..).for_each(|node| apart[node as usize] = u8::MAX);
            for &node in gates.apart.iter().copied().flatten() {
                if std::mem::take(&mut apart[node as usize]) > 0 {
                    self.kept_off.push(node);
                }
            }
            filters.push(Filter::Mask(Rc::clone(&self.apart)));
        }
        filters
    }

    fn of_counts<'s>(&mut self, gates: &[Gate<'s>]) -> Filters<'s> {
        gates
            .iter()
            .map(|gate| match gate {
                Gate::Host { counts, least, most } if least <= most => {
                    Filter::Host { counts, least: *least, span: most - least }
                }
                Gate::Host { counts, .. } => Filter::Mask(vec![0; counts.len()].into()),
                Gate::Domain { key, of_node, allowed, nowhere } => {
                    let mask = || -> Rc<[u8]> {
                        let open = |domain: &u32| allowed.get(*domain as usize).copied().unwrap_or(*nowhere);
                        of_node.iter().map(|domain| if open(domain) { u8::MAX } else { 0 }).collect()
                    };
                    if allowed.len() > KEPT_DOMAINS {
                        return Filter::Mask(mask());
                    }
                    let kept = self.kept.entry((*key, *nowhere, allowed.clone()));
                    Filter::Mask(Rc::clone(kept.or_insert_with(mask)))
                }
            })
            .collect()
    }
}

/// The lines of all specs.
pub(super) struct Lines<'a> {
    specs: &'a Specs<'a>,
    nodes: &'a [Node],
    all: Vec<Line<'a>>,
    of_spec: Vec<Option<usize>>,
    ids: FxHashMap<(&'a [i64], PlacementId, ToleranceId), usize>,
    /// 1 for nodes that suit, by placement and tolerations.
    suitable: FxHashMap<(PlacementId, ToleranceId), Rc<[u8]>>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(specs: &'a Specs<'a>, nodes: &'a [Node]) -> Self {
        let of_spec = vec![None; specs.problem.specs.len()];
        Self { specs, nodes, all: Vec::new(), of_spec, ids: FxHashMap::default(), suitable: FxHashMap::default() }
    }

    /// Returns the line of pods of `spec`.
    pub(super) fn of(&mut self, spec: usize) -> &mut Line<'a> {
        let line = match self.of_spec[spec] {
            Some(line) => line,
            None => {
                let line = self.find(spec);
                self.of_spec[spec] = Some(line);
                line
            }
        };
        &mut self.all[line]
    }

    fn find(&mut self, spec: usize) -> usize {
        let (specs, nodes, all) = (self.specs, self.nodes, &mut self.all);
        let (placement, tolerance) = (specs.placement_id(spec), specs.tolerance_id(spec));
        let request = specs.request(spec);
        *self.ids.entry((request, placement, tolerance)).or_insert_with(|| {
            let suitable = self.suitable.entry((placement, tolerance)).or_insert_with(|| {
                let suits =
                    |node: &Node| specs.suits(placement, node) && specs.repelled_by(tolerance, &node.taints).is_none();
                nodes.iter().map(|node| u8::from(suits(node))).collect()
            });
            let amount =
                |resource: Resource| specs.resources.binary_search(&&resource).map_or(0, |at| request[at]) as f64;
            all.push(Line {
                request,
                load: [amount(Resource::Cpu), amount(Resource::Memory)],
                score: suitable.to_vec(),
                seen: vec![u32::MAX; nodes.len()],
                seen_block: vec![u32::MAX; nodes.len().div_ceil(BLOCK)],
                open: suitable.chunks(BLOCK).map(|block| block.iter().sum()).collect(),
            });
            all.len() - 1
        })
    }
}

/// Nodes that are considered for a pod: the first `enough` ones from `start` on that pass `filters` and `takes`.
pub(super) struct Search<'s, 'f, T> {
    pub(super) floor: &'s Floor<'f>,
    pub(super) filters: &'s Filters<'f>,
    pub(super) takes: Option<T>,
    /// Set to the node after the last one considered, if there are more.
    pub(super) start: &'s mut u32,
    pub(super) enough: usize,
}

impl Line<'_> {
    /// Returns the considered node with the highest score; the first of equal nodes.
    pub(super) fn best(&mut self, search: Search<'_, '_, impl Fn(usize) -> bool>) -> Option<usize> {
        let (mut most, mut best) = (0, None);
        self.look(search, |first, scores| {
            let highest = scores.iter().copied().fold(0, u8::max);
            if highest > most {
                most = highest;
                best = scores.iter().position(|&score| score == highest).map(|at| first + at);
            }
        });
        best
    }

    /// Collects the same nodes as [`Self::best`] considers, with their scores.
    pub(super) fn gather(&mut self, search: Search<'_, '_, impl Fn(usize) -> bool>, sample: &mut Vec<(u32, u8)>) {
        self.look(search, |first, scores| {
            let open = (first as u32..).zip(scores).filter(|&(_, &score)| score > 0);
            sample.extend(open.map(|(node, &score)| (node, score - 1)));
        });
    }

    /// Calls `visit` with the scores of the considered nodes, block by block, with the first node of each.
    fn look(&mut self, search: Search<'_, '_, impl Fn(usize) -> bool>, mut visit: impl FnMut(usize, &[u8])) {
        let Search { floor, filters, takes, start, enough } = search;
        let count = self.score.len();
        let from = (*start as usize).min(count);
        let mut looked_at = 0;
        for (mut at, end) in [(from, count), (0, from)] {
            while at < end {
                let block = at / BLOCK;
                let (first, next) = (at, end.min((block + 1) * BLOCK));
                at = next;
                self.refresh(floor, block);
                if self.open[block] == 0 {
                    continue;
                }
                let mut scores = [0; BLOCK];
                let scores = &mut scores[..next - first];
                scores.copy_from_slice(&self.score[first..next]);
                for filter in filters {
                    filter.apply(first, scores);
                }
                if let Some(takes) = &takes {
                    for (node, score) in (first..).zip(scores.iter_mut()) {
                        if *score > 0 && !takes(node) {
                            *score = 0;
                        }
                    }
                }
                let open: usize = scores.iter().map(|&score| u8::from(score > 0)).sum::<u8>().into();
                if looked_at + open < enough {
                    looked_at += open;
                    visit(first, scores);
                    continue;
                }
                let missing = enough - looked_at;
                let mut ranks = (0..scores.len()).filter(|&at| scores[at] > 0);
                let last = ranks.nth(missing - 1).unwrap_or(scores.len() - 1);
                *start = (first + last + 1) as u32;
                visit(first, &scores[..=last]);
                return;
            }
        }
    }

    /// Updates the scores of a block.
    fn refresh(&mut self, floor: &Floor<'_>, block: usize) {
        let range = block * BLOCK..self.score.len().min((block + 1) * BLOCK);
        if self.open[block] == 0 || self.seen_block[block] == floor.changes[block] {
            return;
        }
        self.seen_block[block] = floor.changes[block];
        let width = self.request.len();
        for node in range {
            if self.seen[node] == floor.pods[node] {
                continue;
            }
            self.seen[node] = floor.pods[node];
            if self.score[node] == 0 {
                continue;
            }
            self.score[node] = if fits(self.request, &floor.room[node * width..(node + 1) * width]) {
                1 + self.points(floor.load[node])
            } else {
                self.open[block] -= 1;
                0
            };
        }
    }

    /// Returns the sum of LeastAllocated and BalancedAllocation, 0 to 200. Since Kubernetes 1.36 the latter scores the
    /// change by the pod: 75 if the node stays as balanced as before.
    fn points(&self, load: [(f64, f64); 2]) -> u8 {
        let [cpu, memory] = load.map(|(used, _)| used);
        let [most_cpu, most_memory] = load.map(|(_, allocatable)| allocatable);
        // No operand is negative, so the conversion rounds down like kube-scheduler.
        let free = |used: f64, most: f64| (100.0 * (most - used).max(0.0) / most) as u32;
        let balance = |cpu: f64, memory: f64| {
            let uneven = ((cpu / most_cpu).min(1.0) - (memory / most_memory).min(1.0)).abs();
            (100.0 * (1.0 - uneven / 2.0)) as u32
        };
        let (with_cpu, with_memory) = (cpu + self.load[0], memory + self.load[1]);
        let least = (free(with_cpu, most_cpu) + free(with_memory, most_memory)) / 2;
        let balanced = 50 + (50 + balance(with_cpu, with_memory) - balance(cpu, memory)) / 2;
        (least + balanced) as u8
    }
}

impl Filter<'_> {
    /// Zeroes the scores of nodes that are not allowed; the first of `scores` is that of node number `first`.
    fn apply(&self, first: usize, scores: &mut [u8]) {
        match self {
            Self::Host { counts, least, span } => {
                for (score, count) in scores.iter_mut().zip(&counts[first..]) {
                    *score = if count.wrapping_sub(*least) <= *span { *score } else { 0 };
                }
            }
            Self::Mask(mask) => scores.iter_mut().zip(&mask[first..]).for_each(|(score, mask)| *score &= mask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Labels, PodSpec, Problem, Resources};

    fn pod() -> PodSpec {
        PodSpec::unconstrained("default", Resources::from_iter([(Resource::Cpu, 1100)]))
    }

    fn node(number: usize) -> Node {
        Node {
            name: format!("n{number}").into(),
            labels: Labels::default(),
            taints: Vec::new(),
            allocatable: Resources::from_iter([(Resource::Cpu, 1000 + number as i64)]),
            daemon_requests: Resources::new(),
            initialized: true,
            deleting: false,
            bound: Vec::new(),
            attach_limits: Vec::new(),
            attached: Vec::new(),
        }
    }

    #[test]
    fn a_look_goes_round_and_stops_at_enough() {
        let mut problem = Problem::default();
        problem.intern(pod());
        let nodes: Vec<Node> = (0..300).map(node).collect();
        let specs = Specs::new(&problem);
        let floor = Floor::new(&specs, &nodes);
        let mut lines = Lines::new(&specs, &nodes);
        let even: Rc<[u8]> = (0..300).map(|number| if number % 2 == 0 { u8::MAX } else { 0 }).collect();
        let counts: Vec<u32> = (0..300).map(|number| u32::from(number >= 298)).collect();
        let filters: Filters<'_> =
            [Filter::Mask(even), Filter::Host { counts: &counts, least: 0, span: 0 }].into_iter().collect();
        let takes = |node: usize| node != 102;
        // Nodes below 100 are too small, the last even one is taken, 102 is refused.
        let open = |start: u32| (start..298).chain(100..start).filter(|node| node % 2 == 0 && *node != 102);
        for (start, enough, next) in [(0, 3, 107), (290, 10, 113), (300, 1, 101), (0, 200, 0)] {
            let (mut sample, mut begin) = (Vec::new(), start);
            let search = Search { floor: &floor, filters: &filters, takes: Some(takes), start: &mut begin, enough };
            lines.of(0).gather(search, &mut sample);
            let found: Vec<u32> = sample.iter().map(|&(node, _)| node).collect();
            assert_eq!(found, open(start.max(100)).take(enough).collect::<Vec<_>>());
            assert_eq!(begin, next);
            let most = sample.iter().map(|&(_, points)| points).max();
            let first = sample.iter().find(|&&(_, points)| Some(points) == most).map(|&(node, _)| node as usize);
            let mut start = start;
            let search = Search { floor: &floor, filters: &filters, takes: Some(takes), start: &mut start, enough };
            assert_eq!(lines.of(0).best(search), first);
        }
    }
}
