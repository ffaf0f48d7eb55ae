//! Annotations and finalizers that the controller reads or writes. `docs/annotations.md` explains those of Muster
//! itself.

/// Protects a node or pod from disruption: `true`, or on pods a duration since their start.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Keeps an unhealthy node from being repaired: `true`, on a Node or NodeClaim.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
/// Cost of disrupting a pod, a 32-bit integer.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
/// Order in which a ReplicaSet gives up its pods: of several, the one with the least goes first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Boot ID of a Node before its reboot, on its NodeClaim.
pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// Longest time that the drain before a reboot may take, on the NodeClaim: a duration.
pub const REBOOT_TERMINATION_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
/// Hash of the NodePool template that a NodeClaim was created from.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the algorithm of [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Time at which the grace period of a deleted NodeClaim ends, in RFC 3339.
pub const NODECLAIM_TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// `true` if a NodeClaim was launched with fewer alternatives than `minValues` requires.
pub const NODECLAIM_MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// DRA drivers of the devices allocated to the pods of a NodeClaim.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// `true` if a NodeOverlay changed the price that a NodeClaim was planned with.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// `true` if a NodeOverlay changed the capacity that a NodeClaim was planned with.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Provider settings of a NodePool that was converted from v1alpha5, unchanged.
pub const COMPATIBILITY_PROVIDER: &str = "compatibility.karpenter.sh/provider";

/// Hash of the EC2NodeClass that a NodeClaim was launched with.
pub const EC2NODECLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Version of the algorithm of [`EC2NODECLASS_HASH`].
pub const EC2NODECLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// Sharing of GPUs by the pods of an EC2NodeClass's nodes, for claims of dynamic resources.
pub const NVIDIA_CONSUMABLE_CAPACITY: &str = "karpenter.k8s.aws/nvidia-consumable-capacity";
/// Instance profile that a NodeClaim was launched with.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
/// `true` once the instance of a NodeClaim has all its tags.
pub const INSTANCE_TAGGED: &str = "karpenter.k8s.aws/tagged";
/// `true` once the instance of a NodeClaim has the tag with the cluster name.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";

/// Number of the current launch attempt of a NodeClaim, from 1. It makes launches idempotent.
pub const LAUNCH_ATTEMPT: &str = "muster.dev/launch-attempt";
/// Earliest time of the next launch attempt of a NodeClaim, in RFC 3339.
pub const LAUNCH_NOT_BEFORE: &str = "muster.dev/launch-not-before";
/// Launch token of a simulated Node (`--cloud kwok`).
pub const LAUNCH_TOKEN: &str = "muster.dev/launch-token";
/// Maximum time from registration to initialization for nodes of a NodePool: a duration or `Never`.
pub const INITIALIZATION_TIMEOUT: &str = "muster.dev/initialization-timeout";
/// Paused operations of the cluster or of a NodePool: `launches`, `disruption` or `all`.
pub const PAUSE: &str = "muster.dev/pause";
/// Treatment of the nodes of a NodePool in a zone that traffic is shifted away from: [`ZONAL_SHIFT_DRAIN`].
pub const ZONAL_SHIFT: &str = "muster.dev/zonal-shift";
/// Value of [`ZONAL_SHIFT`] that has an effect.
pub const ZONAL_SHIFT_DRAIN: &str = "drain";
/// Disruption command that removes the node of a NodeClaim, with its state, as JSON.
pub const DISRUPTION: &str = "muster.dev/disruption";
/// Times of the last reboots of a NodeClaim's instance, each before its first call, in RFC 3339, separated by commas.
pub const REBOOTS: &str = "muster.dev/reboots";
/// Disruption command that a NodeClaim was launched for.
pub const REPLACES: &str = "muster.dev/replaces";
/// Name of the user who ordered a NodeClaim over gRPC.
pub const REQUESTED_BY: &str = "muster.dev/requested-by";
/// ID of the order that a NodeClaim belongs to, chosen by that user.
pub const REQUEST: &str = "muster.dev/request";
/// SHA-256 of that order (the first half).
pub const REQUEST_HASH: &str = "muster.dev/request-hash";
/// Consecutive launch failures with one hash of a NodeClass for one reason, as JSON.
pub const LAUNCH_FAILURES: &str = "muster.dev/launch-failures";
/// Requests that launches with a NodeClass resume; removed once they have.
pub const RESET_BREAKER: &str = "muster.dev/reset-breaker";

/// Set to [`AGENT_EXPECTED`] if the initialization of the node waits for its agent.
pub const AGENT: &str = "muster.dev/agent";
/// Value of [`AGENT`] that has an effect.
pub const AGENT_EXPECTED: &str = "expected";
/// SHA-256 of the secret in the user data that a NodeClaim was launched with.
pub const AGENT_SECRET: &str = "muster.dev/agent-secret";
/// SHA-256 of the key that the node's agent enrolled with, and the time of the enrolment.
pub const AGENT_KEY: &str = "muster.dev/agent-key";
/// Certificate authorities that the node's agent trusts, by the SHA-256 of their certificates.
pub const AGENT_PINS: &str = "muster.dev/agent-pins";
/// Time at which the node's agent last connected, in RFC 3339; not updated on every connection.
pub const AGENT_HEARD: &str = "muster.dev/agent-heard";
/// Requests that the certificate authority of agents is replaced; removed once the replacement has begun.
pub const ROTATE_AUTHORITY: &str = "muster.dev/rotate-authority";
/// Requests that the key which derives the secrets of launch templates is replaced; removed once it is.
pub const ROTATE_LAUNCH_KEY: &str = "muster.dev/rotate-launch-key";
/// Allows the node's agent to enrol with another key, once: `true`.
pub const AGENT_ENROL_AGAIN: &str = "muster.dev/agent-enrol-again";

/// Holder of a Lease if it is a replica of Muster, by the identity in `spec.holderIdentity`.
pub const LEASE_HOLDER: &str = "muster.dev/lease-holder";

/// Record of a node that failed to join, as JSON, on a ConfigMap with the label [`crate::labels::RECORD`].
pub const VERDICT: &str = "muster.dev/verdict";

/// Finalizer of Nodes and NodeClaims: removed once the node is drained and the instance is terminated.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
/// Finalizer of EC2NodeClasses: removed once the AWS objects created for the class are deleted.
pub const EC2NODECLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";
