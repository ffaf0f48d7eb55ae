//! Devices of nodes that do not exist yet: those of a table, of what EC2 says about the type, or of what drivers have
//! published on other nodes of the type.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::devices::{self, NETWORK_DRIVER, NVIDIA_DRIVER, TypeDevices};
use muster_api::labels::{INSTANCE_GPU_COUNT, INSTANCE_GPU_MANUFACTURER, INSTANCE_GPU_MEMORY};
use muster_scheduling::model::{InstanceType, Resource};

use super::super::DeviceSettings;
use crate::{Attribute, Capacity, Device, ResourceSlice};

/// Devices of a node by driver, each with the number of those that are alike.
pub(super) type Devices = BTreeMap<Arc<str>, Vec<(Arc<Device>, u32)>>;

/// Attribute that is the same for devices at one PCIe root.
const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
/// Bytes of a MiB.
const MIB: i64 = 1 << 20;

/// Attributes that are the same on all nodes of an instance type, by driver.
const OF_TYPE: [(&str, &[&str]); 2] = [
    (NVIDIA_DRIVER, &["productName", "architecture", "brand", "cudaComputeCapability", "type"]),
    (NETWORK_DRIVER, &["pciDevice", "pciVendor", "pciSubsystem", "rdma"]),
];

/// Sharing of a GPU by several claims, as the annotation of an EC2NodeClass says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sharing {
    /// One claim has a GPU.
    #[default]
    None,
    /// A GPU has this number of shares, and a claim gets one.
    Shares(u32),
    /// Claims share the memory.
    Memory,
    /// Any number of claims have a GPU.
    Unlimited,
}

impl Sharing {
    /// Reads the annotation; what cannot be read counts as no sharing, as in Karpenter.
    pub(super) fn read(text: Option<&str>) -> Self {
        match text {
            Some("memory") => Self::Memory,
            Some("unlimited") => Self::Unlimited,
            Some(text) => text.parse().ok().filter(|shares| *shares > 0).map_or(Self::None, Self::Shares),
            None => Self::None,
        }
    }
}

/// Returns the devices of a node of the type, as far as the gates let them be known.
pub(super) fn of_type(one: &InstanceType, settings: DeviceSettings, sharing: Sharing) -> Devices {
    let row = devices::of_type(&one.name);
    let mut all = Devices::new();
    if settings.nvidia {
        all.insert(NVIDIA_DRIVER.into(), row.map_or_else(|| told_gpus(one, sharing), |row| gpus(&row, sharing)));
    }
    if settings.efa {
        let told = || u32::try_from(one.capacity.get(&Resource::new("vpc.amazonaws.com/efa"))).unwrap_or(0);
        let (count, roots) = row.map_or_else(|| (told(), None), |row| (row.efas, row.roots));
        let text = |name: &str, value: &str| (format!("{NETWORK_DRIVER}/{name}"), Attribute::Text(value.into()));
        let attributes = [
            text("pciDevice", "Elastic Fabric Adapter (EFA)"),
            text("pciVendor", "Amazon.com, Inc."),
            (format!("{NETWORK_DRIVER}/rdma"), Attribute::Flag(true)),
        ];
        all.insert(NETWORK_DRIVER.into(), spread(&device(attributes), count, roots));
    }
    all.retain(|_, devices| devices.iter().any(|(_, count)| *count > 0));
    all
}

fn gpus(row: &TypeDevices, sharing: Sharing) -> Vec<(Arc<Device>, u32)> {
    let text = |name: &str, value: &str| (format!("{NVIDIA_DRIVER}/{name}"), Attribute::Text(value.into()));
    let same = |name: &str| (format!("{NVIDIA_DRIVER}/{name}"), Attribute::Unknown(0));
    let version = Attribute::Version(row.compute_capability.into());
    let attributes = [
        text("productName", row.product),
        text("architecture", row.architecture),
        text("type", "gpu"),
        (format!("{NVIDIA_DRIVER}/cudaComputeCapability"), version),
        same("driverVersion"),
        same("cudaDriverVersion"),
    ];
    let gpu = with_memory(device(attributes), i64::from(row.memory_mib), sharing);
    spread(&gpu, row.gpus, row.roots)
}

/// Returns the GPUs that EC2 says a type has, which is not in the table: their product name is not known.
fn told_gpus(one: &InstanceType, sharing: Sharing) -> Vec<(Arc<Device>, u32)> {
    let number = |key: &str| one.requirements.single(key).and_then(|text| text.parse::<i64>().ok());
    let is_nvidia = one.requirements.single(INSTANCE_GPU_MANUFACTURER) == Some("nvidia");
    let (Some(count), Some(memory)) = (number(INSTANCE_GPU_COUNT).filter(|_| is_nvidia), number(INSTANCE_GPU_MEMORY))
    else {
        return Vec::new();
    };
    let kind = (format!("{NVIDIA_DRIVER}/type"), Attribute::Text("gpu".into()));
    let gpu = with_memory(device([kind]), memory, sharing);
    spread(&gpu, u32::try_from(count).unwrap_or(0), None)
}

fn device<const N: usize>(attributes: [(String, Attribute); N]) -> Device {
    Device {
        name: Arc::default(),
        attributes: attributes.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        capacity: BTreeMap::new(),
        is_shared: false,
        is_uncertain: false,
    }
}

fn with_memory(mut gpu: Device, mib: i64, sharing: Sharing) -> Device {
    gpu.is_shared = sharing != Sharing::None;
    let default = matches!(sharing, Sharing::Shares(_) | Sharing::Unlimited).then_some(0);
    let memory = Capacity { amount: mib.saturating_mul(MIB), default, ..Capacity::default() };
    gpu.capacity.insert(format!("{NVIDIA_DRIVER}/memory").into(), memory);
    if let Sharing::Shares(shares) = sharing {
        let shares =
            Capacity { amount: shares.into(), default: Some(1), range: Some((1, Some(1))), choices: Vec::new() };
        gpu.capacity.insert(format!("{NVIDIA_DRIVER}/shares").into(), shares);
    }
    gpu
}

/// Returns `count` devices, spread evenly over the PCIe roots if these are known.
fn spread(device: &Device, count: u32, roots: Option<u32>) -> Vec<(Arc<Device>, u32)> {
    let Some(roots) = roots.filter(|roots| *roots > 0) else { return vec![(Arc::new(device.clone()), count)] };
    let at = |root: u32| {
        let mut device = device.clone();
        device.attributes.insert(PCIE_ROOT.into(), Attribute::Unknown(root));
        (Arc::new(device), count / roots)
    };
    (0..roots).map(at).collect()
}

/// Returns what slices of one driver on a node say about every node of its type: attributes that another node need not
/// have become unknown, and stay equal where they are.
pub(super) fn learned(slices: &[&ResourceSlice]) -> Vec<(Arc<Device>, u32)> {
    let devices: Vec<&Arc<Device>> = slices.iter().flat_map(|slice| &slice.devices).collect();
    let kept = slices.first().and_then(|slice| OF_TYPE.iter().find(|(driver, _)| **driver == *slice.driver));
    let is_common = |name: &Arc<str>, value: &Attribute| match (kept, name.split_once('/')) {
        (Some((driver, names)), Some((domain, name))) => domain == *driver && names.contains(&name),
        _ => devices.len() > 1 && devices.iter().all(|device| device.attributes.get(name) == Some(value)),
    };
    let mut numbers: BTreeMap<&Arc<str>, Vec<&Attribute>> = BTreeMap::new();
    let mut all = Vec::with_capacity(devices.len());
    for device in &devices {
        let mut learned = Device { name: Arc::default(), ..Device::clone(device) };
        for (name, value) in &device.attributes {
            if is_common(name, value) {
                continue;
            }
            let known = numbers.entry(name).or_default();
            let number = known.iter().position(|one| *one == value).unwrap_or_else(|| {
                known.push(value);
                known.len() - 1
            });
            learned.attributes.insert(Arc::clone(name), Attribute::Unknown(u32::try_from(number).unwrap_or(u32::MAX)));
        }
        all.push((Arc::new(learned), 1));
    }
    all
}
