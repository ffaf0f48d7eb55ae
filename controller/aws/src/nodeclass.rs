//! Conversion of an EC2NodeClass to settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::nodeclass::{self, Ec2NodeClass, Ec2NodeClassStatus, ReservationState, ReservationType, Toggle};
use muster_scheduling::model::{Resource, Resources};

use crate::class::{
    BlockDevice, CapacityReservation, ClassSettings, InstanceStorePolicy, InterfaceType, KubeletSettings,
    NetworkInterface, Threshold,
};
use crate::error::SettingError;
use crate::family::AmiFamily;
use crate::quantity;

/// Annotation of an EC2NodeClass: `"true"` if the VPC CNI of its nodes assigns prefixes.
pub const PREFIX_DELEGATION: &str = "muster.dev/prefix-delegation";

const AMOUNT: &str = "write an amount of zero or more, such as `500m`, `2` or `8Gi`";
const THRESHOLD: &str = "write an amount such as `100Mi`, or a percentage such as `5%`";

impl TryFrom<&Ec2NodeClass> for ClassSettings {
    type Error = SettingError;

    /// Converts the settings of the class itself. The controller's options and the placement group's strategy, which
    /// only EC2 knows, keep their defaults. Zones are restricted once the status has subnets.
    fn try_from(class: &Ec2NodeClass) -> Result<Self, Self::Error> {
        let spec = &class.spec;
        let devices = spec.block_device_mappings.iter().enumerate();
        let interfaces = spec.network_interfaces.iter().enumerate();
        let options = spec.cpu_options.as_ref();
        Ok(Self {
            ami_family: spec.resolved_ami_family().map(AmiFamily::from).unwrap_or_default(),
            kubelet: spec.kubelet.as_ref().map(kubelet).transpose()?.unwrap_or_default(),
            block_devices: devices.map(block_device).collect::<Result<_, _>>()?,
            instance_store_policy: spec.instance_store_policy.map(|policy| match policy {
                nodeclass::InstanceStorePolicy::Raid0 => InstanceStorePolicy::Raid0,
            }),
            network_interfaces: interfaces.map(network_interface).collect::<Result<_, _>>()?,
            connection_tracking: spec.connection_tracking.is_some(),
            nested_virtualization: options.is_some_and(|cpu| cpu.nested_virtualization == Some(Toggle::Enabled)),
            zones: class.status.as_ref().and_then(zones),
            reservations: class
                .status
                .iter()
                .flat_map(|status| &status.capacity_reservations)
                .map(reservation)
                .collect(),
            prefix_delegation: prefix_delegation(class)?,
            ..Self::default()
        })
    }
}

impl From<nodeclass::AmiFamily> for AmiFamily {
    fn from(family: nodeclass::AmiFamily) -> Self {
        match family {
            nodeclass::AmiFamily::Al2 => Self::Al2,
            nodeclass::AmiFamily::Al2023 => Self::Al2023,
            nodeclass::AmiFamily::Bottlerocket => Self::Bottlerocket,
            nodeclass::AmiFamily::Custom => Self::Custom,
            nodeclass::AmiFamily::Windows2019 => Self::Windows2019,
            nodeclass::AmiFamily::Windows2022 => Self::Windows2022,
            nodeclass::AmiFamily::Windows2025 => Self::Windows2025,
        }
    }
}

fn kubelet(settings: &nodeclass::KubeletSettings) -> Result<KubeletSettings, SettingError> {
    Ok(KubeletSettings {
        max_pods: settings.max_pods.map(|count| natural("spec.kubelet.maxPods", count)).transpose()?,
        pods_per_core: natural("spec.kubelet.podsPerCore", settings.pods_per_core.unwrap_or(0))?,
        kube_reserved: reserved("kubeReserved", &settings.kube_reserved)?,
        system_reserved: reserved("systemReserved", &settings.system_reserved)?,
        eviction_memory: threshold("memory.available", &settings.eviction_hard)?,
        eviction_storage: threshold("nodefs.available", &settings.eviction_hard)?,
    })
}

fn natural(field: &str, number: i32) -> Result<u32, SettingError> {
    u32::try_from(number)
        .map_err(|_| SettingError::new(field, "must not be negative", "write a whole number of zero or more"))
}

fn reserved(field: &str, amounts: &BTreeMap<String, String>) -> Result<Resources, SettingError> {
    let parse = |(name, text): (&String, &String)| {
        let resource = Resource::new(name);
        let amount = quantity::parse(&resource, text);
        let amount = amount.map_err(|error| invalid(format!("spec.kubelet.{field}.{name}"), text, error, AMOUNT))?;
        Ok((resource, amount))
    };
    amounts.iter().map(parse).collect()
}

fn threshold(signal: &str, thresholds: &BTreeMap<String, String>) -> Result<Option<Threshold>, SettingError> {
    let Some(text) = thresholds.get(signal) else { return Ok(None) };
    let field = || format!("spec.kubelet.evictionHard[{signal}]");
    let threshold = match text.strip_suffix('%') {
        Some(number) => {
            let percent = number.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
            Threshold::Percent(
                percent.ok_or_else(|| invalid(field(), text, "is not a percentage from 0% to 100%", THRESHOLD))?,
            )
        }
        None => {
            Threshold::Amount(quantity::parse_units(text).map_err(|error| invalid(field(), text, error, THRESHOLD))?)
        }
    };
    Ok(Some(threshold))
}

fn block_device((index, mapping): (usize, &nodeclass::BlockDeviceMapping)) -> Result<BlockDevice, SettingError> {
    let size = mapping.ebs.as_ref().and_then(|ebs| ebs.volume_size.as_deref());
    let bytes = size.map(|text| {
        let field = || format!("spec.blockDeviceMappings[{index}].ebs.volumeSize");
        quantity::parse_units(text).map_err(|error| invalid(field(), text, error, AMOUNT))
    });
    Ok(BlockDevice {
        device_name: mapping.device_name.clone(),
        root_volume: mapping.root_volume,
        volume_size: bytes.transpose()?,
    })
}

fn network_interface((index, entry): (usize, &nodeclass::NetworkInterface)) -> Result<NetworkInterface, SettingError> {
    let field = |name: &str| format!("spec.networkInterfaces[{index}].{name}");
    Ok(NetworkInterface {
        network_card: natural(&field("networkCardIndex"), entry.network_card_index)?,
        device: natural(&field("deviceIndex"), entry.device_index)?,
        kind: match entry.interface_type {
            nodeclass::InterfaceType::Interface => InterfaceType::Interface,
            nodeclass::InterfaceType::EfaOnly => InterfaceType::EfaOnly,
        },
    })
}

/// Returns the zones of the subnets; `None` until subnets have been found: offline, selectors cannot be resolved and
/// restrict nothing.
fn zones(status: &Ec2NodeClassStatus) -> Option<BTreeMap<Arc<str>, Option<Arc<str>>>> {
    let mut zones = BTreeMap::new();
    for subnet in &status.subnets {
        let id: &mut Option<Arc<str>> = zones.entry(Arc::from(subnet.zone.as_str())).or_default();
        if id.is_none() {
            *id = subnet.zone_id.as_deref().filter(|id| !id.is_empty()).map(Arc::from);
        }
    }
    (!zones.is_empty()).then_some(zones)
}

fn reservation(entry: &nodeclass::CapacityReservation) -> CapacityReservation {
    CapacityReservation {
        id: entry.id.as_str().into(),
        instance_type: entry.instance_type.as_str().into(),
        zone: entry.availability_zone.as_str().into(),
        capacity_block: entry.reservation_type == ReservationType::CapacityBlock,
        interruptible: entry.interruptible,
        expiring: entry.state == ReservationState::Expiring,
        available_instances: None,
    }
}

fn prefix_delegation(class: &Ec2NodeClass) -> Result<bool, SettingError> {
    let annotations = class.metadata.annotations.as_ref();
    match annotations.and_then(|annotations| annotations.get(PREFIX_DELEGATION)).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let field = format!("metadata.annotations[{PREFIX_DELEGATION}]");
            Err(invalid(
                field,
                other,
                "is neither `true` nor `false`",
                "write `\"true\"` or `\"false\"`, or leave it out",
            ))
        }
    }
}

fn invalid(field: String, text: &str, problem: impl std::fmt::Display, hint: &'static str) -> SettingError {
    SettingError::new(field, format!("`{text}` {problem}"), hint)
}

#[cfg(test)]
mod tests;
