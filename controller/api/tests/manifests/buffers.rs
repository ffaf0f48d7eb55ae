//! CapacityBuffer.

use serde_json::{Value, json};

use crate::{OK, check_table};

pub(crate) fn buffer() -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "chunk"}, "replicas": 3},
    })
}

#[test]
fn specification() {
    let spec = |spec: Value| json!({"spec": spec});
    let scalable = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    check_table(
        &buffer(),
        &[
            (spec(json!({"replicas": null, "limits": {"cpu": "5"}})), OK, ""),
            (spec(json!({"replicas": null})), "spec", "`replicas` or `limits`"),
            (spec(json!({"replicas": null, "percentage": 10})), "spec", "`replicas` or `limits`"),
            (spec(json!({"podTemplateRef": null, "scalableRef": scalable, "percentage": 10})), OK, ""),
            (spec(json!({"podTemplateRef": null, "scalableRef": scalable, "replicas": null})), OK, ""),
            (spec(json!({"scalableRef": scalable})), "spec", "may not both be set"),
            (spec(json!({"podTemplateRef": {"name": ""}})), "spec.podTemplateRef.name", "at least 1"),
            (spec(json!({"podTemplateRef": {"name": null}})), "spec.podTemplateRef.name", "must be set"),
            (
                spec(json!({"podTemplateRef": null, "scalableRef": {"kind": "Deployment"}})),
                "spec.scalableRef.name",
                "must be set",
            ),
            (
                spec(json!({"podTemplateRef": null, "scalableRef": {"kind": "", "name": "a"}})),
                "spec.scalableRef.kind",
                "at least 1",
            ),
            (spec(json!({"replicas": -1})), "spec.replicas", "at least 0"),
            (spec(json!({"replicas": 0})), OK, ""),
            (spec(json!({"percentage": -1})), "spec.percentage", "at least 0"),
            (spec(json!({"percentage": 250})), OK, ""),
            (spec(json!({"limits": {"cpu": "lots"}})), "spec.limits[cpu]", "is malformed"),
            (spec(json!({"limits": {"cpu": "-1"}})), "spec.limits[cpu]", "negative"),
            (spec(json!({"provisioningStrategy": "buffer.x-k8s.io/other"})), OK, ""),
        ],
    );
}
