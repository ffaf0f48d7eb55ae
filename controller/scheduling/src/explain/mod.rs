//! Explanations: why a pod is pending, why it is on its node, and why a node has its type and pool.
//!
//! [`Explainer`] checks a pod against each pool in the order of trial (weight descending, then name ascending;
//! Karpenter orders equal weights by name descending) and stops at the first constraint that fails. The checks follow
//! Karpenter's order: pool, taints, requirements, volumes, topology, types, host ports, resources, offerings,
//! minValues, limits. The pool that passed the most checks is the nearest one and gives the pod's reason. Phrases that
//! operators search for are Karpenter's.
//!
//! Remarks on manifests beyond constraints (no requests, an image for another architecture) are made by the caller,
//! which has the manifest.

mod census;
mod costly;
mod existing;
mod finding;
mod judge;
mod likeness;
mod placement;
mod purchase;
mod spread;
mod story;
mod topology;
mod types;
mod volumes;
pub(crate) mod wording;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub(crate) use costly::Costly;
pub use placement::{Narrowing, PlacedOn, Placement, SharedRule};
pub use story::{DaemonCharge, Fill, NodeStory, PodShare, RequirementOrigin, RuledOut};

use crate::model::{Options, PodSpec, PoolState, Problem, Refusal, SpecId};
use crate::solution::{PoolVerdict, Reason, Solution, Unschedulable};
use census::Census;
use finding::{Finding, Stage};
use topology::Rules;

/// Explains one snapshot and the nodes decided for it. The reason for a pending pod is cached per spec, so that further
/// replicas cost nothing.
#[derive(Debug)]
pub struct Explainer<'a> {
    census: Census<'a>,
    /// Pools in the order of trial.
    order: Vec<usize>,
    answers: Vec<Option<Unschedulable>>,
    /// Rules that were not fully evaluated when pods were placed, by spec.
    costly: FxHashMap<SpecId, Costly>,
    /// Number of these specs that were explained.
    costly_answers: usize,
}

/// Maximum number of specs with costly rules that are explained. Each domain is checked for that, which takes as long
/// as placing the pod; the others get a common message.
const MOST_COSTLY: usize = 8;

/// Explains why `pod` cannot be placed, given the nodes decided so far. For many pods, keep an [`Explainer`], as the
/// [example of the crate](crate#example) does.
pub fn unschedulable(problem: &Problem, options: &Options, solution_so_far: &Solution, pod: usize) -> Unschedulable {
    Explainer::new(problem, options, solution_so_far).unschedulable(pod)
}

/// Explains why `pod` is on the node that `solution` gives it; `None` if it is not placed.
pub fn placed(problem: &Problem, options: &Options, solution: &Solution, pod: usize) -> Option<Placement> {
    Explainer::new(problem, options, solution).placed(pod)
}

/// Explains a node: its type, price, requirements and pods; `None` if the node does not exist.
pub fn node(problem: &Problem, options: &Options, solution: &Solution, node: PlacedOn) -> Option<NodeStory> {
    Explainer::new(problem, options, solution).node(node)
}

impl<'a> Explainer<'a> {
    /// Creates an explainer for `problem`, with the nodes of `solution` as decided.
    pub fn new(problem: &'a Problem, options: &'a Options, solution: &'a Solution) -> Self {
        let mut order: Vec<usize> = (0..problem.pools.len()).collect();
        order.sort_by_key(|pool| (Reverse(problem.pools[*pool].weight), &problem.pools[*pool].name));
        let answers = vec![None; problem.specs.len()];
        Self {
            census: Census::new(problem, options, solution),
            order,
            answers,
            costly: FxHashMap::default(),
            costly_answers: 0,
        }
    }

    /// Sets the specs whose rules were not fully evaluated.
    #[must_use]
    pub(crate) fn with_costly(mut self, costly: Vec<Costly>) -> Self {
        self.costly = costly.into_iter().map(|one| (one.spec, one)).collect();
        self
    }

    /// Explains why `pod` cannot be placed.
    pub fn unschedulable(&mut self, pod: usize) -> Unschedulable {
        let problem = self.census.problem;
        let spec = problem.pods.get(pod).map(|pod| pod.spec).filter(|spec| *spec < problem.specs.len());
        let Some(spec) = spec else {
            let message = "there is no such pod".to_owned();
            return Unschedulable { pod, reason: Reason::NoNodePool, message, pools: Vec::new() };
        };
        if let Some(answer) = &self.answers[spec] {
            return Unschedulable { pod, ..answer.clone() };
        }
        let known = &self.census.solution.unschedulable;
        if let Ok(at) = known.binary_search_by_key(&pod, |one| one.pod)
            && known[at].reason == Reason::TooComplex
        {
            // This reason comes from all pods of the namespace, not from this one.
            return known[at].clone();
        }
        let answer = match self.costly.get(&spec) {
            Some(costly) if self.costly_answers >= MOST_COSTLY => costly.told(problem, pod),
            costly => {
                self.costly_answers += usize::from(costly.is_some());
                self.answer(pod, spec)
            }
        };
        self.answers[spec] = Some(answer.clone());
        answer
    }

    /// Explains why `pod` is on the node that the solution gives it; `None` if it is not placed.
    pub fn placed(&self, pod: usize) -> Option<Placement> {
        placement::placed(&self.census, &self.order, pod)
    }

    /// Explains a node; `None` if it does not exist.
    pub fn node(&self, node: PlacedOn) -> Option<NodeStory> {
        story::tell(&self.census, node)
    }

    /// Returns the reason why the existing node does not take a pod of `spec`, in one clause; `None` if there is none,
    /// or if the node or spec does not exist.
    pub fn refused_by(&self, node: usize, spec: usize) -> Option<String> {
        let spec = self.census.problem.specs.get(spec)?;
        existing::refusal(&self.census, node, &Rules::new(spec)).map(|finding| finding.message)
    }

    fn answer(&self, pod: usize, id: SpecId) -> Unschedulable {
        let pools = &self.census.problem.pools;
        let spec: &'a PodSpec = &self.census.problem.specs[id];
        if let Some(finding) = spec.refusal.as_ref().map(refused) {
            let (reason, message) = (finding.reason, finding.message.clone());
            let verdicts = self.order.iter().map(|pool| finding.clone().verdict(&pools[*pool].name)).collect();
            return Unschedulable { pod, reason, message, pools: verdicts };
        }
        let rules = Rules::new(spec);
        let findings: Vec<(usize, Finding)> =
            self.order.iter().map(|pool| (*pool, self.against(*pool, &rules, id))).collect();
        let nearest = findings.iter().max_by_key(|(pool, finding)| {
            let rank = self.order.iter().position(|it| it == pool);
            (finding.stage, Reverse(rank))
        });
        let (reason, message) = match (existing::named_hosts(spec), nearest) {
            (Some(hosts), _) => self.on_named(&rules, hosts.into_iter().collect()),
            (None, None) => (Reason::NoNodePool, format!("there is no nodepool{}", self.on_existing(&rules))),
            (None, Some((pool, finding))) if findings.iter().all(|(_, it)| it.reason == Reason::NoNodePool) => {
                let existing = self.on_existing(&rules);
                let nearest = &pools[*pool];
                // An open pool launches nothing if its requirements exclude all types.
                let is_open = nearest.state == PoolState::Ready && nearest.missing_replicas.is_none();
                let message = if is_open {
                    format!("incompatible with nodepool {:?}, {}", nearest.name, finding.message)
                } else {
                    format!("no nodepool may launch, {}", finding.message)
                };
                (finding.reason, message + &existing)
            }
            (None, Some((pool, finding))) => {
                let others =
                    others("nodepool", findings.iter().filter(|(other, _)| other != pool).map(|(_, it)| it.reason));
                let name = &pools[*pool].name;
                (finding.reason, format!("incompatible with nodepool {name:?}, {}{others}", finding.message))
            }
        };
        let verdicts: Vec<PoolVerdict> =
            findings.into_iter().map(|(pool, finding)| finding.verdict(&pools[pool].name)).collect();
        Unschedulable { pod, reason, message, pools: verdicts }
    }

    fn against(&self, pool: usize, rules: &Rules<'_>, spec: SpecId) -> Finding {
        match (judge::judge(&self.census, pool, rules), self.costly.get(&spec)) {
            (Err(finding), _) => finding,
            (Ok(_), Some(costly)) => {
                let (message, hint) = costly.words();
                Finding::new(Stage::Together, Reason::TooComplex, message).hint(hint)
            }
            (Ok(_), None) => together(rules.spec),
        }
    }

    /// Returns the reason for a pod that selects hostnames, from the first of these nodes that exists.
    fn on_named(&self, rules: &Rules<'a>, hosts: Vec<Arc<str>>) -> (Reason, String) {
        let nodes = &self.census.problem.nodes;
        let found =
            hosts.iter().find_map(|host| Some((host, nodes.iter().position(|it| existing::answers_to(it, host))?)));
        let Some((host, index)) = found else {
            let names = wording::list(hosts, ", ");
            return (Reason::IncompatibleRequirements, format!("the pod selects hostname {names}, and no node has it"));
        };
        match existing::refusal(&self.census, index, rules) {
            Some(finding) => {
                let near = finding.nearest.map(|near| format!(", {near}")).unwrap_or_default();
                (finding.reason, format!("the pod may only go to node {host:?}: {}{near}", finding.message))
            }
            None => {
                let finding = together(rules.spec);
                (finding.reason, format!("the pod may only go to node {host:?}: {}", finding.message))
            }
        }
    }

    /// Returns the reason why the existing nodes do not take the pod, in one clause.
    fn on_existing(&self, rules: &Rules<'a>) -> String {
        let nodes = &self.census.problem.nodes;
        let findings =
            (0..nodes.len()).filter_map(|index| Some((index, existing::refusal(&self.census, index, rules)?)));
        let findings: Vec<(usize, Finding)> = findings.collect();
        let nearest = findings.iter().max_by_key(|(index, finding)| (finding.stage, Reverse(*index)));
        let Some((index, nearest)) = nearest else { return String::new() };
        let others = others("node", findings.iter().filter(|(other, _)| other != index).map(|(_, it)| it.reason));
        format!("; nearest existing node {:?}: {}{others}", nodes[*index].name, nearest.message)
    }
}

fn refused(refusal: &Refusal) -> Finding {
    let (reason, message, hint) = match refusal {
        Refusal::DynamicResources { why, fix } => {
            (Reason::DynamicResources, format!("pod uses dynamic resource claims, {why}"), fix.as_str())
        }
        Refusal::Volume { why, fix } => {
            (Reason::Volume, format!("the pod's volumes cannot be attached, {why}"), fix.as_str())
        }
        Refusal::EmptyTerm => {
            let message = "node affinity has an empty term, which matches no node".to_owned();
            let hint = "remove the empty term from nodeSelectorTerms, or the whole required node affinity";
            (Reason::IncompatibleRequirements, message, hint)
        }
        Refusal::Contradiction(key) => {
            let message = format!("expressions of one term of the node affinity exclude each other, key {key}");
            let hint = "remove one of these expressions, or write each into a term of its own: one term has to hold";
            (Reason::IncompatibleRequirements, message, hint)
        }
        Refusal::MatchFields(what) => {
            let hint = "use matchExpressions on labels instead of matchFields";
            let message = format!("node affinity uses matchFields, which only an existing node can meet, {what}");
            (Reason::IncompatibleRequirements, message, hint)
        }
    };
    Finding::new(Stage::Pool, reason, message).hint(hint.to_owned())
}

/// Returns the finding for a pod that passes every check on its own: its rules conflict with the other pods of the
/// plan.
fn together(spec: &PodSpec) -> Finding {
    let reason = if spec.spread.iter().any(|spread| spread.required) {
        Reason::TopologySpread
    } else if !spec.anti_affinity.is_empty() {
        Reason::PodAntiAffinity
    } else if !spec.affinity.is_empty() {
        Reason::PodAffinity
    } else {
        Reason::Resources
    };
    let message = "each constraint can be met, but not all together with the other pods of the plan".to_owned();
    Finding::new(Stage::Together, reason, message).hint("plan the pod alone to see where it would go".to_owned())
}

/// Formats `; 3 other nodepools: 2 Taints, 1 Limits`; empty without reasons.
fn others(noun: &str, reasons: impl Iterator<Item = Reason>) -> String {
    let mut counts: BTreeMap<Reason, usize> = BTreeMap::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let total: usize = counts.values().sum();
    if total == 0 {
        return String::new();
    }
    let counted = counts.iter().map(|(reason, count)| format!("{count} {}", reason.name()));
    format!("; {}: {}", wording::others(total, noun), counted.collect::<Vec<_>>().join(", "))
}
