//! From the EC2NodeClass of a manifest to the settings that decide capacity and overhead.
//!
//! The manifest has passed its CRD before it comes here; what the CRD lets pass and EC2 would not understand counts as
//! not set, as Karpenter does it.

use std::collections::BTreeMap;

use muster_api::nodeclass::{self as api, ReservationState, ReservationType, Toggle};
use muster_api::{Ec2NodeClass, Ec2NodeClassSpec};
use muster_aws::quantity::{parse, parse_units};
use muster_aws::{
    AmiFamily, BlockDevice, CapacityReservation, ClassSettings, InstanceStorePolicy, InterfaceType, KubeletSettings,
    NetworkInterface, Threshold,
};
use muster_scheduling::model::{Resource, Resources};
use serde::Deserialize;

use crate::manifest::NodeClass;

/// The settings of `class`; those of the default class if it is none of EC2's.
pub(super) fn settings(class: &NodeClass) -> ClassSettings {
    if &*class.kind != "EC2NodeClass" {
        return ClassSettings::default();
    }
    Ec2NodeClass::deserialize(&class.object).map_or_else(|_| ClassSettings::default(), |class| of_ec2(&class))
}

fn of_ec2(class: &Ec2NodeClass) -> ClassSettings {
    let spec = &class.spec;
    let status = class.status.as_ref();
    let subnets = status.map_or(&[][..], |status| &status.subnets);
    let zones = subnets.iter().map(|subnet| (subnet.zone.as_str().into(), subnet.zone_id.as_deref().map(Into::into)));
    let reservations = status.map_or(&[][..], |status| &status.capacity_reservations);
    ClassSettings {
        ami_family: spec.resolved_ami_family().and_then(|family| family.as_str().parse().ok()).unwrap_or(AmiFamily::Custom),
        kubelet: spec.kubelet.as_ref().map(kubelet).unwrap_or_default(),
        block_devices: spec.block_device_mappings.iter().map(block_device).collect(),
        instance_store_policy: spec.instance_store_policy.map(|api::InstanceStorePolicy::Raid0| InstanceStorePolicy::Raid0),
        network_interfaces: spec.network_interfaces.iter().filter_map(network_interface).collect(),
        connection_tracking: spec.connection_tracking.is_some(),
        nested_virtualization: nested_virtualization(spec),
        // Without a status nobody has looked up the subnets: every zone may have one.
        zones: (!subnets.is_empty()).then(|| zones.collect()),
        reservations: reservations.iter().map(reservation).collect(),
        ..ClassSettings::default()
    }
}

fn nested_virtualization(spec: &Ec2NodeClassSpec) -> bool {
    spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization) == Some(Toggle::Enabled)
}

fn kubelet(kubelet: &api::KubeletSettings) -> KubeletSettings {
    let count = |value: Option<i32>| value.and_then(|value| u32::try_from(value).ok());
    let threshold = |key: &str| kubelet.eviction_hard.get(key).and_then(|text| threshold(text));
    KubeletSettings {
        max_pods: count(kubelet.max_pods),
        pods_per_core: count(kubelet.pods_per_core).unwrap_or(0),
        kube_reserved: resources(&kubelet.kube_reserved),
        system_reserved: resources(&kubelet.system_reserved),
        eviction_memory: threshold("memory.available"),
        eviction_storage: threshold("nodefs.available"),
    }
}

fn resources(amounts: &BTreeMap<String, String>) -> Resources {
    let amounts = amounts.iter().filter_map(|(name, text)| {
        let resource = Resource::new(name);
        let amount = parse(&resource, text).ok()?;
        Some((resource, amount))
    });
    amounts.collect()
}

fn threshold(text: &str) -> Option<Threshold> {
    match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(Threshold::Percent),
        None => parse_units(text).ok().map(Threshold::Amount),
    }
}

fn block_device(mapping: &api::BlockDeviceMapping) -> BlockDevice {
    let size = mapping.ebs.as_ref().and_then(|ebs| ebs.volume_size.as_deref());
    BlockDevice {
        device_name: mapping.device_name.clone(),
        root_volume: mapping.root_volume,
        volume_size: size.and_then(|size| parse_units(size).ok()),
    }
}

fn network_interface(interface: &api::NetworkInterface) -> Option<NetworkInterface> {
    Some(NetworkInterface {
        network_card: u32::try_from(interface.network_card_index).ok()?,
        device: u32::try_from(interface.device_index).ok()?,
        kind: match interface.interface_type {
            api::InterfaceType::Interface => InterfaceType::Interface,
            api::InterfaceType::EfaOnly => InterfaceType::EfaOnly,
        },
    })
}

fn reservation(reservation: &api::CapacityReservation) -> CapacityReservation {
    CapacityReservation {
        id: reservation.id.as_str().into(),
        instance_type: reservation.instance_type.as_str().into(),
        zone: reservation.availability_zone.as_str().into(),
        capacity_block: reservation.reservation_type == ReservationType::CapacityBlock,
        interruptible: reservation.interruptible,
        expiring: reservation.state == ReservationState::Expiring,
        available_instances: None,
    }
}
