//! Conversion of writes to HTTP requests: pure.

use std::collections::BTreeMap;

use http::{Method, Request};
use muster_api::annotations::POD_DELETION_COST;
use muster_api::{NodeClaim, NodeClassReference};
use muster_stages::lifecycle::set_condition;
use muster_stages::step::{MetaChange, Subject, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::FIELD_MANAGER;
use super::observed::{Kind, ObservedVersions};

/// Kinds of NodeClasses: group, kind, and path.
const CLASSES: [(&str, &str, &str); 2] = [
    ("karpenter.k8s.aws", "EC2NodeClass", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"),
    ("karpenter.kwok.sh", "KWOKNodeClass", "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"),
];
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const OVERLAYS: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";
const BUFFERS: &str = "/apis/autoscaling.x-k8s.io/v1beta1";
const NODES: &str = "/api/v1/nodes";

/// Requests only the metadata, since only the version is needed: a whole pod takes some four kilobytes.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The needed part of the API server's answer to a write.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Written {
    #[serde(default)]
    pub(super) metadata: WrittenMeta,
}

/// Metadata of an answer. A deletion may return a `Status`, whose metadata is empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenMeta {
    #[serde(default)]
    pub(super) resource_version: Option<String>,
}

/// A write that cannot be converted, which is a bug in the stage or in the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Defect {
    #[error("the step was decided without `{0}`")]
    NotHeld(String),
    #[error("there is no NodeClass of the kind `{0}`")]
    UnknownClass(String),
    #[error("the request is invalid: {0}")]
    NoRequest(String),
}

/// Returns the request for a write. Fails for events and cloud calls, and for objects that `observed` does not contain.
pub(super) fn request(write: &Write, observed: &ObservedVersions) -> Result<Request<Vec<u8>>, Defect> {
    match write {
        Write::CreateClaim(claim) => send(Method::POST, CLAIMS.to_owned(), &new_claim(claim)?),
        Write::ClaimMeta { name, change } => {
            patch(of(CLAIMS, name), &meta_patch(change, &version(observed, Kind::Claim, name)?))
        }
        Write::ClaimStatus { name, status } => {
            let body = status_patch(observed, Kind::Claim, name, status)?;
            patch(format!("{}/status", of(CLAIMS, name)), &body)
        }
        Write::DeleteClaim { name, uid, .. } => delete(of(CLAIMS, name), uid, None),
        Write::Node { name, change } => {
            let mut body = meta_patch(&change.meta, &version(observed, Kind::Node, name)?);
            if let (Some(taints), Value::Object(fields)) = (&change.taints, &mut body) {
                fields.insert("spec".to_owned(), json!({"taints": taints}));
            }
            patch(of(NODES, name), &body)
        }
        Write::DeleteNode { name, uid } => delete(of(NODES, name), uid, None),
        Write::ClassMeta(change) => {
            let class = observed.its_class().ok_or_else(|| Defect::NotHeld("NodeClass".to_owned()))?;
            patch(class_path(&class.reference)?, &meta_patch(change, &class.version))
        }
        Write::ClassCondition(condition) => {
            let class = observed.its_class().ok_or_else(|| Defect::NotHeld("NodeClass".to_owned()))?;
            let mut conditions = class.conditions.clone();
            set_condition(&mut conditions, condition.clone());
            let body = json!({"metadata": {"resourceVersion": class.version}, "status": {"conditions": conditions}});
            patch(format!("{}/status", class_path(&class.reference)?), &body)
        }
        Write::ClassStatus(status) => {
            let class = observed.its_class().ok_or_else(|| Defect::NotHeld("NodeClass".to_owned()))?;
            let change = difference(&class.status, status);
            let body = json!({"metadata": {"resourceVersion": class.version}, "status": change});
            patch(format!("{}/status", class_path(&class.reference)?), &body)
        }
        Write::PoolMeta { name, change } => {
            patch(of(POOLS, name), &meta_patch(change, &version(observed, Kind::Pool, name)?))
        }
        Write::PoolStatus { name, status } => {
            let body = status_patch(observed, Kind::Pool, name, status)?;
            patch(format!("{}/status", of(POOLS, name)), &body)
        }
        Write::OverlayStatus { name, status } => {
            let body = status_patch(observed, Kind::Overlay, name, status)?;
            patch(format!("{}/status", of(OVERLAYS, name)), &body)
        }
        Write::BufferStatus { path, status } => {
            let body = status_patch(observed, Kind::Buffer, path, status)?;
            let (namespace, name) = path.split_once('/').unwrap_or(("default", path.as_str()));
            patch(format!("{BUFFERS}/namespaces/{namespace}/capacitybuffers/{name}/status"), &body)
        }
        Write::Nominate { pod, node } => {
            let body = json!({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}});
            patch(format!("{}/status", pod_path(pod)), &body)
        }
        Write::PodDeletionCost { pod, cost } => {
            let cost = cost.map(|cost| cost.to_string());
            let body = json!({"metadata": {"uid": pod.uid, "annotations": {POD_DELETION_COST: cost}}});
            patch(pod_path(pod), &body)
        }
        Write::Evict(pod) => {
            let body = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
                "deleteOptions": {"preconditions": {"uid": pod.uid}},
            });
            send(Method::POST, format!("{}/eviction", pod_path(pod)), &body)
        }
        Write::DeletePod { pod, grace } => delete(pod_path(pod), &pod.uid, Some(grace.as_secs())),
        Write::Cloud(_) | Write::Event(_) => Err(Defect::NoRequest(write.name().to_owned())),
    }
}

/// Returns the body that creates a NodeClaim.
fn new_claim(claim: &NodeClaim) -> Result<Value, Defect> {
    let mut body = serde_json::to_value(claim).map_err(|error| Defect::NoRequest(error.to_string()))?;
    if let Value::Object(fields) = &mut body {
        fields.entry("apiVersion").or_insert_with(|| json!("karpenter.sh/v1"));
        fields.entry("kind").or_insert_with(|| json!("NodeClaim"));
        fields.remove("status");
    }
    Ok(body)
}

/// Returns a merge patch from `before` to `after` that does not touch fields which neither has.
pub(super) fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return after.clone() };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, wanted) in new {
        match old.get(name) {
            Some(there) if there == wanted => {}
            Some(there) => {
                patch.insert(name.clone(), difference(there, wanted));
            }
            None => {
                patch.insert(name.clone(), wanted.clone());
            }
        }
    }
    Value::Object(patch)
}

fn status_patch<T: Serialize>(
    observed: &ObservedVersions,
    kind: Kind,
    name: &str,
    status: &T,
) -> Result<Value, Defect> {
    let kept = observed.of(kind, name).ok_or_else(|| Defect::NotHeld(name.to_owned()))?;
    let wanted = serde_json::to_value(status).map_err(|error| Defect::NoRequest(error.to_string()))?;
    let change = difference(&kept.status, &wanted);
    Ok(json!({"metadata": {"resourceVersion": kept.version}, "status": change}))
}

fn meta_patch(change: &MetaChange, version: &str) -> Value {
    let MetaChange { labels, annotations, finalizers, owners } = change;
    let mut meta = Map::from_iter([("resourceVersion".to_owned(), json!(version))]);
    let mut set = |field: &str, values: &BTreeMap<String, Option<String>>| {
        if !values.is_empty() {
            meta.insert(field.to_owned(), json!(values));
        }
    };
    set("labels", labels);
    set("annotations", annotations);
    if let Some(finalizers) = finalizers {
        meta.insert("finalizers".to_owned(), json!(finalizers));
    }
    if let Some(owners) = owners {
        meta.insert("ownerReferences".to_owned(), json!(owners));
    }
    json!({"metadata": meta})
}

fn version(observed: &ObservedVersions, kind: Kind, name: &str) -> Result<String, Defect> {
    observed.of(kind, name).map(|kept| kept.version.clone()).ok_or_else(|| Defect::NotHeld(name.to_owned()))
}

fn of(kind: &str, name: &str) -> String {
    format!("{kind}/{name}")
}

fn pod_path(pod: &Subject) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace.as_deref().unwrap_or("default"), pod.name)
}

fn class_path(class: &NodeClassReference) -> Result<String, Defect> {
    let NodeClassReference { group, kind, name } = class;
    let known = CLASSES.iter().find(|(its_group, its_kind, _)| its_group == group && its_kind == kind);
    known.map(|(_, _, path)| of(path, name)).ok_or_else(|| Defect::UnknownClass(format!("{kind}.{group}")))
}

fn patch(path: String, body: &Value) -> Result<Request<Vec<u8>>, Defect> {
    send(Method::PATCH, path, body)
}

fn delete(path: String, uid: &str, grace: Option<u64>) -> Result<Request<Vec<u8>>, Defect> {
    let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    if let (Some(grace), Value::Object(fields)) = (grace, &mut body) {
        fields.insert("gracePeriodSeconds".to_owned(), json!(grace));
    }
    send(Method::DELETE, path, &body)
}

fn send(method: Method, path: String, body: &Value) -> Result<Request<Vec<u8>>, Defect> {
    let bad = |error: &dyn std::fmt::Display| Defect::NoRequest(error.to_string());
    let (target, content) = match method {
        Method::PATCH => (format!("{path}?fieldManager={FIELD_MANAGER}"), "application/merge-patch+json"),
        // An eviction is not stored and has no field manager.
        Method::POST if !path.ends_with("/eviction") => {
            (format!("{path}?fieldManager={FIELD_MANAGER}"), "application/json")
        }
        _ => (path, "application/json"),
    };
    let body = serde_json::to_vec(body).map_err(|error| bad(&error))?;
    let request = Request::builder().method(method).uri(target).header(http::header::CONTENT_TYPE, content);
    let request = request.header(http::header::ACCEPT, METADATA_ONLY);
    request.body(body).map_err(|error| bad(&error))
}
