//! Explanations for programs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_aws::quantity::format;
use muster_manifest::snapshot::Remark;
use muster_scheduling::Unschedulable;
use muster_scheduling::explain::{NodeStory, PlacedOn, Placement, RuledOut};
use muster_scheduling::model::Problem;
use muster_stages::roster::Member;
use serde::Serialize;

use super::super::nodes::{AgentDocument, FaultDocument, StandDocument};
use super::super::plan::{PlanDocument, PoolVerdict, RemarkDocument, dollars};
use super::super::quantity::exact_map;
use super::managed_nodes::{ManagedNodeDocument, RemovalDocument};

const API_VERSION: &str = "muster.dev/v1";
const KIND: &str = "Explanation";

/// State of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum PodState {
    /// It cannot be scheduled.
    Unschedulable,
    /// It goes to a node that would be launched.
    NewNode,
    /// It goes to an existing node.
    ExistingNode,
    /// It is bound to a node.
    Bound,
}

/// `kind: Explanation` of a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodExplanation {
    api_version: &'static str,
    kind: &'static str,
    pub(super) pod: String,
    pub(super) state: PodState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_pool: Option<String>,
    /// NodePools that refuse it.
    pub(super) node_pools: Vec<PoolVerdict>,
    pub(super) narrowed: Vec<NarrowingDocument>,
    pub(super) rules: Vec<RuleDocument>,
    pub(super) ruled_out: Vec<RuledOutDocument>,
    pub(super) notes: Vec<String>,
    /// Warnings for the pod's author, independent of its placement.
    pub(super) warnings: Vec<RemarkDocument>,
}

/// Constraint of the pod itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct NarrowingDocument {
    pub(super) key: String,
    pub(super) requirement: String,
    pub(super) source: &'static str,
}

/// Constraint that involves other pods.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RuleDocument {
    pub(super) rule: String,
    pub(super) pods: Vec<String>,
}

/// Cheaper instance type that is not suitable.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuledOutDocument {
    pub(super) instance_type: String,
    pub(super) price: f64,
    pub(super) why: String,
}

/// `kind: Explanation` of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeExplanation {
    api_version: &'static str,
    kind: &'static str,
    pub(super) node: String,
    pub(super) state: NodeState,
    pub(super) node_pool: Option<String>,
    pub(super) instance_type: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) capacity_type: Option<String>,
    pub(super) price: Option<f64>,
    /// All types that may be launched, cheapest first; empty for an existing node.
    pub(super) instance_types: Vec<String>,
    pub(super) requirements: Vec<OriginDocument>,
    pub(super) resources: Vec<FillDocument>,
    pub(super) fullest: Option<String>,
    pub(super) daemons: Vec<DaemonDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_smaller: Option<RuledOutDocument>,
    pub(super) pods: Vec<ShareDocument>,
    /// Reason why a managed node stays or goes: `reason`, `since`, `message`, and the `command` that disrupts it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) managed_nodes: Option<ManagedNodeDocument>,
    /// Lifecycle phase of an existing node, and its agent's report.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) health: Option<Health>,
    /// Effect of its removal, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) if_removed: Option<RemovalDocument>,
}

/// State of an existing node as `muster nodes` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    #[serde(flatten)]
    pub(super) stand: StandDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<AgentDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<FaultDocument>,
}

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum NodeState {
    /// It would be launched.
    New,
    /// It exists.
    Existing,
}

/// Requirement of a node and its sources.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OriginDocument {
    pub(super) key: String,
    pub(super) requirement: String,
    pub(super) sources: Vec<String>,
}

/// Use of one resource of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FillDocument {
    pub(super) resource: String,
    pub(super) requested: String,
    pub(super) allocatable: String,
    pub(super) percent: f64,
}

/// DaemonSet pod and its requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DaemonDocument {
    pub(super) name: String,
    pub(super) requests: BTreeMap<String, String>,
}

/// Pod and its share of the price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ShareDocument {
    pub(super) pod: String,
    pub(super) price: Option<f64>,
}

// === impl PodExplanation ===

impl PodExplanation {
    fn new(pod: &str, state: PodState, message: String) -> Self {
        Self {
            api_version: API_VERSION,
            kind: KIND,
            pod: pod.to_owned(),
            state,
            reason: None,
            message,
            node: None,
            node_pool: None,
            node_pools: Vec::new(),
            narrowed: Vec::new(),
            rules: Vec::new(),
            ruled_out: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds remarks on the pod.
    pub(super) fn with_remarks(self, remarks: Vec<Remark>) -> Self {
        Self { warnings: RemarkDocument::all(remarks), ..self }
    }

    /// Explains a pod that is bound.
    pub(super) fn bound(pod: &str, node: &str) -> Self {
        let message = format!("it is bound to node `{node}`, which the plan leaves as it is");
        Self { node: Some(node.to_owned()), ..Self::new(pod, PodState::Bound, message) }
    }

    /// Explains a pod that stays pending; calls `judge` if the plan itself gives no reason.
    pub(super) fn unschedulable(plan: &PlanDocument, pod: &str, judge: impl FnOnce() -> Unschedulable) -> Self {
        if let Some(known) = plan.unschedulable.iter().find(|other| other.pod == pod) {
            return Self {
                reason: Some(known.reason),
                node_pools: known.node_pools.clone(),
                ..Self::new(pod, PodState::Unschedulable, known.message.clone())
            };
        }
        let judged = judge();
        Self {
            reason: Some(judged.reason.name()),
            node_pools: judged.pools.iter().map(PoolVerdict::new).collect(),
            ..Self::new(pod, PodState::Unschedulable, judged.message)
        }
    }

    /// Explains a pod that the plan places.
    pub(super) fn placed(problem: &Problem, plan: &PlanDocument, pod: &str, placement: &Placement) -> Self {
        let Placement { pod: _, node, pool, why_node, why_pool, refused, narrowed, shared_rules, ruled_out, notes } =
            placement;
        let (state, node) = match node {
            PlacedOn::New(index) => (PodState::NewNode, plan.new_nodes.get(*index).map(|node| node.name.clone())),
            PlacedOn::Existing(index) => {
                (PodState::ExistingNode, problem.nodes.get(*index).map(|node| node.name.to_string()))
            }
        };
        let names = |pods: &[usize]| pods.iter().map(|&pod| problem.pods[pod].name.to_string()).collect();
        Self {
            node,
            node_pool: pool.as_ref().map(ToString::to_string),
            node_pools: refused.iter().map(PoolVerdict::new).collect(),
            narrowed: narrowed
                .iter()
                .map(|it| NarrowingDocument {
                    key: it.key.to_string(),
                    requirement: it.requirement.clone(),
                    source: it.source,
                })
                .collect(),
            rules: shared_rules
                .iter()
                .map(|it| RuleDocument { rule: it.rule.clone(), pods: names(&it.pods) })
                .collect(),
            ruled_out: ruled_out.iter().map(RuledOutDocument::new).collect(),
            notes: notes.clone(),
            ..Self::new(pod, state, format!("{why_node}; {why_pool}"))
        }
    }
}

// === impl RuledOutDocument ===

impl RuledOutDocument {
    fn new(ruled_out: &RuledOut) -> Self {
        let RuledOut { instance_type, price, lacks: _, why } = ruled_out;
        Self { instance_type: instance_type.to_string(), price: *price, why: why.clone() }
    }
}

// === impl Health ===

impl Health {
    /// Builds the state of `member` at `now`.
    pub(super) fn new(member: &Member, now: Timestamp) -> Self {
        Self {
            stand: StandDocument::new(&member.stand, now),
            agent: member.agent.as_ref().map(AgentDocument::new),
            verdict: member.fault.as_ref().map(FaultDocument::new),
        }
    }
}

// === impl NodeExplanation ===

impl NodeExplanation {
    pub(super) fn new(problem: &Problem, plan: &PlanDocument, name: &str, story: &NodeStory) -> Self {
        let NodeStory {
            node,
            pool,
            instance_type,
            zone,
            capacity_type,
            price,
            alternatives: _,
            requirements,
            fill,
            binding,
            daemons,
            next_smaller,
            pods,
        } = story;
        let text = |value: &Option<std::sync::Arc<str>>| value.as_ref().map(ToString::to_string);
        let (state, instance_types) = match node {
            PlacedOn::New(index) => (
                NodeState::New,
                plan.new_nodes.get(*index).map(|node| node.instance_types.to_vec()).unwrap_or_default(),
            ),
            PlacedOn::Existing(_) => (NodeState::Existing, Vec::new()),
        };
        let mut shares: Vec<ShareDocument> =
            pods.iter().map(|pod| ShareDocument { pod: pod.name.to_string(), price: pod.price.map(dollars) }).collect();
        if let PlacedOn::Existing(index) = node {
            add_planned(problem, plan, *index, &mut shares);
        }
        Self {
            api_version: API_VERSION,
            kind: KIND,
            node: name.to_owned(),
            state,
            node_pool: text(pool),
            instance_type: text(instance_type),
            zone: text(zone),
            capacity_type: text(capacity_type),
            price: *price,
            instance_types,
            requirements: requirements
                .iter()
                .map(|it| OriginDocument {
                    key: it.key.to_string(),
                    requirement: it.requirement.clone(),
                    sources: it.sources.clone(),
                })
                .collect(),
            resources: fill
                .iter()
                .map(|it| FillDocument {
                    resource: it.resource.name().to_owned(),
                    requested: format(&it.resource, it.used),
                    allocatable: format(&it.resource, it.allocatable),
                    percent: it.permille as f64 / 10.0,
                })
                .collect(),
            fullest: binding.as_ref().map(ToString::to_string),
            daemons: daemons
                .iter()
                .map(|it| DaemonDocument { name: it.name.to_string(), requests: exact_map(&it.requests) })
                .collect(),
            next_smaller: next_smaller.as_ref().map(RuledOutDocument::new),
            pods: shares,
            managed_nodes: None,
            health: None,
            if_removed: None,
        }
    }
}

/// Adds the pods that the plan places on an existing node, unless the engine's explanation has them.
fn add_planned(problem: &Problem, plan: &PlanDocument, node: usize, shares: &mut Vec<ShareDocument>) {
    let Some(name) = problem.nodes.get(node).map(|node| &*node.name) else { return };
    let planned = plan.existing_nodes.iter().filter(|node| node.name == name).flat_map(|node| &node.pods);
    for pod in planned {
        if !shares.iter().any(|share| share.pod == *pod) {
            shares.push(ShareDocument { pod: pod.clone(), price: None });
        }
    }
}
