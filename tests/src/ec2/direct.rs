//! What a `RunInstances` asks, with what its launch template adds.

use super::answer::ApiError;
use super::faults::{self, CapacityType};
use super::launch::Order;
use super::network::Subnets;
use super::request::Request;
use super::services;
use super::shared::Shared;
use super::template::{Template, TemplateReference};

pub(super) async fn order(shared: &Shared, request: &Request) -> Result<Order, ApiError> {
    let Request { parameters, region, .. } = request;
    let template = match TemplateReference::read(parameters) {
        Some(reference) => Some(Template::find(shared, request, &reference).await?),
        None => None,
    };
    let sent_or = |name: &str, in_template: &str| {
        parameters.text(name).map(str::to_owned).or_else(|| template.as_ref()?.text(in_template))
    };
    let instance_type = sent_or("InstanceType", "instanceType").unwrap_or_else(|| "m1.small".to_owned());
    let architecture = services::architecture(region, &instance_type)
        .ok_or_else(|| faults::invalid_value(format!("Invalid value '{instance_type}' for InstanceType.")))?;
    let no_image = || ApiError::new(400, "MissingParameter", "The request must contain the parameter ImageId");
    let image = sent_or("ImageId", "imageId").ok_or_else(no_image)?;
    let of_image = shared.architecture_of(request, &image).await?;
    if of_image != architecture {
        return Err(faults::wrong_architecture(architecture, &of_image));
    }
    let subnets = Subnets::all(shared, request).await?;
    let named =
        parameters.text("SubnetId").or_else(|| parameters.text("NetworkInterface.1.SubnetId")).map(str::to_owned);
    let named = named.or_else(|| template.as_ref()?.subnet());
    let zone = sent_or("Placement.AvailabilityZone", "placement/availabilityZone");
    let subnet = match named {
        Some(id) => subnets.get(&id)?,
        None => subnets.default_in(zone.as_deref(), |zone| services::is_offered(region, &instance_type, zone))?,
    };
    if !services::is_offered(region, &instance_type, &subnet.zone) {
        return Err(faults::not_offered(&instance_type, &subnet.zone));
    }
    let count = parameters.number("MaxCount").unwrap_or(1);
    if subnet.available < parameters.number("MinCount").unwrap_or(1) {
        return Err(faults::no_free_addresses(&subnet.id));
    }
    let market = sent_or("InstanceMarketOptions.MarketType", "instanceMarketOptions/marketType");
    let reservation = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId";
    let in_template = "capacityReservationSpecification/capacityReservationTarget/capacityReservationId";
    Ok(Order {
        reservation: sent_or(reservation, in_template),
        placement_group: parameters
            .text("Placement.GroupName")
            .map(str::to_owned)
            .or_else(|| template.as_ref()?.placement_group()),
        instance_type,
        zone: subnet.zone.clone(),
        subnet: subnet.id.clone(),
        capacity_type: if market.as_deref() == Some("spot") { CapacityType::Spot } else { CapacityType::OnDemand },
        count,
        image,
        architecture: of_image,
        template,
        instance_tags: parameters.tags_for("instance"),
        volume_tags: parameters.tags_for("volume"),
        fleet: None,
        sent: parameters.clone(),
    })
}
