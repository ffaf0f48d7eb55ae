//! NodeOverlay.

use serde_json::{Value, json};

use crate::{OK, check_table};

pub(crate) fn overlay() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "savings-plan"},
        "spec": {"requirements": []},
    })
}

fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn prices() {
    let price = |price: &str| spec(json!({"price": price}));
    let adjust = |adjustment: &str| spec(json!({"priceAdjustment": adjustment}));
    check_table(
        &overlay(),
        &[
            (price("0"), OK, ""),
            (price("10"), OK, ""),
            (price("10.25"), OK, ""),
            (price("-1"), "spec.price", "is malformed"),
            (price("+1"), "spec.price", "is malformed"),
            (price(".5"), "spec.price", "is malformed"),
            (price("5."), "spec.price", "is malformed"),
            (price("1e3"), "spec.price", "is malformed"),
            (price("5%"), "spec.price", "is malformed"),
            (price(""), "spec.price", "is malformed"),
            (spec(json!({"price": 5})), "spec.price", "must be a string"),
            (adjust("+1"), OK, ""),
            (adjust("-0.2"), OK, ""),
            (adjust("+.5"), OK, ""),
            (adjust("-1000"), OK, ""),
            (adjust("+5%"), OK, ""),
            (adjust("+1000%"), OK, ""),
            (adjust("-5%"), OK, ""),
            (adjust("-99.9%"), OK, ""),
            (adjust("-100%"), OK, ""),
            (adjust("-101%"), "spec.priceAdjustment", "is malformed"),
            (adjust("-100.5%"), "spec.priceAdjustment", "is malformed"),
            (adjust("5"), "spec.priceAdjustment", "is malformed"),
            (adjust("5%"), "spec.priceAdjustment", "is malformed"),
            (adjust("++5"), "spec.priceAdjustment", "is malformed"),
            (adjust("+-5"), "spec.priceAdjustment", "is malformed"),
            (adjust("+five"), "spec.priceAdjustment", "is malformed"),
            (adjust(""), "spec.priceAdjustment", "is malformed"),
            (spec(json!({"price": "1", "priceAdjustment": "+1"})), "spec", "may not both be set"),
            (spec(json!({})), OK, ""),
        ],
    );
}

#[test]
fn capacity_and_weight() {
    let capacity = |resource: &str, amount: Value| spec(json!({"capacity": {resource: amount}}));
    check_table(
        &overlay(),
        &[
            (capacity("smarter-devices/fuse", json!(1)), OK, ""),
            (capacity("nvidia.com/gpu", json!("2")), OK, ""),
            (capacity("cpu", json!("1")), "spec.capacity", "extended resources"),
            (capacity("memory", json!("1Gi")), "spec.capacity", "extended resources"),
            (capacity("ephemeral-storage", json!("1Gi")), "spec.capacity", "extended resources"),
            (capacity("pods", json!("1")), "spec.capacity", "extended resources"),
            (capacity("vpc.amazonaws.com/efa", json!("1")), "spec.capacity[vpc.amazonaws.com/efa]", "cannot be set"),
            (capacity("aws.amazon.com/neuron", json!("1")), "spec.capacity[aws.amazon.com/neuron]", "cannot be set"),
            (capacity("example.com/x", json!("one")), "spec.capacity[example.com/x]", "is malformed"),
            (capacity("example.com/x", json!("-1")), "spec.capacity[example.com/x]", "negative"),
            (spec(json!({"weight": 1})), OK, ""),
            (spec(json!({"weight": 10000})), OK, ""),
            (spec(json!({"weight": 0})), "spec.weight", "at least 1"),
            (spec(json!({"weight": 10001})), "spec.weight", "at most 10000"),
            (spec(json!({"weight": 3_000_000_000_i64})), "spec.weight", "32 bits"),
            (spec(json!({"weight": 1e30})), "spec.weight", "must be a whole number"),
        ],
    );
}

#[test]
fn requirements() {
    let key = |key: &str| spec(json!({"requirements": [{"key": key, "operator": "Exists"}]}));
    let with = |operator: &str, values: Value| {
        spec(json!({"requirements": [{"key": "a", "operator": operator, "values": values}]}))
    };
    let many: Vec<Value> = (0..101).map(|i| json!({"key": format!("k{i}"), "operator": "Exists"})).collect();
    check_table(
        &overlay(),
        &[
            (key("karpenter.sh/nodepool"), OK, ""),
            (key("karpenter.sh/capacity-type"), OK, ""),
            (key("node.kubernetes.io/instance-type"), OK, ""),
            (key("karpenter.k8s.aws/instance-family"), OK, ""),
            (key("example.com/x"), OK, ""),
            (key("karpenter.sh/x"), "spec.requirements[0].key", "domain `karpenter.sh`"),
            (key("karpenter.k8s.aws/instance-tenancy"), "spec.requirements[0].key", "domain `karpenter.k8s.aws`"),
            (
                key("karpenter.k8s.aws/capacity-reservation-id"),
                "spec.requirements[0].key",
                "domain `karpenter.k8s.aws`",
            ),
            (key("karpenter.k8s.aws/placement-group-id"), "spec.requirements[0].key", "domain `karpenter.k8s.aws`"),
            (key("kubernetes.io/hostname"), "spec.requirements[0].key", "hostname"),
            (key(""), "spec.requirements[0].key", "is malformed"),
            (with("In", json!(["a"])), OK, ""),
            (with("In", json!([])), "spec.requirements", "operator `In`"),
            (with("NotIn", json!(["a"])), OK, ""),
            (with("NotIn", json!([])), "spec.requirements", "operator `NotIn`"),
            (with("Exists", json!([])), OK, ""),
            (with("DoesNotExist", json!([])), OK, ""),
            (with("Gt", json!(["1"])), OK, ""),
            (with("Gte", json!(["1"])), OK, ""),
            (with("Gt", json!(["-1"])), "spec.requirements", "one whole number"),
            (with("Lt", json!(["1", "2"])), "spec.requirements", "one whole number"),
            (with("Lte", json!(["x"])), "spec.requirements", "one whole number"),
            (with("Gte", json!([])), "spec.requirements", "one whole number"),
            (with("In", json!(["a b"])), "spec.requirements[0].values[0]", "`a b`"),
            (with("Above", json!(["1"])), "spec.requirements[0].operator", "one of"),
            (spec(json!({"requirements": many})), "spec.requirements", "at most 100"),
            (spec(json!({"requirements": null})), "spec.requirements", "must be set"),
        ],
    );
}
