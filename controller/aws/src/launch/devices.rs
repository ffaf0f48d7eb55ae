//! Disks, metadata service and network interfaces of an instance, with the defaults of Karpenter.

use muster_api::nodeclass::{
    BlockDeviceMapping, Ec2NodeClassSpec, InterfaceType, SecurityGroup, Toggle, TokenState, VolumeType,
};
use serde::Serialize;

use super::template::Interface;
use crate::family::AmiFamily;
use crate::quantity;

const GIB: i64 = 1 << 30;
/// Regions in which EC2 does not support `HttpProtocolIpv6` (aws/karpenter-provider-aws, `pkg/providers/amifamily`).
const WITHOUT_IPV6_METADATA: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

/// A disk of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Disk {
    /// Device name.
    pub device: Option<String>,
    /// True if it is deleted with the instance.
    pub delete_on_termination: Option<bool>,
    /// True if it is encrypted.
    pub encrypted: Option<bool>,
    /// I/O operations per second.
    pub iops: Option<i64>,
    /// KMS key.
    pub kms_key: Option<String>,
    /// Source snapshot.
    pub snapshot: Option<String>,
    /// Throughput in MiB/s.
    pub throughput: Option<i64>,
    /// Initialization rate from the snapshot in MiB/s.
    pub initialization_rate: Option<i32>,
    /// Size in GiB, rounded up.
    pub size_gib: Option<i32>,
    /// Volume type (`gp3`, …).
    pub kind: Option<&'static str>,
}

/// Settings of the instance metadata service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetadataOptions {
    /// True if the service is enabled.
    pub is_enabled: bool,
    /// True if it has an IPv6 endpoint; absent where EC2 does not support the setting.
    pub has_ipv6: Option<bool>,
    /// Hop limit of responses.
    pub hop_limit: i32,
    /// True if IMDSv2 is required.
    pub requires_token: bool,
}

/// Returns the disks of the class, else the defaults of the family: gp3, encrypted.
pub(super) fn disks(spec: &Ec2NodeClassSpec, family: AmiFamily) -> Vec<Disk> {
    if !spec.block_device_mappings.is_empty() {
        return spec.block_device_mappings.iter().map(disk).collect();
    }
    let default = |(device, gib): (&str, i32)| Disk {
        device: Some(device.to_owned()),
        encrypted: Some(true),
        size_gib: Some(gib),
        kind: Some("gp3"),
        ..Disk::default()
    };
    let of_family: &[(&str, i32)] = match family {
        AmiFamily::Al2 | AmiFamily::Al2023 => &[("/dev/xvda", 20)],
        AmiFamily::Bottlerocket => &[("/dev/xvda", 4), ("/dev/xvdb", 20)],
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => &[("/dev/sda1", 50)],
        // The devices of a custom image are unknown.
        AmiFamily::Custom => &[],
    };
    of_family.iter().copied().map(default).collect()
}

fn disk(mapping: &BlockDeviceMapping) -> Disk {
    let device = mapping.device_name.clone();
    let Some(ebs) = &mapping.ebs else { return Disk { device, ..Disk::default() } };
    Disk {
        device,
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        iops: ebs.iops,
        kms_key: ebs.kms_key_id.clone(),
        snapshot: ebs.snapshot_id.clone(),
        throughput: ebs.throughput,
        initialization_rate: ebs.volume_initialization_rate,
        // `ClassSettings` has already rejected invalid sizes.
        size_gib: ebs.volume_size.as_deref().and_then(|size| quantity::parse_units(size).ok()).map(gibibytes),
        kind: ebs.volume_type.map(|kind| match kind {
            VolumeType::Standard => "standard",
            VolumeType::Io1 => "io1",
            VolumeType::Io2 => "io2",
            VolumeType::Gp2 => "gp2",
            VolumeType::Sc1 => "sc1",
            VolumeType::St1 => "st1",
            VolumeType::Gp3 => "gp3",
        }),
    }
}

fn gibibytes(bytes: i64) -> i32 {
    let whole = bytes / GIB + i64::from(bytes % GIB > 0);
    i32::try_from(whole).unwrap_or(i32::MAX)
}

pub(super) fn metadata(spec: &Ec2NodeClassSpec, region: &str) -> MetadataOptions {
    let options = &spec.metadata_options;
    let knows_ipv6 = !WITHOUT_IPV6_METADATA.contains(&region);
    MetadataOptions {
        is_enabled: options.http_endpoint == Toggle::Enabled,
        has_ipv6: knows_ipv6.then_some(options.http_protocol_ipv6 == Toggle::Enabled),
        hop_limit: i32::try_from(options.http_put_response_hop_limit).unwrap_or(i32::MAX),
        requires_token: options.http_tokens == TokenState::Required,
    }
}

/// Returns the network interfaces of an instance. `efa` is the number of EFA interfaces, if its pods need any.
pub(super) fn interfaces(
    spec: &Ec2NodeClassSpec,
    groups: &[SecurityGroup],
    efa: Option<u32>,
    is_ipv6: bool,
) -> Vec<Interface> {
    let mut groups: Vec<String> = groups.iter().map(|group| group.id.clone()).collect();
    groups.sort_unstable();
    let carries_ip = |card, device, kind| Interface {
        card,
        device,
        kind,
        groups: groups.clone(),
        public_address: spec.associate_public_ip_address,
        prefixes: spec.ip_prefix_count,
        is_ipv6,
        connection_tracking: spec.connection_tracking.clone(),
    };
    let fabric_only = |card, device| Interface {
        public_address: None,
        prefixes: None,
        is_ipv6: false,
        connection_tracking: None,
        ..carries_ip(card, device, "efa-only")
    };
    if !spec.network_interfaces.is_empty() {
        let of_class = spec.network_interfaces.iter();
        return of_class
            .map(|one| match one.interface_type {
                InterfaceType::Interface => carries_ip(one.network_card_index, one.device_index, "interface"),
                InterfaceType::EfaOnly => fabric_only(one.network_card_index, one.device_index),
            })
            .collect();
    }
    match efa.and_then(|count| i32::try_from(count).ok()).filter(|count| *count > 0) {
        // The first one is the primary interface, and the only one with device index 0.
        Some(count) => (0..count).map(|card| carries_ip(card, i32::from(card > 0), "efa")).collect(),
        None => vec![carries_ip(0, 0, "interface")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_gibibytes() {
        for (size, gib) in [("20Gi", 20), ("1Ti", 1024), ("20G", 19), ("1G", 1)] {
            assert_eq!(gibibytes(quantity::parse_units(size).unwrap()), gib, "{size}");
        }
    }
}
