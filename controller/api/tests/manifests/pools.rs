//! NodePool: the specification of its nodes.

use serde_json::{Value, json};

use crate::{OK, check_table};

pub(crate) fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        }}},
    })
}

pub(crate) fn node(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

fn requirement(requirement: Value) -> Value {
    node(json!({"requirements": [requirement]}))
}

fn key(key: &str) -> Value {
    requirement(json!({"key": key, "operator": "Exists"}))
}

fn label(key: &str, value: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"labels": {key: value}}}}})
}

const KEY: &str = "spec.template.spec.requirements[0].key";
const LIST: &str = "spec.template.spec.requirements";
const LABELS: &str = "spec.template.metadata.labels";

#[test]
fn requirement_keys() {
    check_table(
        &pool(),
        &[
            (key("topology.kubernetes.io/zone"), OK, ""),
            (key("karpenter.sh/capacity-type"), OK, ""),
            (key("example.com/team"), OK, ""),
            (key("team"), OK, ""),
            (key("kubernetes.io/anything"), OK, ""),
            (key("subdomain.kubernetes.io/x"), OK, ""),
            (key("k8s.io/x"), OK, ""),
            (key("node-restriction.kubernetes.io/x"), OK, ""),
            (key("beta.kubernetes.io/arch"), OK, ""),
            (key("karpenter.k8s.aws/instance-category"), OK, ""),
            (key("karpenter.k8s.aws/instance-tenancy"), OK, ""),
            (key("karpenter.k8s.aws/capacity-reservation-id"), OK, ""),
            (key("karpenter.k8s.aws/placement-group-partition"), OK, ""),
            (key("karpenter.sh/nodepool"), KEY, "`karpenter.sh/nodepool`"),
            (key("karpenter.sh/initialized"), KEY, "domain `karpenter.sh`"),
            (key("sub.karpenter.sh/x"), KEY, "domain `karpenter.sh`"),
            (key("mykarpenter.sh/x"), KEY, "domain `karpenter.sh`"),
            (key("karpenter.k8s.aws/unknown"), KEY, "domain `karpenter.k8s.aws`"),
            (key("sub.karpenter.k8s.aws/x"), KEY, "domain `karpenter.k8s.aws`"),
            (key("karpenter.k8s.aws/ec2nodeclass"), KEY, "is reserved"),
            (key("kubernetes.io/hostname"), KEY, "`kubernetes.io/hostname`"),
            (key(""), KEY, "is malformed"),
            (key("a/b/c"), KEY, "is malformed"),
            (key("-a"), KEY, "is malformed"),
            (key("UPPER.com/a"), KEY, "is malformed"),
            (key("a b"), KEY, "is malformed"),
            (key(&"a".repeat(317)), KEY, "at most 316"),
            (key(&"a".repeat(64)), KEY, "at most 63"),
            (key(&"a".repeat(63)), OK, ""),
            (requirement(json!({"operator": "Exists"})), KEY, "`key` must be set"),
            (requirement(json!({"key": 5, "operator": "Exists"})), KEY, "must be a string, not a number"),
            (requirement(json!("x")), "spec.template.spec.requirements[0]", "must be an object"),
            (requirement(json!(null)), "spec.template.spec.requirements[0]", "not null"),
            (node(json!({"requirements": null})), LIST, "must be set"),
            (node(json!({"requirements": {}})), LIST, "must be a list"),
        ],
    );
}

#[test]
fn requirement_operators_and_values() {
    let with = |operator: &str, values: Value| {
        requirement(json!({"key": "example.com/n", "operator": operator, "values": values}))
    };
    let number = "spec.template.spec.requirements";
    check_table(
        &pool(),
        &[
            (with("In", json!(["a"])), OK, ""),
            (with("In", json!([""])), OK, ""),
            (with("In", json!([])), LIST, "operator `In`"),
            (requirement(json!({"key": "a", "operator": "In"})), LIST, "operator `In`"),
            (with("NotIn", json!(["a"])), OK, ""),
            (with("NotIn", json!([])), OK, ""),
            (with("Exists", json!([])), OK, ""),
            (requirement(json!({"key": "a", "operator": "DoesNotExist"})), OK, ""),
            (with("Gt", json!(["1"])), OK, ""),
            (with("Gt", json!(["0"])), OK, ""),
            (with("Lt", json!(["10"])), OK, ""),
            (with("Gte", json!(["10"])), OK, ""),
            (with("Lte", json!(["10"])), OK, ""),
            (with("Gt", json!(["-1"])), number, "one whole number"),
            (with("Lt", json!(["-1"])), number, "one whole number"),
            (with("Gte", json!(["-1"])), number, "one whole number"),
            (with("Lte", json!(["-1"])), number, "one whole number"),
            (with("Gt", json!(["1.5"])), number, "one whole number"),
            (with("Gt", json!(["a"])), number, "one whole number"),
            (with("Gt", json!([""])), number, "one whole number"),
            (with("Gt", json!(["1", "2"])), number, "one whole number"),
            (with("Lt", json!(["1", "2"])), number, "one whole number"),
            (with("Gte", json!([])), number, "one whole number"),
            (with("Lte", json!(["1", "2"])), number, "one whole number"),
            (requirement(json!({"key": "a", "operator": "Gt"})), number, "one whole number"),
            (with("Gt", json!(["99999999999999999999"])), number, "one whole number"),
            (with("in", json!(["a"])), "spec.template.spec.requirements[0].operator", "one of `In`"),
            (with("Unknown", json!(["a"])), "spec.template.spec.requirements[0].operator", "`Lte`"),
            (requirement(json!({"key": "a"})), "spec.template.spec.requirements[0].operator", "must be set"),
            (with("In", json!("a")), "spec.template.spec.requirements[0].values", "must be a list, not a string"),
            (with("In", json!([1])), "spec.template.spec.requirements[0].values[0]", "must be a string"),
            (with("In", json!(["???"])), "spec.template.spec.requirements[0].values[0]", "`???`"),
            (with("NotIn", json!(["a", "-b"])), "spec.template.spec.requirements[0].values[1]", "`-b`"),
            (with("In", json!(["a".repeat(64)])), "spec.template.spec.requirements[0].values[0]", "at most 63"),
            (with("In", json!(["a".repeat(63)])), OK, ""),
        ],
    );
}

#[test]
fn requirement_counts() {
    let with = |operator: &str, values: Value, min: Value| {
        requirement(json!({"key": "example.com/n", "operator": operator, "values": values, "minValues": min}))
    };
    let many = |count: usize| {
        let list: Vec<Value> = (0..count).map(|i| json!({"key": format!("k{i}"), "operator": "Exists"})).collect();
        node(json!({"requirements": list}))
    };
    let sixty: Vec<String> = (0..60).map(|i| format!("v{i}")).collect();
    let min = "spec.template.spec.requirements[0].minValues";
    let capacity = |values: Value, min: Value| {
        requirement(json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": values, "minValues": min}))
    };
    let values = "spec.template.spec.requirements[0].values";
    check_table(
        &pool(),
        &[
            (with("In", json!(["a", "b"]), json!(2)), OK, ""),
            (with("In", json!(["a", "b"]), json!(1)), OK, ""),
            (with("In", json!(["a"]), json!(2)), LIST, "`minValues`"),
            (with("Exists", json!([]), json!(2)), OK, ""),
            (with("Gt", json!(["1"]), json!(10)), OK, ""),
            (with("In", json!(sixty), json!(50)), OK, ""),
            (with("In", json!(sixty), json!(51)), min, "at most 50"),
            (with("In", json!(["a"]), json!(0)), min, "at least 1"),
            (with("In", json!(["a"]), json!(-1)), min, "at least 1"),
            (with("In", json!(["a"]), json!("1")), min, "must be a whole number"),
            (with("In", json!(["a"]), json!(1.5)), min, "must be a whole number"),
            (with("In", json!(["a"]), json!(1.0)), OK, ""),
            (many(100), OK, ""),
            (many(101), LIST, "at most 100"),
            (capacity(json!(["spot", "on-demand", "reserved"]), json!(3)), OK, ""),
            (capacity(json!(["spot", "magic"]), json!(1)), OK, ""),
            (capacity(json!(["magic"]), json!(1)), values, "`on-demand`"),
            (capacity(json!(["magic", "spot"]), json!(2)), values, "needs 2"),
            (
                requirement(json!({"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["host"]})),
                values,
                "`dedicated`",
            ),
            (
                requirement(
                    json!({"key": "karpenter.k8s.aws/instance-tenancy", "operator": "NotIn", "values": ["host"]}),
                ),
                OK,
                "",
            ),
        ],
    );
}

#[test]
fn template_labels() {
    let many = |count: usize| {
        let labels: serde_json::Map<String, Value> = (0..count).map(|i| (format!("k{i}"), json!("v"))).collect();
        json!({"spec": {"template": {"metadata": {"labels": labels}}}})
    };
    check_table(
        &pool(),
        &[
            (label("team", "a"), OK, ""),
            (label("example.com/team", ""), OK, ""),
            (label("kubernetes.io/x", "a"), OK, ""),
            (label("node-role.kubernetes.io/x", ""), OK, ""),
            (label("topology.kubernetes.io/zone", "a"), OK, ""),
            (label("karpenter.sh/capacity-type", "spot"), OK, ""),
            (label("karpenter.k8s.aws/instance-family", "c7g"), OK, ""),
            (label("karpenter.sh/nodepool", "a"), LABELS, "`karpenter.sh/nodepool`"),
            (label("karpenter.sh/other", "a"), LABELS, "domain `karpenter.sh`"),
            (label("sub.karpenter.sh/other", "a"), LABELS, "domain `karpenter.sh`"),
            (label("karpenter.k8s.aws/other", "a"), LABELS, "domain `karpenter.k8s.aws`"),
            (label("kubernetes.io/hostname", "a"), LABELS, "`kubernetes.io/hostname`"),
            (label("team", "a b"), "spec.template.metadata.labels[team]", "is malformed"),
            (label("team", "-a"), "spec.template.metadata.labels[team]", "is malformed"),
            (label("team", &"a".repeat(64)), "spec.template.metadata.labels[team]", "at most 63"),
            (label("team", &"a".repeat(63)), OK, ""),
            (label("a b", "a"), "spec.template.metadata.labels[a b]", "must be a name"),
            (label("spaced key/x", "a"), "spec.template.metadata.labels[spaced key/x]", "prefix"),
            (
                json!({"spec": {"template": {"metadata": {"labels": {"a": 1}}}}}),
                "spec.template.metadata.labels[a]",
                "must be a string",
            ),
            (
                json!({"spec": {"template": {"metadata": {"annotations": {"a": 1}}}}}),
                "spec.template.metadata.annotations[a]",
                "must be a string",
            ),
            (json!({"spec": {"template": {"metadata": {"annotations": {"a/b": "any thing"}}}}}), OK, ""),
            (many(100), OK, ""),
            (many(101), LABELS, "at most 100"),
        ],
    );
}
