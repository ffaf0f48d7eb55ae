//! Comparison of a launch template in EC2 with the one that was planned.
//!
//! Every field that the plan sets must have the planned value. A field that it leaves out may be filled in by EC2,
//! unless it changes what runs on an instance, who can reach it, or if the controller can terminate it: then it must
//! be absent.

use aws_sdk_ec2::types::{
    LaunchTemplateBlockDeviceMapping, LaunchTemplateBlockDeviceMappingRequest,
    LaunchTemplateIamInstanceProfileSpecification, LaunchTemplateInstanceNetworkInterfaceSpecification,
    LaunchTemplateInstanceNetworkInterfaceSpecificationRequest, RequestLaunchTemplateData, ResponseLaunchTemplateData,
};
use muster_bootstrap::userdata::base64;

/// Returns the first field in which the template differs from the planned one; `None` if it is the same.
pub(super) fn difference(
    planned: &RequestLaunchTemplateData,
    has: &ResponseLaunchTemplateData,
) -> Option<&'static str> {
    let decoded = |text: Option<&str>| text.map(|text| base64(text.as_bytes()));
    let profile = planned.iam_instance_profile().and_then(|it| it.name());
    let checks = [
        ("image", planned.image_id() == has.image_id()),
        ("user data", decoded(planned.user_data()) == decoded(has.user_data())),
        ("instance profile", profile == has.iam_instance_profile().and_then(name_of_profile)),
        ("disks", are_disks_as_planned(planned.block_device_mappings(), has.block_device_mappings())),
        ("network interfaces", are_interfaces_as_planned(planned.network_interfaces(), has.network_interfaces())),
        ("metadata options", is_metadata_as_planned(planned, has)),
        ("placement", is_placement_as_planned(planned, has)),
        ("capacity reservation", is_reservation_as_planned(planned, has)),
        (
            "monitoring",
            agrees(planned.monitoring().and_then(|it| it.enabled()), has.monitoring().and_then(|it| it.enabled())),
        ),
        ("CPU options", is_cpu_as_planned(planned, has)),
        ("key pair", has.key_name().is_none()),
        ("kernel", has.kernel_id().is_none() && has.ram_disk_id().is_none()),
        ("security groups", has.security_group_ids().is_empty() && has.security_groups().is_empty()),
        ("secondary interfaces", has.secondary_interfaces().is_empty()),
        ("protection", has.disable_api_termination() != Some(true) && has.disable_api_stop() != Some(true)),
        ("shutdown behaviour", has.instance_initiated_shutdown_behavior().is_none_or(|it| it.as_str() == "stop")),
        ("instance type", has.instance_type().is_none() && has.instance_requirements().is_none()),
    ];
    checks.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
}

/// Returns true if what is planned is there. What is not planned may be a default of EC2.
fn agrees<T: PartialEq>(planned: Option<T>, has: Option<T>) -> bool {
    planned.is_none() || planned == has
}

fn name_of_profile(profile: &LaunchTemplateIamInstanceProfileSpecification) -> Option<&str> {
    profile.name().or_else(|| profile.arn().and_then(|arn| arn.rsplit('/').next()))
}

fn are_disks_as_planned(
    planned: &[LaunchTemplateBlockDeviceMappingRequest],
    has: &[LaunchTemplateBlockDeviceMapping],
) -> bool {
    planned.len() == has.len() && planned.iter().all(|one| has.iter().any(|other| is_disk_as_planned(one, other)))
}

fn is_disk_as_planned(
    planned: &LaunchTemplateBlockDeviceMappingRequest,
    has: &LaunchTemplateBlockDeviceMapping,
) -> bool {
    if planned.device_name() != has.device_name() || has.virtual_name().is_some() || has.no_device().is_some() {
        return false;
    }
    match (planned.ebs(), has.ebs()) {
        (Some(planned), Some(has)) => {
            planned.snapshot_id() == has.snapshot_id()
                && agrees(planned.encrypted(), has.encrypted())
                && planned.kms_key_id() == has.kms_key_id()
                && is_deleted_as_planned(planned.delete_on_termination(), has.delete_on_termination())
                && agrees(planned.iops(), has.iops())
                && agrees(planned.throughput(), has.throughput())
                && agrees(planned.volume_initialization_rate(), has.volume_initialization_rate())
                && agrees(planned.volume_size(), has.volume_size())
                && agrees(planned.volume_type(), has.volume_type())
        }
        // EC2 may leave out settings of a disk that are all left out.
        (Some(planned), None) => planned.snapshot_id().is_none() && planned.volume_size().is_none(),
        (None, has) => has.is_none(),
    }
}

/// Returns true if the disk goes with its instance as planned; EC2's default is that it does.
fn is_deleted_as_planned(planned: Option<bool>, has: Option<bool>) -> bool {
    planned.unwrap_or(true) == has.unwrap_or(true)
}

fn are_interfaces_as_planned(
    planned: &[LaunchTemplateInstanceNetworkInterfaceSpecificationRequest],
    has: &[LaunchTemplateInstanceNetworkInterfaceSpecification],
) -> bool {
    planned.len() == has.len() && planned.iter().all(|one| has.iter().any(|other| is_interface_as_planned(one, other)))
}

fn is_interface_as_planned(
    planned: &LaunchTemplateInstanceNetworkInterfaceSpecificationRequest,
    has: &LaunchTemplateInstanceNetworkInterfaceSpecification,
) -> bool {
    let sorted = |groups: &[String]| {
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        groups
    };
    let index = |index: Option<i32>| index.unwrap_or(0);
    let kind = |kind: Option<&str>| kind.unwrap_or("interface").to_owned();
    let is_own = has.network_interface_id().is_none()
        && has.subnet_id().is_none()
        && has.private_ip_address().is_none()
        && has.private_ip_addresses().is_empty()
        && has.ipv6_addresses().is_empty();
    let (tracked, has_tracked) = (planned.connection_tracking_specification(), has.connection_tracking_specification());
    let is_tracked = agrees(
        tracked.and_then(|it| it.tcp_established_timeout()),
        has_tracked.and_then(|it| it.tcp_established_timeout()),
    ) && agrees(tracked.and_then(|it| it.udp_timeout()), has_tracked.and_then(|it| it.udp_timeout()))
        && agrees(tracked.and_then(|it| it.udp_stream_timeout()), has_tracked.and_then(|it| it.udp_stream_timeout()));
    // A public address that was not planned would open the instance.
    let is_public = has.associate_public_ip_address();
    let is_as_public = match planned.associate_public_ip_address() {
        None => is_public != Some(true),
        planned => planned == is_public,
    };
    is_own
        && is_as_public
        && is_tracked
        && index(planned.network_card_index()) == index(has.network_card_index())
        && index(planned.device_index()) == index(has.device_index())
        && kind(planned.interface_type()) == kind(has.interface_type())
        && sorted(planned.groups()) == sorted(has.groups())
        && agrees(planned.ipv4_prefix_count(), has.ipv4_prefix_count())
        && agrees(planned.ipv6_prefix_count(), has.ipv6_prefix_count())
        && agrees(planned.primary_ipv6(), has.primary_ipv6())
        && agrees(planned.ipv6_address_count(), has.ipv6_address_count())
}

fn is_metadata_as_planned(planned: &RequestLaunchTemplateData, has: &ResponseLaunchTemplateData) -> bool {
    let Some(planned) = planned.metadata_options() else { return true };
    has.metadata_options().is_some_and(|has| {
        agrees(planned.http_tokens(), has.http_tokens())
            && agrees(planned.http_put_response_hop_limit(), has.http_put_response_hop_limit())
            && agrees(planned.http_endpoint(), has.http_endpoint())
            && agrees(planned.http_protocol_ipv6(), has.http_protocol_ipv6())
            && agrees(planned.instance_metadata_tags(), has.instance_metadata_tags())
    })
}

fn is_placement_as_planned(planned: &RequestLaunchTemplateData, has: &ResponseLaunchTemplateData) -> bool {
    let (Some(planned), Some(has)) = (planned.placement(), has.placement()) else {
        return planned.placement().is_none() && has.placement().is_none_or(|it| it.group_id().is_none());
    };
    // A dedicated host of another owner would see what its instances do.
    has.host_id().is_none()
        && has.host_resource_group_arn().is_none()
        && agrees(planned.tenancy(), has.tenancy())
        && planned.group_id() == has.group_id()
        && has.group_name().is_none_or(|name| name.is_empty() || planned.group_id().is_some())
        && agrees(planned.partition_number(), has.partition_number())
}

fn is_reservation_as_planned(planned: &RequestLaunchTemplateData, has: &ResponseLaunchTemplateData) -> bool {
    let market = |kind: Option<&aws_sdk_ec2::types::MarketType>| kind.cloned();
    let planned_market = planned.instance_market_options().and_then(|it| market(it.market_type()));
    let has_market = has.instance_market_options().and_then(|it| market(it.market_type()));
    let reservation = planned.capacity_reservation_specification();
    let has_reservation = has.capacity_reservation_specification();
    let target = reservation.and_then(|it| it.capacity_reservation_target()?.capacity_reservation_id());
    let has_target = has_reservation.and_then(|it| it.capacity_reservation_target()?.capacity_reservation_id());
    planned_market == has_market
        && target == has_target
        && agrees(
            reservation.and_then(|it| it.capacity_reservation_preference()),
            has_reservation.and_then(|it| it.capacity_reservation_preference()),
        )
}

fn is_cpu_as_planned(planned: &RequestLaunchTemplateData, has: &ResponseLaunchTemplateData) -> bool {
    let enclaves = planned.enclave_options().and_then(|it| it.enabled());
    let planned = planned.cpu_options().and_then(|it| it.nested_virtualization());
    agrees(planned, has.cpu_options().and_then(|it| it.nested_virtualization()))
        && agrees(enclaves, has.enclave_options().and_then(|it| it.enabled()))
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::builders::ResponseLaunchTemplateDataBuilder;
    use aws_sdk_ec2::types::{
        LaunchTemplateEbsBlockDevice, LaunchTemplateEbsBlockDeviceRequest,
        LaunchTemplateIamInstanceProfileSpecificationRequest, LaunchTemplateInstanceMetadataOptions,
        LaunchTemplateInstanceMetadataOptionsRequest,
    };

    use super::*;

    fn planned() -> RequestLaunchTemplateData {
        let ebs = LaunchTemplateEbsBlockDeviceRequest::builder().volume_size(20).encrypted(true).build();
        let interface = LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
            .device_index(0)
            .groups("sg-2")
            .groups("sg-1");
        RequestLaunchTemplateData::builder()
            .image_id("ami-1")
            .user_data("aGVsbG8=")
            .iam_instance_profile(LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name("nodes").build())
            .block_device_mappings(
                LaunchTemplateBlockDeviceMappingRequest::builder().device_name("/dev/xvda").ebs(ebs).build(),
            )
            .network_interfaces(interface.build())
            .metadata_options(
                LaunchTemplateInstanceMetadataOptionsRequest::builder().http_put_response_hop_limit(1).build(),
            )
            .build()
    }

    fn made() -> ResponseLaunchTemplateDataBuilder {
        let ebs = LaunchTemplateEbsBlockDevice::builder().volume_size(20).encrypted(true).build();
        let interface = LaunchTemplateInstanceNetworkInterfaceSpecification::builder()
            .device_index(0)
            .groups("sg-1")
            .groups("sg-2");
        ResponseLaunchTemplateData::builder()
            .image_id("ami-1")
            .user_data("aGVsbG8=")
            .iam_instance_profile(LaunchTemplateIamInstanceProfileSpecification::builder().name("nodes").build())
            .block_device_mappings(
                LaunchTemplateBlockDeviceMapping::builder().device_name("/dev/xvda").ebs(ebs).build(),
            )
            .network_interfaces(interface.build())
            .metadata_options(LaunchTemplateInstanceMetadataOptions::builder().http_put_response_hop_limit(1).build())
    }

    #[test]
    fn a_template_with_another_content_is_foreign() {
        let planned = planned();
        assert_eq!(difference(&planned, &made().build()), None);
        let disk = |snapshot: &str| {
            let ebs = LaunchTemplateEbsBlockDevice::builder().volume_size(20).encrypted(true).snapshot_id(snapshot);
            LaunchTemplateBlockDeviceMapping::builder().device_name("/dev/xvda").ebs(ebs.build()).build()
        };
        let second = LaunchTemplateInstanceNetworkInterfaceSpecification::builder().device_index(1).groups("sg-3");
        for (field, other) in [
            ("image", made().image_id("ami-2")),
            ("user data", made().user_data("ZXZpbA==")),
            ("disks", made().set_block_device_mappings(Some(vec![disk("snap-1")]))),
            ("network interfaces", made().network_interfaces(second.build())),
            ("metadata options", made().set_metadata_options(None)),
            ("key pair", made().key_name("theirs")),
            ("kernel", made().kernel_id("aki-1")),
            ("security groups", made().security_group_ids("sg-3")),
            ("protection", made().disable_api_termination(true)),
        ] {
            assert_eq!(difference(&planned, &other.build()), Some(field));
        }
    }
}
