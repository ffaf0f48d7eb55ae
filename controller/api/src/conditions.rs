//! Types and reasons of the status conditions of our kinds.

/// All the other conditions that count are true.
pub const READY: &str = "Ready";

/// Condition types of a NodePool.
pub mod nodepool {
    /// Validation that is not possible at admission has succeeded.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// The NodeClass exists and is ready.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// Recently launched nodes have registered.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
    /// Consolidation commands save what they promise; while false, only empty nodes are consolidated. Absent as long as
    /// they always did. Not part of Ready.
    pub const CONSOLIDATION_DELIVERS: &str = "ConsolidationDelivers";
    /// The schedules of all budgets can be read; while false, a budget whose schedule cannot allows no disruption.
    /// Absent as long as all always could. Not part of Ready.
    pub const BUDGETS_READABLE: &str = "BudgetsReadable";
    /// False while launches for some pods are held, because the last nodes received none of them.
    pub const LAUNCHES_DELIVER: &str = "LaunchesDeliver";
    /// False while `replicas` have no effect, because the feature gate StaticCapacity is off. Not part of Ready.
    pub const REPLICAS_KEPT: &str = "ReplicasKept";
}

/// Condition types of a NodeClaim.
pub mod nodeclaim {
    /// The instance exists.
    pub const LAUNCHED: &str = "Launched";
    /// The instance has registered as a Node.
    pub const REGISTERED: &str = "Registered";
    /// The Node is ready for the pods it was launched for.
    pub const INITIALIZED: &str = "Initialized";
    /// The Node has had no pod changes for the `consolidateAfter` of its NodePool.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// The Node no longer matches its NodePool or NodeClass.
    pub const DRIFTED: &str = "Drifted";
    /// The pods that had to leave are gone.
    pub const DRAINED: &str = "Drained";
    /// The volumes that had to be detached are detached.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// The instance is being terminated.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// Node and NodeClaim are consistent.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// The cloud is reclaiming the instance; the reason is the kind of notice.
    pub const INTERRUPTED: &str = "Interrupted";
    /// Progress of the node's bootstrap as reported by its agent: True once the node has joined; otherwise the reason
    /// is the stage. Not part of Ready.
    pub const AGENT_READY: &str = "AgentReady";
    /// Fault reported by the node's agent: False is fatal, and the reason is the error code. Not part of Ready.
    pub const NODE_VERDICT: &str = "NodeVerdict";
    /// The Node is being rebooted as its repair. Not part of Ready.
    pub const REBOOTING: &str = "Rebooting";
    /// The Node is being removed; the reason is the cause of the disruption.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
}

/// Condition types of a NodeOverlay.
pub mod nodeoverlay {
    /// The overlay is valid and does not conflict with another one.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
}

/// Condition types of an EC2NodeClass.
pub mod nodeclass {
    /// The selectors matched subnets.
    pub const SUBNETS_READY: &str = "SubnetsReady";
    /// The selectors matched security groups.
    pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
    /// The selectors matched AMIs.
    pub const AMIS_READY: &str = "AMIsReady";
    /// The instance profile exists.
    pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
    /// The capacity reservation selectors have been resolved.
    pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";
    /// The selected placement group exists, or none is selected.
    pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
    /// Instances can be launched with the class.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// Recent launches with the class have become nodes; while false, launches with it are stopped. Not part of Ready.
    pub const LAUNCHES_SUCCEED: &str = "LaunchesSucceed";
    /// The user data can bootstrap a node, as far as can be checked before a launch. Not part of Ready.
    pub const BOOTSTRAP_VALID: &str = "BootstrapValid";
}

/// Condition types of a CapacityBuffer.
pub mod capacitybuffer {
    /// The pod template and the number of chunks are known.
    pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
    /// The capacity exists or is being launched.
    pub const PROVISIONING: &str = "Provisioning";
    /// Fewer chunks are kept than requested.
    pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";
}

/// Reasons of conditions of all kinds.
pub mod reason {
    /// NodePool: the NodeClass does not exist.
    pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
    /// NodePool: the NodeClass has not been reconciled yet.
    pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
    /// NodePool: the NodeClass is being deleted.
    pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
    /// NodePool: validation failed.
    pub const NODE_POOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
    /// NodePool: what consolidation commands saved was bought again.
    pub const SAVINGS_NOT_DELIVERED: &str = "SavingsNotDelivered";
    /// NodePool: a field has no effect without its feature gate.
    pub const FEATURE_GATE_OFF: &str = "FeatureGateOff";
    /// NodePool: nodes fail to register.
    pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
    /// NodeClaim: the cloud rejected the launch.
    pub const LAUNCH_FAILED: &str = "LaunchFailed";
    /// NodeClaim: the launch timed out.
    pub const LAUNCH_TIMEOUT: &str = "LaunchTimeout";
    /// Pod: nodes were launched for its workload, and none of its pods was scheduled to them.
    pub const LAUNCHES_HELD: &str = "LaunchesHeld";
    /// NodeClaim: too many launches with its NodeClass failed.
    pub const LAUNCHES_STOPPED: &str = "LaunchesStopped";
    /// NodeClaim: an operator has paused launches.
    pub const LAUNCHES_PAUSED: &str = "LaunchesPaused";
    /// NodeClaim: the cloud throttled its launch.
    pub const REQUEST_LIMIT_EXCEEDED: &str = "RequestLimitExceeded";
    /// NodeClaim: its launch is queued to stay within a rate limit.
    pub const REQUEST_QUEUED: &str = "RequestQueued";
    /// NodeClaim: the user data of its NodeClass cannot bootstrap a node.
    pub const BOOTSTRAP_INVALID: &str = "BootstrapInvalid";
    /// NodeClaim: the instance did not register as a Node in time.
    pub const REGISTRATION_TIMEOUT: &str = "RegistrationTimeout";
    /// NodeClaim: the Node did not become ready for pods in time.
    pub const INITIALIZATION_TIMEOUT: &str = "InitializationTimeout";
    /// NodeClaim: the instance was terminated, but not by the controller.
    pub const INSTANCE_ENDED: &str = "InstanceEnded";
    /// Any condition of a NodeClaim: the controller has not evaluated it yet.
    pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
    /// Ready: another condition is false.
    pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
    /// Ready: another condition is unknown.
    pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";
    /// NodeClaim: the Node does not exist yet.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// NodeClaim: more than one Node has the provider ID of the instance.
    pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
    /// NodeClaim: registration is on hold.
    pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
    /// NodeClaim: the kubelet is not ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// NodeClaim: the Node still has a startup taint.
    pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
    /// NodeClaim: the Node still has a well-known ephemeral taint.
    pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
    /// NodeClaim: the Node does not report a requested resource yet.
    pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
    /// NodeClaim: a DRA driver has not published its resource pools yet.
    pub const DRA_DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
    /// NodeClaim: the node's agent, which is expected, has not reported the node as ready.
    pub const AGENT_NOT_READY: &str = "AgentNotReady";
    /// NodeClaim: the node's agent no longer reports.
    pub const AGENT_SILENT: &str = "AgentSilent";
    /// NodeClaim: the fault reported by the node's agent is resolved.
    pub const VERDICT_LIFTED: &str = "VerdictLifted";
    /// NodeClaim: the Node is not initialized because it is rebooting.
    pub const REBOOTING: &str = "Rebooting";
    /// NodeClaim: a reboot of the Node was requested.
    pub const REBOOT_REQUESTED: &str = "RebootRequested";
    /// NodeClaim: the cloud was asked to reboot the instance.
    pub const REBOOT_ISSUED: &str = "RebootIssued";
    /// NodeClaim: the Node is ready again after a reboot.
    pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
    /// NodeClaim: the Node did not become ready again after a reboot.
    pub const REBOOT_FAILED: &str = "RebootFailed";
    /// NodeClaim: Node and NodeClaim are inconsistent.
    pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";
    /// NodeClaim: the Node is being drained.
    pub const DRAINING: &str = "Draining";
    /// NodeClaim: volumes are being detached.
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    /// NodeClaim: the grace period ended before all pods or volumes were gone.
    pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
    /// NodeClaim: the NodePool's template has changed.
    pub const NODE_POOL_DRIFTED: &str = "NodePoolDrifted";
    /// NodeClaim: the Node no longer meets the NodePool's requirements.
    pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
    /// NodeClaim: the instance type no longer exists.
    pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
    /// NodeClaim: the pods fit on other nodes or on a cheaper instance.
    pub const UNDERUTILIZED: &str = "Underutilized";
    /// NodeClaim: no pods that would have to be rescheduled.
    pub const EMPTY: &str = "Empty";
    /// NodeClaim: no longer matches its NodePool or NodeClass.
    pub const DRIFTED: &str = "Drifted";
    /// NodeOverlay: conflicts with another overlay of the same weight.
    pub const CONFLICT: &str = "Conflict";
    /// NodeOverlay: validation failed.
    pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
    /// EC2NodeClass: the selectors match no AMI.
    pub const AMI_NOT_FOUND: &str = "AMINotFound";
    /// EC2NodeClass: the alias has no AMI for the cluster's version.
    pub const UNSUPPORTED_ALIAS: &str = "UnsupportedAlias";
    /// EC2NodeClass: the selectors match no subnet.
    pub const SUBNETS_NOT_FOUND: &str = "SubnetsNotFound";
    /// EC2NodeClass: the selectors match no security group.
    pub const SECURITY_GROUPS_NOT_FOUND: &str = "SecurityGroupsNotFound";
    /// EC2NodeClass: the placement group does not exist.
    pub const PLACEMENT_GROUP_NOT_FOUND: &str = "PlacementGroupNotFound";
    /// EC2NodeClass: the lookup of the placement group failed.
    pub const PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "PlacementGroupResolutionFailed";
    /// EC2NodeClass: another condition must be true first.
    pub const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
    /// EC2NodeClass: the cluster's service CIDR is unknown.
    pub const CLUSTER_CIDR_RESOLUTION_FAILED: &str = "ClusterCIDRResolutionFailed";
    /// EC2NodeClass: a tag is reserved.
    pub const TAG_VALIDATION_FAILED: &str = "TagValidationFailed";
    /// EC2NodeClass: creating launch templates is not authorized.
    pub const CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED: &str = "CreateLaunchTemplateAuthCheckFailed";
    /// EC2NodeClass: creating fleets is not authorized.
    pub const CREATE_FLEET_AUTH_CHECK_FAILED: &str = "CreateFleetAuthCheckFailed";
    /// EC2NodeClass: running instances is not authorized.
    pub const RUN_INSTANCES_AUTH_CHECK_FAILED: &str = "RunInstancesAuthCheckFailed";
    /// EC2NodeClass: the user data exceeds the size limit of EC2.
    pub const USER_DATA_SIZE_LIMIT_EXCEEDED: &str = "UserDataSizeLimitExceeded";
    /// EC2NodeClass: the instance profile does not exist.
    pub const INSTANCE_PROFILE_NOT_FOUND: &str = "InstanceProfileNotFound";
    /// EC2NodeClass: the kubelet would reject its settings.
    pub const INVALID_KUBELET_CONFIGURATION: &str = "InvalidKubeletConfiguration";
    /// EC2NodeClass: the AMI family does not support one of the kubelet settings.
    pub const UNSUPPORTED_KUBELET_CONFIGURATION: &str = "UnsupportedKubeletConfiguration";
    /// EC2NodeClass: a kubelet setting is an expression, and the gate `NodeClassCEL` is off.
    pub const KUBELET_EXPRESSIONS_DISABLED: &str = "KubeletExpressionsDisabled";
    /// EC2NodeClass: a kubelet setting is neither a value nor an expression.
    pub const KUBELET_EXPRESSION_INVALID: &str = "KubeletExpressionInvalid";
    /// EC2NodeClass: an expression has no result for an instance type.
    pub const KUBELET_EXPRESSION_EVALUATION_FAILED: &str = "KubeletExpressionEvaluationFailed";
    /// CapacityBuffer: the pod template is known.
    pub const RESOLVED: &str = "Resolved";
    /// CapacityBuffer: the workload does not exist.
    pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
    /// CapacityBuffer: the PodTemplate does not exist.
    pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
    /// CapacityBuffer: the lookup of the pod template failed.
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    /// CapacityBuffer: the capacity exists.
    pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
    /// CapacityBuffer: the capacity is being launched.
    pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
    /// CapacityBuffer: no node of any NodePool can have room for its pods.
    pub const INFEASIBLE: &str = "Infeasible";
    /// CapacityBuffer: the pod template is unknown.
    pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
    /// CapacityBuffer: no chunks are requested.
    pub const BUFFER_EMPTY: &str = "BufferEmpty";
}
