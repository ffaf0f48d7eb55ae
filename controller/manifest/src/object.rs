//! Decoded object, from files or a live cluster.

use std::sync::Arc;

use super::capacity::{self, CapacityBuffer, NodeClaim, NodeClass, NodeOverlay, NodePool};
use super::cluster::{self, DisruptionBudget, LimitRange, Node, PriorityClass, RuntimeClass, Service};
use super::devices::{self, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use super::field::{Decoded, Field};
use super::meta::{self, Meta};
use super::pod::{self, Pod, PodTemplate};
use super::volume::{self, Claim, CsiNode, PersistentVolume, StorageClass, VolumeAttachment};
use super::workload::{self, DaemonSet, Workload};

/// Object of a known kind. Pod templates are not shared with other objects yet.
#[derive(Debug)]
pub enum Object {
    /// A pod, and the template of its scheduling.
    Pod(Box<Pod>, Box<PodTemplate>),
    /// A workload, and the template of its pods.
    Workload(Box<Workload>, Box<PodTemplate>),
    /// A DaemonSet, and the template of its pods.
    DaemonSet(Box<DaemonSet>, Box<PodTemplate>),
    /// PodTemplate with its `namespace/name`.
    PodTemplate(Arc<str>, Box<PodTemplate>),
    /// A Node.
    Node(Box<Node>),
    /// A CSINode.
    CsiNode(CsiNode),
    /// VolumeAttachment with its name.
    VolumeAttachment(Arc<str>, VolumeAttachment),
    /// A Namespace: its metadata.
    Namespace(Box<Meta>),
    /// A LimitRange.
    LimitRange(Box<LimitRange>),
    /// A PodDisruptionBudget.
    DisruptionBudget(Box<DisruptionBudget>),
    /// A Service.
    Service(Box<Service>),
    /// A PersistentVolumeClaim.
    Claim(Box<Claim>),
    /// A PersistentVolume.
    PersistentVolume(Box<PersistentVolume>),
    /// A StorageClass.
    StorageClass(Box<StorageClass>),
    /// A RuntimeClass.
    RuntimeClass(Box<RuntimeClass>),
    /// A PriorityClass.
    PriorityClass(Box<PriorityClass>),
    /// A DeviceClass.
    DeviceClass(Box<DeviceClass>),
    /// A ResourceClaim.
    ResourceClaim(Box<ResourceClaim>),
    /// A ResourceClaimTemplate.
    ResourceClaimTemplate(Box<ResourceClaimTemplate>),
    /// A ResourceSlice.
    ResourceSlice(Box<ResourceSlice>),
    /// A NodePool.
    NodePool(Box<NodePool>),
    /// A NodeClaim.
    NodeClaim(Box<NodeClaim>),
    /// A NodeOverlay.
    NodeOverlay(Box<NodeOverlay>),
    /// A CapacityBuffer.
    CapacityBuffer(Box<CapacityBuffer>),
    /// A NodeClass of either cloud.
    NodeClass(Box<NodeClass>),
}

/// Decodes a Kubernetes object.
pub fn decode(kind: &'static str, object: &Field<'_>) -> Decoded<Object> {
    Ok(match kind {
        "Pod" => {
            let (pod, template) = pod::pod(object)?;
            Object::Pod(Box::new(pod), Box::new(template))
        }
        "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController" => {
            workload_of(workload::replicated(object, kind)?)
        }
        "Job" => workload_of(workload::job(object)?),
        "CronJob" => workload_of(workload::cron_job(object)?),
        "DaemonSet" => {
            let (daemon_set, template) = workload::daemon_set(object)?;
            Object::DaemonSet(Box::new(daemon_set), Box::new(template))
        }
        "PodTemplate" => {
            object.only(&["apiVersion", "kind", "metadata", "template"]);
            let path = meta::meta(object, true)?.path();
            Object::PodTemplate(path, Box::new(pod::template(object.require("template")?)?))
        }
        "Node" => Object::Node(Box::new(cluster::node(object)?)),
        "CSINode" => Object::CsiNode(volume::csi_node(object)?),
        "VolumeAttachment" => {
            let attachment = volume::volume_attachment(object)?;
            Object::VolumeAttachment(meta::meta(object, false)?.path(), attachment)
        }
        "Namespace" => Object::Namespace(Box::new(cluster::namespace(object)?)),
        "LimitRange" => Object::LimitRange(Box::new(cluster::limit_range(object)?)),
        "PodDisruptionBudget" => Object::DisruptionBudget(Box::new(cluster::disruption_budget(object)?)),
        "Service" => Object::Service(Box::new(cluster::service(object)?)),
        "PersistentVolumeClaim" => Object::Claim(Box::new(volume::claim(object)?)),
        "PersistentVolume" => Object::PersistentVolume(Box::new(volume::persistent_volume(object)?)),
        "StorageClass" => Object::StorageClass(Box::new(volume::storage_class(object)?)),
        "DeviceClass" => Object::DeviceClass(Box::new(devices::device_class(object)?)),
        "ResourceClaim" => Object::ResourceClaim(Box::new(devices::resource_claim(object)?)),
        "ResourceClaimTemplate" => Object::ResourceClaimTemplate(Box::new(devices::resource_claim_template(object)?)),
        "ResourceSlice" => Object::ResourceSlice(Box::new(devices::resource_slice(object)?)),
        "RuntimeClass" => Object::RuntimeClass(Box::new(cluster::runtime_class(object)?)),
        _ => Object::PriorityClass(Box::new(cluster::priority_class(object)?)),
    })
}

fn workload_of((workload, template): (Workload, PodTemplate)) -> Object {
    Object::Workload(Box::new(workload), Box::new(template))
}

/// Decodes an object of Muster's kinds; `json` has its defaults.
pub fn decode_ours(
    kind: &'static str,
    object: &Field<'_>,
    json: &serde_json::Value,
    never_ready: Option<String>,
) -> Decoded<Object> {
    Ok(match kind {
        "NodePool" => {
            let mut pool = capacity::node_pool(object, json.clone())?;
            pool.never_ready = never_ready;
            Object::NodePool(Box::new(pool))
        }
        "NodeClaim" => Object::NodeClaim(Box::new(capacity::node_claim(object)?)),
        "NodeOverlay" => Object::NodeOverlay(Box::new(capacity::node_overlay(object)?)),
        "CapacityBuffer" => Object::CapacityBuffer(Box::new(capacity::capacity_buffer(object)?)),
        _ => {
            let class = capacity::node_class(object, kind, json.clone())?;
            Object::NodeClass(Box::new(NodeClass { never_ready, ..class }))
        }
    })
}

impl Object {
    /// Returns its name within its kind: `namespace/name`, or the name for cluster-scoped kinds.
    pub(crate) fn path(&self) -> Arc<str> {
        match self {
            Self::Pod(pod, _) => Arc::clone(&pod.path),
            Self::Workload(workload, _) => workload.meta.path(),
            Self::DaemonSet(daemon_set, _) => daemon_set.meta.path(),
            Self::PodTemplate(path, _) | Self::VolumeAttachment(path, _) => Arc::clone(path),
            Self::Node(node) => node.meta.path(),
            Self::CsiNode(node) => Arc::clone(&node.name),
            Self::Namespace(meta) => meta.path(),
            Self::LimitRange(range) => range.meta.path(),
            Self::DisruptionBudget(budget) => budget.meta.path(),
            Self::Service(service) => service.meta.path(),
            Self::Claim(claim) => claim.meta.path(),
            Self::PersistentVolume(volume) => volume.meta.path(),
            Self::StorageClass(class) => class.meta.path(),
            Self::RuntimeClass(class) => class.meta.path(),
            Self::PriorityClass(class) => class.meta.path(),
            Self::DeviceClass(class) => Arc::clone(&class.name),
            Self::ResourceClaim(claim) => claim.meta.path(),
            Self::ResourceClaimTemplate(template) => template.meta.path(),
            Self::ResourceSlice(slice) => Arc::clone(&slice.name),
            Self::NodePool(pool) => pool.meta.path(),
            Self::NodeClaim(claim) => claim.meta.path(),
            Self::NodeOverlay(overlay) => Arc::clone(&overlay.name),
            Self::CapacityBuffer(buffer) => buffer.meta.path(),
            Self::NodeClass(class) => Arc::clone(&class.name),
        }
    }
}
