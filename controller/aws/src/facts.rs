//! Properties of an instance type: the relevant fields of DescribeInstanceTypes and DescribeInstanceTypeOfferings, and
//! three figures that these calls do not return.

use std::sync::Arc;

/// An instance type.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceTypeFacts {
    /// `InstanceType` (`m7g.large`).
    pub name: Arc<str>,
    /// First of `ProcessorInfo.SupportedArchitectures` that Kubernetes supports.
    pub architecture: Architecture,
    /// `VCpuInfo.DefaultVCpus`.
    pub vcpus: u32,
    /// `MemoryInfo.SizeInMiB`.
    pub memory_mib: u64,
    /// `ProcessorInfo`.
    pub processor: Processor,
    /// `Hypervisor`: `nitro`, `xen`, or empty on bare metal.
    pub hypervisor: Arc<str>,
    /// `BareMetal`.
    pub bare_metal: bool,
    /// `NitroEnclavesSupport` is `supported`.
    pub nitro_enclaves: bool,
    /// `SupportedUsageClasses`.
    pub usage: UsageClasses,
    /// `PlacementGroupInfo.SupportedStrategies`.
    pub placement: Vec<PlacementStrategy>,
    /// `NetworkInfo`.
    pub network: NetworkFacts,
    /// `EbsInfo`.
    pub ebs: EbsFacts,
    /// `InstanceStorageInfo`.
    pub instance_storage: Option<InstanceStorage>,
    /// `GpuInfo.Gpus`.
    pub gpus: Vec<Gpu>,
    /// `NeuronInfo.NeuronDevices`.
    pub neuron_devices: Vec<NeuronDevice>,
    /// `InferenceAcceleratorInfo.Accelerators`.
    pub inference_accelerators: Vec<Accelerator>,
    /// Zones of the region that offer the type (DescribeInstanceTypeOfferings, location type `availability-zone`),
    /// sorted.
    pub zones: Vec<Arc<str>>,
}

/// Processor architecture, named as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Architecture {
    /// `amd64` (EC2: `x86_64`).
    Amd64,
    /// `arm64`.
    Arm64,
}

impl Architecture {
    /// Returns the value of `kubernetes.io/arch`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Parses a value of `kubernetes.io/arch`.
    pub fn from_label(label: &str) -> Option<Self> {
        match label {
            "amd64" => Some(Self::Amd64),
            "arm64" => Some(Self::Arm64),
            _ => None,
        }
    }
}

/// `ProcessorInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// `Manufacturer` (`Intel`, `AMD`, `AWS`).
    pub manufacturer: Arc<str>,
    /// `SustainedClockSpeedInGhz` × 1000, rounded; unknown for the oldest types.
    pub clock_mhz: Option<u32>,
    /// `SupportedFeatures` (`nested-virtualization`, `amd-sev-snp`).
    pub features: Vec<Arc<str>>,
}

/// Purchase options of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageClasses {
    /// `on-demand`.
    pub on_demand: bool,
    /// `spot`.
    pub spot: bool,
    /// `capacity-block`.
    pub capacity_block: bool,
}

/// Placement group strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlacementStrategy {
    /// Instances close together.
    Cluster,
    /// Partitions that do not share racks.
    Partition,
    /// Each instance on its own rack.
    Spread,
}

/// `NetworkInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkFacts {
    /// `NetworkCards[].MaximumNetworkInterfaces` by card index.
    pub interfaces_by_card: Vec<u32>,
    /// `DefaultNetworkCardIndex`: the card that the VPC CNI uses.
    pub default_card: usize,
    /// `Ipv4AddressesPerInterface`.
    pub ipv4_per_interface: u32,
    /// `EnaSupport` is not `unsupported`.
    pub ena: bool,
    /// `EfaInfo.MaximumEfaInterfaces`.
    pub efa_interfaces: u32,
    /// `EncryptionInTransitSupported`.
    pub encryption_in_transit: bool,
    /// Branch interfaces of a type with trunking, else 0 (table of the VPC resource controller; not returned by any
    /// call).
    pub branch_interfaces: u32,
    /// Baseline bandwidth in Mbit/s (EC2's documentation); `None` if the documentation is vague (`Low`, `Up to …`).
    pub baseline_mbps: Option<u64>,
}

impl NetworkFacts {
    /// Returns the number of interfaces of the default card.
    pub fn default_interfaces(&self) -> u32 {
        self.interfaces_by_card.get(self.default_card).copied().unwrap_or(0)
    }
}

/// `EbsInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EbsFacts {
    /// `EbsOptimizedInfo.MaximumBandwidthInMbps` where `EbsOptimizedSupport` is `default`.
    pub bandwidth_mbps: Option<u64>,
}

/// `InstanceStorageInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceStorage {
    /// `TotalSizeInGB` (10⁹ bytes each).
    pub total_gb: u64,
    /// `NvmeSupport` is not `unsupported`.
    pub nvme: bool,
}

/// An entry of `GpuInfo.Gpus`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Model (`H100`).
    pub name: Arc<str>,
    /// Manufacturer (`NVIDIA`, `AMD`, `Habana`).
    pub manufacturer: Arc<str>,
    /// Number of GPUs; 0 on types with a fraction of one (`g6f`).
    pub count: u32,
    /// Memory of each GPU in MiB.
    pub memory_mib: u64,
}

/// An entry of `NeuronInfo.NeuronDevices`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeuronDevice {
    /// Model (`Trainium`, `Inferentia2`).
    pub name: Arc<str>,
    /// Number of devices.
    pub count: u32,
    /// Cores of each device.
    pub cores: u32,
    /// Memory of each device in MiB.
    pub memory_mib: u64,
}

/// An entry of `InferenceAcceleratorInfo.Accelerators`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accelerator {
    /// Model.
    pub name: Arc<str>,
    /// Manufacturer.
    pub manufacturer: Arc<str>,
    /// Number of accelerators.
    pub count: u32,
    /// Memory of each accelerator in MiB.
    pub memory_mib: u64,
}

/// A region and all its zones.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// `us-east-1`.
    pub region: &'a str,
    /// Its zones, sorted; more than any one type may have.
    pub zones: &'a [Arc<str>],
}
