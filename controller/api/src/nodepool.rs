//! NodePool: constraints on the nodes that may be launched, their number, and their disruption.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::duration::{LIFETIME_PATTERN, Lifetime, SPAN_PATTERN, Span, default_expire_after};
use crate::nodeclaim::{NodeClassReference, pool_reference};
use crate::requirement::{Requirement, pool_requirements};
use crate::rules::{self, cel};
use crate::{patterns, schema};

/// Desired state of a NodePool.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    doc = "Nodes of one make: what may be launched, how many, and when they may be taken away again.",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    derive = "Default",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn = r#"{"name": "NodeClass", "type": "string", "jsonPath": ".spec.template.spec.nodeClassRef.name"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1}"#,
    printcolumn = r#"{"name": "CPU", "type": "string", "jsonPath": ".status.resources.cpu", "priority": 1}"#,
    printcolumn = r#"{"name": "Memory", "type": "string", "jsonPath": ".status.resources.memory", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::POOL)))]
pub struct NodePoolSpec {
    /// Template of the NodeClaims of the pool.
    pub template: NodeClaimTemplate,
    /// When and how fast nodes may be taken away.
    #[serde(default)]
    #[schemars(extend("default" = json!({"consolidateAfter": "0s"})))]
    pub disruption: Disruption,
    /// Most that the nodes of the pool may have together, by resource; `nodes` limits their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub limits: BTreeMap<String, Quantity>,
    /// Pools with a higher weight are tried first; absent is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Number of nodes to keep, whatever the pods need. A pool with replicas is static.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// Template of NodeClaims.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the nodes.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// Specification of the NodeClaims.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that every node of a pool gets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "template_labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: BTreeMap<String, String>,
}

/// Specification of a pool's NodeClaims: that of a NodeClaim without resource requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Constraints on the labels of the nodes, and with them on instance types, zones and capacity types.
    #[schemars(schema_with = "pool_requirements")]
    pub requirements: Vec<Requirement>,
    /// Reference to the NodeClass with the settings of the cloud.
    #[schemars(schema_with = "pool_reference")]
    pub node_class_ref: NodeClassReference,
    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Vec<Taint>,
    /// Taints that something else removes once a node has started; pods need not tolerate them to be planned there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Vec<Taint>,
    /// Age at which a node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    #[schemars(with = "String", regex(pattern = LIFETIME_PATTERN))]
    pub expire_after: Lifetime,
    /// Longest time that draining a node may take; then its pods are ended, whatever they say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = SPAN_PATTERN))]
    pub termination_grace_period: Option<Span>,
}

/// When and how fast nodes may be taken away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Time without pod changes after which a node may be consolidated, or `Never`.
    #[serde(default = "default_consolidate_after")]
    #[schemars(with = "String", regex(pattern = LIFETIME_PATTERN))]
    pub consolidate_after: Lifetime,
    /// Which nodes may be consolidated.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// Limits on the number of nodes that are disrupted at once. The smallest of those in force counts.
    #[serde(default = "default_budgets")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = cel(rules::BUDGETS)))]
    pub budgets: Vec<Budget>,
}

/// Which nodes consolidation may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods that would have to move.
    WhenEmpty,
    /// Also nodes whose pods fit elsewhere, or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// As before, if what is saved is worth the pods that have to move.
    Balanced,
}

/// A limit on how many nodes may be taken away at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Number or percentage of the pool's nodes. Percentages round up.
    #[serde(default = "default_budget_nodes")]
    #[schemars(regex(pattern = patterns::BUDGET_NODES))]
    pub nodes: String,
    /// Reasons that the budget holds for; all, if it names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Vec<DisruptionReason>,
    /// Cron schedule, in UTC, at whose hits the budget comes into force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::BUDGET_SCHEDULE))]
    pub schedule: Option<String>,
    /// Time for which the budget is in force after each hit of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = patterns::BUDGET_DURATION))]
    pub duration: Option<Span>,
}

/// Reason of a voluntary disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionReason {
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// It has no pods that would have to move.
    Empty,
    /// It no longer looks as its pool or class says.
    Drifted,
    /// A condition says that it is broken.
    Unhealthy,
}

/// Parsed value of [`Budget::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetNodes {
    /// Number of nodes.
    Count(u64),
    /// Percentage of the pool's nodes.
    Percent(u8),
}

/// Observed state of a NodePool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Sum of what the pool's nodes have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub resources: BTreeMap<String, Quantity>,
    /// Number of the pool's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub nodes: Option<i64>,
    /// Generation of the NodeClass at which registration health was last judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Judgements on the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

fn template_labels(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 100,
        "additionalProperties": {"type": "string", "maxLength": 63, "pattern": patterns::LABEL_VALUE},
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": cel(rules::TEMPLATE_LABELS),
    })
}

fn default_budget_nodes() -> String {
    "10%".to_owned()
}

const fn default_consolidate_after() -> Lifetime {
    Lifetime::After(Duration::ZERO)
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget::default()]
}

// === impl TemplateMetadata ===

impl TemplateMetadata {
    /// Returns true if both labels and annotations are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

// === impl NodeClaimTemplateSpec ===

impl Default for NodeClaimTemplateSpec {
    fn default() -> Self {
        Self {
            requirements: Vec::new(),
            node_class_ref: NodeClassReference::default(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            expire_after: default_expire_after(),
            termination_grace_period: None,
        }
    }
}

// === impl Disruption ===

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: default_consolidate_after(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: default_budgets(),
        }
    }
}

// === impl Budget ===

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: default_budget_nodes(), reasons: Vec::new(), schedule: None, duration: None }
    }
}

impl Budget {
    /// Parses `nodes`. Returns `None` if it is neither a number nor a percentage of at most 100.
    #[must_use]
    pub fn parsed_nodes(&self) -> Option<BudgetNodes> {
        match self.nodes.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(BudgetNodes::Percent),
            None => self.nodes.parse().ok().map(BudgetNodes::Count),
        }
    }
}

// === impl BudgetNodes ===

impl BudgetNodes {
    /// Returns the allowed number of nodes out of `total`. Percentages round up, so that a small pool is not blocked.
    #[must_use]
    pub const fn of(self, total: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (total as u128 * percent as u128).div_ceil(100) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_count_and_round_up() {
        for (nodes, total, expected) in [
            ("10%", 1, Some(1)),
            ("10%", 20, Some(2)),
            ("10%", 21, Some(3)),
            ("0%", 9, Some(0)),
            ("100%", 7, Some(7)),
            ("5", 3, Some(5)),
            ("0", 3, Some(0)),
            ("101%", 3, None),
            ("x", 3, None),
            ("-1", 3, None),
        ] {
            let budget = Budget { nodes: nodes.to_owned(), ..Budget::default() };
            assert_eq!(budget.parsed_nodes().map(|n| n.of(total)), expected, "{nodes} of {total}");
        }
    }
}
