//! Labels that the engine interprets. This crate may not depend on `muster-api`, which has the full list.

/// Zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// ID of the zone of a node, which is the same in each account.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Name of a node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// `on-demand`, `spot` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// The reservation of a node; offerings with the same one share the same instances.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// The pool of a node.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// `true` on nodes that have registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// The instance type of a node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The processor architecture of a node.
pub const ARCH: &str = "kubernetes.io/arch";
/// The operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// The build of a Windows node.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Labels that a launch defines even if no pool lists them; the keys of the catalogue are added to these.
pub const WELL_KNOWN: [&str; 8] = [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Returns the name under which a label is compared: beta and driver labels map to the stable ones.
///
/// ```
/// use muster_scheduling::labels::{ZONE, stable_name};
///
/// assert_eq!(stable_name("topology.ebs.csi.aws.com/zone"), ZONE);
/// assert_eq!(stable_name("example.com/team"), "example.com/team");
/// ```
pub fn stable_name(key: &str) -> &str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => ZONE,
        "failure-domain.beta.kubernetes.io/region" => REGION,
        "beta.kubernetes.io/arch" => ARCH,
        "beta.kubernetes.io/os" => OS,
        "beta.kubernetes.io/instance-type" => INSTANCE_TYPE,
        other => other,
    }
}
