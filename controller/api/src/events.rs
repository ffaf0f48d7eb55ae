//! Reasons of the events that the controller publishes.

/// A pod has been nominated to a node.
pub const NOMINATED: &str = "Nominated";
/// A pod cannot be scheduled.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// The requirements of a NodePool match no instance type.
pub const NO_COMPATIBLE_INSTANCE_TYPES: &str = "NoCompatibleInstanceTypes";
/// The cloud has no capacity for a NodeClaim.
pub const INSUFFICIENT_CAPACITY_ERROR: &str = "InsufficientCapacityError";
/// A NodeClaim's NodeClass is not ready.
pub const NODE_CLASS_NOT_READY: &str = "NodeClassNotReady";
/// A Node joined without the taint that repels pods until it has registered.
pub const UNREGISTERED_TAINT_MISSING: &str = "UnregisteredTaintMissing";
/// Node and NodeClaim are inconsistent.
pub const FAILED_CONSISTENCY_CHECK: &str = "FailedConsistencyCheck";
/// The node is not repaired because too many nodes are unhealthy.
pub const NODE_REPAIR_BLOCKED: &str = "NodeRepairBlocked";
/// A Node has booted anew after a reboot that repair asked for.
pub const REBOOT_OBSERVED: &str = "RebootObserved";
/// A Node could not be rebooted, or did not come back.
pub const REBOOT_FAILED: &str = "RebootFailed";
/// A Node, NodeClaim or NodePool must not be disrupted now.
pub const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
/// Replacements are being launched.
pub const DISRUPTION_LAUNCHING: &str = "DisruptionLaunching";
/// Replacements are starting.
pub const DISRUPTION_WAITING_READINESS: &str = "DisruptionWaitingReadiness";
/// A node is being removed.
pub const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
/// The disruption of a node was cancelled.
pub const DISRUPTION_TAKEN_BACK: &str = "DisruptionTakenBack";
/// Removing a node would save nothing.
pub const UNCONSOLIDATABLE: &str = "Unconsolidatable";
/// A node is being evaluated for consolidation.
pub const CONSOLIDATION_CANDIDATE: &str = "ConsolidationCandidate";
/// A consolidation is worth its disruption.
pub const CONSOLIDATION_APPROVED: &str = "ConsolidationApproved";
/// A consolidation is not worth its disruption.
pub const CONSOLIDATION_REJECTED: &str = "ConsolidationRejected";
/// A pod must be rescheduled because its node is being removed.
pub const DISRUPTED: &str = "Disrupted";
/// A pod has been evicted.
pub const EVICTED: &str = "Evicted";
/// A node's pods could not be evicted.
pub const FAILED_DRAINING: &str = "FailedDraining";
/// The remaining pods of a node will be terminated soon.
pub const TERMINATION_GRACE_PERIOD_EXPIRING: &str = "TerminationGracePeriodExpiring";
/// A node could not be removed.
pub const FAILED_TERMINATION: &str = "FailedTermination";
/// A node's volumes are not detached yet.
pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
/// A pod's do-not-disrupt annotation is invalid.
pub const INVALID_DO_NOT_DISRUPT_ANNOTATION: &str = "InvalidDoNotDisruptAnnotation";
/// A pod protects its node from disruption until a given time.
pub const DO_NOT_DISRUPT_UNTIL: &str = "DoNotDisruptUntil";
/// A pod no longer protects its node from disruption.
pub const DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED: &str = "DoNotDisruptGracePeriodElapsed";
/// A budget of a NodePool has a schedule that cannot be read.
pub const SCHEDULE_UNREADABLE: &str = "ScheduleUnreadable";
/// A pod has the annotation `karpenter.sh/disruption-cost` with a value that cannot be read.
pub const INVALID_DISRUPTION_COST_ANNOTATION: &str = "InvalidDisruptionCostAnnotation";
/// A NodeOverlay conflicts with another one of the same weight.
pub const OVERLAY_CONFLICT: &str = "OverlayConflict";
/// A NodeOverlay has a value that cannot be used.
pub const OVERLAY_INVALID: &str = "OverlayInvalid";
/// A NodeOverlay changes no offering.
pub const OVERLAY_UNUSED: &str = "OverlayUnused";
/// A spot instance is being reclaimed.
pub const SPOT_INTERRUPTED: &str = "SpotInterrupted";
/// A spot instance may be reclaimed soon.
pub const SPOT_REBALANCE_RECOMMENDATION: &str = "SpotRebalanceRecommendation";
/// An instance in an interruptible capacity reservation is being reclaimed by the owner of the reservation.
pub const CAPACITY_RESERVATION_INSTANCE_INTERRUPTED: &str = "CapacityReservationInstanceInterrupted";
/// The capacity block of an instance ends.
pub const CAPACITY_BLOCK_ENDING: &str = "CapacityBlockEnding";
/// An instance runs on demand, and no longer in the capacity reservation that it was launched into.
pub const CAPACITY_RESERVATION_ENDED: &str = "CapacityReservationEnded";
/// An instance is being stopped.
pub const INSTANCE_STOPPING: &str = "InstanceStopping";
/// An instance is being terminated by another actor.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// EC2 reports a problem with an instance.
pub const INSTANCE_UNHEALTHY: &str = "InstanceUnhealthy";
/// A node is being removed because its instance will be interrupted.
pub const TERMINATING_ON_INTERRUPTION: &str = "TerminatingOnInterruption";
/// The cloud has no spot capacity for an account without the service-linked role of spot, and may not create it.
pub const SPOT_SERVICE_LINKED_ROLE_CREATION_FAILURE: &str = "SpotServiceLinkedRoleCreationFailure";
/// A NodeClass cannot be deleted before its NodeClaims.
pub const WAITING_ON_NODE_CLAIM_TERMINATION: &str = "WaitingOnNodeClaimTermination";
/// A zone is being avoided.
pub const ZONAL_SHIFT_ACTIVE: &str = "ZonalShiftActive";
/// A zone is used again.
pub const ZONAL_SHIFT_CLEARED: &str = "ZonalShiftCleared";
/// The cloud rejected the launch of a NodeClaim.
pub const LAUNCH_FAILED: &str = "LaunchFailed";
/// A NodeClaim was not launched in time.
pub const LAUNCH_TIMEOUT: &str = "LaunchTimeout";
/// An instance did not register as a Node in time.
pub const REGISTRATION_TIMEOUT: &str = "RegistrationTimeout";
/// A Node did not become ready for its pods in time.
pub const INITIALIZATION_TIMEOUT: &str = "InitializationTimeout";
/// An instance was terminated, but not by the controller.
pub const INSTANCE_ENDED: &str = "InstanceEnded";
/// A node is being removed because of a fault that its agent reported.
pub const NODE_VERDICT: &str = "NodeVerdict";
/// Consolidation of a NodePool rests: its commands did not save what they promised.
pub const CONSOLIDATION_RESTS: &str = "ConsolidationRests";
/// The `replicas` of a NodePool have no effect: the feature gate StaticCapacity is off.
pub const REPLICAS_IGNORED: &str = "ReplicasIgnored";
/// Launches for a pod's workload are on hold because earlier launches did not help.
pub const LAUNCHES_HELD: &str = "LaunchesHeld";
/// Launches with a NodeClass are stopped: too many failed.
pub const LAUNCHES_STOPPED: &str = "LaunchesStopped";
/// Launches with a NodeClass have resumed.
pub const LAUNCHES_RESUMED: &str = "LaunchesResumed";
