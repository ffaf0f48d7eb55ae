//! Detection of NodeConfig fields that the native bootstrap does not support, so that no node joins without them
//! unnoticed.

use muster_bootstrap::userdata::{PartKind, UserData};
use serde_json::Value;

/// Supported fields, including all fields below them.
const DONE: [&str; 3] = ["spec.cluster", "spec.kubelet.config", "spec.kubelet.flags"];

/// Returns the first unsupported field that is set.
pub(super) fn first(user_data: &UserData) -> Option<String> {
    let documents = user_data.of_kind(PartKind::NodeConfig);
    documents.into_iter().find_map(|part| {
        let document: Value = serde_saphyr::from_str(&part.text).ok()?;
        asked(document.get("spec")?, "spec")
    })
}

fn asked(value: &Value, path: &str) -> Option<String> {
    if DONE.contains(&path) {
        return None;
    }
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Object(fields) => fields.iter().find_map(|(key, value)| asked(value, &format!("{path}.{key}"))),
        Value::Array(items) if items.is_empty() => None,
        Value::String(text) if text.is_empty() => None,
        _ => Some(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_of(spec: &str) -> Option<String> {
        let text = format!("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {spec}\n");
        first(&UserData::read(text.as_bytes(), "user-data"))
    }

    #[test]
    fn what_is_asked_and_not_done_is_named() {
        assert_eq!(first_of("{cluster: {name: a}, kubelet: {config: {maxPods: 3}, flags: [--v=2]}}"), None);
        assert_eq!(
            first_of("{featureGates: {InstanceIdNodeName: false}, containerd: {config: ''}, instance: {}}"),
            None
        );
        for (spec, field) in [
            ("{containerd: {config: '[a]'}}", "spec.containerd.config"),
            ("{featureGates: {InstanceIdNodeName: true}}", "spec.featureGates.InstanceIdNodeName"),
            ("{instance: {localStorage: {strategy: RAID0}}}", "spec.instance.localStorage.strategy"),
            ("{kubelet: {maxPodsExpression: max_pods}}", "spec.kubelet.maxPodsExpression"),
        ] {
            assert_eq!(first_of(spec).as_deref(), Some(field));
        }
    }
}
