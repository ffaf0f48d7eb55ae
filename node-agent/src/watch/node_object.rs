//! The own Node object, as far as the agent looks at it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_bootstrap::kubelet::taints::Taint;
use serde_json::Value;

/// A Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Reads the object; `None` if it is no Node.
    #[must_use]
    pub fn read(node: &Value) -> Option<Self> {
        let text = |way: &str| node.pointer(way).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("/metadata/name");
        if name.is_empty() {
            return None;
        }
        let list = |way: &str| node.pointer(way).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let field = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let taint =
            |it: &Value| Taint { key: field(it, "key"), value: field(it, "value"), effect: field(it, "effect") };
        let condition = |it: &Value| (field(it, "type"), (field(it, "status"), field(it, "message")));
        let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
        let label = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        Some(Self {
            name,
            provider_id: text("/spec/providerID"),
            created: text("/metadata/creationTimestamp").parse().ok(),
            labels: labels.into_iter().flatten().filter_map(label).collect(),
            taints: list("/spec/taints").iter().map(taint).collect(),
            conditions: list("/status/conditions").iter().map(condition).collect(),
            capacity: counts(node.pointer("/status/capacity")),
            allocatable: counts(node.pointer("/status/allocatable")),
            boot_id: text("/status/nodeInfo/bootID"),
        })
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

/// Devices are counted in whole numbers; processors and bytes are not of interest here.
fn counts(resources: Option<&Value>) -> BTreeMap<String, u64> {
    let number = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.parse().ok()?));
    resources.and_then(Value::as_object).into_iter().flatten().filter_map(number).collect()
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
