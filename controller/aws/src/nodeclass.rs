//! Conversion of an EC2NodeClass to settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::nodeclass::{self, Ec2NodeClass, Ec2NodeClassStatus, ReservationState, ReservationType, Toggle};
use muster_bootstrap::kubelet::expression::Expression;
use muster_scheduling::model::{Resource, Resources};
use serde_json::Value;

use crate::class::{
    BlockDevice, CapacityReservation, ClassSettings, InstanceStorePolicy, InterfaceType, KubeletExpressions,
    KubeletSettings, NetworkInterface, Threshold,
};
use crate::error::SettingError;
use crate::family::AmiFamily;
use crate::quantity::{self, QuantityError};

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
            kubelet: kubelet(spec)?,
            block_devices: devices.map(block_device).collect::<Result<_, _>>()?,
            instance_store_policy: spec.instance_store_policy.map(|policy| match policy {
                nodeclass::InstanceStorePolicy::Raid0 => InstanceStorePolicy::Raid0,
            }),
            network_interfaces: interfaces.map(network_interface).collect::<Result<_, _>>()?,
            connection_tracking: spec.connection_tracking.is_some(),
            enclaves: spec.enclave_options.as_ref().is_some_and(|options| options.enabled),
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

fn kubelet(spec: &nodeclass::Ec2NodeClassSpec) -> Result<KubeletSettings, SettingError> {
    let Some(settings) = &spec.kubelet else { return Ok(KubeletSettings::default()) };
    let reads_soft = spec.resolved_ami_family() != Some(nodeclass::AmiFamily::Bottlerocket);
    let soft = |signal| if reads_soft { threshold("evictionSoft", signal, settings) } else { Ok(None) };
    let (kube_reserved, of_kubelet) = reserved("kubeReserved", settings)?;
    let (system_reserved, of_system) = reserved("systemReserved", settings)?;
    let max_pods = match settings.0.get("maxPods") {
        Some(Value::String(text)) => Some(expression("spec.kubelet.maxPods", text)?),
        _ => None,
    };
    Ok(KubeletSettings {
        max_pods: count("maxPods", settings)?,
        pods_per_core: count("podsPerCore", settings)?.unwrap_or(0),
        kube_reserved,
        system_reserved,
        expressions: KubeletExpressions { max_pods, kube_reserved: of_kubelet, system_reserved: of_system },
        eviction_memory: threshold("evictionHard", "memory.available", settings)?,
        eviction_storage: threshold("evictionHard", "nodefs.available", settings)?,
        soft_eviction_memory: soft("memory.available")?,
        soft_eviction_storage: soft("nodefs.available")?,
    })
}

/// Returns a number of the settings; `None` if it is absent or an expression.
fn count(name: &str, settings: &nodeclass::KubeletSettings) -> Result<Option<u32>, SettingError> {
    let field = format!("spec.kubelet.{name}");
    match settings.0.get(name) {
        None | Some(Value::Null | Value::String(_)) => Ok(None),
        Some(value) => {
            let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
            let hint = "write a whole number of zero or more";
            let number = number.ok_or_else(|| SettingError::new(field.as_str(), "is not a whole number", hint))?;
            natural(&field, number).map(Some)
        }
    }
}

fn expression(field: &str, text: &str) -> Result<Expression, SettingError> {
    let hint = "write a number or quantity, or an expression such as `min(110, max_pods)`";
    Expression::compile(text).map_err(|error| invalid(field.to_owned(), text, error, hint))
}

fn natural(field: &str, number: i32) -> Result<u32, SettingError> {
    u32::try_from(number)
        .map_err(|_| SettingError::new(field, "must not be negative", "write a whole number of zero or more"))
}

/// Returns the amounts of a map, and its entries that are expressions.
fn reserved(
    field: &str,
    settings: &nodeclass::KubeletSettings,
) -> Result<(Resources, BTreeMap<Resource, Expression>), SettingError> {
    let (mut amounts, mut expressions) = (Resources::new(), BTreeMap::new());
    for (name, text) in settings.texts(field) {
        let resource = Resource::new(name);
        let path = || format!("spec.kubelet.{field}.{name}");
        match quantity::parse(&resource, text) {
            Ok(amount) => amounts.set(resource, amount),
            Err(QuantityError::Malformed) => drop(expressions.insert(resource, expression(&path(), text)?)),
            Err(error @ QuantityError::Negative) => return Err(invalid(path(), text, error, AMOUNT)),
        }
    }
    Ok((amounts, expressions))
}

fn threshold(
    map: &str,
    signal: &str,
    settings: &nodeclass::KubeletSettings,
) -> Result<Option<Threshold>, SettingError> {
    let Some((_, text)) = settings.texts(map).find(|(key, _)| *key == signal) else { return Ok(None) };
    let field = || format!("spec.kubelet.{map}[{signal}]");
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
