//! Objects of a simulation, and their validation.
//!
//! The manifest reader only looks at fields that affect nodes. A simulation also creates pods from templates, binds
//! claims and evicts by budgets: the fields needed for that must be valid, as the API server would require. Otherwise
//! an object would be left out silently.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, PodTemplateSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::{DecodeError, decode};
use muster_bootstrap::is_printable;
use muster_manifest::{Decoded, Fault, Object, Scope, kind_named, shorten};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::Path;
use super::script::{Deed, Reference, Script};

/// Kinds that the simulation creates itself; initial objects of them are left out.
pub(crate) const OWN: [&str; 4] = ["Node", "NodeClaim", "CSINode", "VolumeAttachment"];

/// Kinds that no event can name: the simulated scheduler allocates no devices.
pub(crate) const OF_DEVICES: [&str; 4] = ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];

/// Maximum number of pods and static nodes at one time. Ten times the size that Kubernetes was designed for is a tenth
/// of it; larger simulations take too long.
pub const MOST: u64 = 100_000;

/// Returns the kind and path of an object.
pub(crate) fn reference_of(object: &Value) -> Reference {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_owned();
    let path = path_for(&kind, Some(text("/metadata/namespace")), text("/metadata/name"));
    Reference { kind, path }
}

/// Returns the path of an object: without namespace if its kind is cluster-scoped, in `default` if it has none.
pub(crate) fn path_for(kind: &str, namespace: Option<&str>, name: &str) -> Path {
    if has_namespace(kind) {
        Path::new(namespace.filter(|text| !text.is_empty()).unwrap_or("default"), name)
    } else {
        Path::bare(name)
    }
}

/// Returns true if the kind is namespaced; unknown kinds are.
pub(crate) fn has_namespace(kind: &str) -> bool {
    kind_named(kind).is_none_or(|known| known.scope == Scope::Namespaced)
}

/// Returns true if the simulation leaves the object out, because it or the object's owner creates it.
pub(crate) fn is_left_out(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    OWN.contains(&kind) || is_owned_set(object)
}

/// Returns true for the ReplicaSet of a Deployment; the simulated Deployment owns its pods directly.
pub(crate) fn is_owned_set(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    object["kind"] == "ReplicaSet" && owners.is_some_and(|owners| !owners.is_empty())
}

/// Returns the object as the API server stores it: with its namespace, and with quantities as text.
pub(crate) fn settled(mut object: Value) -> Value {
    quantities_as_text(&mut object);
    let path = reference_of(&object).path;
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if path.namespace.is_empty() {
            meta.remove("namespace");
        } else {
            meta.insert("namespace".to_owned(), path.namespace.into());
        }
    }
    object
}

/// Converts numeric quantities to text: manifests may contain numbers, but the API always returns text.
fn quantities_as_text(value: &mut Value) {
    /// Fields with maps of quantities, in pods, claims, RuntimeClasses and LimitRanges.
    const AMOUNTS: [&str; 7] = ["requests", "limits", "overhead", "podFixed", "capacity", "default", "defaultRequest"];
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let amounts = field.as_object_mut().filter(|_| AMOUNTS.contains(&key.as_str()));
                for amount in amounts.into_iter().flat_map(|amounts| amounts.values_mut()) {
                    if let Value::Number(number) = amount {
                        *amount = Value::String(number.to_string());
                    }
                }
                quantities_as_text(field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(quantities_as_text),
        _ => {}
    }
}

/// Returns the number of pods, or of nodes of a static pool, that the object results in.
pub(crate) fn crowd(object: &Object) -> u64 {
    match object {
        Object::Pod(..) => 1,
        Object::Workload(workload, _) => workload.replicas.into(),
        Object::NodePool(pool) => pool.replicas.unwrap_or(0).into(),
        Object::CapacityBuffer(buffer) => buffer.replicas.unwrap_or(0).into(),
        _ => 0,
    }
}

/// Returns an EC2NodeClass for each one that a NodePool references but neither `objects` nor `script` contain. As in
/// `muster plan`, it selects all zones of the catalogue, and AL2023.
pub fn default_classes(objects: &[Value], script: &Script) -> Vec<Value> {
    let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let applied = script.deeds.iter().filter_map(|(_, deed)| match deed {
        Deed::Apply(object) => Some(object),
        _ => None,
    });
    let of_kind = |kind: &'static str| move |object: &&Value| object["kind"] == kind;
    let known = objects.iter().chain(applied).filter(of_kind("EC2NodeClass"));
    let known: BTreeSet<String> = known.filter_map(|class| text(class, "/metadata/name")).collect();
    let references = objects.iter().filter(of_kind("NodePool"));
    let references = references.filter_map(|pool| pool.pointer("/spec/template/spec/nodeClassRef"));
    let named = references.filter(of_kind("EC2NodeClass")).filter_map(|reference| text(reference, "/name"));
    let wanted: BTreeSet<String> = named.filter(|name| !known.contains(name)).collect();
    let class = |name: String| {
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
            "spec": {
                "role": name,
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
            },
        })
    };
    wanted.into_iter().map(class).collect()
}

/// Checks that the simulation can use an object that the manifest reader accepts.
///
/// # Errors
/// Returns the first invalid field.
pub fn check(object: &Value) -> Decoded<()> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind_named(kind).is_none() || is_left_out(object) {
        return Ok(());
    }
    for key in ["name", "namespace"] {
        let text = object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default();
        // Minimal rules for a path segment in Kubernetes.
        if text.contains(['/', '%']) || matches!(text, "." | "..") {
            return Err(fault(
                &format!("metadata.{key}"),
                "is not a name that the API accepts",
                "leave out `/` and `%`",
            ));
        }
    }
    typed::<ObjectMeta>(object, kind, "metadata")?;
    match kind {
        "Pod" => typed::<Pod>(object, kind, ""),
        "PodDisruptionBudget" => typed::<PodDisruptionBudget>(object, kind, ""),
        "PersistentVolumeClaim" => typed::<PersistentVolumeClaim>(object, kind, ""),
        "PersistentVolume" => typed::<PersistentVolume>(object, kind, ""),
        "Deployment" | "ReplicaSet" | "DaemonSet" | "Job" => typed::<PodTemplateSpec>(object, kind, "spec.template"),
        "StatefulSet" => {
            typed::<Vec<PersistentVolumeClaim>>(object, kind, "spec.volumeClaimTemplates")?;
            typed::<PodTemplateSpec>(object, kind, "spec.template")
        }
        "CronJob" => {
            schedule(object)?;
            typed::<ObjectMeta>(object, kind, "spec.jobTemplate.metadata")?;
            typed::<PodTemplateSpec>(object, kind, "spec.jobTemplate.spec.template")
        }
        _ => Ok(()),
    }
}

fn fault(path: &str, problem: impl Into<String>, hint: impl Into<String>) -> Box<Fault> {
    Box::new(Fault { path: path.to_owned(), problem: problem.into(), hint: hint.into() })
}

/// Checks that the field at `at`, if present, deserializes to a `T`.
fn typed<T: DeserializeOwned>(object: &Value, kind: &str, at: &str) -> Decoded<()> {
    let part = at.split('.').filter(|key| !key.is_empty()).try_fold(object, |part, key| part.get(key));
    let Some(part) = part.filter(|part| !part.is_null()) else { return Ok(()) };
    decode::<T>(part).map(drop).map_err(|DecodeError { path: inner, error }| {
        let path = match (at, inner.as_str()) {
            (at, "") => at.to_owned(),
            ("", inner) => inner.to_owned(),
            (at, inner) if inner.starts_with('[') => format!("{at}{inner}"),
            (at, inner) => format!("{at}.{inner}"),
        };
        let path: String = path.chars().map(|letter| if is_printable(letter) { letter } else { ' ' }).collect();
        let problem = format!("is not what the API takes there: {}", shorten(&error.to_string()));
        let plain: Vec<&str> = path.split('.').map(|key| key.split('[').next().unwrap_or_default()).collect();
        let hint = format!("`kubectl explain {}.{}` says what it takes", kind.to_lowercase(), plain.join("."));
        fault(&path, problem, hint)
    })
}

/// Checks the schedule of a CronJob, which would never run with an invalid one.
fn schedule(object: &Value) -> Decoded<()> {
    const AT: &str = "spec.schedule";
    const HINT: &str =
        "write five fields, such as `*/15 * * * *`, or one of `@hourly`, `@daily`, `@weekly`, `@monthly`";
    let Some(text) = object.pointer("/spec/schedule").and_then(Value::as_str) else {
        return Err(fault(AT, "is missing or not text", HINT));
    };
    // croner accepts a sixth field for seconds, which Kubernetes rejects.
    let is_plain = text.starts_with('@') || text.split_whitespace().count() == 5;
    match text.parse::<croner::Cron>() {
        Ok(_) if is_plain => Ok(()),
        _ => Err(fault(AT, format!("is not a schedule: `{}`", shorten(text)), HINT)),
    }
}
