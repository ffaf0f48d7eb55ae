//! Which kinds are read, of which groups, and in which versions.

/// Where the objects of a kind are: CustomResourceDefinitions name it so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

use Scope::{Cluster, Namespaced};

/// A kind that is read.
pub(crate) struct KnownKind {
    pub(crate) kind: &'static str,
    pub(crate) group: &'static str,
    /// Whether it has a CRD of ours, and then which version.
    version: Option<&'static str>,
    pub(crate) ours: bool,
    pub(crate) scope: Scope,
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
    core("policy", "PodDisruptionBudget", Namespaced),
    ours("karpenter.sh", "NodePool", "karpenter.sh/v1", Cluster),
    ours("karpenter.sh", "NodeClaim", "karpenter.sh/v1", Cluster),
    ours("karpenter.sh", "NodeOverlay", "karpenter.sh/v1alpha1", Cluster),
    ours("karpenter.k8s.aws", "EC2NodeClass", "karpenter.k8s.aws/v1", Cluster),
    ours("karpenter.kwok.sh", "KWOKNodeClass", "karpenter.kwok.sh/v1alpha1", Cluster),
    ours("autoscaling.x-k8s.io", "CapacityBuffer", "autoscaling.x-k8s.io/v1beta1", Namespaced),
    // The names that pools, claims and classes had in v1alpha5.
    ours("karpenter.sh", "Provisioner", "karpenter.sh/v1", Cluster),
    ours("karpenter.sh", "Machine", "karpenter.sh/v1", Cluster),
    ours("karpenter.k8s.aws", "AWSNodeTemplate", "karpenter.k8s.aws/v1", Cluster),
];

/// Group and version of an apiVersion.
pub(crate) fn split(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// The kind, if it is read in any version.
pub(crate) fn known_kind(api_version: &str, kind: &str) -> Option<&'static KnownKind> {
    let (group, _) = split(api_version);
    KINDS.iter().find(|known| known.kind == kind && known.group == group)
}

/// The kinds that are read, by the names that they have now.
pub(crate) fn kinds() -> impl Iterator<Item = &'static KnownKind> {
    KINDS.iter().filter(|known| !known.is_renamed())
}

/// Whether a group has nothing but kinds of ours, so that another one is a mistake.
pub(crate) fn is_our_group(group: &str) -> bool {
    matches!(group, "karpenter.sh" | "karpenter.k8s.aws" | "karpenter.kwok.sh")
}

/// The kinds of a group, by the names that they have or had.
pub(crate) fn kinds_of(group: &str) -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter(move |known| known.group == group).map(|known| known.kind)
}

/// The kind of that name, of whatever group: no two that are read have one name.
pub(crate) fn kind_named(kind: &str) -> Option<&'static KnownKind> {
    kinds().find(|known| known.kind == kind)
}

impl KnownKind {
    fn is_renamed(&self) -> bool {
        matches!(self.kind, "Provisioner" | "Machine" | "AWSNodeTemplate")
    }

    /// The version that is read, if it is not this one. The kinds of Kubernetes have had one shape in all of theirs.
    pub(crate) fn check_version(&self, api_version: &str) -> Result<(), &'static str> {
        match self.version {
            Some(supported) if supported != api_version || self.is_renamed() => Err(supported),
            _ => Ok(()),
        }
    }
}

/// What to do about a version that is not read.
pub(crate) fn hint(api_version: &str, supported: &str) -> String {
    match split(api_version) {
        ("karpenter.sh" | "karpenter.k8s.aws", "v1alpha1" | "v1alpha5" | "v1beta1") => {
            format!("`muster convert -f FILE` rewrites it as `{supported}`")
        }
        _ => format!("rewrite the object as `{supported}`"),
    }
}
