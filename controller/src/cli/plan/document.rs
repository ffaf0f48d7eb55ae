//! Plan for programs. Field names are a contract: fields may be added, never renamed or removed.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::annotations::NODECLAIM_MIN_VALUES_RELAXED;
use muster_manifest::snapshot::Remark;
use muster_scheduling::model;
use muster_scheduling::model::{Effect, Labels, Operator, Problem, Requirements, Taint};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::super::inputs::Inputs;
use super::super::quantity::exact_map;
use super::Assessment;
use super::shared_list::SharedList;

/// `kind: Plan`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanDocument {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) new_nodes: Vec<NewNode>,
    pub(crate) existing_nodes: Vec<ExistingNode>,
    pub(crate) unschedulable: Vec<UnschedulablePod>,
    /// Preferences that the plan does not keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) preferences: Vec<ForgonePreference>,
    pub(crate) summary: Summary,
}

/// Preference that the plan does not keep for these pods.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForgonePreference {
    pub(crate) preference: String,
    pub(crate) weight: i32,
    pub(crate) pods: Vec<String>,
    /// Increase of the hourly price if it were kept; absent if pods would stay pending for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra_hourly_price: Option<f64>,
}

/// Node to launch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewNode {
    pub(crate) name: String,
    pub(crate) node_pool: String,
    pub(crate) pods: Vec<String>,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) price: f64,
    pub(crate) instance_types: SharedList<String>,
    pub(crate) requirements: SharedList<RequirementDocument>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<TaintDocument>,
    pub(crate) startup_taints: Vec<TaintDocument>,
    pub(crate) requests: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Requirement in the form of a NodeClaim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequirementDocument {
    pub(crate) key: String,
    pub(crate) operator: &'static str,
    pub(crate) values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_values: Option<u32>,
}

/// Taint in the form of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TaintDocument {
    pub(crate) key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) value: String,
    pub(crate) effect: &'static str,
}

/// Existing node that gets pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ExistingNode {
    pub(crate) name: String,
    pub(crate) pods: Vec<String>,
}

/// Pod that stays pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnschedulablePod {
    pub(crate) pod: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) node_pools: Vec<PoolVerdict>,
    /// Warnings for the pod's author, independent of its placement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<RemarkDocument>,
}

/// Remark on a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct RemarkDocument {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Reason why one NodePool cannot take a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolVerdict {
    pub(crate) node_pool: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nearest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// Summary of the plan in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) pods: usize,
    pub(crate) scheduled: usize,
    pub(crate) unschedulable: usize,
    pub(crate) new_nodes: usize,
    pub(crate) hourly_price: f64,
    pub(crate) lower_bound_hourly_price: f64,
    pub(crate) expected_hourly_price: f64,
    pub(crate) price_source: String,
    /// The same with the age of the prices, which depends on the time of the command.
    #[serde(skip)]
    pub(crate) aged_price_source: String,
    pub(crate) solve_seconds: f64,
    pub(crate) bound_seconds: f64,
    pub(crate) validate_seconds: f64,
}

// === impl PlanDocument ===

impl PlanDocument {
    /// Builds the document of `assessment`, a plan for `inputs`.
    pub(crate) fn new(inputs: &Inputs, assessment: &Assessment) -> Self {
        let Inputs { problem, manifests: _, managed_nodes: _, remarks, price_source } = inputs;
        let Assessment {
            solution,
            forgone,
            lower_bound,
            expected_price,
            solve_seconds,
            bound_seconds,
            validate_seconds,
        } = assessment;
        let new_nodes = new_nodes(problem, &solution.new_nodes);
        let hourly_price = dollars(new_nodes.iter().map(|node| node.price).sum());
        let summary = Summary {
            pods: problem.pods.len(),
            scheduled: problem.pods.len() - solution.unschedulable.len(),
            unschedulable: solution.unschedulable.len(),
            new_nodes: new_nodes.len(),
            hourly_price,
            // Rounding must not raise a proven bound above the price that it bounds.
            lower_bound_hourly_price: dollars(*lower_bound).min(hourly_price),
            expected_hourly_price: dollars(*expected_price),
            price_source: price_source.plain.clone(),
            aged_price_source: price_source.aged.clone(),
            solve_seconds: *solve_seconds,
            bound_seconds: *bound_seconds,
            validate_seconds: *validate_seconds,
        };
        Self {
            api_version: "muster.dev/v1",
            kind: "Plan",
            new_nodes,
            existing_nodes: existing_nodes(problem, &solution.existing),
            unschedulable: solution
                .unschedulable
                .iter()
                .map(|pod| UnschedulablePod::new(problem, pod, remarks.on(problem, pod.pod)))
                .collect(),
            preferences: forgone.iter().map(|one| ForgonePreference::new(problem, one)).collect(),
            summary,
        }
    }
}

impl ForgonePreference {
    fn new(problem: &Problem, forgone: &muster_scheduling::Forgone) -> Self {
        Self {
            preference: forgone.preference.clone(),
            weight: forgone.weight,
            pods: pod_names(problem, &forgone.pods),
            extra_hourly_price: forgone.price.map(dollars),
        }
    }
}

/// Rounds a sum of prices to a billionth of a dollar, below the precision of every price list, to drop floating-point
/// noise.
pub(crate) fn dollars(amount: f64) -> f64 {
    // The sum of no prices is -0.0, which JSON shows; adding zero removes the sign.
    (amount * 1e9).round() / 1e9 + 0.0
}

/// Builds the documents of `launches`, with names that no other node has.
pub(crate) fn new_nodes(problem: &Problem, launches: &[muster_scheduling::NewNode]) -> Vec<NewNode> {
    let mut taken: BTreeSet<String> = problem.nodes.iter().map(|node| node.name.to_string()).collect();
    let mut next_number = vec![0_usize; problem.pools.len()];
    let mut nodes = Vec::with_capacity(launches.len());
    let mut lists = Lists::default();
    for node in launches {
        let name = loop {
            let name = format!("{}-{}", problem.pools[node.pool].name, next_number[node.pool]);
            next_number[node.pool] += 1;
            if taken.insert(name.clone()) {
                break name;
            }
        };
        nodes.push(NewNode::new(problem, node, name, &mut lists));
    }
    nodes
}

/// Lists of the nodes of a plan, each made once.
#[derive(Default)]
struct Lists {
    /// By pool, and address of the alternatives.
    instance_types: FxHashMap<(usize, usize), SharedList<String>>,
    requirements: FxHashMap<Basis, SharedList<RequirementDocument>>,
}

/// Basis of the requirements of a node's NodeClaim: indices, and addresses of lists that nodes share.
#[derive(PartialEq, Eq, Hash)]
struct Basis {
    launch: (usize, usize, usize),
    requirements: usize,
    alternatives: usize,
    min_values_relaxed: Option<bool>,
}

impl Lists {
    fn instance_types(&mut self, problem: &Problem, node: &muster_scheduling::NewNode) -> SharedList<String> {
        let types = &problem.catalogues[problem.pools[node.pool].catalogue];
        let list = self.instance_types.entry((node.pool, node.alternatives.as_ptr().addr()));
        list.or_insert_with(|| node.alternatives.iter().map(|&index| types[index].name.to_string()).collect()).clone()
    }

    fn requirements(
        &mut self,
        problem: &Problem,
        node: &muster_scheduling::NewNode,
    ) -> SharedList<RequirementDocument> {
        let basis = Basis {
            launch: (node.pool, node.instance_type, node.offering),
            requirements: node.requirements.address(),
            alternatives: node.alternatives.as_ptr().addr(),
            min_values_relaxed: node.min_values_relaxed,
        };
        let list = self.requirements.entry(basis);
        list.or_insert_with(|| RequirementDocument::all(&node.claim_requirements(problem)).collect()).clone()
    }
}

/// Builds the documents of existing nodes that get pods.
pub(crate) fn existing_nodes(problem: &Problem, existing: &[(usize, Vec<usize>)]) -> Vec<ExistingNode> {
    let existing = existing.iter();
    existing
        .map(|(node, pods)| ExistingNode {
            name: problem.nodes[*node].name.to_string(),
            pods: pod_names(problem, pods),
        })
        .collect()
}

pub(crate) fn pod_names(problem: &Problem, pods: &[usize]) -> Vec<String> {
    pods.iter().map(|&pod| problem.pods[pod].name.to_string()).collect()
}

// === impl NewNode ===

impl NewNode {
    fn new(problem: &Problem, node: &muster_scheduling::NewNode, name: String, lists: &mut Lists) -> Self {
        let pool = &problem.pools[node.pool];
        let types = &problem.catalogues[pool.catalogue];
        let offering = &types[node.instance_type].offerings[node.offering];
        let mut annotations = text_map(&pool.annotations);
        if let Some(relaxed) = node.min_values_relaxed {
            annotations.insert(NODECLAIM_MIN_VALUES_RELAXED.to_owned(), relaxed.to_string());
        }
        Self {
            name,
            node_pool: pool.name.to_string(),
            pods: pod_names(problem, &node.pods),
            instance_type: types[node.instance_type].name.to_string(),
            zone: offering.zone().unwrap_or_default().to_owned(),
            capacity_type: offering.capacity_type().unwrap_or_default().to_owned(),
            price: node.price,
            instance_types: lists.instance_types(problem, node),
            requirements: lists.requirements(problem, node),
            labels: text_map(&pool.labels),
            taints: pool.taints.iter().map(TaintDocument::new).collect(),
            startup_taints: pool.startup_taints.iter().map(TaintDocument::new).collect(),
            requests: exact_map(&node.requests),
            annotations,
        }
    }
}

fn text_map(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

// === impl RequirementDocument ===

impl RequirementDocument {
    /// Returns all of `requirements` by key; a key with bounds and exclusions has several entries.
    pub(crate) fn all(requirements: &Requirements) -> impl Iterator<Item = Self> {
        requirements.iter().flat_map(|(key, requirement)| Self::of_key(key, requirement))
    }

    fn of_key(key: &str, requirement: &model::Requirement) -> Vec<Self> {
        let entries = requirement.entries().into_iter();
        // The CRD refuses a larger `minValues` than there are values, and pods may have narrowed these.
        let least = |operator: Operator, listed: usize| match operator {
            Operator::In => requirement.min_values.map(|least| least.min(u32::try_from(listed).unwrap_or(u32::MAX))),
            _ => requirement.min_values,
        };
        entries
            .map(|(operator, values)| Self {
                key: key.to_owned(),
                operator: operator.name(),
                values: values.iter().map(ToString::to_string).collect(),
                min_values: least(operator, values.len()),
            })
            .collect()
    }
}

// === impl TaintDocument ===

impl TaintDocument {
    fn new(taint: &Taint) -> Self {
        let effect = match taint.effect {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
        };
        Self { key: taint.key.to_string(), value: taint.value.to_string(), effect }
    }
}

// === impl UnschedulablePod ===

impl UnschedulablePod {
    pub(crate) fn new(problem: &Problem, pod: &muster_scheduling::Unschedulable, remarks: Vec<Remark>) -> Self {
        Self {
            warnings: RemarkDocument::all(remarks),
            pod: problem.pods[pod.pod].name.to_string(),
            reason: pod.reason.name(),
            message: pod.message.clone(),
            node_pools: pod.pools.iter().map(PoolVerdict::new).collect(),
        }
    }
}

// === impl RemarkDocument ===

impl RemarkDocument {
    pub(crate) fn all(remarks: Vec<Remark>) -> Vec<Self> {
        let document = |Remark { reason, message, hint }| Self { reason, message, hint };
        remarks.into_iter().map(document).collect()
    }
}

// === impl PoolVerdict ===

impl PoolVerdict {
    pub(crate) fn new(verdict: &muster_scheduling::PoolVerdict) -> Self {
        Self {
            node_pool: verdict.pool.to_string(),
            reason: verdict.reason.name(),
            message: verdict.message.clone(),
            nearest: verdict.nearest.clone(),
            hint: verdict.hint.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn nothing_bought_costs_zero_without_a_sign() {
        let nothing: f64 = std::iter::empty::<f64>().sum();
        assert_eq!(serde_json::to_string(&dollars(nothing)).unwrap(), "0.0");
        assert_eq!(serde_json::to_string(&dollars(-1e-12)).unwrap(), "0.0");
        assert_eq!(serde_json::to_string(&dollars(0.1 + 0.2)).unwrap(), "0.3");
    }
}
