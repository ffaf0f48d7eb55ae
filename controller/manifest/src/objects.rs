//! All objects that were read, decoded, in the order of the input.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::capacity::{CapacityBuffer, NodeClaim, NodeClass, NodeOverlay, NodePool};
use super::cluster::{DisruptionBudget, LimitRange, Node, PriorityClass, RuntimeClass, Service};
use super::devices::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use super::meta::Meta;
use super::observed::ObservedCloud;
use super::pod::{Pod, PodTemplate};
use super::volume::{Claim, CsiNode, PersistentVolume, StorageClass, VolumeAttachment};
use super::workload::{DaemonSet, Owning, Workload};

/// All objects of the input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifests {
    /// Warnings for stderr, such as one line per unknown field.
    pub warnings: Vec<String>,
    /// Number of objects of ignored kinds, by kind (`Ingress.networking.k8s.io`).
    pub ignored: BTreeMap<String, usize>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Workloads of a live cluster, whose pods are among `pods`: CapacityBuffers refer to them, and they are not
    /// expanded to pods.
    pub scaled: Vec<Workload>,
    /// Owners of the pods of a live cluster, for the default topology spread.
    pub owners: Vec<Owning>,
    /// DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// PodTemplates, by `namespace/name`.
    pub pod_templates: BTreeMap<Arc<str>, Arc<PodTemplate>>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// NodeClaims.
    pub node_claims: Vec<NodeClaim>,
    /// NodePools.
    pub node_pools: Vec<NodePool>,
    /// NodeClasses of any kind.
    pub node_classes: Vec<NodeClass>,
    /// NodeOverlays.
    pub node_overlays: Vec<NodeOverlay>,
    /// CapacityBuffers.
    pub capacity_buffers: Vec<CapacityBuffer>,
    /// PersistentVolumeClaims, by `namespace/name`.
    pub claims: BTreeMap<Arc<str>, Claim>,
    /// PersistentVolumes, by name.
    pub volumes: BTreeMap<Arc<str>, PersistentVolume>,
    /// StorageClasses, by name.
    pub storage_classes: BTreeMap<Arc<str>, StorageClass>,
    /// CSINodes.
    pub csi_nodes: Vec<CsiNode>,
    /// VolumeAttachments.
    pub volume_attachments: Vec<VolumeAttachment>,
    /// Namespaces.
    pub namespaces: Vec<Meta>,
    /// RuntimeClasses, by name.
    pub runtime_classes: BTreeMap<Arc<str>, RuntimeClass>,
    /// PriorityClasses, by name.
    pub priority_classes: BTreeMap<Arc<str>, PriorityClass>,
    /// PodDisruptionBudgets.
    pub disruption_budgets: Vec<DisruptionBudget>,
    /// LimitRanges.
    pub limit_ranges: Vec<LimitRange>,
    /// Services.
    pub services: Vec<Service>,
    /// DeviceClasses, by name.
    pub device_classes: BTreeMap<Arc<str>, DeviceClass>,
    /// ResourceClaims, by `namespace/name`.
    pub resource_claims: BTreeMap<Arc<str>, ResourceClaim>,
    /// ResourceClaimTemplates, by `namespace/name`.
    pub resource_claim_templates: BTreeMap<Arc<str>, ResourceClaimTemplate>,
    /// ResourceSlices.
    pub resource_slices: Vec<Arc<ResourceSlice>>,
    /// Observations of a running controller in its cloud; none for files.
    pub observed: ObservedCloud,
}

impl Manifests {
    /// Returns one line for stderr per ignored kind.
    pub fn notes(&self) -> Vec<String> {
        let line = |(kind, count): (&String, &usize)| {
            let objects = if *count == 1 { "object" } else { "objects" };
            format!("ignored {count} {objects} of kind {kind}")
        };
        self.ignored.iter().map(line).collect()
    }
}
