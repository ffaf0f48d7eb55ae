//! Cause of the deletion of a NodeClaim.

use std::fmt;

use muster_cloud::NoticeKind;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionCause {
    /// Its node is empty.
    Empty,
    /// Its pods fit elsewhere at a lower price.
    Underutilized,
    /// It differs from its NodePool or NodeClass.
    Drifted,
    /// It has reached the age after which it expires.
    Expired,
    /// Its node is to be repaired.
    Unhealthy,
    /// The cloud has given this notice about its instance.
    Notice(NoticeKind),
    /// None of its offerings has capacity.
    InsufficientCapacity,
    /// Its class was not ready when it was launched.
    NodeClassNotReady,
    /// It was not launched in time.
    LaunchTimeout,
    /// Its node did not register in time.
    RegistrationTimeout,
    /// Its node was not initialized in time.
    InitializationTimeout,
    /// The agent on its node has reported a fault that cannot be mended there.
    NodeVerdict,
    /// Its instance has ended.
    InstanceEnded,
    /// Its Node was deleted.
    NodeDeleted,
    /// It was to replace nodes that are kept.
    DisruptionTakenBack,
    /// Its NodePool has more nodes than `replicas`.
    ScaledDown,
    /// An operator has ordered it.
    Ordered,
}

// === impl DeletionCause ===

impl DeletionCause {
    /// Returns the reason in `karpenter_nodeclaims_disrupted_total`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Underutilized => "underutilized",
            Self::Drifted => "drifted",
            Self::Expired => "expired",
            Self::Unhealthy => "unhealthy",
            Self::Notice(kind) => kind.name(),
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::NodeClassNotReady => "nodeclass_not_ready",
            Self::LaunchTimeout => "launch_timeout",
            Self::RegistrationTimeout => "registration_timeout",
            Self::InitializationTimeout => "initialization_timeout",
            Self::NodeVerdict => "node_verdict",
            Self::InstanceEnded => "instance_ended",
            Self::NodeDeleted => "node_deleted",
            Self::DisruptionTakenBack => "disruption_taken_back",
            Self::ScaledDown => "scaled_down",
            Self::Ordered => "ordered",
        }
    }

    /// Returns true if a launch that ends for this cause before its node has registered counts as failed, for the
    /// health of the NodePool.
    #[must_use]
    pub const fn fails_launch(self) -> bool {
        matches!(self, Self::LaunchTimeout | Self::RegistrationTimeout | Self::NodeVerdict)
    }
}

impl fmt::Display for DeletionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
