//! What an EC2NodeClass and the controller's options say about the nodes, parsed.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::model::Resources;

use crate::facts::PlacementStrategy;
use crate::family::AmiFamily;

/// Everything beside the facts that decides what an instance type offers.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSettings {
    /// The image's family.
    pub ami_family: AmiFamily,
    /// `spec.kubelet`.
    pub kubelet: KubeletSettings,
    /// `spec.blockDeviceMappings`, in order.
    pub block_devices: Vec<BlockDevice>,
    /// `spec.instanceStorePolicy`.
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// `spec.networkInterfaces`; empty is one interface on card 0.
    pub network_interfaces: Vec<NetworkInterface>,
    /// Whether `spec.connectionTracking` is set, which only the Nitro hypervisor supports.
    pub connection_tracking: bool,
    /// `spec.cpuOptions.nestedVirtualization: enabled`.
    pub nested_virtualization: bool,
    /// The group that `spec.placementGroupSelector` selects.
    pub placement_group: Option<PlacementGroup>,
    /// Zones of the subnets with their ids where known; `None` allows every zone of the region.
    pub zones: Option<BTreeMap<Arc<str>, Option<Arc<str>>>>,
    /// `status.capacityReservations`.
    pub reservations: Vec<CapacityReservation>,
    /// Network interfaces that pods may not use (`RESERVED_ENIS`).
    pub reserved_enis: u32,
    /// Part of the memory that the hypervisor keeps (`VM_MEMORY_OVERHEAD_PERCENT`; a fraction despite its name).
    pub vm_memory_overhead: f64,
    /// Whether the VPC CNI hands out /28 prefixes instead of addresses, so that the pod limit rises. Karpenter does not
    /// model it; its users set `maxPods`.
    pub prefix_delegation: bool,
}

impl Default for ClassSettings {
    /// AL2023, no kubelet settings, 7.5 % memory overhead, no reserved interface, every zone.
    fn default() -> Self {
        Self {
            ami_family: AmiFamily::default(),
            kubelet: KubeletSettings::default(),
            block_devices: Vec::new(),
            instance_store_policy: None,
            network_interfaces: Vec::new(),
            connection_tracking: false,
            nested_virtualization: false,
            placement_group: None,
            zones: None,
            reservations: Vec::new(),
            reserved_enis: 0,
            vm_memory_overhead: 0.075,
            prefix_delegation: false,
        }
    }
}

/// The fields of `spec.kubelet` that change what a node offers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KubeletSettings {
    /// `maxPods`.
    pub max_pods: Option<u32>,
    /// `podsPerCore`; 0 is unset.
    pub pods_per_core: u32,
    /// `kubeReserved`: each key replaces the computed one.
    pub kube_reserved: Resources,
    /// `systemReserved`.
    pub system_reserved: Resources,
    /// `evictionHard["memory.available"]`.
    pub eviction_memory: Option<Threshold>,
    /// `evictionHard["nodefs.available"]`.
    pub eviction_storage: Option<Threshold>,
}

/// An eviction threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Bytes.
    Amount(i64),
    /// Percent of the capacity; 100 switches the threshold off.
    Percent(f64),
}

/// One block device mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockDevice {
    /// `deviceName`.
    pub device_name: Option<String>,
    /// `rootVolume`.
    pub root_volume: bool,
    /// `ebs.volumeSize` in bytes; absent when a snapshot decides it.
    pub volume_size: Option<i64>,
}

/// `spec.instanceStorePolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceStorePolicy {
    /// The local disks, striped, hold pods' ephemeral storage.
    Raid0,
}

/// One entry of `spec.networkInterfaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkInterface {
    /// `networkCardIndex`.
    pub network_card: u32,
    /// `deviceIndex`.
    pub device: u32,
    /// `interfaceType`.
    pub kind: InterfaceType,
}

/// Kind of a network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceType {
    /// `interface`.
    Interface,
    /// `efa-only`: carries no IP traffic.
    EfaOnly,
}

/// A placement group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementGroup {
    /// `pg-…`.
    pub id: Arc<str>,
    /// How it places instances.
    pub strategy: PlacementStrategy,
    /// Partitions, 1 to this; only of strategy partition.
    pub partitions: u32,
}

/// One entry of `status.capacityReservations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityReservation {
    /// `id` (`cr-…`).
    pub id: Arc<str>,
    /// `instanceType`.
    pub instance_type: Arc<str>,
    /// `availabilityZone`.
    pub zone: Arc<str>,
    /// `reservationType`: a capacity block, or the default kind.
    pub capacity_block: bool,
    /// `interruptible`.
    pub interruptible: bool,
    /// `state` is `expiring`: nothing more is launched into it.
    pub expiring: bool,
    /// Instances left. The status does not tell; while nobody asked EC2 it is `None` and the offering unavailable.
    pub available_instances: Option<u32>,
}
