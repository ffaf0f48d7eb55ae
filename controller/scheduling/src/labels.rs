//! The labels that have a meaning for the engine. This crate may not know `muster-api`, whose list is the full one.

/// Zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Name of a node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// `on-demand`, `spot` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// The reservation of a node; offerings with the same one draw on the same instances.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// The pool of a node.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// The instance type of a node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The processor architecture of a node.
pub const ARCH: &str = "kubernetes.io/arch";
/// The operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// The build of a Windows node.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Labels that a launch defines although no pool lists them; a catalogue's own keys come on top.
pub const WELL_KNOWN: [&str; 8] = [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// The name under which a label is compared: beta and driver labels stand for the stable ones.
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
