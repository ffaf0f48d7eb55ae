//! CapacityBuffer: spare capacity for future pods. SIG Autoscaling owns the kind; Muster only implements it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, cel};
use crate::schema;

/// Default strategy of a buffer: keep nodes running.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

/// Room that a CapacityBuffer keeps.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    namespaced,
    doc = "Room that is kept free for pods to come.",
    category = "autoscaling",
    shortname = "cb",
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name": "Strategy", "type": "string", "jsonPath": ".spec.provisioningStrategy"}"#,
    printcolumn = r#"{"name": "PodTemplate", "type": "string", "jsonPath": ".status.podTemplateRef.name"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "ConditionsType", "type": "string", "jsonPath": ".status.conditions[*].type"}"#,
    printcolumn = r#"{"name": "ConditionsStatus", "type": "string", "jsonPath": ".status.conditions[*].status"}"#,
    printcolumn = r#"{"name": "ConditionsReason", "type": "string", "jsonPath": ".status.conditions[*].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::BUFFER)))]
pub struct CapacityBufferSpec {
    /// Strategy by which the room is kept.
    #[serde(default = "default_strategy", skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// PodTemplate in the same namespace that says what one chunk of room looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateReference>,
    /// Workload in the same namespace whose pods say what one chunk of room looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableReference>,
    /// Number of chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Number of chunks in hundredths of the workload's replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// Most that the chunks may ask for together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub limits: BTreeMap<String, Quantity>,
}

/// Names a PodTemplate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PodTemplateReference {
    /// Name of the PodTemplate.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Names a workload that has replicas.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableReference {
    /// API group of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the workload.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the workload.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Observed state of a CapacityBuffer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// PodTemplate that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateReference>,
    /// Number of chunks that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Generation of the PodTemplate that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Strategy that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Judgements on the buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[expect(clippy::unnecessary_wraps, reason = "a default has the type of its field")]
fn default_strategy() -> Option<String> {
    Some(ACTIVE_CAPACITY.to_owned())
}
