//! Kinds in the cluster state.

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named as Kubernetes or its CRD names it")]
pub enum Kind {
    Namespace,
    Node,
    Pod,
    PersistentVolumeClaim,
    PersistentVolume,
    DaemonSet,
    RuntimeClass,
    PodDisruptionBudget,
    PriorityClass,
    LimitRange,
    CsiNode,
    StorageClass,
    VolumeAttachment,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Service,
    NodePool,
    NodeClaim,
    NodeOverlay,
    Ec2NodeClass,
    KwokNodeClass,
    CapacityBuffer,
    PodTemplate,
    Deployment,
    StatefulSet,
    ReplicaSet,
    ReplicationController,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 29] = [
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::PersistentVolumeClaim,
        Self::PersistentVolume,
        Self::DaemonSet,
        Self::RuntimeClass,
        Self::PodDisruptionBudget,
        Self::PriorityClass,
        Self::LimitRange,
        Self::CsiNode,
        Self::StorageClass,
        Self::VolumeAttachment,
        Self::DeviceClass,
        Self::ResourceClaim,
        Self::ResourceClaimTemplate,
        Self::ResourceSlice,
        Self::Service,
        Self::NodePool,
        Self::NodeClaim,
        Self::NodeOverlay,
        Self::Ec2NodeClass,
        Self::KwokNodeClass,
        Self::CapacityBuffer,
        Self::PodTemplate,
        Self::Deployment,
        Self::StatefulSet,
        Self::ReplicaSet,
        Self::ReplicationController,
    ];

    /// Returns its `kind`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::PersistentVolume => "PersistentVolume",
            Self::DaemonSet => "DaemonSet",
            Self::RuntimeClass => "RuntimeClass",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::PriorityClass => "PriorityClass",
            Self::LimitRange => "LimitRange",
            Self::CsiNode => "CSINode",
            Self::StorageClass => "StorageClass",
            Self::VolumeAttachment => "VolumeAttachment",
            Self::DeviceClass => "DeviceClass",
            Self::ResourceClaim => "ResourceClaim",
            Self::ResourceClaimTemplate => "ResourceClaimTemplate",
            Self::ResourceSlice => "ResourceSlice",
            Self::Service => "Service",
            Self::NodePool => "NodePool",
            Self::NodeClaim => "NodeClaim",
            Self::NodeOverlay => "NodeOverlay",
            Self::Ec2NodeClass => "EC2NodeClass",
            Self::KwokNodeClass => "KWOKNodeClass",
            Self::CapacityBuffer => "CapacityBuffer",
            Self::PodTemplate => "PodTemplate",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
        }
    }

    /// Returns the kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns its `apiVersion`.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Namespace
            | Self::Node
            | Self::Pod
            | Self::PersistentVolumeClaim
            | Self::PersistentVolume
            | Self::LimitRange
            | Self::PodTemplate
            | Self::ReplicationController
            | Self::Service => "v1",
            Self::DaemonSet | Self::Deployment | Self::StatefulSet | Self::ReplicaSet => "apps/v1",
            Self::RuntimeClass => "node.k8s.io/v1",
            Self::PodDisruptionBudget => "policy/v1",
            Self::PriorityClass => "scheduling.k8s.io/v1",
            Self::CsiNode | Self::StorageClass | Self::VolumeAttachment => "storage.k8s.io/v1",
            Self::DeviceClass | Self::ResourceClaim | Self::ResourceClaimTemplate | Self::ResourceSlice => {
                "resource.k8s.io/v1"
            }
            Self::NodePool | Self::NodeClaim => "karpenter.sh/v1",
            Self::NodeOverlay => "karpenter.sh/v1alpha1",
            Self::Ec2NodeClass => "karpenter.k8s.aws/v1",
            Self::KwokNodeClass => "karpenter.kwok.sh/v1alpha1",
            Self::CapacityBuffer => "autoscaling.x-k8s.io/v1beta1",
        }
    }

    /// Returns true if the kind is namespaced.
    pub(super) const fn is_namespaced(self) -> bool {
        matches!(
            self,
            Self::Pod
                | Self::PersistentVolumeClaim
                | Self::DaemonSet
                | Self::PodDisruptionBudget
                | Self::LimitRange
                | Self::ResourceClaim
                | Self::ResourceClaimTemplate
                | Self::Service
                | Self::CapacityBuffer
                | Self::PodTemplate
                | Self::Deployment
                | Self::StatefulSet
                | Self::ReplicaSet
                | Self::ReplicationController
        )
    }
}
