//! Every type and reason of the conditions in the status of our kinds.

/// True when all the other conditions that count are.
pub const READY: &str = "Ready";

/// Types of conditions of a NodePool.
pub mod nodepool {
    /// What cannot be checked when the object is written is in order.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// The NodeClass exists and is ready.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// Nodes launched of late have registered.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
    /// Consolidation commands save what they promise; while false, only empty nodes are consolidated. Absent as long as they always
    /// did. Not part of Ready.
    pub const CONSOLIDATION_DELIVERS: &str = "ConsolidationDelivers";
}

/// Types of conditions of a NodeClaim.
pub mod nodeclaim {
    /// The instance exists.
    pub const LAUNCHED: &str = "Launched";
    /// The instance has become a Node.
    pub const REGISTERED: &str = "Registered";
    /// The Node is ready for the pods that it was launched for.
    pub const INITIALIZED: &str = "Initialized";
    /// The Node has been quiet for as long as its pool wants.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// The Node no longer looks as its pool or class says.
    pub const DRIFTED: &str = "Drifted";
    /// The pods that had to leave have left.
    pub const DRAINED: &str = "Drained";
    /// The volumes that had to leave have left.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// The instance is being ended.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// Node and NodeClaim agree.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// The cloud takes the instance back; the reason says what told so.
    pub const INTERRUPTED: &str = "Interrupted";
    /// What the node's agent says of its way into the cluster: True when it is there; else the reason is the stage. Not part
    /// of Ready.
    pub const AGENT_READY: &str = "AgentReady";
    /// What the node's agent says is wrong: False is fatal, and the reason is the code. Not part of Ready.
    pub const NODE_VERDICT: &str = "NodeVerdict";
    /// The Node is being taken away; the reason says why.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
}

/// Types of conditions of a NodeOverlay.
pub mod nodeoverlay {
    /// The overlay is in order and contradicts no other.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
}

/// Types of conditions of an EC2NodeClass.
pub mod nodeclass {
    /// The selectors have found subnets.
    pub const SUBNETS_READY: &str = "SubnetsReady";
    /// The selectors have found security groups.
    pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
    /// The selectors have found machine images.
    pub const AMIS_READY: &str = "AMIsReady";
    /// The instance profile exists.
    pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
    /// The selectors of capacity reservations have been resolved.
    pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";
    /// The placement group exists, if one is selected.
    pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
    /// Instances can be launched with the class.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// What was launched with the class of late has become nodes; while false, nothing is launched with it. Not part of
    /// Ready.
    pub const LAUNCHES_SUCCEED: &str = "LaunchesSucceed";
    /// The user data can make a node, as far as can be known before a launch. Not part of Ready.
    pub const BOOTSTRAP_VALID: &str = "BootstrapValid";
}

/// Types of conditions of a CapacityBuffer.
pub mod capacitybuffer {
    /// What a chunk looks like, and how many there are, is known.
    pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
    /// Whether the room is there or is being made.
    pub const PROVISIONING: &str = "Provisioning";
    /// Fewer chunks are kept than asked for.
    pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";
}

/// Reasons of conditions, whatever their kind.
pub mod reason {
    /// NodePool: the NodeClass does not exist.
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    /// NodePool: the NodeClass has not been judged yet.
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
    /// NodePool: the NodeClass is being deleted.
    pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
    /// NodePool: something is not in order.
    pub const NODE_POOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// NodePool: what consolidation commands saved was bought again.
    pub const SAVINGS_NOT_DELIVERED: &str = "SavingsNotDelivered";
    /// NodePool: nodes do not register.
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
    /// NodeClaim: the cloud refused.
    pub const LAUNCH_FAILED: &str = "LaunchFailed";
    /// NodeClaim: it took too long to be launched.
    pub const LAUNCH_TIMEOUT: &str = "LaunchTimeout";
    /// Pod: nodes were launched for its set, and none of them got one of its pods.
    pub const LAUNCHES_HELD: &str = "LaunchesHeld";
    /// NodeClaim: launches failed too often with its class.
    pub const LAUNCHES_STOPPED: &str = "LaunchesStopped";
    /// NodeClaim: an operator has paused launches.
    pub const LAUNCHES_PAUSED: &str = "LaunchesPaused";
    /// NodeClaim: the cloud has refused its launch because there were too many.
    pub const REQUEST_LIMIT_EXCEEDED: &str = "RequestLimitExceeded";
    /// NodeClaim: its launch waits for its turn, so that there are not too many.
    pub const REQUEST_QUEUED: &str = "RequestQueued";
    /// NodeClaim: the user data of its class cannot make a node.
    pub const BOOTSTRAP_INVALID: &str = "BootstrapInvalid";
    /// NodeClaim: the instance has not become a Node in time.
    pub const REGISTRATION_TIMEOUT: &str = "RegistrationTimeout";
    /// NodeClaim: the Node has not become ready for pods in time.
    pub const INITIALIZATION_TIMEOUT: &str = "InitializationTimeout";
    /// NodeClaim: the instance has ended without being asked to.
    pub const INSTANCE_ENDED: &str = "InstanceEnded";
    /// Any condition of a NodeClaim: nobody has judged it yet.
    pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
    /// Ready: another condition is false.
    pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
    /// Ready: another condition is not known yet.
    pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";
    /// NodeClaim: there is no Node yet.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// NodeClaim: more than one Node claims to be the instance.
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
    /// NodeClaim: something holds registration back.
    pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
    /// NodeClaim: the kubelet is not ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// NodeClaim: a startup taint is still there.
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    /// NodeClaim: a taint of a starting node is still there.
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    /// NodeClaim: a resource that pods need is not there yet.
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    /// NodeClaim: a device driver has not published its devices yet.
    pub const DRA_DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
    /// NodeClaim: the node's agent, which is expected, has not said that the node is ready.
    pub const AGENT_NOT_READY: &str = "AgentNotReady";
    /// NodeClaim: the node's agent says nothing any more.
    pub const AGENT_SILENT: &str = "AgentSilent";
    /// NodeClaim: what the node's agent found wrong is so no more.
    pub const VERDICT_LIFTED: &str = "VerdictLifted";
    /// NodeClaim: Node and NodeClaim disagree.
    pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";
    /// NodeClaim: pods are leaving.
    pub const DRAINING: &str = "Draining";
    /// NodeClaim: volumes are leaving.
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    /// NodeClaim: what has not left in time is left behind.
    pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
    /// NodeClaim: the pool's template has changed.
    pub const NODE_POOL_DRIFTED: &str = "NodePoolDrifted";
    /// NodeClaim: the pool's requirements no longer admit the node.
    pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
    /// NodeClaim: the instance type does not exist any more.
    pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
    /// NodeClaim: the pods fit elsewhere, or on something cheaper.
    pub const UNDERUTILIZED: &str = "Underutilized";
    /// NodeClaim: no pods that would have to move.
    pub const EMPTY: &str = "Empty";
    /// NodeClaim: no longer as its pool or class says.
    pub const DRIFTED: &str = "Drifted";
    /// NodeOverlay: another overlay of the same weight says something else.
    pub const CONFLICT: &str = "Conflict";
    /// NodeOverlay: something is not in order.
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// EC2NodeClass: no machine image.
    pub const AMI_NOT_FOUND: &str = "AMINotFound";
    /// EC2NodeClass: there is no such image for the cluster's version.
    pub const UNSUPPORTED_ALIAS: &str = "UnsupportedAlias";
    /// EC2NodeClass: no subnet.
    pub const SUBNETS_NOT_FOUND: &str = "SubnetsNotFound";
    /// EC2NodeClass: no security group.
    pub const SECURITY_GROUPS_NOT_FOUND: &str = "SecurityGroupsNotFound";
    /// EC2NodeClass: no placement group.
    pub const PLACEMENT_GROUP_NOT_FOUND: &str = "PlacementGroupNotFound";
    /// EC2NodeClass: the placement group could not be looked up.
    pub const PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "PlacementGroupResolutionFailed";
    /// EC2NodeClass: another condition has to be true first.
    pub const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
    /// EC2NodeClass: the cluster's service addresses are unknown.
    pub const CLUSTER_CIDR_RESOLUTION_FAILED: &str = "ClusterCIDRResolutionFailed";
    /// EC2NodeClass: a tag is reserved.
    pub const TAG_VALIDATION_FAILED: &str = "TagValidationFailed";
    /// EC2NodeClass: launch templates may not be made.
    pub const CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED: &str = "CreateLaunchTemplateAuthCheckFailed";
    /// EC2NodeClass: fleets may not be made.
    pub const CREATE_FLEET_AUTH_CHECK_FAILED: &str = "CreateFleetAuthCheckFailed";
    /// EC2NodeClass: instances may not be run.
    pub const RUN_INSTANCES_AUTH_CHECK_FAILED: &str = "RunInstancesAuthCheckFailed";
    /// EC2NodeClass: the user data is too long for EC2.
    pub const USER_DATA_SIZE_LIMIT_EXCEEDED: &str = "UserDataSizeLimitExceeded";
    /// EC2NodeClass: the instance profile does not exist.
    pub const INSTANCE_PROFILE_NOT_FOUND: &str = "InstanceProfileNotFound";
    /// EC2NodeClass: the kubelet would refuse its settings.
    pub const INVALID_KUBELET_CONFIGURATION: &str = "InvalidKubeletConfiguration";
    /// EC2NodeClass: the family cannot set what is asked of the kubelet.
    pub const UNSUPPORTED_KUBELET_CONFIGURATION: &str = "UnsupportedKubeletConfiguration";
    /// CapacityBuffer: the template is known.
    pub const RESOLVED: &str = "Resolved";
    /// CapacityBuffer: the workload does not exist.
    pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
    /// CapacityBuffer: the PodTemplate does not exist.
    pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
    /// CapacityBuffer: the template could not be looked up.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// CapacityBuffer: the room is there.
    pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
    /// CapacityBuffer: the room is being made.
    pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
    /// CapacityBuffer: the template is not known.
    pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
    /// CapacityBuffer: no chunks are asked for.
    pub const BUFFER_EMPTY: &str = "BufferEmpty";
}
