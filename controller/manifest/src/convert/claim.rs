//! Machines and NodeClaims: records of running nodes.

use serde_json::{Value, json};

use super::{Fields, meta, pool};

/// Conditions of a Machine, and their names since v1beta1.
const CONDITIONS: [(&str, &str); 6] = [
    ("MachineLaunched", "Launched"),
    ("MachineRegistered", "Registered"),
    ("MachineInitialized", "Initialized"),
    ("MachineExpired", "Expired"),
    ("MachineDrifted", "Drifted"),
    ("MachineEmpty", "Empty"),
];

pub(super) fn convert(fields: &mut Fields<'_>) -> Value {
    let version = fields.version();
    let is_machine = version.ends_with("v1alpha5");
    let metadata = meta::metadata(fields);
    let status = fields.take("status").map(status);
    let mut spec = fields.inner("spec");
    if is_machine {
        // The reference names another kind in v1, under another field name.
        let mut reference = spec.inner("machineTemplateRef");
        let name = reference.text("name");
        reference.take_all();
        spec.put("nodeClassRef", json!({"name": name, "kind": "EC2NodeClass"}));
    }
    let requests = spec.inner("resources").take("requests");
    if spec.take("kubelet").is_some() {
        spec.note("kubelet", "is left out: v1 has it in the EC2NodeClass");
    }
    let mut converted = pool::node_spec(&mut spec, Some(json!("Never")));
    if let Some(requests) = requests {
        converted.insert("resources".to_owned(), json!({"requests": requests}));
    }
    spec.finish();
    let mut claim =
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": converted});
    if let Some(status) = status {
        claim["status"] = status;
    }
    claim
}

fn status(mut status: Value) -> Value {
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let old = condition.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some((_, new)) = CONDITIONS.iter().find(|(name, _)| *name == old) {
            condition["type"] = json!(new);
        }
    }
    status
}
