//! Parsed settings of an EC2NodeClass and the controller's options.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_bootstrap::kubelet::expression::Expression;
use muster_scheduling::model::{Resource, Resources};

use crate::facts::PlacementStrategy;
use crate::family::AmiFamily;

/// All inputs besides the instance type facts that determine what an instance type offers.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSettings {
    /// Family of the AMI.
    pub ami_family: AmiFamily,
    /// `spec.kubelet`.
    pub kubelet: KubeletSettings,
    /// `spec.blockDeviceMappings`, in order.
    pub block_devices: Vec<BlockDevice>,
    /// `spec.instanceStorePolicy`.
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// `spec.networkInterfaces`; empty means one interface on card 0.
    pub network_interfaces: Vec<NetworkInterface>,
    /// True if `spec.connectionTracking` is set, which only the Nitro hypervisor supports.
    pub connection_tracking: bool,
    /// True for `spec.cpuOptions.nestedVirtualization: enabled`.
    pub nested_virtualization: bool,
    /// True for `spec.enclaveOptions.enabled: true`.
    pub enclaves: bool,
    /// Placement group that `spec.placementGroupSelector` selects.
    pub placement_group: Option<PlacementGroup>,
    /// Zones of the subnets with their zone IDs where known; `None` allows every zone of the region.
    pub zones: Option<BTreeMap<Arc<str>, Option<Arc<str>>>>,
    /// `status.capacityReservations`.
    pub reservations: Vec<CapacityReservation>,
    /// Network interfaces that pods may not use (`RESERVED_ENIS`).
    pub reserved_enis: u32,
    /// Fraction of the memory that the hypervisor keeps (`VM_MEMORY_OVERHEAD_PERCENT`; a fraction despite its name).
    pub vm_memory_overhead: f64,
    /// True if the VPC CNI assigns /28 prefixes instead of addresses, which raises the pod limit. Karpenter does not
    /// model this; its users set `maxPods`.
    pub prefix_delegation: bool,
}

impl Default for ClassSettings {
    /// Returns AL2023, no kubelet settings, 7.5 % memory overhead, no reserved interfaces, every zone.
    fn default() -> Self {
        Self {
            ami_family: AmiFamily::default(),
            kubelet: KubeletSettings::default(),
            block_devices: Vec::new(),
            instance_store_policy: None,
            network_interfaces: Vec::new(),
            connection_tracking: false,
            nested_virtualization: false,
            enclaves: false,
            placement_group: None,
            zones: None,
            reservations: Vec::new(),
            reserved_enis: 0,
            vm_memory_overhead: 0.075,
            prefix_delegation: false,
        }
    }
}

/// Fields of `spec.kubelet` that change what a node offers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KubeletSettings {
    /// `maxPods`.
    pub max_pods: Option<u32>,
    /// `podsPerCore`; 0 is unset.
    pub pods_per_core: u32,
    /// `kubeReserved`: each key overrides the computed value.
    pub kube_reserved: Resources,
    /// `systemReserved`.
    pub system_reserved: Resources,
    /// Settings that depend on the instance type.
    pub expressions: KubeletExpressions,
    /// `evictionHard["memory.available"]`.
    pub eviction_memory: Option<Threshold>,
    /// `evictionHard["nodefs.available"]`.
    pub eviction_storage: Option<Threshold>,
    /// `evictionSoft["memory.available"]`; none on Bottlerocket, which does not read it.
    pub soft_eviction_memory: Option<Threshold>,
    /// `evictionSoft["nodefs.available"]`; none on Bottlerocket.
    pub soft_eviction_storage: Option<Threshold>,
}

/// Expressions in `spec.kubelet`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KubeletExpressions {
    /// `maxPods`.
    pub max_pods: Option<Expression>,
    /// Values of `kubeReserved`.
    pub kube_reserved: BTreeMap<Resource, Expression>,
    /// Values of `systemReserved`.
    pub system_reserved: BTreeMap<Resource, Expression>,
}

/// An eviction threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Bytes.
    Amount(i64),
    /// Percentage of the capacity; 100 disables the threshold.
    Percent(f64),
}

/// A block device mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockDevice {
    /// `deviceName`.
    pub device_name: Option<String>,
    /// `rootVolume`.
    pub root_volume: bool,
    /// `ebs.volumeSize` in bytes; absent if a snapshot determines it.
    pub volume_size: Option<i64>,
}

/// `spec.instanceStorePolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceStorePolicy {
    /// The local disks, striped, provide the ephemeral storage of pods.
    Raid0,
}

/// An entry of `spec.networkInterfaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkInterface {
    /// `networkCardIndex`.
    pub network_card: u32,
    /// `deviceIndex`.
    pub device: u32,
    /// `interfaceType`.
    pub kind: InterfaceType,
}

/// Type of a network interface.
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
    /// ID (`pg-…`).
    pub id: Arc<str>,
    /// Placement strategy.
    pub strategy: PlacementStrategy,
    /// Number of partitions, counted from 1; only for the partition strategy.
    pub partitions: u32,
}

/// An entry of `status.capacityReservations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityReservation {
    /// `id` (`cr-…`).
    pub id: Arc<str>,
    /// `instanceType`.
    pub instance_type: Arc<str>,
    /// `availabilityZone`.
    pub zone: Arc<str>,
    /// True if `reservationType` is `capacity-block`.
    pub capacity_block: bool,
    /// `interruptible`.
    pub interruptible: bool,
    /// True if `state` is `expiring`: no more instances are launched into it.
    pub expiring: bool,
    /// Available instances. The status does not have it; until EC2 has been asked it is `None` and the offering
    /// unavailable.
    pub available_instances: Option<u32>,
}
