//! The own Node object, as far as the agent looks at it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_bootstrap::kubelet::taints::Taint;
use serde::Deserialize;
use serde_json::Value;

/// A Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Document")]
pub struct NodeObject {
    /// Its name.
    pub name: String,
    /// As `aws:///us-west-2a/i-0123456789abcdef0`; empty if it has none.
    pub provider_id: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Its conditions by type: the status and the message.
    pub conditions: BTreeMap<String, (String, String)>,
    /// How many it has of each resource that is counted in whole numbers.
    pub capacity: BTreeMap<String, u64>,
    /// How many of them it offers.
    pub allocatable: BTreeMap<String, u64>,
    /// The boot of the machine that its kubelet reported from.
    pub boot_id: String,
}

impl NodeObject {
    /// Reads the object from its JSON; `None` if it is no Node. What the agent does not look at is passed over: managed
    /// fields and images are most of a large Node.
    #[must_use]
    pub fn of_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// Reads the object; `None` if it is no Node.
    #[must_use]
    pub fn read(node: &Value) -> Option<Self> {
        Self::deserialize(node).ok()
    }

    /// Whether a condition has this status.
    #[must_use]
    pub fn is(&self, condition: &str, status: &str) -> bool {
        self.conditions.get(condition).is_some_and(|(is, _)| is == status)
    }

    /// The message of a condition.
    #[must_use]
    pub fn message(&self, condition: &str) -> &str {
        self.conditions.get(condition).map(|(_, message)| message.as_str()).unwrap_or_default()
    }

    /// The instance that it belongs to, by its provider ID.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        self.provider_id.rsplit('/').next().filter(|id| id.starts_with("i-"))
    }
}

/// The object as the API server writes it, as far as it is looked at.
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

/// Devices are counted in whole numbers; processors and bytes are not of interest here.
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
