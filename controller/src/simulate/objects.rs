//! Which objects a day is played with, and what each must be to be played.
//!
//! The reader of files looks at what decides about nodes. The cluster of a day also makes pods of templates, binds claims
//! and evicts by budgets: what it needs for that must be there in the shape that the API server would insist on, or an object
//! would be left out without a word.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, PodTemplateSpec};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::Path;
use super::script::{Deed, Reference, Script};
use crate::manifest::{Decoded, Fault, Object, Scope, kind_named, shorten};

/// Kinds that a day begins without: it makes its own.
pub(crate) const OWN: [&str; 4] = ["Node", "NodeClaim", "CSINode", "VolumeAttachment"];

/// Pods and static nodes that there may be at once. Ten times what Kubernetes was built for comes to a tenth of it; beyond
/// it a day does not end while anybody waits.
pub(crate) const MOST: u64 = 100_000;

/// The words of an object of that kind and name, as [`Reference`] shows them.
pub(crate) fn reference_of(object: &Value) -> Reference {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_owned();
    let path = path_for(&kind, Some(text("/metadata/namespace")), text("/metadata/name"));
    Reference { kind, path }
}

/// The path of an object: without a namespace where its kind has none, in `default` if it does not say.
pub(crate) fn path_for(kind: &str, namespace: Option<&str>, name: &str) -> Path {
    if has_namespace(kind) {
        Path::new(namespace.filter(|text| !text.is_empty()).unwrap_or("default"), name)
    } else {
        Path::bare(name)
    }
}

/// Whether objects of the kind are in namespaces; those of unknown kinds are.
pub(crate) fn has_namespace(kind: &str) -> bool {
    kind_named(kind).is_none_or(|known| known.scope == Scope::Namespaced)
}

/// Whether a day leaves the object out: it makes its own of the kind, or the object's owner does.
pub(crate) fn is_left_out(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    OWN.contains(&kind) || is_owned_set(object)
}

/// Whether the object is the ReplicaSet of a Deployment, whose pods are the Deployment's here.
pub(crate) fn is_owned_set(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    object["kind"] == "ReplicaSet" && owners.is_some_and(|owners| !owners.is_empty())
}

/// The object as the API server would keep it: in its namespace, and with quantities as text.
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

/// Manifests may write a quantity as a number; whoever reads it from the API sees text.
fn quantities_as_text(value: &mut Value) {
    /// Maps of quantities, in pods, claims, RuntimeClasses and LimitRanges.
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

/// Pods that the object comes to at once, or nodes of a static pool.
pub(crate) fn crowd(object: &Object) -> u64 {
    match object {
        Object::Pod(..) => 1,
        Object::Workload(workload, _) => workload.replicas.into(),
        Object::NodePool(pool) => pool.replicas.unwrap_or(0).into(),
        Object::CapacityBuffer(buffer) => buffer.replicas.unwrap_or(0).into(),
        _ => 0,
    }
}

/// An EC2NodeClass for each that a NodePool names and that is neither among `objects` nor brought by `script`: as `muster plan`
/// takes such a pool, with every zone of the catalogue, and AL2023.
pub(crate) fn default_classes(objects: &[Value], script: &Script) -> Vec<Value> {
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

/// Checks that the cluster of a day can work with the object, which the reader of files accepts.
///
/// # Errors
/// The first field that is not what the API takes.
pub(crate) fn check(object: &Value) -> Decoded<()> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind_named(kind).is_none() || is_left_out(object) {
        return Ok(());
    }
    for key in ["name", "namespace"] {
        let text = object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default();
        // What Kubernetes takes as a part of a path, at the least.
        if text.contains(['/', '%']) || matches!(text, "." | "..") {
            return Err(fault(&format!("metadata.{key}"), "is no name that the API takes", "leave out `/` and `%`"));
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

/// Checks that what stands at `at`, if anything does, has the shape of a `T`.
fn typed<T: DeserializeOwned>(object: &Value, kind: &str, at: &str) -> Decoded<()> {
    let part = at.split('.').filter(|key| !key.is_empty()).try_fold(object, |part, key| part.get(key));
    let Some(part) = part.filter(|part| !part.is_null()) else { return Ok(()) };
    serde_path_to_error::deserialize::<_, T>(part).map(drop).map_err(|error| {
        let inner = error.path().to_string();
        let path = match (at, inner.as_str()) {
            (at, "." | "") => at.to_owned(),
            ("", inner) => inner.to_owned(),
            (at, inner) if inner.starts_with('[') => format!("{at}{inner}"),
            (at, inner) => format!("{at}.{inner}"),
        };
        let path: String = path.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let problem = format!("is not what the API takes there: {}", shorten(&error.inner().to_string()));
        let plain: Vec<&str> = path.split('.').map(|key| key.split('[').next().unwrap_or_default()).collect();
        let hint = format!("`kubectl explain {}.{}` says what it takes", kind.to_lowercase(), plain.join("."));
        fault(&path, problem, hint)
    })
}

/// A CronJob whose schedule nobody can read would never run.
fn schedule(object: &Value) -> Decoded<()> {
    const AT: &str = "spec.schedule";
    const HINT: &str =
        "write five fields, such as `*/15 * * * *`, or one of `@hourly`, `@daily`, `@weekly`, `@monthly`";
    let Some(text) = object.pointer("/spec/schedule").and_then(Value::as_str) else {
        return Err(fault(AT, "is missing, or is no text", HINT));
    };
    // croner would take a sixth field for seconds, which Kubernetes does not know.
    let is_plain = text.starts_with('@') || text.split_whitespace().count() == 5;
    match text.parse::<croner::Cron>() {
        Ok(_) if is_plain => Ok(()),
        _ => Err(fault(AT, format!("is no schedule: `{}`", shorten(text)), HINT)),
    }
}
