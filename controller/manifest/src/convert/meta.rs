//! Metadata, requirements and taints, with renamed labels and annotations.

use serde_json::{Map, Value, json};

use super::Fields;

/// Labels and annotations of v1alpha5, and their names since v1beta1.
const RENAMED: [(&str, &str); 5] = [
    ("karpenter.sh/provisioner-name", "karpenter.sh/nodepool"),
    ("karpenter.sh/provisioner-hash", "karpenter.sh/nodepool-hash"),
    ("karpenter.k8s.aws/nodetemplate-hash", "karpenter.k8s.aws/ec2nodeclass-hash"),
    ("karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-disrupt"),
    ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-disrupt"),
];

/// Fields that the API server sets and that are not applied.
const OF_THE_SERVER: [&str; 8] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Annotations of tools with a copy of the old object, and hashes of its old form.
const OF_TOOLS: [&str; 5] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
];

pub(super) fn renamed(name: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// Converts the metadata of an object to the form to apply.
pub(super) fn metadata(fields: &mut Fields<'_>) -> Value {
    let mut inner = fields.inner("metadata");
    let mut metadata = inner.take_all();
    OF_THE_SERVER.iter().for_each(|key| drop(metadata.remove(*key)));
    for key in ["labels", "annotations"] {
        let Some(entries) = metadata.remove(key) else { continue };
        let mut entries = keys(entries);
        OF_TOOLS.iter().for_each(|name| drop(entries.remove(*name)));
        if !entries.is_empty() {
            metadata.insert(key.to_owned(), Value::Object(entries));
        }
    }
    Value::Object(metadata)
}

/// Renames the keys of a map of labels or annotations.
pub(super) fn keys(entries: Value) -> Map<String, Value> {
    let Value::Object(entries) = entries else { return Map::new() };
    entries.into_iter().map(|(key, value)| (renamed(&key).to_owned(), value)).collect()
}

/// Renames the labels of requirements.
pub(super) fn requirements(list: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(mut list)) = list else { return Vec::new() };
    for requirement in &mut list {
        if let Some(key) = requirement.get("key").and_then(Value::as_str).map(|key| renamed(key).to_owned()) {
            requirement["key"] = json!(key);
        }
    }
    list
}

/// Returns true if a requirement uses the label.
pub(super) fn is_about(list: &[Value], label: &str) -> bool {
    list.iter().any(|requirement| requirement.get("key").and_then(Value::as_str) == Some(label))
}
