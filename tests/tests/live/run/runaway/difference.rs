//! Reasons for which nodes are not what was planned.

use super::{MORE_WORLDS, OTHER_WORLDS, ROUGH_WORLDS, WORLDS};

/// The reason for which nodes of a world are not what was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// Each has a taint of somebody's agent.
    Taint,
    /// A taint that evicts comes as soon as the pod runs.
    EvictingTaint,
    /// The first has a taint, until there is a second.
    TaintForAWhile,
    /// Each is cordoned.
    Cordon,
    /// The kubelet has less CPU to give than its type has.
    LessCpu,
    /// A static pod takes the room.
    StaticPod,
    /// The Node is deleted as soon as it is registered.
    Deletion,
    /// The pod is another scheduler's, which binds nothing.
    Scheduler,
    /// Daemons take more than their template says, by their RuntimeClass. Nobody meddles with that.
    Overhead,
    /// Admission adds a container to daemons. Nobody meddles with that.
    Sidecar,
    /// A taint keeps pods away, and pods that wait are deleted when their node is there: new ones have other names.
    Reaper,
    /// A taint that evicts is there from the beginning.
    EvictingFromTheStart,
    /// A taint asks schedulers to prefer other nodes. Nothing keeps the pod away.
    Discouraged,
    /// It is cordoned until there is a second.
    CordonForAWhile,
    /// The kubelet has less memory to give than its type has.
    LessMemory,
    /// The kubelet takes no pods.
    NoPods,
    /// A label of the pool that the pod selects is taken off the Node.
    LabelLost,
    /// A label that the pod must not have is put on the Node.
    LabelAdded,
    /// A static pod has the port of the pod.
    HostPort,
    /// The node attaches no volume of the driver.
    Volumes,
    /// The NodeClaim is deleted as soon as its Node is registered.
    ClaimDeletion,
    /// The pod is another scheduler's, which binds it long after its node is there.
    SlowScheduler,
    /// The kubelet takes one pod, and a static pod is that one.
    FewPods,
    /// One of two devices has failed.
    FewDevices,
    /// The plugin of the devices never comes.
    NoDevices,
    /// The kernel has half of its huge pages.
    HugePages,
    /// The Node is in another zone than its claim, and the pod's volume is in the claim's.
    Zone,
    /// The Node has another architecture than its claim.
    Architecture,
    /// The label that pods are spread over is taken off the Node.
    RackLost,
    /// The pod avoids a static pod.
    Neighbour,
    /// The kubelet falls silent once the node is initialized, before the pod can be bound.
    NotReady,
    /// Another scheduler puts a pod of its own on each node as soon as it is there.
    Taker,
    /// The pod has a scheduling gate that nobody takes off.
    Gated,
    /// A ResourceQuota lets one of five pods in.
    Quota,
    /// The pod's volume is never made.
    NoVolume,
    /// Admission refuses to bind the pod.
    BindingRefused,
    /// Admission adds a container to the pod.
    PodSidecar,
    /// The pod takes more than its containers, by its RuntimeClass.
    PodOverhead,
    /// A DaemonSet comes when the first node is there.
    LateDaemons,
    /// Daemons get more by a LimitRange that changes when the first node is there.
    LateDefaults,
    /// A pod of higher priority comes for the node on which the pod runs.
    Preempted,
    /// The namespace is deleted when the first node is there, and its pod waits for a finalizer.
    Terminating,
    /// The pod asks for more when the first node is there.
    Grown,
    /// The kubelet rejects the first two pods.
    Rejected,
}

impl Difference {
    /// Name of the NodePool and of the Deployment.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Taint => "taint",
            Self::EvictingTaint => "evicting",
            Self::TaintForAWhile => "awhile",
            Self::Cordon => "cordon",
            Self::LessCpu => "cpu",
            Self::StaticPod => "static",
            Self::Deletion => "deletion",
            Self::Scheduler => "scheduler",
            Self::Overhead => "overhead",
            Self::Sidecar => "sidecar",
            Self::Reaper => "reaper",
            Self::EvictingFromTheStart => "evictor",
            Self::Discouraged => "discouraged",
            Self::CordonForAWhile => "uncordoned",
            Self::LessMemory => "memory",
            Self::NoPods => "pods",
            Self::LabelLost => "unlabelled",
            Self::LabelAdded => "labelled",
            Self::HostPort => "port",
            Self::Volumes => "volumes",
            Self::ClaimDeletion => "unclaimed",
            Self::SlowScheduler => "slow",
            Self::FewPods => "crowded",
            Self::FewDevices => "devices",
            Self::NoDevices => "deviceless",
            Self::HugePages => "hugepages",
            Self::Zone => "zone",
            Self::Architecture => "architecture",
            Self::RackLost => "rack",
            Self::Neighbour => "neighbour",
            Self::NotReady => "silent",
            Self::Taker => "taker",
            Self::Gated => "gated",
            Self::Quota => "quota",
            Self::NoVolume => "volumeless",
            Self::BindingRefused => "binding",
            Self::PodSidecar => "injected",
            Self::PodOverhead => "heavy",
            Self::LateDaemons => "late",
            Self::LateDefaults => "defaults",
            Self::Preempted => "preempted",
            Self::Terminating => "terminating",
            Self::Grown => "grown",
            Self::Rejected => "rejected",
        }
    }

    /// Namespace of the pods.
    pub(super) fn namespace(self) -> &'static str {
        match self {
            Self::Quota | Self::Terminating => self.name(),
            _ => "default",
        }
    }

    pub(super) fn named(name: Option<&String>) -> Option<Self> {
        let worlds = WORLDS.into_iter().chain(MORE_WORLDS).chain(OTHER_WORLDS).chain(ROUGH_WORLDS);
        worlds.map(|(world, _)| world).find(|one| name.is_some_and(|name| name == one.name()))
    }
}
