//! The kinds of the autoscaler: pools, claims, classes, overlays and buffers. Their CRDs have judged them before.

use std::sync::Arc;

use muster_api::Ec2NodeClass;
use muster_aws::{ClassSettings, SettingError};
use muster_scheduling::model::{Labels, Requirement, Requirements, Resources, Taint};
use serde::Deserialize;

use super::cluster::{Condition, conditions};
use super::field::{Decoded, Fault, Field};
use super::judge;
use super::meta::{Meta, meta};
use super::selector::{pool_requirement, taint};

/// Which NodeClass a pool or claim uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeClassRef {
    /// Its API group.
    pub group: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// A NodePool.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePool {
    /// Its metadata.
    pub meta: Meta,
    /// `spec.weight`.
    pub weight: i32,
    /// `spec.replicas`, if the pool is static.
    pub replicas: Option<u32>,
    /// `spec.limits`.
    pub limits: Option<Resources>,
    /// Labels of the template.
    pub labels: Labels,
    /// Annotations of the template.
    pub annotations: Labels,
    /// Requirements of the template.
    pub requirements: Vec<(Arc<str>, Requirement)>,
    /// Taints of the template.
    pub taints: Vec<Taint>,
    /// Startup taints of the template.
    pub startup_taints: Vec<Taint>,
    /// The class of its nodes.
    pub class: NodeClassRef,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// Why it will never become ready, if what it says is wrong in a way that its CRD does not see.
    pub never_ready: Option<String>,
    /// The whole object as its CRD completes it: what the typed form is made from.
    pub object: serde_json::Value,
}

/// A NodeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeClaim {
    /// Its metadata.
    pub meta: Meta,
    /// `metadata.uid`: names come again.
    pub uid: Option<Arc<str>>,
    /// `spec.requirements`.
    pub requirements: Requirements,
    /// `spec.resources.requests`.
    pub requests: Resources,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// The class of its node.
    pub class: NodeClassRef,
    /// `spec.expireAfter`, as written.
    pub expire_after: Option<Arc<str>>,
    /// `spec.terminationGracePeriod`, as written.
    pub termination_grace_period: Option<Arc<str>>,
    /// `status.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.providerID`.
    pub provider_id: Option<Arc<str>>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// `status.lastPodEventTime`, as written.
    pub last_pod_event: Option<Arc<str>>,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
}

/// A NodeClass of any provider.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeClass {
    /// `EC2NodeClass`, `KWOKNodeClass`.
    pub kind: &'static str,
    /// Its name.
    pub name: Arc<str>,
    /// What an EC2NodeClass says about its nodes; of other providers' classes the default.
    pub settings: ClassSettings,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// The whole object as its CRD completes it: what the typed form is made from.
    pub object: serde_json::Value,
}

/// A NodeOverlay.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOverlay {
    /// Its name.
    pub name: Arc<str>,
    /// `spec.weight`, 0 if absent.
    pub weight: i32,
    /// What it applies to.
    pub requirements: Requirements,
    /// `spec.price`, as written.
    pub price: Option<Arc<str>>,
    /// `spec.priceAdjustment`, as written.
    pub price_adjustment: Option<Arc<str>>,
    /// `spec.capacity`.
    pub capacity: Resources,
}

/// What a buffer is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BufferSource {
    /// A PodTemplate of its namespace.
    Template(Arc<str>),
    /// A workload of its namespace, by kind and name.
    Workload(Arc<str>, Arc<str>),
}

/// A CapacityBuffer.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityBuffer {
    /// Its metadata.
    pub meta: Meta,
    /// What its pods are like; `None` if it does not say.
    pub source: Option<BufferSource>,
    /// `spec.replicas`.
    pub replicas: Option<u32>,
    /// `spec.percentage` of the workload's replicas.
    pub percentage: Option<u32>,
    /// `spec.limits`: what all its pods may request together.
    pub limits: Option<Resources>,
}

fn class_ref(field: Field<'_>) -> Decoded<NodeClassRef> {
    let text = |key: &str| -> Decoded<Arc<str>> { Ok(field.shared_at(key)?.unwrap_or_default()) };
    Ok(NodeClassRef { group: text("group")?, kind: text("kind")?, name: field.require("name")?.shared()? })
}

/// A NodePool; `object` is its completed form.
pub(crate) fn node_pool(field: &Field<'_>, object: serde_json::Value) -> Decoded<NodePool> {
    let meta = meta(field, false)?;
    let spec = field.require("spec")?;
    let template = spec.require("template")?;
    let template_meta = template.get("metadata")?;
    let labels_at = |key: &str| match &template_meta {
        Some(meta) => meta.read_or_default(key, |labels| labels.labels()),
        None => Ok(Labels::default()),
    };
    let (labels, annotations) = (labels_at("labels")?, labels_at("annotations")?);
    let nodes = template.require("spec")?;
    Ok(NodePool {
        meta,
        weight: spec.read("weight", |weight| weight.int32())?.unwrap_or(0),
        replicas: spec.read("replicas", |count| count.crowd())?,
        limits: spec.read("limits", |amounts| amounts.quantities())?,
        labels,
        annotations,
        requirements: nodes.list("requirements", pool_requirement)?,
        taints: nodes.list("taints", taint)?,
        startup_taints: nodes.list("startupTaints", taint)?,
        class: nodes.read_or_default("nodeClassRef", class_ref)?,
        conditions: field.read_or_default("status", |status| conditions(&status))?,
        never_ready: None,
        object,
    })
}

/// A NodeClaim.
pub(crate) fn node_claim(field: &Field<'_>) -> Decoded<NodeClaim> {
    let meta = meta(field, false)?;
    let spec = field.require("spec")?;
    let requests = spec.read("resources", |resources| resources.read("requests", |amounts| amounts.quantities()))?;
    let mut claim = NodeClaim {
        meta,
        uid: field.require("metadata")?.shared_at("uid")?,
        requirements: spec.list("requirements", pool_requirement)?.into_iter().collect(),
        requests: requests.flatten().unwrap_or_default(),
        taints: spec.list("taints", taint)?,
        startup_taints: spec.list("startupTaints", taint)?,
        class: spec.read_or_default("nodeClassRef", class_ref)?,
        expire_after: spec.shared_at("expireAfter")?,
        termination_grace_period: spec.shared_at("terminationGracePeriod")?,
        node: None,
        provider_id: None,
        capacity: Resources::new(),
        allocatable: Resources::new(),
        last_pod_event: None,
        conditions: Vec::new(),
    };
    if let Some(status) = field.get("status")? {
        claim.node = status.shared_at("nodeName")?;
        claim.provider_id = status.shared_at("providerID")?;
        claim.capacity = status.read_or_default("capacity", |amounts| amounts.quantities())?;
        claim.allocatable = status.read_or_default("allocatable", |amounts| amounts.quantities())?;
        claim.last_pod_event = status.shared_at("lastPodEventTime")?;
        claim.conditions = conditions(&status)?;
    }
    Ok(claim)
}

/// A NodeClass; `object` is its completed form.
pub(crate) fn node_class(field: &Field<'_>, kind: &'static str, object: serde_json::Value) -> Decoded<NodeClass> {
    Ok(NodeClass {
        kind,
        name: meta(field, false)?.name,
        settings: if kind == "EC2NodeClass" { class_settings(field, &object)? } else { ClassSettings::default() },
        conditions: field.read_or_default("status", |status| conditions(&status))?,
        object,
    })
}

fn class_settings(field: &Field<'_>, object: &serde_json::Value) -> Decoded<ClassSettings> {
    let typed = Ec2NodeClass::deserialize(object).map_err(|error| field.fault(error.to_string(), judge::HINT))?;
    ClassSettings::try_from(&typed).map_err(|error| {
        let SettingError { field: path, problem, hint } = error;
        Box::new(Fault { path, problem, hint: hint.to_owned() })
    })
}

/// A NodeOverlay.
pub(crate) fn node_overlay(field: &Field<'_>) -> Decoded<NodeOverlay> {
    let name = meta(field, false)?.name;
    let spec = field.require("spec")?;
    let number_or_text = |key: &str| {
        spec.read(key, |value| match value.tree() {
            super::tree::Tree::Number(number) => Ok(Arc::from(number.to_string())),
            _ => value.shared(),
        })
    };
    Ok(NodeOverlay {
        name,
        weight: spec.read("weight", |weight| weight.int32())?.unwrap_or(0),
        requirements: spec.list("requirements", pool_requirement)?.into_iter().collect(),
        price: number_or_text("price")?,
        price_adjustment: number_or_text("priceAdjustment")?,
        capacity: spec.read_or_default("capacity", |amounts| amounts.quantities())?,
    })
}

/// A CapacityBuffer.
pub(crate) fn capacity_buffer(field: &Field<'_>) -> Decoded<CapacityBuffer> {
    let meta = meta(field, true)?;
    let spec = field.require("spec")?;
    let template = spec.read("podTemplateRef", |reference| reference.require("name")?.shared())?;
    let workload = spec.read("scalableRef", |reference| {
        Ok(BufferSource::Workload(reference.require("kind")?.shared()?, reference.require("name")?.shared()?))
    })?;
    Ok(CapacityBuffer {
        meta,
        source: template.map(BufferSource::Template).or(workload),
        replicas: spec.read("replicas", |count| count.count())?,
        percentage: spec.read("percentage", |count| count.count())?,
        limits: spec.read("limits", |amounts| amounts.quantities())?,
    })
}
