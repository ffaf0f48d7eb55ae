//! Nodes, and small objects that other objects refer to.

use std::sync::Arc;

use muster_scheduling::model::{LabelSelector, Labels, Resources, Taint};

use super::field::{Decoded, Field};
use super::meta::{Meta, meta};
use super::selector::{label_selector, of_labels, taint};

/// A Node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Metadata.
    pub meta: Meta,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `spec.providerID`.
    pub provider_id: Option<Arc<str>>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
}

/// A condition of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Type of the condition.
    pub kind: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// Reason as one word.
    pub reason: Arc<str>,
    /// Message.
    pub message: Arc<str>,
    /// Time of the last transition, as written.
    pub since: Option<Arc<str>>,
}

/// A RuntimeClass.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeClass {
    /// Metadata.
    pub meta: Meta,
    /// `overhead.podFixed`.
    pub overhead: Resources,
    /// `scheduling.nodeSelector`.
    pub node_selector: Labels,
    /// `scheduling.tolerations`.
    pub tolerations: Vec<muster_scheduling::model::Toleration>,
}

/// A PriorityClass.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorityClass {
    /// Metadata.
    pub meta: Meta,
    /// `value`.
    pub value: i32,
    /// `globalDefault`.
    pub default: bool,
}

/// Container defaults of a LimitRange.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitRange {
    /// Metadata.
    pub meta: Meta,
    /// Default requests of containers.
    pub default_requests: Resources,
    /// Default limits of containers.
    pub default_limits: Resources,
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq)]
pub struct DisruptionBudget {
    /// Metadata.
    pub meta: Meta,
    /// `spec.selector`.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`; zero without a status.
    pub disruptions_allowed: i32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub evicts_unready: bool,
}

/// A Service, of which only the selector is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Metadata.
    pub meta: Meta,
    /// `spec.selector` as a label selector.
    pub selector: LabelSelector,
}

/// Decodes a Node.
pub(crate) fn node(object: &Field<'_>) -> Decoded<Node> {
    object.only(&["apiVersion", "kind", "metadata", "spec", "status"]);
    let meta = meta(object, false)?;
    let spec = object.get("spec")?;
    let status = object.get("status")?;
    let mut node = Node {
        meta,
        taints: Vec::new(),
        unschedulable: false,
        provider_id: None,
        capacity: Resources::new(),
        allocatable: Resources::new(),
        conditions: Vec::new(),
    };
    if let Some(spec) = spec {
        spec.only(&[
            "configSource",
            "externalID",
            "podCIDR",
            "podCIDRs",
            "podPreemptionPolicy",
            "providerID",
            "taints",
            "unschedulable",
        ]);
        node.taints = spec.list("taints", taint)?;
        node.unschedulable = spec.read("unschedulable", |value| value.boolean())?.unwrap_or(false);
        node.provider_id = spec.shared_at("providerID")?;
    }
    if let Some(status) = status {
        node.capacity = status.read_or_default("capacity", |amounts| amounts.quantities())?;
        // The API server defaults allocatable to capacity.
        node.allocatable =
            status.read("allocatable", |amounts| amounts.quantities())?.unwrap_or_else(|| node.capacity.clone());
        node.conditions = conditions(&status)?;
    }
    Ok(node)
}

/// Decodes `conditions` of a status.
pub(crate) fn conditions(status: &Field<'_>) -> Decoded<Vec<Condition>> {
    status.list("conditions", |condition| {
        let text = |key: &str| -> Decoded<Arc<str>> { Ok(condition.shared_at(key)?.unwrap_or_default()) };
        Ok(Condition {
            kind: text("type")?,
            status: text("status")?,
            reason: text("reason")?,
            message: text("message")?,
            since: condition.shared_at("lastTransitionTime")?,
        })
    })
}

/// Decodes the metadata of a Namespace, and adds the label that every namespace has.
pub(crate) fn namespace(object: &Field<'_>) -> Decoded<Meta> {
    let mut meta = meta(object, false)?;
    meta.labels.set("kubernetes.io/metadata.name", Arc::clone(&meta.name));
    Ok(meta)
}

/// Decodes a RuntimeClass.
pub(crate) fn runtime_class(object: &Field<'_>) -> Decoded<RuntimeClass> {
    object.only(&["apiVersion", "kind", "metadata", "handler", "overhead", "scheduling"]);
    let overhead = object.read("overhead", |overhead| overhead.read("podFixed", |amounts| amounts.quantities()))?;
    let scheduling = object.read("scheduling", |scheduling| {
        let selector = scheduling.read_or_default("nodeSelector", |labels| labels.labels())?;
        Ok((selector, scheduling.list("tolerations", super::selector::toleration)?))
    })?;
    let (node_selector, tolerations) = scheduling.unwrap_or_default();
    Ok(RuntimeClass {
        meta: meta(object, false)?,
        overhead: overhead.flatten().unwrap_or_default(),
        node_selector,
        tolerations,
    })
}

/// Decodes a PriorityClass.
pub(crate) fn priority_class(object: &Field<'_>) -> Decoded<PriorityClass> {
    object.only(&["apiVersion", "kind", "metadata", "description", "globalDefault", "preemptionPolicy", "value"]);
    Ok(PriorityClass {
        meta: meta(object, false)?,
        value: object.read("value", |value| value.int32())?.unwrap_or(0),
        default: object.read("globalDefault", |value| value.boolean())?.unwrap_or(false),
    })
}

/// Decodes a LimitRange, with the API server's defaults: limits from `max`, requests from limits, then from `min`.
pub(crate) fn limit_range(object: &Field<'_>) -> Decoded<LimitRange> {
    object.only(&["apiVersion", "kind", "metadata", "spec"]);
    let mut range =
        LimitRange { meta: meta(object, true)?, default_requests: Resources::new(), default_limits: Resources::new() };
    let spec = object.require("spec")?;
    spec.list("limits", |item| {
        let amounts = |key: &str| item.read_or_default(key, |amounts| amounts.quantities());
        let (mut limits, mut requests) = (amounts("default")?, amounts("defaultRequest")?);
        let (least, most) = (amounts("min")?, amounts("max")?);
        if item.shared_at("type")?.as_deref() == Some("Container") {
            fill(&mut limits, &most);
            fill(&mut requests, &limits);
            fill(&mut requests, &least);
            fill(&mut range.default_limits, &limits);
            fill(&mut range.default_requests, &requests);
        }
        Ok(())
    })?;
    Ok(range)
}

/// Adds the resources of `source` that `amounts` lacks.
pub fn fill(amounts: &mut Resources, source: &Resources) {
    for (resource, amount) in source.iter() {
        if !amounts.contains(resource) {
            amounts.set(resource.clone(), amount);
        }
    }
}

/// Decodes a PodDisruptionBudget.
pub(crate) fn disruption_budget(object: &Field<'_>) -> Decoded<DisruptionBudget> {
    object.only(&["apiVersion", "kind", "metadata", "spec", "status"]);
    let meta = meta(object, true)?;
    let spec = object.require("spec")?;
    let policy = spec.shared_at("unhealthyPodEvictionPolicy")?;
    let allowed = object.read("status", |status| status.read("disruptionsAllowed", |count| count.int32()))?;
    Ok(DisruptionBudget {
        meta,
        selector: spec.read("selector", label_selector)?.unwrap_or(LabelSelector::Nothing),
        disruptions_allowed: allowed.flatten().unwrap_or(0),
        evicts_unready: policy.as_deref() == Some("AlwaysAllow"),
    })
}

/// Decodes a Service; one without a selector selects no pods.
pub(crate) fn service(object: &Field<'_>) -> Decoded<Service> {
    let meta = meta(object, true)?;
    let labels = object.read("spec", |spec| spec.read("selector", |labels| labels.labels()))?.flatten();
    Ok(Service { meta, selector: labels.as_ref().map_or(LabelSelector::Nothing, of_labels) })
}
