//! NodePool: taints, the NodeClass, times, disruption, limits, replicas.

use serde_json::{Value, json};

use crate::pools::{node, pool};
use crate::{OK, check_table};

#[test]
fn taints() {
    for field in ["taints", "startupTaints"] {
        let with = |taint: Value| node(json!({field: [taint]}));
        let at = |rest: &str| format!("spec.template.spec.{field}{rest}");
        check_table(
            &pool(),
            &[
                (with(json!({"key": "a", "effect": "NoSchedule"})), OK, ""),
                (with(json!({"key": "a.b/c", "value": "x", "effect": "NoExecute"})), OK, ""),
                (with(json!({"key": "a", "value": "x", "effect": "PreferNoSchedule"})), OK, ""),
                (with(json!({"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"})), OK, ""),
                (
                    with(json!({"key": "a", "effect": "NoSchedule", "timeAdded": "yesterday"})),
                    &at("[0].timeAdded"),
                    "must be a time",
                ),
                (with(json!({"key": "a", "effect": "Evict"})), &at("[0].effect"), "`NoExecute`"),
                (with(json!({"key": "a", "effect": ""})), &at("[0].effect"), "one of"),
                (with(json!({"key": "a"})), &at("[0].effect"), "must be set"),
                (with(json!({"effect": "NoSchedule"})), &at("[0].key"), "must be set"),
                (with(json!({"key": "", "effect": "NoSchedule"})), &at("[0].key"), "at least 1"),
                (with(json!({"key": "???", "effect": "NoSchedule"})), &at("[0].key"), "is malformed"),
                (with(json!({"key": "a".repeat(64), "effect": "NoSchedule"})), &at("[0]"), "at most 63"),
                (with(json!({"key": "a", "value": "???", "effect": "NoSchedule"})), &at("[0].value"), "is malformed"),
                (with(json!({"key": "a", "value": "x".repeat(64), "effect": "NoSchedule"})), &at("[0]"), "taint value"),
                (node(json!({field: {}})), &at(""), "must be a list"),
            ],
        );
    }
    let a = json!({"key": "a", "effect": "NoSchedule"});
    let b = json!({"key": "a", "value": "x", "effect": "NoSchedule"});
    let other_effect = json!({"key": "a", "effect": "NoExecute"});
    check_table(
        &pool(),
        &[
            (node(json!({"taints": [a, other_effect]})), OK, ""),
            (node(json!({"taints": [a], "startupTaints": [other_effect]})), OK, ""),
            (node(json!({"taints": [a, b]})), "spec.template.spec.taints[1]", "more than once"),
            (node(json!({"startupTaints": [a, b]})), "spec.template.spec.startupTaints[1]", "more than once"),
            (
                node(json!({"taints": [a], "startupTaints": [b]})),
                "spec.template.spec.startupTaints[0]",
                "more than once",
            ),
        ],
    );
}

#[test]
fn node_class_reference() {
    let with = |reference: Value| node(json!({"nodeClassRef": reference}));
    let at = |field: &str| format!("spec.template.spec.nodeClassRef{field}");
    check_table(
        &pool(),
        &[
            (with(json!({"name": "other"})), OK, ""),
            (with(json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass"})), OK, ""),
            (with(json!({"name": ""})), &at(".name"), "may not be empty"),
            (with(json!({"kind": ""})), &at(".kind"), "may not be empty"),
            (with(json!({"group": ""})), &at(".group"), "may not be empty"),
            (with(json!({"group": "karpenter.k8s.aws/v1"})), &at(".group"), "is malformed"),
            (with(json!({"name": null})), &at(".name"), "must be set"),
            (with(json!({"kind": null})), &at(".kind"), "must be set"),
            (with(json!({"group": null})), &at(".group"), "must be set"),
            (with(json!(null)), &at(""), "must be set"),
            (with(json!("default")), &at(""), "must be an object"),
        ],
    );
}

#[test]
fn times() {
    let grace = "spec.template.spec.terminationGracePeriod";
    let expire = "spec.template.spec.expireAfter";
    let after = "spec.disruption.consolidateAfter";
    let consolidate = |text: Value| json!({"spec": {"disruption": {"consolidateAfter": text}}});
    check_table(
        &pool(),
        &[
            (node(json!({"expireAfter": "Never"})), OK, ""),
            (node(json!({"expireAfter": "30s"})), OK, ""),
            (node(json!({"expireAfter": "1h30m"})), OK, ""),
            (node(json!({"expireAfter": "-1s"})), expire, "is malformed"),
            (node(json!({"expireAfter": "never"})), expire, "is malformed"),
            (node(json!({"expireAfter": "30d"})), expire, "is malformed"),
            (node(json!({"expireAfter": "1.5h"})), expire, "is malformed"),
            (node(json!({"expireAfter": ""})), expire, "is malformed"),
            (node(json!({"expireAfter": 30})), expire, "must be a string"),
            (node(json!({"expireAfter": "9999999999h"})), "spec.template.spec.expireAfter", "too long"),
            (node(json!({"terminationGracePeriod": "48h"})), OK, ""),
            (node(json!({"terminationGracePeriod": "0s"})), OK, ""),
            (node(json!({"terminationGracePeriod": "Never"})), grace, "is malformed"),
            (node(json!({"terminationGracePeriod": "-5s"})), grace, "is malformed"),
            (node(json!({"terminationGracePeriod": "5"})), grace, "is malformed"),
            (consolidate(json!("0s")), OK, ""),
            (consolidate(json!("Never")), OK, ""),
            (consolidate(json!("10m30s")), OK, ""),
            (consolidate(json!("-1m")), after, "is malformed"),
            (consolidate(json!("1d")), after, "is malformed"),
            (consolidate(json!(5)), after, "must be a string"),
            (json!({"spec": {"disruption": {}}}), OK, ""),
        ],
    );
}

#[test]
fn disruption_and_budgets() {
    let disruption = |fields: Value| {
        let mut patch = json!({"consolidateAfter": "0s"});
        crate::merge(&mut patch, &fields);
        json!({"spec": {"disruption": patch}})
    };
    let budget = |budget: Value| disruption(json!({"budgets": [budget]}));
    let nodes = |nodes: &str| budget(json!({"nodes": nodes}));
    let cron = |schedule: &str| budget(json!({"nodes": "1", "schedule": schedule, "duration": "1h"}));
    let lasts = |duration: &str| budget(json!({"nodes": "1", "schedule": "@daily", "duration": duration}));
    let at = |rest: &str| format!("spec.disruption.budgets{rest}");
    let many = |count: usize| disruption(json!({"budgets": vec![json!({"nodes": "1"}); count]}));
    check_table(
        &pool(),
        &[
            (disruption(json!({"consolidationPolicy": "WhenEmpty"})), OK, ""),
            (disruption(json!({"consolidationPolicy": "WhenEmptyOrUnderutilized"})), OK, ""),
            (disruption(json!({"consolidationPolicy": "Balanced"})), OK, ""),
            (
                disruption(json!({"consolidationPolicy": "WhenUnderutilized"})),
                "spec.disruption.consolidationPolicy",
                "`Balanced`",
            ),
            (disruption(json!({"budgets": []})), OK, ""),
            (nodes("0"), OK, ""),
            (nodes("10"), OK, ""),
            (nodes("0%"), OK, ""),
            (nodes("9%"), OK, ""),
            (nodes("100%"), OK, ""),
            (nodes("101%"), &at("[0].nodes"), "is malformed"),
            (nodes("1000%"), &at("[0].nodes"), "is malformed"),
            (nodes("-1"), &at("[0].nodes"), "is malformed"),
            (nodes("-10%"), &at("[0].nodes"), "is malformed"),
            (nodes("1.5"), &at("[0].nodes"), "is malformed"),
            (nodes(""), &at("[0].nodes"), "is malformed"),
            (budget(json!({"nodes": 10})), &at("[0].nodes"), "must be a string"),
            (budget(json!({})), OK, ""),
            (cron("* * * * *"), OK, ""),
            (cron("0 9 * * mon-fri"), OK, ""),
            (cron("@hourly"), OK, ""),
            (cron("@annually"), OK, ""),
            (cron("*"), &at("[0].schedule"), "is malformed"),
            (cron("* * * *"), &at("[0].schedule"), "is malformed"),
            (cron("@fortnightly"), &at("[0].schedule"), "is malformed"),
            (lasts("10m"), OK, ""),
            (lasts("1h30m"), OK, ""),
            (lasts("2h0s"), OK, ""),
            (lasts("30s"), &at("[0].duration"), "is malformed"),
            (lasts("-1h"), &at("[0].duration"), "is malformed"),
            (lasts("1m1h"), &at("[0].duration"), "is malformed"),
            (lasts("Never"), &at("[0].duration"), "is malformed"),
            (budget(json!({"nodes": "1", "schedule": "@daily"})), &at(""), "set together"),
            (budget(json!({"nodes": "1", "duration": "1h"})), &at(""), "set together"),
            (
                disruption(json!({"budgets": [{"nodes": "1"}, {"nodes": "1", "duration": "1h"}]})),
                &at(""),
                "set together",
            ),
            (budget(json!({"nodes": "1", "reasons": ["Empty", "Drifted", "Underutilized"]})), OK, ""),
            (budget(json!({"nodes": "1", "reasons": ["Unhealthy"]})), OK, ""),
            (budget(json!({"nodes": "1", "reasons": ["Expired"]})), &at("[0].reasons[0]"), "`Drifted`"),
            (budget(json!({"nodes": "1", "reasons": ["Empty", "Empty"]})), &at("[0].reasons[1]"), "more than once"),
            (many(50), OK, ""),
            (many(51), &at(""), "at most 50"),
        ],
    );
}

#[test]
fn weight_limits_and_replicas() {
    let spec = |spec: Value| json!({"spec": spec});
    check_table(
        &pool(),
        &[
            (spec(json!({"weight": 1})), OK, ""),
            (spec(json!({"weight": 100})), OK, ""),
            (spec(json!({"weight": 0})), "spec.weight", "at least 1"),
            (spec(json!({"weight": 101})), "spec.weight", "at most 100"),
            (spec(json!({"weight": -5})), "spec.weight", "at least 1"),
            (spec(json!({"weight": "5"})), "spec.weight", "must be a whole number, not a string"),
            (spec(json!({"limits": {"cpu": 1000, "memory": "1000Gi", "nvidia.com/gpu": "8", "nodes": 10}})), OK, ""),
            (spec(json!({"limits": {"cpu": "1.5", "memory": "1e3"}})), OK, ""),
            (spec(json!({"limits": {"cpu": "many"}})), "spec.limits[cpu]", "is malformed"),
            (spec(json!({"limits": {"memory": "10GB"}})), "spec.limits[memory]", "is malformed"),
            (spec(json!({"limits": {"memory": "10 Gi"}})), "spec.limits[memory]", "is malformed"),
            (spec(json!({"limits": {"cpu": true}})), "spec.limits[cpu]", "whole number or a string"),
            (spec(json!({"limits": {"cpu": 1.5}})), "spec.limits[cpu]", "not a fraction"),
            (spec(json!({"limits": {"cpu": "-1"}})), "spec.limits[cpu]", "negative"),
            (spec(json!({"limits": {"cpu": -1}})), "spec.limits[cpu]", "negative"),
            (spec(json!({"limits": {"cpu": "-0"}})), OK, ""),
            (spec(json!({"limits": []})), "spec.limits", "must be an object"),
            (spec(json!({"replicas": 0})), OK, ""),
            (spec(json!({"replicas": 10})), OK, ""),
            (spec(json!({"replicas": -1})), "spec.replicas", "at least 0"),
            (spec(json!({"replicas": 1, "limits": {"nodes": "5"}})), OK, ""),
            (spec(json!({"replicas": 1, "limits": {}})), OK, ""),
            (spec(json!({"replicas": 1, "limits": {"cpu": "5"}})), "spec", "`limits` may only have `nodes`"),
            (
                spec(json!({"replicas": 1, "limits": {"cpu": "5", "nodes": "5"}})),
                "spec",
                "`limits` may only have `nodes`",
            ),
            (spec(json!({"replicas": 1, "weight": 1})), "spec", "`weight`"),
            (spec(json!({"template": null})), "spec.template", "must be set"),
            (spec(json!({"template": {"spec": null}})), "spec.template.spec", "must be set"),
            (json!({"spec": null}), "spec", "must be set"),
            (json!({"spec": []}), "spec", "must be an object"),
            (json!({"status": {"nodes": "3"}}), "status.nodes", "must be a whole number"),
        ],
    );
}
