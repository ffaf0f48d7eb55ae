//! KWOKNodeClass: simulated nodes for evaluation and scale tests.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use kube::core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema;

/// Settings of Nodes that KWOK simulates.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    root = "KwokNodeClass",
    plural = "kwoknodeclasses",
    singular = "kwoknodeclass",
    doc = "How Nodes are made that are objects only, and that KWOK brings to life.",
    category = "karpenter",
    shortname = "kwoknc",
    shortname = "kwokncs",
    status = "KwokNodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KwokNodeClassSpec {
    /// Time from the launch of a Node until it registers, as a Go duration such as `1m30s`; absent means at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub node_registration_delay: Option<Duration>,
}

/// Observed state of a KWOKNodeClass.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KwokNodeClassStatus {
    /// Judgements on the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Sets a default status with `Ready: True`: a class has no prerequisites. As in Karpenter, the CRD does this instead
/// of a controller. `spec` may be omitted too.
pub(crate) fn ready_from_the_start(root: &mut Value) {
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2024-01-01T01:01:01Z",
    });
    for (field, default) in [("spec", json!({})), ("status", json!({"conditions": [ready]}))] {
        if let Some(Value::Object(field)) = root.get_mut("properties").and_then(|all| all.get_mut(field)) {
            field.insert("default".to_owned(), default);
        }
    }
    // kubectl validates required fields before the API server applies defaults.
    if let Value::Object(root) = root {
        root.remove("required");
    }
}
