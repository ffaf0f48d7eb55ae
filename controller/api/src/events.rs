//! Reasons of the events that we publish.

/// A pod has been promised a node.
pub const NOMINATED: &str = "Nominated";
/// A pod fits nowhere.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// A NodePool admits no instance type.
pub const NO_COMPATIBLE_INSTANCE_TYPES: &str = "NoCompatibleInstanceTypes";
/// The cloud has no room for a NodeClaim.
pub const INSUFFICIENT_CAPACITY_ERROR: &str = "InsufficientCapacityError";
/// A NodeClaim's NodeClass is not ready.
pub const NODE_CLASS_NOT_READY: &str = "NodeClassNotReady";
/// A Node came without the taint that keeps pods away until it has registered.
pub const UNREGISTERED_TAINT_MISSING: &str = "UnregisteredTaintMissing";
/// Node and NodeClaim disagree.
pub const FAILED_CONSISTENCY_CHECK: &str = "FailedConsistencyCheck";
/// Too many nodes are unhealthy to replace this one.
pub const NODE_REPAIR_BLOCKED: &str = "NodeRepairBlocked";
/// A node, claim or pool may not be disrupted now.
pub const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
/// Replacements are being launched.
pub const DISRUPTION_LAUNCHING: &str = "DisruptionLaunching";
/// Replacements are starting.
pub const DISRUPTION_WAITING_READINESS: &str = "DisruptionWaitingReadiness";
/// A node is being taken away.
pub const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
/// A node that was to be taken away stays.
pub const DISRUPTION_TAKEN_BACK: &str = "DisruptionTakenBack";
/// Taking a node away would gain nothing.
pub const UNCONSOLIDATABLE: &str = "Unconsolidatable";
/// A node is judged for consolidation.
pub const CONSOLIDATION_CANDIDATE: &str = "ConsolidationCandidate";
/// A consolidation is worth its disruption.
pub const CONSOLIDATION_APPROVED: &str = "ConsolidationApproved";
/// A consolidation is not worth its disruption.
pub const CONSOLIDATION_REJECTED: &str = "ConsolidationRejected";
/// A pod has to move because its node goes.
pub const DISRUPTED: &str = "Disrupted";
/// A pod has been evicted.
pub const EVICTED: &str = "Evicted";
/// A node's pods do not leave.
pub const FAILED_DRAINING: &str = "FailedDraining";
/// What is left on a node will be ended soon.
pub const TERMINATION_GRACE_PERIOD_EXPIRING: &str = "TerminationGracePeriodExpiring";
/// A node could not be taken away.
pub const FAILED_TERMINATION: &str = "FailedTermination";
/// A node's volumes do not leave.
pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
/// A pod's do-not-disrupt annotation cannot be understood.
pub const INVALID_DO_NOT_DISRUPT_ANNOTATION: &str = "InvalidDoNotDisruptAnnotation";
/// A pod keeps its node until a moment.
pub const DO_NOT_DISRUPT_UNTIL: &str = "DoNotDisruptUntil";
/// A pod no longer keeps its node.
pub const DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED: &str = "DoNotDisruptGracePeriodElapsed";
/// A spot instance is being taken back.
pub const SPOT_INTERRUPTED: &str = "SpotInterrupted";
/// A spot instance may soon be taken back.
pub const SPOT_REBALANCE_RECOMMENDATION: &str = "SpotRebalanceRecommendation";
/// The owner takes an instance of a capacity reservation back.
pub const CAPACITY_RESERVATION_INSTANCE_INTERRUPTED: &str = "CapacityReservationInstanceInterrupted";
/// An instance is being stopped.
pub const INSTANCE_STOPPING: &str = "InstanceStopping";
/// An instance is being ended by someone else.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// EC2 reports trouble with an instance.
pub const INSTANCE_UNHEALTHY: &str = "InstanceUnhealthy";
/// A node goes because its instance will.
pub const TERMINATING_ON_INTERRUPTION: &str = "TerminatingOnInterruption";
/// A NodeClass cannot go before its NodeClaims.
pub const WAITING_ON_NODE_CLAIM_TERMINATION: &str = "WaitingOnNodeClaimTermination";
/// A zone is being avoided.
pub const ZONAL_SHIFT_ACTIVE: &str = "ZonalShiftActive";
/// A zone is used again.
pub const ZONAL_SHIFT_CLEARED: &str = "ZonalShiftCleared";
/// The cloud did not launch what a NodeClaim asks for.
pub const LAUNCH_FAILED: &str = "LaunchFailed";
/// A NodeClaim was not launched in time.
pub const LAUNCH_TIMEOUT: &str = "LaunchTimeout";
/// An instance has not become a Node in time.
pub const REGISTRATION_TIMEOUT: &str = "RegistrationTimeout";
/// A Node has not become ready for its pods in time.
pub const INITIALIZATION_TIMEOUT: &str = "InitializationTimeout";
/// An instance has ended without being asked to.
pub const INSTANCE_ENDED: &str = "InstanceEnded";
/// A node is given up because of what its agent says is wrong.
pub const NODE_VERDICT: &str = "NodeVerdict";
/// Consolidation of a NodePool rests: its commands did not save what they promised.
pub const CONSOLIDATION_RESTS: &str = "ConsolidationRests";
/// Launches for the set of a pod are held: those before brought nothing.
pub const LAUNCHES_HELD: &str = "LaunchesHeld";
/// Nothing more is launched with a NodeClass: launches failed too often.
pub const LAUNCHES_STOPPED: &str = "LaunchesStopped";
/// Launches with a NodeClass are resumed.
pub const LAUNCHES_RESUMED: &str = "LaunchesResumed";
