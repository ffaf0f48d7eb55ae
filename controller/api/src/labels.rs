//! Node labels that the controller reads or writes, and the rules for labels that users may set.

/// API group of the cloud-independent kinds, and the domain of their labels.
pub const GROUP: &str = "karpenter.sh";

/// API group of the kinds for EC2, and the domain of their labels.
pub const AWS_GROUP: &str = "karpenter.k8s.aws";

/// NodePool that a node belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// Capacity type of a node: [`ON_DEMAND`], [`SPOT`] or [`RESERVED`].
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` once a node has registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` once a node is ready for the pods it was launched for.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` if a node sets its own taints, which registration then does not change.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// Kind of record that an object in the controller's namespace holds: `verdict`.
pub const RECORD: &str = "muster.dev/record";

/// Zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Instance type of a node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Processor architecture of a node: [`AMD64`] or [`ARM64`].
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system of a node: [`LINUX`] or [`WINDOWS`].
pub const OS: &str = "kubernetes.io/os";
/// Build of a Windows node, such as `10.0.20348`.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Host name of a node.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Zone ID of a node, which is the same in every account.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Zone of a node as reported by the EBS CSI driver.
pub const EBS_ZONE: &str = "topology.ebs.csi.aws.com/zone";

/// EC2NodeClass that a node was launched with.
pub const EC2NODECLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Capacity reservation that a node was launched into.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// Type of that reservation.
pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
/// `true` if the owner of that reservation may reclaim the instance.
pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
/// Hypervisor: `nitro`, `xen`, or empty on bare metal.
pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
/// `true` if the hardware encrypts traffic between instances.
pub const INSTANCE_ENCRYPTION_IN_TRANSIT: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
/// Letters before the generation of the instance type, such as `c`.
pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
/// `true` for a flex instance type, which sustains its full CPU performance only part of the time.
pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
/// Part of the instance type before the dot, such as `c7g`.
pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Generation, the number after the category, such as `7`.
pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Part of the instance type after the dot, such as `large`.
pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
/// Total size of the instance store disks in gigabytes.
pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
/// Number of vCPUs.
pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
/// Manufacturer of the processor.
pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
/// Sustained clock speed of the processor in MHz.
pub const INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
/// Memory in mebibytes, before any reservation.
pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
/// Maximum EBS bandwidth in megabits per second.
pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
/// Baseline network bandwidth in megabits per second.
pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// Name of the GPUs.
pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
/// Manufacturer of the GPUs.
pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
/// Number of GPUs.
pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Memory of each GPU in mebibytes.
pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
/// Name of the accelerators.
pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
/// Manufacturer of the accelerators.
pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
/// Number of accelerators.
pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// Tenancy: `default` or `dedicated`.
pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
/// Placement group of a node.
pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
/// Partition of that group, from 1.
pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

/// API group of the kinds for simulated nodes (KWOK), and the domain of their labels.
pub const KWOK_GROUP: &str = "karpenter.kwok.sh";
/// Size of a KWOK instance type: the part after the dot, else the number of its CPUs.
pub const KWOK_INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
/// Part of the name of a KWOK instance type before the first dot or dash.
pub const KWOK_INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
/// Number of vCPUs of a KWOK instance type.
pub const KWOK_INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
/// Memory of a KWOK instance type, such as `64Gi`.
pub const KWOK_INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";

/// Excludes a node from external load balancers, whatever its value.
pub const EXCLUDE_FROM_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Value of [`CAPACITY_TYPE`]: billed by the second.
pub const ON_DEMAND: &str = "on-demand";
/// Value of [`CAPACITY_TYPE`]: spare capacity that the cloud may reclaim.
pub const SPOT: &str = "spot";
/// Value of [`CAPACITY_TYPE`]: reserved in advance.
pub const RESERVED: &str = "reserved";
/// Value of [`ARCH`]: 64-bit x86.
pub const AMD64: &str = "amd64";
/// Value of [`ARCH`]: 64-bit Arm.
pub const ARM64: &str = "arm64";
/// Value of [`OS`]: Linux.
pub const LINUX: &str = "linux";
/// Value of [`OS`]: Windows.
pub const WINDOWS: &str = "windows";

/// Labels that instance types define. Pods may select them even if a NodePool does not set them.
pub const WELL_KNOWN: [&str; 40] = [
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    CAPACITY_RESERVATION_TYPE,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_MEMORY,
    INSTANCE_GPU_NAME,
    INSTANCE_HYPERVISOR,
    INSTANCE_LOCAL_NVME,
    INSTANCE_MEMORY,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_SIZE,
    INSTANCE_TENANCY,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
    KWOK_INSTANCE_CPU,
    KWOK_INSTANCE_FAMILY,
    KWOK_INSTANCE_MEMORY,
    KWOK_INSTANCE_SIZE,
    CAPACITY_TYPE,
    NODEPOOL,
    ARCH,
    OS,
    INSTANCE_TYPE,
    WINDOWS_BUILD,
    ZONE_ID,
    REGION,
    ZONE,
];

/// Domains, including subdomains, in which users may only use well-known labels.
pub const RESTRICTED_DOMAINS: [&str; 3] = [AWS_GROUP, KWOK_GROUP, GROUP];

/// Other labels that users may not set on nodes.
pub const RESTRICTED: [&str; 1] = [HOSTNAME];

/// Pairs of a label alias and the label it stands for.
pub const NORMALIZED: [(&str, &str); 6] = [
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("beta.kubernetes.io/os", OS),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    (EBS_ZONE, ZONE),
];

/// Labels with a fixed set of possible values, and those values.
pub const KNOWN_VALUES: [(&str, &[&str]); 2] =
    [(INSTANCE_TENANCY, &["dedicated", "default"]), (CAPACITY_TYPE, &[ON_DEMAND, RESERVED, SPOT])];

/// Returns the current label for `key`, which may be an older or driver-specific alias.
///
/// ```
/// use muster_api::labels::{ARCH, normalize};
///
/// assert_eq!(normalize("beta.kubernetes.io/arch"), ARCH);
/// ```
#[must_use]
pub fn normalize(key: &str) -> &str {
    NORMALIZED.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, stable)| stable)
}

/// Returns true if instance types define the label.
#[must_use]
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.contains(&key)
}

/// Returns the part of `key` before the slash, or an empty string.
#[must_use]
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Returns true if users may not set the label on nodes.
///
/// ```
/// use muster_api::labels::is_restricted;
///
/// assert!(is_restricted("karpenter.sh/initialized"));
/// assert!(!is_restricted("example.com/team"));
/// ```
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    if is_well_known(key) {
        return false;
    }
    let domain = domain(key);
    let within =
        |restricted: &&str| domain.strip_suffix(*restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    RESTRICTED_DOMAINS.iter().any(within) || RESTRICTED.contains(&key)
}

/// Returns the possible values of the label, if they are fixed.
#[must_use]
pub fn known_values(key: &str) -> Option<&'static [&'static str]> {
    KNOWN_VALUES.iter().find(|(label, _)| *label == key).map(|(_, values)| *values)
}

/// Returns the label that names the NodeClass of a node, for instance `karpenter.k8s.aws/ec2nodeclass`.
#[must_use]
pub fn node_class(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// Returns true if the kubelet may not set the label on its own Node, so that the controller must set it.
#[must_use]
pub fn is_kubelet_forbidden(key: &str) -> bool {
    const DOMAINS: [&str; 3] = ["k8s.io", "kubernetes.io", "node-restriction.kubernetes.io"];
    let domain = domain(key);
    DOMAINS.iter().any(|d| domain.strip_suffix(d).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restricted_labels() {
        for key in [
            "karpenter.sh/initialized",
            "karpenter.sh/x",
            "sub.karpenter.sh/x",
            "karpenter.k8s.aws/ec2nodeclass",
            "a.b.karpenter.k8s.aws/x",
            "karpenter.kwok.sh/x",
            HOSTNAME,
        ] {
            assert!(is_restricted(key), "{key}");
        }
        for key in [
            "x",
            "a/b",
            "notkarpenter.sh/x",
            "kubernetes.io/x",
            "k8s.io/x",
            ZONE,
            CAPACITY_TYPE,
            INSTANCE_CPU,
            KWOK_INSTANCE_CPU,
        ] {
            assert!(!is_restricted(key), "{key}");
        }
    }

    #[test]
    fn aliases_normalize() {
        assert_eq!(normalize("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(normalize(EBS_ZONE), ZONE);
        assert_eq!(normalize("x"), "x");
    }

    #[test]
    fn the_kubelet_may_not_set_kubernetes_domains() {
        assert!(is_kubelet_forbidden("node-role.kubernetes.io/worker"));
        assert!(is_kubelet_forbidden("k8s.io/x"));
        assert!(!is_kubelet_forbidden("karpenter.sh/nodepool"));
        assert!(!is_kubelet_forbidden("kubernetes.io"));
    }
}
