//! Provisioners and NodePools.

use serde_json::{Map, Value, json};

use super::kubelet::Setting;
use super::{Fields, meta, object};

const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Requirements that v1alpha5 added to a Provisioner without them. v1 does not, and would launch other nodes without
/// them. Source: karpenter 0.31, pkg/apis/v1alpha5/provisioner_defaults.go.
const DEFAULTS: [(&str, &str); 3] =
    [("karpenter.sh/capacity-type", "on-demand"), ("kubernetes.io/arch", "amd64"), ("kubernetes.io/os", "linux")];
/// Labels of instance types: with a requirement on any of these, v1alpha5 added none on types.
const OF_TYPES: [&str; 4] =
    ["node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family", CATEGORY, GENERATION];

/// Converts a pool; returns it, and the kubelet settings for its class.
pub(super) fn convert(fields: &mut Fields<'_>) -> (Value, Option<Setting>) {
    let version = fields.version();
    let metadata = meta::metadata(fields);
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    // Counts of running nodes, which the controller recalculates.
    drop(fields.take("status"));
    let mut spec = fields.inner("spec");
    let is_provisioner = version.ends_with("v1alpha5");
    let (spec, kubelet) = if is_provisioner { provisioner(spec) } else { node_pool(&mut spec) };
    let class = spec.pointer("/template/spec/nodeClassRef/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec});
    (pool, kubelet.map(|kubelet| Setting { pool: name, class, kubelet }))
}

/// Builds the spec of a NodePool from either form.
fn spec_of(template: Template, disruption: Map<String, Value>, limits: Option<Value>, weight: Option<Value>) -> Value {
    let Template { labels, annotations, spec } = template;
    let non_empty = |map: Map<String, Value>| (!map.is_empty()).then_some(Value::Object(map));
    let metadata = object([("labels", non_empty(labels)), ("annotations", non_empty(annotations))]);
    let template = object([("metadata", non_empty(metadata)), ("spec", Some(Value::Object(spec)))]);
    Value::Object(object([
        ("template", Some(Value::Object(template))),
        ("disruption", Some(Value::Object(disruption))),
        ("limits", limits),
        ("weight", weight),
    ]))
}

struct Template {
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    spec: Map<String, Value>,
}

fn provisioner(mut spec: Fields<'_>) -> (Value, Option<Value>) {
    let labels = spec.take("labels").map(meta::keys).unwrap_or_default();
    let annotations = spec.take("annotations").map(meta::keys).unwrap_or_default();
    let mut requirements = meta::requirements(spec.take("requirements"));
    add_defaults(&mut requirements, &labels, &mut spec);
    let mut reference = spec.inner("providerRef");
    let class = reference.text("name");
    reference.take_all();
    if class.is_none() {
        let message = "v1 has no settings of a provider inside a pool: write an EC2NodeClass and name it";
        spec.note("providerRef", message);
    }
    if spec.take("provider").is_some() {
        spec.note("provider", "is left out: v1 has the settings of AWS in an EC2NodeClass");
    }
    let node = object([
        ("nodeClassRef", class.map(|name| reference_to(&name))),
        ("requirements", Some(Value::Array(requirements))),
        ("taints", spec.take("taints")),
        ("startupTaints", spec.take("startupTaints")),
        ("expireAfter", Some(seconds(spec.take("ttlSecondsUntilExpired").as_ref()))),
    ]);
    let disruption = match (spec.take("ttlSecondsAfterEmpty"), consolidates(&mut spec)) {
        (_, true) => policy("WhenEmptyOrUnderutilized", json!("0s")),
        (Some(empty), false) => policy("WhenEmpty", seconds(Some(&empty))),
        // With neither, v1alpha5 did not remove nodes by itself.
        (None, false) => policy("WhenEmpty", json!("Never")),
    };
    let limits = spec.inner("limits").take("resources");
    let kubelet = spec.take("kubeletConfiguration");
    let template = Template { labels, annotations, spec: node };
    let whole = spec_of(template, disruption, limits, spec.take("weight"));
    spec.finish();
    (whole, kubelet)
}

/// Adds the implicit requirements of v1alpha5.
fn add_defaults(requirements: &mut Vec<Value>, labels: &Map<String, Value>, spec: &mut Fields<'_>) {
    let says = |requirements: &[Value], label: &str| meta::is_about(requirements, label) || labels.contains_key(label);
    let mut added = Vec::new();
    for (label, value) in DEFAULTS {
        if !says(requirements, label) {
            added.push(json!({"key": label, "operator": "In", "values": [value]}));
        }
    }
    if !OF_TYPES.iter().any(|label| says(requirements, label)) {
        added.push(json!({"key": CATEGORY, "operator": "In", "values": ["c", "m", "r"]}));
        added.push(json!({"key": GENERATION, "operator": "Gt", "values": ["2"]}));
    }
    if !added.is_empty() {
        let names: Vec<String> =
            added.iter().filter_map(|it| Some(format!("`{}`", it.get("key")?.as_str()?))).collect();
        let message =
            format!("v1alpha5 added requirements about {} by itself; they are written down", names.join(", "));
        spec.note("requirements", message);
        requirements.extend(added);
    }
}

fn consolidates(spec: &mut Fields<'_>) -> bool {
    spec.inner("consolidation").take("enabled") == Some(Value::Bool(true))
}

fn policy(name: &str, after: Value) -> Map<String, Value> {
    object([("consolidationPolicy", Some(json!(name))), ("consolidateAfter", Some(after))])
}

fn reference_to(class: &str) -> Value {
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class})
}

/// Formats seconds as a duration; absent is `Never`.
fn seconds(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Number(seconds)) => json!(format!("{seconds}s")),
        _ => json!("Never"),
    }
}

fn node_pool(spec: &mut Fields<'_>) -> (Value, Option<Value>) {
    let mut removal = spec.inner("disruption");
    let (disruption, expire_after) = disruption_of(&mut removal);
    removal.finish();
    let mut template = spec.inner("template");
    let mut metadata = template.inner("metadata");
    let labels = metadata.take("labels").map(meta::keys).unwrap_or_default();
    let annotations = metadata.take("annotations").map(meta::keys).unwrap_or_default();
    metadata.finish();
    let mut node = template.inner("spec");
    let kubelet = node.take("kubelet");
    let converted = node_spec(&mut node, expire_after);
    node.finish();
    template.finish();
    let template = Template { labels, annotations, spec: converted };
    (spec_of(template, disruption, spec.take("limits"), spec.take("weight")), kubelet)
}

/// Converts the spec that a pool's template and a NodeClaim share.
pub(super) fn node_spec(node: &mut Fields<'_>, expire_after: Option<Value>) -> Map<String, Value> {
    let mut reference = node.inner("nodeClassRef");
    let (version, kind, name) = (reference.text("apiVersion"), reference.text("kind"), reference.text("name"));
    reference.finish();
    let group = version.as_deref().and_then(|it| it.split_once('/')).map_or("karpenter.k8s.aws", |(group, _)| group);
    let kind = kind.unwrap_or_else(|| "EC2NodeClass".to_owned());
    let reference = name.map(|name| json!({"group": group, "kind": kind, "name": name}));
    if node.take("resources").is_some_and(|it| it.get("requests").is_some()) {
        node.note("resources", "is left out: Karpenter computes it for each node");
    }
    object([
        ("nodeClassRef", reference),
        ("requirements", Some(Value::Array(meta::requirements(node.take("requirements"))))),
        ("taints", node.take("taints")),
        ("startupTaints", node.take("startupTaints")),
        ("expireAfter", expire_after),
    ])
}

/// Converts the disruption of a pool, and its lifetime, which v1 has in the template.
fn disruption_of(fields: &mut Fields<'_>) -> (Map<String, Value>, Option<Value>) {
    // Default of both versions; written explicitly, because expiration is forceful in v1.
    let expire_after = fields.take("expireAfter").unwrap_or_else(|| json!("720h"));
    if expire_after != json!("Never") {
        let message = "expires forcefully in v1: a node is drained when its time has come, whatever budgets and \
                       do-not-disrupt say; set `terminationGracePeriod` to bound how long that takes";
        fields.note("expireAfter", message);
    }
    let policy_name = match fields.text("consolidationPolicy").as_deref() {
        Some("WhenEmpty") => "WhenEmpty",
        _ => "WhenEmptyOrUnderutilized",
    };
    // v1beta1 consolidated underutilized nodes at once; v1 requires the field.
    let after = fields.take("consolidateAfter").unwrap_or_else(|| json!("0s"));
    let mut disruption = policy(policy_name, after);
    if let Some(budgets) = fields.take("budgets") {
        disruption.insert("budgets".to_owned(), budgets);
    }
    (disruption, Some(expire_after))
}
