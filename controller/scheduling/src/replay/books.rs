//! Counts of rules by domain, updated while pods are placed.

use index_vec::{IndexVec, index_vec};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::logarithm::ln;
use crate::model::{Node, Problem};
use crate::validate::rules::{BY_HOST, Demand, Rule, RuleId, Rules};
use crate::validate::specs::{Specs, label};

/// Placeholder for the domain of a node that lacks the label.
const NOWHERE: u32 = u32::MAX;

/// Counts of a rule. Anti-affinity over hosts has lists of nodes instead: with thousands of such rules, counts by rule
/// and node would take most of the memory, and to compare them most of the time.
#[derive(Debug, Clone, Default)]
struct Account {
    /// Pods that the rule counts, by domain.
    counted: Vec<u32>,
    /// Pods that own the rule, by domain.
    owners: Vec<u32>,
    /// Nodes with such pods, for anti-affinity over hosts; `owner_nodes` likewise.
    counted_nodes: Vec<u32>,
    owner_nodes: Vec<u32>,
    /// Total number of pods that the rule counts.
    total: u32,
    /// Domains over which the minimum of a spread is taken.
    eligible: Vec<u32>,
    /// True for nodes whose pods do not count, by node.
    outside: Vec<bool>,
}

/// The counts of all rules.
pub(super) struct Books<'a> {
    rules: &'a Rules<'a>,
    /// Domain by key and node.
    domain: Vec<Vec<u32>>,
    accounts: IndexVec<RuleId, Account>,
}

impl<'a> Books<'a> {
    /// Counts the bound pods of `nodes`.
    pub(super) fn new(specs: &'a Specs<'a>, rules: &'a Rules<'a>, nodes: &'a [Node]) -> Self {
        let mut sizes = Vec::with_capacity(rules.keys.len());
        let domain = rules.keys.iter().enumerate().map(|(at, key)| {
            let mut ids: FxHashMap<&str, u32> = FxHashMap::default();
            let domains = (0_u32..).zip(nodes).map(|(number, node)| {
                if at == BY_HOST {
                    return number;
                }
                let next = u32::try_from(ids.len()).unwrap_or(NOWHERE);
                label(node, key).map_or(NOWHERE, |value| *ids.entry(value).or_insert(next))
            });
            let domains: Vec<u32> = domains.collect();
            sizes.push(if at == BY_HOST { nodes.len() } else { ids.len() });
            domains
        });
        let domain: Vec<Vec<u32>> = domain.collect();
        let mut books = Self { rules, accounts: index_vec![Account::default(); rules.all.len()], domain };
        for (rule, account) in rules.all.iter().zip(&mut books.accounts) {
            if is_apart(rule) {
                continue;
            }
            account.counted = vec![0; sizes[rule.key]];
            account.owners = vec![0; if rule.demand == Demand::AntiAffinity { sizes[rule.key] } else { 0 }];
            let Demand::Spread { placement: Some(placement), tolerance, honor_affinity, .. } = rule.demand else {
                continue;
            };
            let placement = specs.placement(placement).without_volumes();
            account.outside = nodes
                .iter()
                .map(|node| {
                    honor_affinity && !placement.suits(node)
                        || tolerance.is_some_and(|id| specs.repelled_by(id, &node.taints).is_some())
                })
                .collect();
            let key = rules.keys[rule.key];
            for (number, node) in nodes.iter().enumerate() {
                let domain = books.domain[rule.key][number];
                let allowed = label(node, key).is_some_and(|value| placement.allows(key, value));
                if allowed && !account.outside[number] && !account.eligible.contains(&domain) {
                    account.eligible.push(domain);
                }
            }
        }
        for (number, node) in nodes.iter().enumerate() {
            for bound in node.bound.iter().filter(|bound| bound.counts) {
                books.enter(bound.spec, number);
            }
        }
        books
    }

    /// Counts a pod of `spec` on `node`.
    pub(super) fn enter(&mut self, spec: usize, node: usize) {
        for &rule in self.rules.counted(spec) {
            let about = &self.rules.all[rule];
            let domain = self.domain[about.key][node];
            let account = &mut self.accounts[rule];
            if is_apart(about) {
                note(&mut account.counted_nodes, domain);
            } else if domain != NOWHERE && !account.outside.get(node).is_some_and(|outside| *outside) {
                account.counted[domain as usize] += 1;
                account.total += 1;
            }
        }
        for &rule in self.rules.owned(spec) {
            let about = &self.rules.all[rule];
            let domain = self.domain[about.key][node];
            let account = &mut self.accounts[rule];
            if is_apart(about) {
                note(&mut account.owner_nodes, domain);
            } else if domain != NOWHERE && !account.owners.is_empty() {
                account.owners[domain as usize] += 1;
            }
        }
    }

    /// Returns the rules that restrict the nodes of a pod of `spec`, with the current counts.
    pub(super) fn gates(&self, spec: usize) -> Gates<'_> {
        let mut gates = SmallVec::new();
        let about = |rule: RuleId| &self.rules.all[rule];
        let account = |rule: &RuleId| &self.accounts[*rule];
        let (owned, counted) = (self.rules.owned(spec), self.rules.counted(spec));
        // Both lists are empty for all other rules.
        let by_own = owned.iter().map(|rule| &*account(rule).counted_nodes);
        let by_others = counted.iter().map(|rule| &*account(rule).owner_nodes);
        let apart = by_own.chain(by_others).filter(|nodes| !nodes.is_empty()).collect();
        for &rule in owned.iter().filter(|rule| !is_apart(about(**rule))) {
            let account = &self.accounts[rule];
            let counts_itself = || counted.contains(&rule);
            let (least, most) = match about(rule).demand {
                Demand::Spread { required: false, .. } => continue,
                Demand::Spread { max_skew, min_domains, .. } => {
                    let enough = min_domains.is_none_or(|least| account.eligible.len() as i64 >= i64::from(least));
                    let counts = account.eligible.iter().map(|&domain| account.counted[domain as usize]);
                    let least = if enough { counts.min().unwrap_or(0) } else { 0 };
                    (0, i64::from(least) + max_skew - i64::from(counts_itself()))
                }
                Demand::AntiAffinity => (0, 0),
                Demand::Affinity if account.total == 0 && counts_itself() => (0, i64::MAX),
                Demand::Affinity => (1, i64::MAX),
            };
            gates.push(self.gate(rule, &account.counted, least, most));
        }
        for &rule in counted.iter().filter(|rule| !is_apart(about(**rule))) {
            if about(rule).demand == Demand::AntiAffinity {
                gates.push(self.gate(rule, &self.accounts[rule].owners, 0, 0));
            }
        }
        Gates { apart, others: gates }
    }

    /// Returns true if pods on `node` or in its domain exclude a pod of `spec`, and no later pod can change that: by an
    /// anti-affinity of either side, or by a spread over hosts, since a new empty host is always possible.
    pub(super) fn is_closed(&self, spec: usize, node: usize) -> bool {
        let counted = self.rules.counted(spec);
        let number = |counts: &[u32], rule: RuleId| {
            let domain = self.domain[self.rules.all[rule].key][node];
            counts.get(domain as usize).map_or(0, |count| i64::from(*count))
        };
        let is_on = |nodes: &[u32]| nodes.contains(&(node as u32));
        let by_own = self.rules.owned(spec).iter().any(|&rule| {
            let about = self.rules.all[rule];
            if is_apart(&about) {
                return is_on(&self.accounts[rule].counted_nodes);
            }
            let there = number(&self.accounts[rule].counted, rule);
            match about.demand {
                Demand::AntiAffinity => there > 0,
                Demand::Spread { required: true, max_skew, .. } if about.key == BY_HOST => {
                    there + i64::from(counted.contains(&rule)) > max_skew
                }
                Demand::Spread { .. } | Demand::Affinity => false,
            }
        });
        let repels = |rule: &RuleId| self.rules.all[*rule].demand == Demand::AntiAffinity;
        let is_repelled = |rule: &RuleId| {
            let account = &self.accounts[*rule];
            number(&account.owners, *rule) > 0 || is_on(&account.owner_nodes)
        };
        by_own || counted.iter().any(|rule| repels(rule) && is_repelled(rule))
    }

    fn gate<'s>(&'s self, rule: RuleId, counts: &'s [u32], least: u32, most: i64) -> Gate<'s> {
        let rule = &self.rules.all[rule];
        // A negative maximum allows nothing, which an empty range expresses.
        let (least, most) = match u32::try_from(most.min(i64::from(u32::MAX))) {
            Ok(most) => (least, most),
            Err(_) => (1, 0),
        };
        if rule.key == BY_HOST {
            return Gate::Host { counts, least, most };
        }
        let allowed = counts.iter().map(|count| (least..=most).contains(count)).collect();
        Gate::Domain {
            key: rule.key,
            of_node: &self.domain[rule.key],
            allowed,
            nowhere: rule.demand == Demand::AntiAffinity,
        }
    }

    /// Collects the preferred spreads of `spec`: rule, weight of a pod there, and the constant of kube-scheduler's
    /// formula.
    pub(super) fn wishes(&self, spec: usize, wishes: &mut Vec<(RuleId, f64, f64)>) {
        wishes.clear();
        for &rule in self.rules.owned(spec) {
            let about = self.rules.all[rule];
            if let Demand::Spread { max_skew, required: false, .. } = about.demand {
                let domains = self.accounts[rule].counted.len();
                wishes.push((rule, ln(domains as f64 + 2.0), max_skew as f64 - 1.0));
            }
        }
    }

    /// Returns the score of preferred spreads for `node` before normalization, lower is better; `None` if it lacks a
    /// label.
    pub(super) fn crowding(&self, wishes: &[(RuleId, f64, f64)], node: usize) -> Option<f64> {
        let mut sum = 0.0;
        for &(rule, weight, constant) in wishes {
            let domain = self.domain[self.rules.all[rule].key][node];
            let count = self.accounts[rule].counted.get(domain as usize)?;
            sum += f64::from(*count) * weight + constant;
        }
        Some(sum.round())
    }
}

/// Returns true for anti-affinity over hosts.
fn is_apart(rule: &Rule<'_>) -> bool {
    rule.key == BY_HOST && rule.demand == Demand::AntiAffinity
}

/// Adds a node, which the pod before may have added.
fn note(nodes: &mut Vec<u32>, node: u32) {
    if nodes.last() != Some(&node) {
        nodes.push(node);
    }
}

/// The rules that restrict the nodes of a pod.
pub(super) struct Gates<'s> {
    /// Lists of nodes that are not allowed.
    pub(super) apart: SmallVec<[&'s [u32]; 4]>,
    /// Rules with counts.
    pub(super) others: SmallVec<[Gate<'s>; 4]>,
}

/// One rule, with the counts at the time at which a pod is placed.
pub(super) enum Gate<'s> {
    /// Range of allowed counts on a node.
    Host {
        /// Counts by node.
        counts: &'s [u32],
        /// Minimum.
        least: u32,
        /// Maximum.
        most: u32,
    },
    /// Allowed domains.
    Domain {
        /// Index of the label.
        key: usize,
        /// Domain by node.
        of_node: &'s [u32],
        /// True for allowed domains.
        allowed: SmallVec<[bool; 16]>,
        /// True if nodes without the label are allowed.
        nowhere: bool,
    },
}

/// Returns the rules of specs: `placed` is true for specs of pods to place; the others are those of bound pods that
/// count.
pub(super) fn rules_of<'a>(specs: &Specs<'a>, problem: &'a Problem, nodes: &[Node], placed: &[bool]) -> Rules<'a> {
    let mut bound = vec![false; problem.specs.len()];
    for pod in nodes.iter().flat_map(|node| &node.bound).filter(|pod| pod.counts) {
        bound[pod.spec] = true;
    }
    Rules::new(specs, placed, &bound, true)
}
