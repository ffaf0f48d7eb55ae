//! Hash of the launch settings of a class, which is used to detect drift.

use muster_api::Ec2NodeClass;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::launch::family_of;

/// Version of the algorithm. Karpenter's hashes are Go's (`hashstructure`) and have another version: NodeClaims
/// launched by Karpenter are not compared with ours but get our hash, as Karpenter does with its own older versions.
pub const HASH_VERSION: &str = "muster-v1";

/// Fields of the spec that select existing objects or do not change the instance: drift in them is detected by what
/// they select, or not at all.
const LEFT_OUT: [&str; 6] = [
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
    "amiSelectorTerms",
    "amiFamily",
    "ipPrefixCount",
];

/// Returns the hash of a class: independent of the order of settings, and of whether the family is set or follows from
/// the alias.
#[must_use]
pub fn class_hash(class: &Ec2NodeClass) -> String {
    let mut spec = serde_json::to_value(&class.spec).unwrap_or_default();
    if let Value::Object(fields) = &mut spec {
        // Settings that say nothing do not change the kubelet.
        if let Some(Value::Object(kubelet)) = fields.get_mut("kubelet") {
            kubelet.retain(|_, value| !is_empty(value));
        }
        fields.retain(|name, value| !LEFT_OUT.contains(&name.as_str()) && !is_empty(value));
        fields.insert("family".to_owned(), family_of(&class.spec).name().into());
        for list in ["blockDeviceMappings", "networkInterfaces"] {
            if let Some(Value::Array(items)) = fields.get_mut(list) {
                items.sort_by_key(Value::to_string);
            }
        }
    }
    // JSON objects are sorted by key.
    let digest = Sha256::digest(spec.to_string().as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(spec: Value) -> Ec2NodeClass {
        let mut all = json!({
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "nodes",
        });
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "x"}, "spec": all});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn it_changes_with_what_instances_are_made_of_and_with_nothing_else() {
        let hash = |spec| class_hash(&class(spec));
        let before = hash(json!({}));
        for same in [
            json!({"amiFamily": "AL2023"}),
            json!({"subnetSelectorTerms": [{"tags": {"a": "b"}}]}),
            json!({"amiSelectorTerms": [{"alias": "al2023@v20260601"}]}),
            json!({"ipPrefixCount": 2}),
            json!({"tags": {}}),
            json!({"kubelet": {"kubeReserved": {}, "clusterDNS": []}}),
            json!({"metadataOptions": {"httpEndpoint": "enabled"}}),
        ] {
            assert_eq!(hash(same.clone()), before, "{same}");
        }
        for other in [
            json!({"amiFamily": "Custom"}),
            json!({"userData": "#!/bin/sh"}),
            json!({"role": "others"}),
            json!({"tags": {"a": "b"}}),
            json!({"kubelet": {"maxPods": 8}}),
            json!({"metadataOptions": {"httpTokens": "optional"}}),
            json!({"detailedMonitoring": false}),
            json!({"kubelet": {"cpuManagerPolicy": "static"}}),
            json!({"enclaveOptions": {"enabled": true}}),
        ] {
            assert_ne!(hash(other.clone()), before, "{other}");
        }
        let disks = |one: &str, two: &str| {
            let disk = |name: &str| json!({"deviceName": name, "ebs": {"volumeSize": "20Gi"}});
            hash(json!({"blockDeviceMappings": [disk(one), disk(two)]}))
        };
        assert_eq!(disks("a", "b"), disks("b", "a"), "lists are sets");
    }
}
