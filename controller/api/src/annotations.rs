//! Every annotation and finalizer that we read or write. Those of Muster's own are explained in `docs/annotations.md`.

/// Keeps a node or a pod from being disrupted: `true`, or on pods a duration since their start.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Hash of the NodePool's template that a NodeClaim was made from.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// How [`NODEPOOL_HASH`] was computed.
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// When the grace period of a deleted NodeClaim ends, in RFC 3339.
pub const NODECLAIM_TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Whether a NodeClaim was launched with fewer alternatives than `minValues` asks for.
pub const NODECLAIM_MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Drivers of the devices that were allocated to the pods of a NodeClaim.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Whether a NodeOverlay changed the price that a NodeClaim was planned with.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// Whether a NodeOverlay changed the capacity that a NodeClaim was planned with.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Settings that a NodePool converted from v1alpha5 hands to its cloud as they were.
pub const COMPATIBILITY_PROVIDER: &str = "compatibility.karpenter.sh/provider";

/// Hash of the EC2NodeClass that a NodeClaim was launched with.
pub const EC2NODECLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// How [`EC2NODECLASS_HASH`] was computed.
pub const EC2NODECLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// Instance profile that a NodeClaim was launched with.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
/// Whether the instance of a NodeClaim has got all its tags.
pub const INSTANCE_TAGGED: &str = "karpenter.k8s.aws/tagged";
/// Whether the instance of a NodeClaim has got the tag with the cluster's name.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";

/// Number of the attempt at which a NodeClaim's launch stands, from 1. It makes launches idempotent.
pub const LAUNCH_ATTEMPT: &str = "muster.dev/launch-attempt";
/// When a NodeClaim's next launch is attempted at the earliest, in RFC 3339.
pub const LAUNCH_NOT_BEFORE: &str = "muster.dev/launch-not-before";
/// Token of the launch that made a Node which is an object only.
pub const LAUNCH_TOKEN: &str = "muster.dev/launch-token";
/// How long the nodes of a NodePool may take from registration to initialization: a duration or `Never`.
pub const INITIALIZATION_TIMEOUT: &str = "muster.dev/initialization-timeout";
/// What of the cluster or of a NodePool is paused: `launches`, `disruption` or `all`.
pub const PAUSE: &str = "muster.dev/pause";
/// Which command takes the node of a NodeClaim away, and all there is to know of it, as JSON.
pub const DISRUPTION: &str = "muster.dev/disruption";
/// The command that a NodeClaim was launched for.
pub const REPLACES: &str = "muster.dev/replaces";
/// Who has ordered a NodeClaim over gRPC: the user's name.
pub const REQUESTED_BY: &str = "muster.dev/requested-by";
/// The ID of the order that a NodeClaim is of, as that user has chosen it.
pub const REQUEST: &str = "muster.dev/request";
/// Fingerprint of that order.
pub const REQUEST_HASH: &str = "muster.dev/request-hash";
/// Failures in a row with one hash of a NodeClass for one reason, as JSON.
pub const LAUNCH_FAILURES: &str = "muster.dev/launch-failures";
/// Asks for launches with a NodeClass to be resumed; removed when that has been done.
pub const RESET_BREAKER: &str = "muster.dev/reset-breaker";

/// Whether the node of a NodeClaim has an agent that is waited for: [`AGENT_EXPECTED`].
pub const AGENT: &str = "muster.dev/agent";
/// The value of [`AGENT`] that counts.
pub const AGENT_EXPECTED: &str = "expected";
/// SHA-256 of the secret in the user data that a NodeClaim was launched with.
pub const AGENT_SECRET: &str = "muster.dev/agent-secret";
/// The key that the agent of a NodeClaim's node has enrolled with, by its SHA-256, and when.
pub const AGENT_KEY: &str = "muster.dev/agent-key";
/// The authorities that the agent of a NodeClaim's node believes, by the SHA-256 of their certificates.
pub const AGENT_PINS: &str = "muster.dev/agent-pins";
/// When the agent of a NodeClaim's node was heard of, as of some connection of the last hour.
pub const AGENT_HEARD: &str = "muster.dev/agent-heard";
/// Asks for the authority that agents believe to be replaced; removed when that has begun.
pub const ROTATE_AUTHORITY: &str = "muster.dev/rotate-authority";
/// Asks for the key that the secrets of launch templates are made by to be replaced; removed when that is done.
pub const ROTATE_LAUNCH_KEY: &str = "muster.dev/rotate-launch-key";
/// Allows the agent of a NodeClaim's node to enrol with another key, once: `true`.
pub const AGENT_ENROL_AGAIN: &str = "muster.dev/agent-enrol-again";

/// What is kept of a node that could not become one, as JSON, on a ConfigMap with [`crate::labels::RECORD`].
pub const VERDICT: &str = "muster.dev/verdict";

/// Finalizer of Nodes and NodeClaims: the node is drained and the instance ended before they go.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
/// Finalizer of EC2NodeClasses: what was made for them in AWS is removed before they go.
pub const EC2NODECLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";
