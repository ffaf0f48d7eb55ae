//! Which kinds are read, of which groups, and in which versions.

/// A kind that is read.
pub(crate) struct KnownKind {
    pub(crate) kind: &'static str,
    group: &'static str,
    /// Whether it has a CRD of ours, and then which version.
    version: Option<&'static str>,
    pub(crate) ours: bool,
}

const fn core(group: &'static str, kind: &'static str) -> KnownKind {
    KnownKind { kind, group, version: None, ours: false }
}

const fn ours(group: &'static str, kind: &'static str, version: &'static str) -> KnownKind {
    KnownKind { kind, group, version: Some(version), ours: true }
}

const KINDS: &[KnownKind] = &[
    core("", "Pod"),
    core("", "Node"),
    core("", "Namespace"),
    core("", "PodTemplate"),
    core("", "PersistentVolumeClaim"),
    core("", "PersistentVolume"),
    core("", "LimitRange"),
    core("", "Service"),
    core("apps", "Deployment"),
    core("apps", "StatefulSet"),
    core("apps", "ReplicaSet"),
    core("apps", "DaemonSet"),
    core("batch", "Job"),
    core("batch", "CronJob"),
    core("storage.k8s.io", "StorageClass"),
    core("storage.k8s.io", "CSINode"),
    core("storage.k8s.io", "VolumeAttachment"),
    core("node.k8s.io", "RuntimeClass"),
    core("scheduling.k8s.io", "PriorityClass"),
    core("policy", "PodDisruptionBudget"),
    ours("karpenter.sh", "NodePool", "karpenter.sh/v1"),
    ours("karpenter.sh", "NodeClaim", "karpenter.sh/v1"),
    ours("karpenter.sh", "NodeOverlay", "karpenter.sh/v1alpha1"),
    ours("karpenter.k8s.aws", "EC2NodeClass", "karpenter.k8s.aws/v1"),
    ours("karpenter.kwok.sh", "KWOKNodeClass", "karpenter.kwok.sh/v1alpha1"),
    ours("autoscaling.x-k8s.io", "CapacityBuffer", "autoscaling.x-k8s.io/v1beta1"),
    // The names that pools, claims and classes had in v1alpha5.
    ours("karpenter.sh", "Provisioner", "karpenter.sh/v1"),
    ours("karpenter.sh", "Machine", "karpenter.sh/v1"),
    ours("karpenter.k8s.aws", "AWSNodeTemplate", "karpenter.k8s.aws/v1"),
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

impl KnownKind {
    /// The version that is read, if it is not this one. The kinds of Kubernetes have had one shape in all of theirs.
    pub(crate) fn check_version(&self, api_version: &str) -> Result<(), &'static str> {
        let renamed = matches!(self.kind, "Provisioner" | "Machine" | "AWSNodeTemplate");
        match self.version {
            Some(supported) if supported != api_version || renamed => Err(supported),
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
