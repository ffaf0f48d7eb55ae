//! No manifest brings the checks down, and what passes them decodes.

use muster_api::validation::check;
use muster_api::{CapacityBuffer, Ec2NodeClass, NodeClaim, NodeOverlay, NodePool};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{buffers::buffer, claims::claim, classes::class, overlays::overlay, pools::pool};

/// Manifests with a little of everything, so that a change hits something.
fn rich() -> Vec<Value> {
    let mut pool = pool();
    crate::merge(
        &mut pool,
        &json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "weight": 5,
                "limits": {"cpu": 5, "memory": "1Gi"},
                "disruption": {"consolidateAfter": "1m", "budgets": [{"nodes": "1", "schedule": "@daily", "duration": "1h", "reasons": ["Empty"]}]},
                "template": {
                    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                    "spec": {
                        "requirements": [{"key": "a", "operator": "In", "values": ["x", "y"], "minValues": 2}, {"key": "b", "operator": "Gt", "values": ["5"]}],
                        "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                        "terminationGracePeriod": "1h",
                    },
                },
            },
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
        }),
    );
    let mut class = class();
    crate::merge(
        &mut class,
        &json!({"spec": {
            "kubelet": {"maxPods": 5, "kubeReserved": {"cpu": "1"}, "evictionSoft": {"pid.available": "5%"}, "evictionSoftGracePeriod": {"pid.available": "1m"}},
            "blockDeviceMappings": [{"deviceName": "a", "rootVolume": true, "ebs": {"volumeSize": "5Gi", "iops": 5}}],
            "networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}],
            "tags": {"a": "b"},
            "connectionTracking": {"udpTimeout": 30},
        }}),
    );
    let mut overlay = overlay();
    crate::merge(
        &mut overlay,
        &json!({"spec": {"price": "5", "capacity": {"a/b": 5}, "requirements": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}}),
    );
    vec![pool, class, overlay, claim(), buffer()]
}

/// Every place in a value.
fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                pointers(field, &format!("{here}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                pointers(entry, &format!("{here}/{index}"), all);
            }
        }
        _ => {}
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..200).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z0-9./@%+-]{0,12}".prop_map(Value::from),
        "(In|Gt|Lte|Exists|Never|[0-9]{1,30}(h|m|s|%|Gi|Ti)|karpenter.sh/[a-z]{1,9}|al2023@[a-z]{0,9})"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{1,8}|key|operator|values|tags|id", inner, 0..4)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn mutations_are_survived(which in 0_usize..5, changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4)) {
        let mut manifest = rich().swap_remove(which);
        for (place, value) in changes {
            let mut all = Vec::new();
            pointers(&manifest, "", &mut all);
            let pointer = all[place.index(all.len())].clone();
            if let Some(target) = manifest.pointer_mut(&pointer) {
                *target = value;
            }
        }
        let checked = check(&manifest);
        prop_assert_eq!(&check(&manifest), &checked, "the same manifest gives the same answer");
        if checked.is_ok() {
            let object = checked.defaulted.clone();
            let decodes = match checked.kind {
                Some("NodePool") => serde_json::from_value::<NodePool>(object).is_ok(),
                Some("NodeClaim") => serde_json::from_value::<NodeClaim>(object).is_ok(),
                Some("NodeOverlay") => serde_json::from_value::<NodeOverlay>(object).is_ok(),
                Some("EC2NodeClass") => serde_json::from_value::<Ec2NodeClass>(object).is_ok(),
                Some("CapacityBuffer") => serde_json::from_value::<CapacityBuffer>(object).is_ok(),
                _ => true,
            };
            prop_assert!(decodes, "{}", checked.defaulted);
            let again = check(&checked.defaulted);
            prop_assert_eq!(again.warnings, vec![]);
            prop_assert_eq!(again.errors, vec![]);
            prop_assert_eq!(again.defaulted, checked.defaulted, "defaulting twice changes nothing");
        }
    }

    #[test]
    fn anything_is_survived(value in any_value()) {
        let _ = check(&value);
        for mut manifest in rich() {
            manifest["spec"] = value.clone();
            let _ = check(&manifest);
        }
    }
}
