//! NodeClaim: a request for one node, and its status.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::{LIFETIME_PATTERN, Lifetime, SPAN_PATTERN, Span, default_expire_after};
use crate::patterns;
use crate::quantities::Quantities;
use crate::requirement::{Requirement, claim_requirements};
use crate::rules::{self, cel};
use crate::schema;

/// Desired state of a NodeClaim. Immutable.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    doc = "One node that is wanted, and what became of it.",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".metadata.labels.node\\.kubernetes\\.io/instance-type"}"#,
    printcolumn = r#"{"name": "Capacity", "type": "string", "jsonPath": ".metadata.labels.karpenter\\.sh/capacity-type"}"#,
    printcolumn = r#"{"name": "Zone", "type": "string", "jsonPath": ".metadata.labels.topology\\.kubernetes\\.io/zone"}"#,
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".status.nodeName"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Agent", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"AgentReady\")].reason", "priority": 1}"#,
    printcolumn = r#"{"name": "Verdict", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"NodeVerdict\")].reason", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "ImageID", "type": "string", "jsonPath": ".status.imageID", "priority": 1}"#,
    printcolumn = r#"{"name": "ID", "type": "string", "jsonPath": ".status.providerID", "priority": 1}"#,
    printcolumn = r#"{"name": "NodePool", "type": "string", "jsonPath": ".metadata.labels.karpenter\\.sh/nodepool", "priority": 1}"#,
    printcolumn = r#"{"name": "NodeClass", "type": "string", "jsonPath": ".spec.nodeClassRef.name", "priority": 1}"#,
    printcolumn = r#"{"name": "Drifted", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Drifted\")].status", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::CLAIM)))]
pub struct NodeClaimSpec {
    /// Constraints on the labels of the node.
    #[schemars(schema_with = "claim_requirements")]
    pub requirements: Vec<Requirement>,
    /// Minimum resources of the node, for the pods that it is launched for.
    #[serde(default, skip_serializing_if = "ResourceRequests::is_empty")]
    pub resources: ResourceRequests,
    /// Reference to the NodeClass with the settings of the cloud.
    pub node_class_ref: NodeClassReference,
    /// Taints of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Vec<Taint>,
    /// Taints that something else removes once the node has started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Vec<Taint>,
    /// Age at which the node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    #[schemars(with = "String", regex(pattern = LIFETIME_PATTERN))]
    pub expire_after: Lifetime,
    /// Longest time that draining the node may take; then its pods are ended, whatever they say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = SPAN_PATTERN))]
    pub termination_grace_period: Option<Span>,
}

/// Resources that pods need together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequests {
    /// Sum of the requests, by resource.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub requests: Quantities,
}

/// Names the object with the cloud's own settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodeClassReference {
    /// API group of the object, without a version.
    #[schemars(regex(pattern = patterns::GROUP), extend("x-kubernetes-validations" = cel(rules::REFERENCE_GROUP)))]
    pub group: String,
    /// Kind of the object.
    #[schemars(extend("x-kubernetes-validations" = cel(rules::REFERENCE_KIND)))]
    pub kind: String,
    /// Name of the object.
    #[schemars(extend("x-kubernetes-validations" = cel(rules::REFERENCE_NAME)))]
    pub name: String,
}

/// Observed state of a NodeClaim.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The cloud's identifier of the instance, as the Node object has it.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Machine image that the instance was launched with.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Estimated capacity of the node.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: Quantities,
    /// Estimated part of the capacity that pods may use.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub allocatable: Quantities,
    /// When a pod last came to the node or left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::DateTime>")]
    pub last_pod_event_time: Option<Time>,
    /// Judgements on the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::claim_conditions")]
    pub conditions: Vec<Condition>,
}

/// Schema of `nodeClassRef` in a NodePool, where the reference may not change its kind.
pub(crate) fn pool_reference(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut reference = NodeClassReference::json_schema(generator);
    reference.insert("x-kubernetes-validations".to_owned(), cel(rules::POOL_REFERENCE));
    reference
}

// === impl NodeClaimSpec ===

impl Default for NodeClaimSpec {
    fn default() -> Self {
        Self {
            requirements: Vec::new(),
            resources: ResourceRequests::default(),
            node_class_ref: NodeClassReference::default(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            expire_after: default_expire_after(),
            termination_grace_period: None,
        }
    }
}

// === impl ResourceRequests ===

impl ResourceRequests {
    /// Returns true if nothing is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}
