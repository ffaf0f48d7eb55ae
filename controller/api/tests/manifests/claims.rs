//! NodeClaim.

use serde_json::{Value, json};

use crate::{OK, check_table};

pub(crate) fn claim() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "general-x7k2p"},
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        },
    })
}

fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}

fn requirement(requirement: Value) -> Value {
    spec(json!({"requirements": [requirement]}))
}

#[test]
fn specification() {
    let key = |key: &str| requirement(json!({"key": key, "operator": "Exists"}));
    let with = |operator: &str, values: Value| requirement(json!({"key": "a", "operator": operator, "values": values}));
    check_table(
        &claim(),
        &[
            (key("karpenter.sh/nodepool"), OK, ""),
            (key("karpenter.sh/capacity-type"), OK, ""),
            (key("karpenter.k8s.aws/ec2nodeclass"), OK, ""),
            (key("example.com/x"), OK, ""),
            (key("karpenter.sh/x"), "spec.requirements[0].key", "domain `karpenter.sh`"),
            (key("karpenter.k8s.aws/x"), "spec.requirements[0].key", "domain `karpenter.k8s.aws`"),
            (key("kubernetes.io/hostname"), "spec.requirements[0].key", "hostname"),
            (key("???"), "spec.requirements[0].key", "is malformed"),
            (with("In", json!([])), "spec.requirements", "operator `In`"),
            (with("Gt", json!(["-1"])), "spec.requirements", "one whole number"),
            (with("Gte", json!(["a"])), "spec.requirements", "one whole number"),
            (with("Lte", json!(["1", "2"])), "spec.requirements", "one whole number"),
            (with("Lte", json!(["1"])), OK, ""),
            (with("Like", json!(["1"])), "spec.requirements[0].operator", "one of"),
            (
                requirement(json!({"key": "a", "operator": "In", "values": ["x"], "minValues": 2})),
                "spec.requirements",
                "`minValues`",
            ),
            (requirement(json!({"key": "a", "operator": "In", "values": ["x", "y"], "minValues": 2})), OK, ""),
            (
                requirement(json!({"key": "a", "operator": "Exists", "minValues": 51})),
                "spec.requirements[0].minValues",
                "at most 50",
            ),
            (spec(json!({"nodeClassRef": {"name": ""}})), "spec.nodeClassRef.name", "may not be empty"),
            (spec(json!({"nodeClassRef": {"kind": ""}})), "spec.nodeClassRef.kind", "may not be empty"),
            (spec(json!({"nodeClassRef": {"group": ""}})), "spec.nodeClassRef.group", "may not be empty"),
            (spec(json!({"nodeClassRef": {"group": "a/v1"}})), "spec.nodeClassRef.group", "is malformed"),
            (spec(json!({"nodeClassRef": null})), "spec.nodeClassRef", "must be set"),
            (spec(json!({"requirements": null})), "spec.requirements", "must be set"),
            (spec(json!({"terminationGracePeriod": "30m"})), OK, ""),
            (spec(json!({"terminationGracePeriod": "Never"})), "spec.terminationGracePeriod", "is malformed"),
            (spec(json!({"expireAfter": "Never"})), OK, ""),
            (spec(json!({"expireAfter": "1w"})), "spec.expireAfter", "is malformed"),
            (spec(json!({"resources": {"requests": {"cpu": "1", "memory": 5}}})), OK, ""),
            (spec(json!({"resources": {"requests": {"cpu": "x"}}})), "spec.resources.requests[cpu]", "is malformed"),
            (spec(json!({"resources": {"requests": {"cpu": "-3"}}})), "spec.resources.requests[cpu]", "negative"),
            (spec(json!({"taints": [{"key": "a", "effect": "NoSchedule"}]})), OK, ""),
            (spec(json!({"taints": [{"key": "a", "effect": "No"}]})), "spec.taints[0].effect", "one of"),
            (spec(json!({"startupTaints": [{"effect": "NoSchedule"}]})), "spec.startupTaints[0].key", "must be set"),
            (
                spec(
                    json!({"taints": [{"key": "a", "effect": "NoSchedule"}], "startupTaints": [{"key": "a", "effect": "NoSchedule"}]}),
                ),
                "spec.startupTaints[0]",
                "more than once",
            ),
            (json!({"spec": null}), "spec", "must be set"),
        ],
    );
}

#[test]
fn status() {
    let condition = |fields: Value| {
        let mut condition = json!({"type": "Launched", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"});
        crate::merge(&mut condition, &fields);
        json!({"status": {"conditions": [condition]}})
    };
    let twice = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    check_table(
        &claim(),
        &[
            (json!({"status": {"nodeName": "n", "providerID": "aws:///a/i-0", "imageID": "ami-0"}}), OK, ""),
            (json!({"status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1930m"}}}), OK, ""),
            (json!({"status": {"capacity": {"cpu": "two"}}}), "status.capacity[cpu]", "is malformed"),
            (json!({"status": {"lastPodEventTime": "2026-01-02T03:04:05Z"}}), OK, ""),
            (json!({"status": {"lastPodEventTime": "now"}}), "status.lastPodEventTime", "must be a time"),
            (condition(json!({})), OK, ""),
            (condition(json!({"reason": "", "message": ""})), OK, ""),
            (condition(json!({"reason": "two words"})), "status.conditions[0].reason", "is malformed"),
            (condition(json!({"status": "Perhaps"})), "status.conditions[0].status", "`Unknown`"),
            (condition(json!({"type": null})), "status.conditions[0].type", "must be set"),
            (json!({"status": {"conditions": [twice, twice]}}), "status.conditions[1]", "more than once"),
        ],
    );
}
