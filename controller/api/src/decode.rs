//! Decoding of JSON trees into types, with the path of the field that does not fit.
//!
//! One deserializer for all, behind a trait object: the types of Kubernetes are large, and the compiler makes a copy of
//! their code for each type of deserializer that reads them.

use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Error, Value};
use serde_path_to_error::{Deserializer, Track};

/// A tree that is not of the type.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct DecodeError {
    /// The field at which decoding failed, such as `spec.taints[0].key`; empty for the tree itself.
    pub path: String,
    /// The cause.
    #[source]
    pub error: Error,
}

/// Decodes a tree.
///
/// # Errors
/// Fails at the first field that is not of its type.
///
/// # Examples
/// ```
/// use k8s_openapi::api::core::v1::Taint;
///
/// let error = muster_api::decode::<Taint>(&serde_json::json!({"effect": 1})).unwrap_err();
/// assert_eq!(error.path, "effect");
/// assert_eq!(error.to_string(), "invalid type: integer `1`, expected a string");
/// ```
pub fn decode<T: DeserializeOwned>(tree: &Value) -> Result<T, DecodeError> {
    let mut track = Track::new();
    let mut deserializer = <dyn erased_serde::Deserializer<'_>>::erase(Deserializer::new(tree, &mut track));
    let decoded = T::deserialize(&mut deserializer as &mut dyn erased_serde::Deserializer<'_>);
    drop(deserializer);
    decoded.map_err(|error| {
        let path = track.path().to_string();
        let path = if path == "." { String::new() } else { path };
        DecodeError { path, error: Error::custom(error) }
    })
}

// === impl DecodeError ===

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        error.error
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::NodePool;

    #[test]
    fn fails_as_serde_json_does() {
        let cases = [
            (json!([]), ""),
            (json!({"spec": {"containers": {}}}), "spec.containers"),
            (json!({"spec": {"containers": [{"name": "a"}, 1]}}), "spec.containers[1]"),
            (
                json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": "x"}]}]}}),
                "spec.containers[0].ports[0].containerPort",
            ),
            (json!({"spec": {"nodeSelector": {"a/b": 1.5}}}), "spec.nodeSelector.a/b"),
            (json!({"spec": {"priority": -3_000_000_000_i64}}), "spec.priority"),
            (json!({"spec": {"hostNetwork": "no"}}), "spec.hostNetwork"),
            (json!({"metadata": {"creationTimestamp": "yesterday"}}), "metadata.creationTimestamp"),
        ];
        for (tree, path) in cases {
            let error = decode::<Pod>(&tree).unwrap_err();
            assert_eq!(error.path, path);
            assert_eq!(error.to_string(), serde_json::from_value::<Pod>(tree).unwrap_err().to_string());
        }
    }

    #[test]
    fn names_the_field_with_an_unknown_word() {
        let spec = json!({"template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            "requirements": [{"key": "a", "operator": "Near"}],
        }}});
        let error = decode::<NodePool>(&json!({"metadata": {}, "spec": spec})).unwrap_err();
        assert_eq!(error.path, "spec.template.spec.requirements[0].operator");
    }

    #[test]
    fn decodes_what_serde_json_decodes() {
        let tree = json!({
            "metadata": {"name": "a", "labels": {"b": "c"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}],
                "tolerations": [{"operator": "Exists", "tolerationSeconds": 3}],
                "hostNetwork": null,
            },
        });
        assert_eq!(decode::<Pod>(&tree).unwrap(), serde_json::from_value(tree).unwrap());
    }
}
