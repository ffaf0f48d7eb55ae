//! Explanation of the placement of a pod.

use std::sync::Arc;

use super::census::{Census, alternatives};
use super::story::{self, RuledOut};
use super::topology::{Rules, meant};
use super::{existing, judge, wording};
use crate::labels;
use crate::model::{Node, PodSpec};
use crate::solution::{NewNode, PoolVerdict};

/// A node of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacedOn {
    /// Index in [`crate::model::Problem::nodes`].
    Existing(usize),
    /// Index in [`crate::solution::Solution::new_nodes`].
    New(usize),
}

/// Explanation of the placement of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Index of the pod.
    pub pod: usize,
    /// Its node.
    pub node: PlacedOn,
    /// The pool of the node, if known.
    pub pool: Option<Arc<str>>,
    /// Reason for an existing or a new node.
    pub why_node: String,
    /// Reason for this pool.
    pub why_pool: String,
    /// Pools that are tried earlier and refused the pod.
    pub refused: Vec<PoolVerdict>,
    /// Effects of the pod's own constraints.
    pub narrowed: Vec<Narrowing>,
    /// Its rules about other pods, with the pods that they affect.
    pub shared_rules: Vec<SharedRule>,
    /// Types cheaper than the node's, closest price first, with the reason why they were not chosen.
    pub ruled_out: Vec<RuledOut>,
    /// Remarks that need attention.
    pub notes: Vec<String>,
}

/// A constraint of the pod on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowing {
    /// The label.
    pub key: Arc<str>,
    /// The requirement on it (`In [a b]`).
    pub requirement: String,
    /// Part of the pod spec that contains the constraint.
    pub source: &'static str,
}

/// A rule about other pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRule {
    /// The rule in words.
    pub rule: String,
    /// Other pending pods of the plan that it affects, by index.
    pub pods: Vec<usize>,
}

pub(super) fn placed(census: &Census<'_>, order: &[usize], pod: usize) -> Option<Placement> {
    let problem = census.problem;
    let spec = problem.specs.get(problem.pods.get(pod)?.spec)?;
    let mut notes: Vec<String> = Vec::new();
    let new = census.solution.new_nodes.iter().enumerate().find(|(_, node)| node.pods.contains(&pod));
    let base = |node, pool, why_node, why_pool| Placement {
        pod,
        node,
        pool,
        why_node,
        why_pool,
        refused: Vec::new(),
        narrowed: narrowed(spec),
        shared_rules: shared_rules(census, spec, pod),
        ruled_out: Vec::new(),
        notes: Vec::new(),
    };
    let Some((index, node)) = new else {
        let (index, _) = census.solution.existing.iter().find(|(_, pods)| pods.contains(&pod))?;
        let node = problem.nodes.get(*index)?;
        let pool = node.labels.get(labels::NODE_POOL).cloned();
        let why_node = "it has room on a node that exists, and those are filled before any is launched".to_owned();
        let why_pool = pool_of_existing(node);
        return Some(Placement { notes, ..base(PlacedOn::Existing(*index), pool, why_node, why_pool) });
    };
    let pool = problem.pools.get(node.pool)?;
    let heavier = order.iter().take_while(|it| **it != node.pool);
    let rules = Rules::new(spec);
    let judged = heavier.map(|it| (*it, judge::judge(census, *it, &rules)));
    let (mut refused, mut accepting) = (Vec::new(), Vec::new());
    for (it, verdict) in judged {
        let name = &problem.pools[it].name;
        match verdict {
            Err(finding) => refused.push(finding.verdict(name)),
            Ok(_) if problem.pools[it].weight > pool.weight => accepting.push(name),
            Ok(_) => {}
        }
    }
    if !accepting.is_empty() {
        let names = wording::list(accepting, ", ");
        notes.push(format!(
            "nodepool {names} is heavier and would take the pod alone, but not with those it shares a node with"
        ));
    }
    let equals = problem.pools.iter().filter(|it| it.weight == pool.weight).count();
    let why_pool = match (refused.len(), equals) {
        (0, 1) => format!("nodepool {:?} (weight {}) is tried first", pool.name, pool.weight),
        (0, _) => format!("nodepool {:?} is the cheapest of those with weight {}", pool.name, pool.weight),
        (count, _) => {
            format!("nodepool {:?} (weight {}) takes it; {count} tried before it do not", pool.name, pool.weight)
        }
    };
    let why_node = why_new(census, &rules, node);
    let ruled_out = story::ruled_out(census, node);
    Some(Placement {
        refused,
        ruled_out,
        notes,
        ..base(PlacedOn::New(index), Some(Arc::clone(&pool.name)), why_node, why_pool)
    })
}

fn pool_of_existing(node: &Node) -> String {
    match node.labels.get(labels::NODE_POOL) {
        Some(pool) => format!("node {:?} belongs to nodepool {pool:?}", node.name),
        None => format!("node {:?} belongs to no nodepool", node.name),
    }
}

fn why_new<'s>(census: &Census<'s>, rules: &Rules<'s>, node: &NewNode) -> String {
    let nodes = &census.problem.nodes;
    let shared = match node.pods.len() {
        0 | 1 => "on a new node of its own".to_owned(),
        pods => format!("on a new node with {}", wording::others(pods - 1, "pod")),
    };
    if nodes.is_empty() {
        return format!("{shared}; there is no existing node");
    }
    let refusals = (0..nodes.len()).filter_map(|index| Some((existing::refusal(census, index, rules)?, index)));
    let nearest = refusals.max_by_key(|(finding, index)| (finding.stage, std::cmp::Reverse(*index)));
    match nearest {
        Some((finding, index)) => {
            format!("{shared}; nearest existing node {:?}: {}", nodes[index].name, finding.message)
        }
        None => shared,
    }
}

fn narrowed(spec: &PodSpec) -> Vec<Narrowing> {
    let from = |source| {
        move |(key, it): (&Arc<str>, &crate::model::Requirement)| Narrowing {
            key: Arc::clone(key),
            requirement: wording::requirement(it),
            source,
        }
    };
    let selector = spec.node_selector.iter().map(from("node selector"));
    let terms = spec.node_terms.iter().flat_map(|term| term.iter().map(from("node affinity")));
    let volumes = spec.volume_terms.iter().flat_map(|term| term.iter().map(from("volume")));
    selector.chain(terms).chain(volumes).collect()
}

fn shared_rules(census: &Census<'_>, spec: &PodSpec, pod: usize) -> Vec<SharedRule> {
    let problem = census.problem;
    let concerned = |matches: &dyn Fn(&PodSpec) -> bool| {
        let suits: Vec<bool> = problem.specs.iter().map(matches).collect();
        let pods = problem.pods.iter().enumerate().filter(|(index, _)| *index != pod);
        pods.filter(|(_, it)| suits.get(it.spec).copied().unwrap_or(false)).map(|(index, _)| index).collect()
    };
    let mut rules = Vec::new();
    for spread in &spec.spread {
        let how = if spread.required { "must" } else { "should" };
        let (key, selector) = (&spread.topology_key, wording::selector(&spread.selector));
        let rule = format!("{how} spread over {key} with maxSkew {} ({selector})", spread.max_skew);
        let same = |it: &PodSpec| it.namespace == spec.namespace && spread.selector.matches(&it.labels);
        rules.push(SharedRule { rule, pods: concerned(&same) });
    }
    let terms = spec.affinity.iter().map(|term| ("must share", term));
    for (how, term) in terms.chain(spec.anti_affinity.iter().map(|term| ("must not share", term))) {
        let rule = format!("{how} a {} with {}", term.topology_key, wording::selector(&term.selector));
        rules.push(SharedRule { rule, pods: concerned(&|it| meant(term, it)) });
    }
    let inverse = |other: &PodSpec| other.anti_affinity.iter().any(|term| meant(term, spec));
    let pods: Vec<usize> = concerned(&inverse);
    if !pods.is_empty() {
        rules.push(SharedRule { rule: "kept away by the anti-affinity of these pods".to_owned(), pods });
    }
    rules
}

/// Returns the constraint of `spec` that refers to `key`.
pub(super) fn source_of(spec: &PodSpec, key: &str) -> Option<&'static str> {
    let has = |terms: &[crate::model::Requirements]| terms.iter().any(|term| term.get(key).is_some());
    let about = |topology: &Arc<str>| labels::stable_name(topology) == key;
    if spec.node_selector.get(key).is_some() {
        Some("node selector")
    } else if alternatives(spec).any(|it| it.get(key).is_some()) {
        Some("node affinity")
    } else if has(&spec.volume_terms) {
        Some("volume")
    } else if spec.spread.iter().any(|it| about(&it.topology_key)) {
        Some("topology spread")
    } else if spec.affinity.iter().any(|it| about(&it.topology_key)) {
        Some("pod affinity")
    } else if spec.anti_affinity.iter().any(|it| about(&it.topology_key)) {
        Some("pod anti-affinity")
    } else {
        None
    }
}
