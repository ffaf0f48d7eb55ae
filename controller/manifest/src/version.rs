//! Kinds that are read, with their groups and versions.

/// Scope of a kind, named as in CustomResourceDefinitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Objects live in a namespace.
    Namespaced,
    /// Objects live outside of namespaces.
    Cluster,
}

use Scope::{Cluster, Namespaced};

/// Kind that is read.
pub struct KnownKind {
    pub kind: &'static str,
    pub(crate) group: &'static str,
    /// Supported version, if it has one of Muster's CRDs.
    version: Option<&'static str>,
    pub(crate) ours: bool,
    pub scope: Scope,
}

const fn core(group: &'static str, kind: &'static str, scope: Scope) -> KnownKind {
    KnownKind { kind, group, version: None, ours: false, scope }
}

const fn ours(group: &'static str, kind: &'static str, version: &'static str, scope: Scope) -> KnownKind {
    KnownKind { kind, group, version: Some(version), ours: true, scope }
}

const KINDS: &[KnownKind] = &[
    core("", "Pod", Namespaced),
    core("", "Node", Cluster),
    core("", "Namespace", Cluster),
    core("", "PodTemplate", Namespaced),
    core("", "PersistentVolumeClaim", Namespaced),
    core("", "PersistentVolume", Cluster),
    core("", "LimitRange", Namespaced),
    core("", "Service", Namespaced),
    core("", "ReplicationController", Namespaced),
    core("apps", "Deployment", Namespaced),
    core("apps", "StatefulSet", Namespaced),
    core("apps", "ReplicaSet", Namespaced),
    core("apps", "DaemonSet", Namespaced),
    core("batch", "Job", Namespaced),
    core("batch", "CronJob", Namespaced),
    core("storage.k8s.io", "StorageClass", Cluster),
    core("storage.k8s.io", "CSINode", Cluster),
    core("storage.k8s.io", "VolumeAttachment", Cluster),
    core("node.k8s.io", "RuntimeClass", Cluster),
    core("scheduling.k8s.io", "PriorityClass", Cluster),
    core("resource.k8s.io", "DeviceClass", Cluster),
    core("resource.k8s.io", "ResourceClaim", Namespaced),
    core("resource.k8s.io", "ResourceClaimTemplate", Namespaced),
    core("resource.k8s.io", "ResourceSlice", Cluster),
    core("policy", "PodDisruptionBudget", Namespaced),
    ours("karpenter.sh", "NodePool", "karpenter.sh/v1", Cluster),
    ours("karpenter.sh", "NodeClaim", "karpenter.sh/v1", Cluster),
    ours("karpenter.sh", "NodeOverlay", "karpenter.sh/v1alpha1", Cluster),
    ours("karpenter.k8s.aws", "EC2NodeClass", "karpenter.k8s.aws/v1", Cluster),
    ours("karpenter.kwok.sh", "KWOKNodeClass", "karpenter.kwok.sh/v1alpha1", Cluster),
    ours("autoscaling.x-k8s.io", "CapacityBuffer", "autoscaling.x-k8s.io/v1beta1", Namespaced),
    // Names of pools, claims and classes in v1alpha5.
    ours("karpenter.sh", "Provisioner", "karpenter.sh/v1", Cluster),
    ours("karpenter.sh", "Machine", "karpenter.sh/v1", Cluster),
    ours("karpenter.k8s.aws", "AWSNodeTemplate", "karpenter.k8s.aws/v1", Cluster),
];

/// Splits an apiVersion into group and version.
pub(crate) fn split(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// Returns the kind, if any of its versions is read.
pub(crate) fn known_kind(api_version: &str, kind: &str) -> Option<&'static KnownKind> {
    let (group, _) = split(api_version);
    KINDS.iter().find(|known| known.kind == kind && known.group == group)
}

/// Returns the kinds that are read, by their current names.
pub fn kinds() -> impl Iterator<Item = &'static KnownKind> {
    KINDS.iter().filter(|known| !known.is_renamed())
}

/// Returns true if all kinds of the group are Muster's, so that an unknown one is a mistake.
pub(crate) fn is_our_group(group: &str) -> bool {
    matches!(group, "karpenter.sh" | "karpenter.k8s.aws" | "karpenter.kwok.sh")
}

/// Returns the kinds of a group, by their current and former names.
pub(crate) fn kinds_of(group: &str) -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter(move |known| known.group == group).map(|known| known.kind)
}

/// Returns the kind of that name in any group: the names are unique.
pub fn kind_named(kind: &str) -> Option<&'static KnownKind> {
    kinds().find(|known| known.kind == kind)
}

impl KnownKind {
    fn is_renamed(&self) -> bool {
        matches!(self.kind, "Provisioner" | "Machine" | "AWSNodeTemplate")
    }

    /// Returns the supported version as an error if it differs. Kubernetes' own kinds have the same fields in all
    /// versions.
    pub(crate) fn check_version(&self, api_version: &str) -> Result<(), &'static str> {
        match self.version {
            Some(supported) if supported != api_version || self.is_renamed() => Err(supported),
            _ => Ok(()),
        }
    }
}

/// Returns the hint for an unsupported version.
pub(crate) fn hint(api_version: &str, supported: &str) -> String {
    match split(api_version) {
        ("karpenter.sh" | "karpenter.k8s.aws", "v1alpha1" | "v1alpha5" | "v1beta1") => {
            format!("`muster convert -f FILE` rewrites it as `{supported}`")
        }
        _ => format!("rewrite the object as `{supported}`"),
    }
}
