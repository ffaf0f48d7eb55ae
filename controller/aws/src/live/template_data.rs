//! Conversion of launch templates to the SDK.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{
    CapacityReservationPreference, CapacityReservationTarget, ConnectionTrackingSpecificationRequest,
    LaunchTemplateBlockDeviceMappingRequest, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateCpuOptionsRequest, LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateEnclaveOptionsRequest,
    LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest,
    LaunchTemplateInstanceMarketOptionsRequest, LaunchTemplateInstanceMetadataEndpointState,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceMetadataProtocolIpv6,
    LaunchTemplateInstanceMetadataTagsState, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest,
    LaunchTemplatePlacementRequest, LaunchTemplateTagSpecificationRequest, LaunchTemplatesMonitoringRequest,
    MarketType, NestedVirtualizationSpecification, RequestLaunchTemplateData, ResourceType, Tag, TagSpecification,
    Tenancy, VolumeType,
};
use muster_bootstrap::userdata::to_base64;

use crate::launch::{Disk, Interface, MetadataOptions, Placement, Reservation, Template};

pub(super) fn data(template: &Template) -> RequestLaunchTemplateData {
    let profile =
        LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(&template.instance_profile).build();
    let monitoring =
        template.detailed_monitoring.map(|on| LaunchTemplatesMonitoringRequest::builder().enabled(on).build());
    let cpu = template.nested_virtualization.map(|on| {
        let nested =
            if on { NestedVirtualizationSpecification::Enabled } else { NestedVirtualizationSpecification::Disabled };
        LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(nested).build()
    });
    let enclaves = template.enclaves.map(|on| LaunchTemplateEnclaveOptionsRequest::builder().enabled(on).build());
    let mut tagged = vec![ResourceType::NetworkInterface];
    if template.is_spot {
        tagged.push(ResourceType::SpotInstancesRequest);
    }
    let specification = |resource| {
        LaunchTemplateTagSpecificationRequest::builder()
            .resource_type(resource)
            .set_tags(Some(tags(&template.tags)))
            .build()
    };
    let (reservation, market) = reservation(&template.reservation);
    RequestLaunchTemplateData::builder()
        .image_id(&template.image_id)
        .user_data(to_base64(template.user_data.as_bytes()))
        .iam_instance_profile(profile)
        .set_monitoring(monitoring)
        .set_block_device_mappings(some(template.disks.iter().map(disk).collect()))
        .metadata_options(metadata(&template.metadata))
        .set_cpu_options(cpu)
        .set_enclave_options(enclaves)
        .placement(placement(&template.placement))
        .set_network_interfaces(some(template.interfaces.iter().map(interface).collect()))
        .capacity_reservation_specification(reservation)
        .set_instance_market_options(market)
        .set_tag_specifications(Some(tagged.into_iter().map(specification).collect()))
        .build()
}

/// Returns the tags of one type of resource for a request.
pub(super) fn tag_specification(resource: ResourceType, of: &BTreeMap<String, String>) -> TagSpecification {
    TagSpecification::builder().resource_type(resource).set_tags(Some(tags(of))).build()
}

pub(super) fn tags(of: &BTreeMap<String, String>) -> Vec<Tag> {
    of.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn disk(disk: &Disk) -> LaunchTemplateBlockDeviceMappingRequest {
    let small = |number: Option<i64>| number.and_then(|number| i32::try_from(number).ok());
    let ebs = LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_delete_on_termination(disk.delete_on_termination)
        .set_encrypted(disk.encrypted)
        .set_iops(small(disk.iops))
        .set_kms_key_id(disk.kms_key.clone())
        .set_snapshot_id(disk.snapshot.clone())
        .set_throughput(small(disk.throughput))
        .set_volume_initialization_rate(disk.initialization_rate)
        .set_volume_size(disk.size_gib)
        .set_volume_type(disk.kind.map(VolumeType::from))
        .build();
    LaunchTemplateBlockDeviceMappingRequest::builder().set_device_name(disk.device.clone()).ebs(ebs).build()
}

fn metadata(options: &MetadataOptions) -> LaunchTemplateInstanceMetadataOptionsRequest {
    use LaunchTemplateInstanceMetadataEndpointState as Endpoint;
    use LaunchTemplateInstanceMetadataProtocolIpv6 as Ipv6;
    let tokens = if options.requires_token {
        LaunchTemplateHttpTokensState::Required
    } else {
        LaunchTemplateHttpTokensState::Optional
    };
    LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(if options.is_enabled { Endpoint::Enabled } else { Endpoint::Disabled })
        .set_http_protocol_ipv6(options.has_ipv6.map(|on| if on { Ipv6::Enabled } else { Ipv6::Disabled }))
        .http_put_response_hop_limit(options.hop_limit)
        .http_tokens(tokens)
        // Tags are not needed on the node, and their keys would have to be valid in a path.
        .instance_metadata_tags(LaunchTemplateInstanceMetadataTagsState::Disabled)
        .build()
}

fn placement(placement: &Placement) -> LaunchTemplatePlacementRequest {
    LaunchTemplatePlacementRequest::builder()
        .tenancy(Tenancy::from(placement.tenancy.as_str()))
        .set_group_id(placement.group_id.clone())
        .set_partition_number(placement.partition)
        .build()
}

fn interface(interface: &Interface) -> LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let tracking = interface.connection_tracking.as_ref().map(|of_class| {
        ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(of_class.tcp_established_timeout)
            .set_udp_stream_timeout(of_class.udp_stream_timeout)
            .set_udp_timeout(of_class.udp_timeout)
            .build()
    });
    let of_ipv6 = interface.is_ipv6;
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .network_card_index(interface.card)
        .device_index(interface.device)
        .interface_type(interface.kind)
        .set_groups(some(interface.groups.clone()))
        .set_associate_public_ip_address(interface.public_address)
        .set_ipv4_prefix_count(interface.prefixes.filter(|_| !of_ipv6))
        .set_ipv6_prefix_count(interface.prefixes.filter(|_| of_ipv6))
        .set_primary_ipv6(of_ipv6.then_some(true))
        .set_ipv6_address_count(of_ipv6.then_some(1))
        .set_connection_tracking_specification(tracking)
        .build()
}

fn reservation(
    reservation: &Reservation,
) -> (LaunchTemplateCapacityReservationSpecificationRequest, Option<LaunchTemplateInstanceMarketOptionsRequest>) {
    let specification = LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match reservation {
        Reservation::None => {
            (specification.capacity_reservation_preference(CapacityReservationPreference::None).build(), None)
        }
        Reservation::Only { id, market } => {
            let target = CapacityReservationTarget::builder().capacity_reservation_id(id).build();
            let specification = specification
                .capacity_reservation_preference(CapacityReservationPreference::CapacityReservationsOnly)
                .capacity_reservation_target(target)
                .build();
            let market = market.map(|market| {
                LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(MarketType::from(market)).build()
            });
            (specification, market)
        }
    }
}
