//! Muster's own kinds: pools, claims, classes, overlays and buffers. Their CRDs have validated them before.

use std::sync::Arc;

use muster_api::{Ec2NodeClass, decode};
use muster_aws::{ClassSettings, SettingError};
use muster_scheduling::model::{Labels, Requirement, Requirements, Resources, Taint};

use super::cluster::{Condition, conditions};
use super::field::{Decoded, Fault, Field};
use super::judge;
use super::meta::{Meta, meta};
use super::selector::{pool_requirement, taint};

/// Reference of a pool or claim to its NodeClass.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeClassRef {
    /// API group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// A NodePool.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePool {
    /// Metadata.
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
    /// Reference to the class of its nodes.
    pub class: NodeClassRef,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// Reason why it never becomes ready, if it has an error that its CRD does not detect.
    pub never_ready: Option<String>,
    /// Whole object with the CRD's defaults, the source of the typed form.
    pub object: serde_json::Value,
}

/// A NodeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeClaim {
    /// Metadata.
    pub meta: Meta,
    /// `metadata.uid`, because names are reused.
    pub uid: Option<Arc<str>>,
    /// `spec.requirements`.
    pub requirements: Requirements,
    /// `spec.resources.requests`.
    pub requests: Resources,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// Reference to the class of its node.
    pub class: NodeClassRef,
    /// `spec.expireAfter`, as written.
    pub expire_after: Option<Arc<str>>,
    /// `spec.terminationGracePeriod`, as written.
    pub termination_grace_period: Option<Arc<str>>,
    /// `status.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.providerID`.
    pub provider_id: Option<Arc<str>>,
    /// `status.imageID`.
    pub image_id: Option<Arc<str>>,
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
    /// Kind: `EC2NodeClass` or `KWOKNodeClass`.
    pub kind: &'static str,
    /// Name.
    pub name: Arc<str>,
    /// Settings of an EC2NodeClass; the default for classes of other providers.
    pub settings: ClassSettings,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// Reason why it never becomes ready, if it has an error that its CRD does not detect.
    pub never_ready: Option<String>,
    /// Whole object with the CRD's defaults, the source of the typed form.
    pub object: serde_json::Value,
}

/// A NodeOverlay.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOverlay {
    /// Name.
    pub name: Arc<str>,
    /// `spec.weight`, 0 if absent.
    pub weight: i32,
    /// Requirements of the instance types that it applies to.
    pub requirements: Requirements,
    /// `spec.price`, as written.
    pub price: Option<Arc<str>>,
    /// `spec.priceAdjustment`, as written.
    pub price_adjustment: Option<Arc<str>>,
    /// `spec.capacity`.
    pub capacity: Resources,
}

/// Source of a buffer's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BufferSource {
    /// PodTemplate in its namespace.
    Template(Arc<str>),
    /// Workload in its namespace.
    Workload {
        /// API group; none is `apps`.
        group: Option<Arc<str>>,
        /// Kind.
        kind: Arc<str>,
        /// Name.
        name: Arc<str>,
    },
}

/// A CapacityBuffer.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityBuffer {
    /// Metadata.
    pub meta: Meta,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Source of its pods; `None` if it is not given.
    pub source: Option<BufferSource>,
    /// `spec.replicas`.
    pub replicas: Option<u32>,
    /// `spec.percentage` of the workload's replicas.
    pub percentage: Option<u32>,
    /// `spec.limits`: maximum requests of all its pods together.
    pub limits: Option<Resources>,
}

fn class_ref(field: Field<'_>) -> Decoded<NodeClassRef> {
    let text = |key: &str| -> Decoded<Arc<str>> { Ok(field.shared_at(key)?.unwrap_or_default()) };
    Ok(NodeClassRef { group: text("group")?, kind: text("kind")?, name: field.require("name")?.shared()? })
}

/// Decodes a NodePool; `object` has its defaults.
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

/// Decodes a NodeClaim.
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
        image_id: None,
        capacity: Resources::new(),
        allocatable: Resources::new(),
        last_pod_event: None,
        conditions: Vec::new(),
    };
    if let Some(status) = field.get("status")? {
        claim.node = status.shared_at("nodeName")?;
        claim.provider_id = status.shared_at("providerID")?;
        claim.image_id = status.shared_at("imageID")?;
        claim.capacity = status.read_or_default("capacity", |amounts| amounts.quantities())?;
        claim.allocatable = status.read_or_default("allocatable", |amounts| amounts.quantities())?;
        claim.last_pod_event = status.shared_at("lastPodEventTime")?;
        claim.conditions = conditions(&status)?;
    }
    Ok(claim)
}

/// Decodes a NodeClass; `object` has its defaults.
pub(crate) fn node_class(field: &Field<'_>, kind: &'static str, object: serde_json::Value) -> Decoded<NodeClass> {
    Ok(NodeClass {
        kind,
        name: meta(field, false)?.name,
        settings: if kind == "EC2NodeClass" { class_settings(field, &object)? } else { ClassSettings::default() },
        conditions: field.read_or_default("status", |status| conditions(&status))?,
        never_ready: None,
        object,
    })
}

fn class_settings(field: &Field<'_>, object: &serde_json::Value) -> Decoded<ClassSettings> {
    let typed = decode::<Ec2NodeClass>(object).map_err(|error| field.fault(error.to_string(), judge::HINT))?;
    ClassSettings::try_from(&typed).map_err(|error| {
        let SettingError { field: path, problem, hint } = error;
        Box::new(Fault { path, problem, hint: hint.to_owned() })
    })
}

/// Decodes a NodeOverlay.
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

/// Decodes a CapacityBuffer.
pub(crate) fn capacity_buffer(field: &Field<'_>) -> Decoded<CapacityBuffer> {
    let meta = meta(field, true)?;
    let spec = field.require("spec")?;
    let template = spec.read("podTemplateRef", |reference| reference.require("name")?.shared())?;
    let workload = spec.read("scalableRef", |reference| {
        let (kind, name) = (reference.require("kind")?.shared()?, reference.require("name")?.shared()?);
        Ok(BufferSource::Workload { group: reference.shared_at("apiGroup")?, kind, name })
    })?;
    let generation = field.require("metadata")?.read("generation", |count| count.integer(0, i64::MAX))?;
    Ok(CapacityBuffer {
        meta,
        generation,
        source: template.map(BufferSource::Template).or(workload),
        replicas: spec.read("replicas", |count| count.count())?,
        percentage: spec.read("percentage", |count| count.count())?,
        limits: spec.read("limits", |amounts| amounts.quantities())?,
    })
}
