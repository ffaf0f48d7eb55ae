//! Capacity that a node reports.

pub(crate) mod kubelet;

use muster_scheduling::model::{Resource, Resources};

use crate::class::{ClassSettings, InstanceStorePolicy, InterfaceType};
use crate::facts::{Architecture, InstanceTypeFacts};
use muster_api::resources;

pub(crate) const MIB: i64 = 1 << 20;

/// Pods of a node whose network does not limit them: the kubelet's default.
const DEFAULT_PODS: i64 = 110;
/// Memory that Graviton instances reserve for the kernel's contiguous memory allocator, invisible to the kubelet.
const ARM_RESERVED_MIB: i64 = 64;
/// Addresses in a /28 prefix, which takes the place of one address.
const ADDRESSES_PER_PREFIX: i64 = 16;
/// Maximum number of pods with prefix delegation on small and large types, as in the max-pods calculator of
/// amazon-eks-ami.
const PREFIX_POD_CEILINGS: (i64, i64) = (110, 250);
/// Number of vCPUs from which a type counts as large there.
const LARGE_VCPUS: u32 = 30;

/// Returns the capacity of a type. Zero quantities are left out, except for the four resources that every node has.
pub(crate) fn of_type(facts: &InstanceTypeFacts, class: &ClassSettings) -> Resources {
    let mut capacity = Resources::new();
    capacity.set(Resource::Cpu, millicores(facts));
    capacity.set(Resource::Memory, memory(facts, class));
    capacity.set(Resource::EphemeralStorage, ephemeral_storage(facts, class));
    capacity.set(Resource::Pods, pods(facts, class));
    for (name, count) in devices(facts, class) {
        if count > 0 {
            capacity.set(Resource::new(name), count);
        }
    }
    capacity
}

fn devices(facts: &InstanceTypeFacts, class: &ClassSettings) -> [(&'static str, i64); 8] {
    let gpus =
        |maker: &str| facts.gpus.iter().filter(|gpu| &*gpu.manufacturer == maker).map(|gpu| i64::from(gpu.count)).sum();
    let neurons: i64 = facts.neuron_devices.iter().map(|device| i64::from(device.count)).sum();
    let cores = facts.neuron_devices.first().map_or(0, |device| i64::from(device.cores));
    let private_addresses = i64::from(facts.network.ipv4_per_interface) - 1;
    [
        (resources::POD_ENI, facts.network.branch_interfaces.into()),
        (resources::NVIDIA_GPU, gpus("NVIDIA")),
        (resources::AMD_GPU, gpus("AMD")),
        (resources::HABANA_GAUDI, gpus("Habana")),
        (resources::AWS_NEURON, neurons),
        (resources::AWS_NEURON_CORE, neurons.saturating_mul(cores)),
        (resources::EFA, efa_interfaces(facts, class)),
        (resources::PRIVATE_IPV4_ADDRESS, if class.ami_family.is_windows() { private_addresses } else { 0 }),
    ]
}

pub(crate) fn millicores(facts: &InstanceTypeFacts) -> i64 {
    i64::from(facts.vcpus) * 1000
}

/// Returns the memory that the operating system sees, in bytes: an estimate until a node of the type has registered.
pub(crate) fn memory(facts: &InstanceTypeFacts, class: &ClassSettings) -> i64 {
    let stated = i64::try_from(facts.memory_mib).unwrap_or(i64::MAX / MIB).min(i64::MAX / MIB);
    let reserved = if facts.architecture == Architecture::Arm64 { ARM_RESERVED_MIB } else { 0 };
    let bytes = (stated - reserved).max(0) * MIB;
    // In floating point, as in Karpenter: a difference of 1 MiB decides whether a pod fits.
    let overhead = (bytes as f64 * class.vm_memory_overhead / 1024.0 / 1024.0).ceil();
    (bytes - (overhead as i64).saturating_mul(MIB)).max(0)
}

/// Returns the bytes for writable container layers, logs and `emptyDir` volumes.
pub(crate) fn ephemeral_storage(facts: &InstanceTypeFacts, class: &ClassSettings) -> i64 {
    if let (Some(InstanceStorePolicy::Raid0), Some(disks)) = (class.instance_store_policy, facts.instance_storage) {
        return i64::try_from(disks.total_gb).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
    }
    let family = class.ami_family;
    let devices = &class.block_devices;
    let root = devices.iter().find(|device| device.root_volume).and_then(|device| device.volume_size);
    let named = match family.ephemeral_device() {
        Some(name) => devices.iter().find(|device| device.device_name.as_deref() == Some(name)),
        // The device that a custom image uses is unknown; the last one listed is assumed, as in Karpenter.
        None => devices.last(),
    };
    root.or(named.and_then(|device| device.volume_size)).unwrap_or_else(|| family.default_volume())
}

/// Returns `maxPods` of the kubelet.
pub(crate) fn pods(facts: &InstanceTypeFacts, class: &ClassSettings) -> i64 {
    let kubelet = &class.kubelet;
    let limit = match kubelet.max_pods {
        Some(max_pods) => max_pods.into(),
        None => {
            let of_family = family_pods(facts, class);
            kubelet::max_pods(facts, class, of_family).unwrap_or(of_family)
        }
    };
    if kubelet.pods_per_core > 0 && class.ami_family.honours_pods_per_core() {
        return limit.min(i64::from(kubelet.pods_per_core) * i64::from(facts.vcpus));
    }
    limit
}

/// Returns the pod limit of the family, without that of the class.
pub(crate) fn family_pods(facts: &InstanceTypeFacts, class: &ClassSettings) -> i64 {
    if !class.ami_family.limits_pods_by_interfaces() {
        return DEFAULT_PODS;
    }
    let lost = class.reserved_enis.saturating_add(efa_only_on_default_card(facts, class));
    if class.prefix_delegation && supports_prefixes(facts) {
        let (small, large) = PREFIX_POD_CEILINGS;
        let ceiling = if facts.vcpus < LARGE_VCPUS { small } else { large };
        return interface_pods(facts, lost, ADDRESSES_PER_PREFIX).min(ceiling);
    }
    interface_pods(facts, lost, 1)
}

/// Returns the number of pods that the addresses of the default card's interfaces allow, without `lost` interfaces. The
/// first address of an interface is its own, and two pods (CNI, kube-proxy) use the host network.
pub(crate) fn interface_pods(facts: &InstanceTypeFacts, lost: u32, pods_per_address: i64) -> i64 {
    let interfaces = i64::from(facts.network.default_interfaces().saturating_sub(lost));
    if interfaces == 0 {
        return 0;
    }
    let addresses = i64::from(facts.network.ipv4_per_interface) - 1;
    interfaces.saturating_mul(addresses).saturating_mul(pods_per_address).saturating_add(2).max(0)
}

/// Returns true if the type supports prefixes, which is limited to Nitro. Bare metal has no hypervisor, so the field
/// does not tell; it counts as Nitro.
fn supports_prefixes(facts: &InstanceTypeFacts) -> bool {
    &*facts.hypervisor == "nitro" || facts.bare_metal
}

/// Returns the number of interfaces of the default card that carry no pods, because they are EFA-only.
fn efa_only_on_default_card(facts: &InstanceTypeFacts, class: &ClassSettings) -> u32 {
    let card = u32::try_from(facts.network.default_card).unwrap_or(u32::MAX);
    let interfaces = class.network_interfaces.iter();
    let efa_only =
        interfaces.filter(|interface| interface.kind == InterfaceType::EfaOnly && interface.network_card == card);
    u32::try_from(efa_only.count()).unwrap_or(u32::MAX)
}

fn efa_interfaces(facts: &InstanceTypeFacts, class: &ClassSettings) -> i64 {
    if class.network_interfaces.is_empty() {
        return facts.network.efa_interfaces.into();
    }
    let efa_only = class.network_interfaces.iter().filter(|interface| interface.kind == InterfaceType::EfaOnly);
    i64::try_from(efa_only.count()).unwrap_or(i64::MAX)
}
