//! Savings that consolidation promised for each NodePool, and what came of them. A pool whose commands do not deliver
//! is left at rest.
//!
//! ```text
//!   commands of one pass ──► promised USD/h, the kinds of pods that they move, and how many of each kind there are
//!        │ ten minutes
//!        ▼
//!   nodes launched since, for such pods beyond what grew, or for buffers ──► delivered = promised − their price
//!        │
//!        ▼
//!   last three passes of a pool deliver less than half ──► Policy::rests_until: 10, 20, 40 min, 1 h
//! ```
//!
//! The replay of kube-scheduler before a command is begun foresees most of what is bought again. This is for what it
//! cannot know: another scheduler, other scores, a webhook that changes pods. Replacements that a command launches are
//! part of what it promised, so they do not count against it.
//!
//! This is memory, not state: after a restart three passes are judged anew.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_manifest::snapshot::runs_on;
use muster_scheduling::disrupt::{Cause, Command, DisruptionInput};
use muster_scheduling::model::PodSpec;
use rustc_hash::{FxHashMap, FxHasher};

/// Time after which a pass is judged: its nodes are drained, and what its pods needed has been launched.
const JUDGED_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Number of passes of a pool that are judged together.
const JUDGED: usize = 3;
/// Share of the promised savings that they must deliver.
const LEAST: f64 = 0.5;
/// First and longest rest of a pool.
const REST: (SignedDuration, SignedDuration) = (SignedDuration::from_mins(10), SignedDuration::from_hours(1));

/// Promised and delivered savings by NodePool.
#[derive(Debug, Clone, Default)]
pub(super) struct Savings {
    /// Passes that are not judged yet, oldest first.
    open: VecDeque<Pass>,
    pools: BTreeMap<Arc<str>, Account>,
}

/// Consolidation commands that were begun together.
#[derive(Debug, Clone)]
struct Pass {
    at: Timestamp,
    /// USD per hour, by pool of the nodes that go.
    promised: BTreeMap<Arc<str>, f64>,
    /// Number of pods in the cluster when it began, by the kind of pods that it moved, and of virtual pods.
    moved: FxHashMap<Kind, usize>,
}

/// A hash of everything that decides where a pod may go. Pods that a controller creates in place of evicted ones have
/// the same.
type Kind = u64;

#[derive(Debug, Clone, Default)]
struct Account {
    /// Promised and delivered USD per hour of the last passes.
    last: VecDeque<(f64, f64)>,
    /// Rests since a pass last delivered.
    rests: u32,
    rest: Option<Rest>,
    /// Sums since the controller began to lead, in USD per hour.
    promised: f64,
    delivered: f64,
}

/// The rest of a NodePool whose consolidation did not deliver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rest {
    /// The end of it.
    pub until: Timestamp,
    /// Savings that its last passes promised, in USD per hour.
    pub promised: f64,
    /// Savings that came of them, in USD per hour; negative if more was launched than they saved.
    pub delivered: f64,
}

/// Savings of one NodePool since the controller began to lead.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    /// Name of the NodePool.
    pub pool: Arc<str>,
    /// USD per hour that judged commands promised.
    pub promised: f64,
    /// USD per hour that came of them.
    pub delivered: f64,
    /// Its last rest, which may be over.
    pub rest: Option<Rest>,
}

// === impl Savings ===

impl Savings {
    /// Judges the passes that are due, and has resting pools left alone.
    pub(super) fn observe(&mut self, input: &mut DisruptionInput, now: Timestamp) {
        while self.open.front().is_some_and(|pass| now >= later(pass.at, JUDGED_AFTER)) {
            let Some(pass) = self.open.pop_front() else { break };
            let delivered = pass.promised() - pass.bought_again(input, &self.open);
            for (pool, promised) in &pass.promised {
                let share = promised / pass.promised();
                self.pools.entry(Arc::clone(pool)).or_default().settle(*promised, delivered * share, now);
            }
        }
        for (pool, policy) in input.problem.pools.iter().zip(&mut input.policies) {
            let rest = self.pools.get(&pool.name).and_then(|account| account.rest);
            policy.rests_until = rest.map(|rest| rest.until).filter(|until| now < *until);
        }
    }

    /// Takes note of the commands that are begun now.
    pub(super) fn note_begun<'c>(
        &mut self,
        input: &DisruptionInput,
        begun: impl IntoIterator<Item = &'c Command>,
        now: Timestamp,
    ) {
        let mut pass = Pass { at: now, promised: BTreeMap::new(), moved: FxHashMap::default() };
        // Nodes without pods deliver what they promise.
        for command in begun.into_iter().filter(|command| command.cause == Cause::Underutilized) {
            for &node in &command.candidates {
                let Some(managed_node) = &input.managed_nodes[node] else { continue };
                let share = command.savings / command.candidates.len() as f64;
                *pass.promised.entry(Arc::clone(&managed_node.pool_name)).or_default() += share;
                let bound = &input.problem.nodes[node].bound;
                for node_pod in managed_node.leavers() {
                    let Some(pod) = bound.get(node_pod) else { continue };
                    pass.moved.insert(kind(&input.problem.specs[pod.spec]), 0);
                }
            }
        }
        if pass.promised() > 0.0 && !pass.moved.is_empty() {
            // The pods that move may take the room that virtual pods keep.
            pass.moved.extend(virtual_specs(input).into_iter().map(|spec| (kind(spec), 0)));
            count(input, &mut pass.moved);
            self.open.push_back(pass);
        }
    }

    /// Promised and delivered savings of each pool, by name.
    pub(super) fn delivered(&self) -> impl Iterator<Item = Delivered> {
        self.pools.iter().map(|(pool, account)| Delivered {
            pool: Arc::clone(pool),
            promised: account.promised,
            delivered: account.delivered,
            rest: account.rest,
        })
    }
}

// === impl Pass ===

impl Pass {
    /// USD per hour in all.
    fn promised(&self) -> f64 {
        self.promised.values().sum()
    }

    /// USD per hour of nodes that were launched since for pods of these kinds. Pods beyond the number that there was
    /// then are new load. A node that a later pass explains is not counted.
    fn bought_again(&self, input: &DisruptionInput, later: &VecDeque<Self>) -> f64 {
        let mut now: FxHashMap<Kind, usize> = self.moved.keys().map(|kind| (*kind, 0)).collect();
        count(input, &mut now);
        let unseen = virtual_specs(input);
        // By kind: pods on new nodes, and the price of their shares of these.
        let mut on_new: BTreeMap<Kind, (usize, f64)> = BTreeMap::new();
        for (number, (node, managed_node)) in input.problem.nodes.iter().zip(&input.managed_nodes).enumerate() {
            let Some(created) = managed_node.as_ref().filter(|one| !one.is_replacement).and_then(|one| one.created)
            else {
                continue;
            };
            let mut pods: Vec<Kind> = node
                .bound
                .iter()
                .filter(|pod| !pod.daemon && pod.counts)
                .map(|pod| kind(&input.problem.specs[pod.spec]))
                .collect();
            if pods.is_empty() && node.initialized {
                // It may keep the room of a virtual pod; as many nodes do as there are such pods.
                let is_there = |spec: &&&PodSpec| {
                    let counted = on_new.get(&kind(spec)).map_or(0, |(count, _)| *count);
                    counted < now.get(&kind(spec)).copied().unwrap_or_default() && runs_on(spec, node)
                };
                pods.extend(unseen.iter().find(is_there).map(|spec| kind(spec)));
            }
            let explains = |pass: &Self| pass.at < created && pods.iter().any(|pod| pass.moved.contains_key(pod));
            if !explains(self) || later.iter().any(explains) {
                continue;
            }
            let share = input.price(number).unwrap_or_default() / pods.len() as f64;
            for pod in pods.into_iter().filter(|pod| self.moved.contains_key(pod)) {
                let (count, price) = on_new.entry(pod).or_default();
                *count += 1;
                *price += share;
            }
        }
        let again = on_new.into_iter().map(|(kind, (count, price))| {
            let before = self.moved.get(&kind).copied().unwrap_or_default();
            let grown = now.get(&kind).copied().unwrap_or_default().saturating_sub(before);
            price * count.saturating_sub(grown) as f64 / count as f64
        });
        again.sum()
    }
}

// === impl Account ===

impl Account {
    fn settle(&mut self, promised: f64, delivered: f64, now: Timestamp) {
        self.promised += promised;
        self.delivered += delivered;
        self.last.push_back((promised, delivered));
        if self.last.len() > JUDGED {
            self.last.pop_front();
        }
        let sum = |of: fn(&(f64, f64)) -> f64| self.last.iter().map(of).sum::<f64>();
        let (promised, delivered) = (sum(|one| one.0), sum(|one| one.1));
        if delivered >= LEAST * promised {
            self.rests = 0;
        } else if self.last.len() == JUDGED {
            let rest = REST.0.saturating_mul(1 << self.rests.min(10)).min(REST.1);
            self.rests += 1;
            self.rest = Some(Rest { until: later(now, rest), promised, delivered });
            self.last.clear();
        }
    }
}

fn later(moment: Timestamp, by: SignedDuration) -> Timestamp {
    moment.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn kind(spec: &PodSpec) -> Kind {
    let mut hasher = FxHasher::default();
    spec.hash(&mut hasher);
    hasher.finish()
}

/// Returns the distinct constraints of the virtual pods that nodes can hold.
fn virtual_specs(input: &DisruptionInput) -> Vec<&PodSpec> {
    let specs: BTreeSet<usize> = input.problem.pods.iter().map(|pod| pod.spec).collect();
    let specs = specs.into_iter().map(|spec| &input.problem.specs[spec]);
    specs.filter(|spec| spec.is_virtual && spec.refusal.is_none()).collect()
}

/// Adds the pods of the cluster to the kinds that are counted, bound and pending ones.
fn count(input: &DisruptionInput, kinds: &mut FxHashMap<Kind, usize>) {
    let problem = &input.problem;
    let mut by_spec = vec![0_usize; problem.specs.len()];
    let bound = problem.nodes.iter().flat_map(|node| &node.bound).filter(|pod| !pod.daemon && pod.counts);
    for spec in bound.map(|pod| pod.spec).chain(problem.pods.iter().map(|pod| pod.spec)) {
        by_spec[spec] += 1;
    }
    for (spec, pods) in problem.specs.iter().zip(by_spec).filter(|(_, pods)| *pods > 0) {
        if let Some(count) = kinds.get_mut(&kind(spec)) {
            *count += pods;
        }
    }
}
