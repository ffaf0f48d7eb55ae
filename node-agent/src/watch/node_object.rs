//! This instance's Node object, reduced to the fields that the agent uses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_bootstrap::kubelet::taints::Taint;
use serde::Deserialize;
use serde_json::Value;

/// A Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Document")]
pub struct NodeObject {
    /// Name.
    pub name: String,
    /// Provider ID, such as `aws:///us-west-2a/i-0123456789abcdef0`; empty if not set.
    pub provider_id: String,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Status and message of each condition, by type.
    pub conditions: BTreeMap<String, (String, String)>,
    /// Capacity of resources that are counted in whole numbers.
    pub capacity: BTreeMap<String, u64>,
    /// Allocatable amount of these resources.
    pub allocatable: BTreeMap<String, u64>,
    /// Boot ID that the kubelet reported.
    pub boot_id: String,
}

impl NodeObject {
    /// Parses a Node from JSON; `None` if it is not a Node. Unused fields are skipped: managed fields and images are
    /// most of a large Node.
    #[must_use]
    pub fn of_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// Converts a JSON value; `None` if it is not a Node.
    #[must_use]
    pub fn read(node: &Value) -> Option<Self> {
        Self::deserialize(node).ok()
    }

    /// Returns true if a condition has this status.
    #[must_use]
    pub fn is(&self, condition: &str, status: &str) -> bool {
        self.conditions.get(condition).is_some_and(|(is, _)| is == status)
    }

    /// Returns the message of a condition.
    #[must_use]
    pub fn message(&self, condition: &str) -> &str {
        self.conditions.get(condition).map(|(_, message)| message.as_str()).unwrap_or_default()
    }

    /// Returns the instance ID in the provider ID.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        self.provider_id.rsplit('/').next().filter(|id| id.starts_with("i-"))
    }
}

/// The fields of a Node that are used, as the API server sends them.
#[derive(Deserialize)]
struct Document {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    creation_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: String,
    taints: Vec<TaintEntry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TaintEntry {
    key: String,
    value: String,
    effect: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    conditions: Vec<Condition>,
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    node_info: NodeInfo,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
}

impl TryFrom<Document> for NodeObject {
    type Error = &'static str;

    fn try_from(document: Document) -> Result<Self, Self::Error> {
        let Document { metadata, spec, status } = document;
        if metadata.name.is_empty() {
            return Err("a Node has a name");
        }
        let taint = |TaintEntry { key, value, effect }| Taint { key, value, effect };
        let condition = |Condition { kind, status, message }| (kind, (status, message));
        Ok(Self {
            name: metadata.name,
            provider_id: spec.provider_id,
            created: metadata.creation_timestamp.and_then(|it| it.parse().ok()),
            labels: metadata.labels,
            taints: spec.taints.into_iter().map(taint).collect(),
            conditions: status.conditions.into_iter().map(condition).collect(),
            capacity: counts(status.capacity),
            allocatable: counts(status.allocatable),
            boot_id: status.node_info.boot_id,
        })
    }
}

/// Devices are counted in whole numbers. CPU and bytes are not used here.
fn counts(resources: BTreeMap<String, String>) -> BTreeMap<String, u64> {
    resources.into_iter().filter_map(|(key, value)| Some((key, value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_read_and_nothing_else() {
        let node = NodeObject::read(&json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-11-21T20:00:00Z", "labels": {"x": "y"}},
            "spec": {"providerID": "aws:///us-west-2a/i-1", "taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "message": "m"}],
                       "capacity": {"nvidia.com/gpu": "2", "memory": "7Gi"}, "allocatable": {"nvidia.com/gpu": "1"}},
        }))
        .unwrap();
        assert_eq!(node.instance_id(), Some("i-1"));
        assert!(node.is("Ready", "True") && !node.is("Ready", "False") && !node.is("Other", "True"));
        assert_eq!(node.taints[0].to_string(), "k:NoExecute");
        assert_eq!((node.capacity.len(), node.allocatable["nvidia.com/gpu"]), (1, 1));
        assert_eq!(node.created.unwrap().to_string(), "2026-11-21T20:00:00Z");
        for other in [json!(null), json!([]), json!({"metadata": {"name": 1}, "status": 3})] {
            assert_eq!(NodeObject::read(&other), None);
        }
    }
}
