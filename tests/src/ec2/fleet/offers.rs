//! The pools that a fleet may draw from, each with its price, its depth and what is left of it.

use super::super::answer::ApiError;
use super::super::faults::{self, CapacityType, Place};
use super::super::network::{Subnet, Subnets};
use super::super::request::Request;
use super::super::services;
use super::super::shared::Shared;
use super::super::template::Template;
use super::choose::Offer;
use super::request::{FleetRequest, Override};

/// A pool, and what of the request led to it.
#[derive(Debug, Clone)]
pub(super) struct Offered {
    pub(super) offer: Offer,
    pub(super) asked: Override,
    pub(super) template: Template,
    pub(super) image: String,
    pub(super) architecture: String,
    pub(super) reservation: Option<String>,
    pub(super) placement_group: Option<String>,
}

/// One for each override, in the order of the request.
pub(super) async fn of(
    shared: &Shared,
    request: &Request,
    fleet: &FleetRequest,
    capacity_type: CapacityType,
) -> Result<Vec<Offered>, ApiError> {
    let subnets = Subnets::all(shared, request).await?;
    let mut offers = Vec::new();
    for config in &fleet.configs {
        let template = Template::find(shared, request, &config.template).await?;
        for asked in &config.overrides {
            offers.push(offer(shared, request, (fleet, &subnets, &template), asked, capacity_type).await?);
        }
    }
    Ok(offers)
}

async fn offer(
    shared: &Shared,
    request: &Request,
    (fleet, subnets, template): (&FleetRequest, &Subnets, &Template),
    asked: &Override,
    capacity_type: CapacityType,
) -> Result<Offered, ApiError> {
    let region = &request.region;
    let missing =
        |what: &str| faults::invalid_value(format!("Neither the override nor the launch template has {what}."));
    let instance_type = asked.instance_type.clone().or_else(|| template.text("instanceType"));
    let instance_type = instance_type.ok_or_else(|| missing("an instance type"))?;
    let architecture = services::architecture(region, &instance_type)
        .ok_or_else(|| faults::invalid_value(format!("Invalid value '{instance_type}' for InstanceType.")))?;
    let image = asked.image.clone().or_else(|| template.text("imageId")).ok_or_else(|| missing("an image"))?;
    let of_image = shared.architecture_of(request, &image).await?;
    let subnet = match asked.subnet.clone().or_else(|| template.subnet()) {
        Some(id) => subnets.get(&id)?,
        None => subnets.default_in(asked.zone.as_deref(), |zone| services::is_offered(region, &instance_type, zone))?,
    };
    let mut offer = plain(shared, region, &instance_type, subnet, asked, capacity_type);
    if of_image != architecture {
        offer.refuse(faults::wrong_architecture(architecture, &of_image));
    }
    let reservation = template.reservation();
    let state = shared.state();
    if let Some(id) = &reservation {
        let reservation = state.reservations.get(id).ok_or_else(|| services::no_reservation(id))?;
        let is_active = reservation.is_active(shared.clock.now());
        let fits = reservation.instance_type == instance_type && reservation.zone == subnet.zone;
        let (target, market) = reservation.market.asked_as();
        if fleet.target() != target || template.text("instanceMarketOptions/marketType").as_deref() != market {
            offer.refuse(faults::invalid_value(format!(
                "The capacity reservation '{id}' needs the target capacity type {target}."
            )));
        }
        let now = shared.clock.now();
        let left = if is_active && fits { state.reservations.available(reservation, &state.instances, now) } else { 0 };
        offer.limit(left, faults::reservation_exceeded);
    }
    let placement_group = asked.placement_group.clone().or_else(|| template.placement_group());
    let paid = if reservation.is_some() { CapacityType::Reserved } else { capacity_type };
    let place = Place { instance_type: &instance_type, zone: &subnet.zone, subnet: &subnet.id, capacity_type: paid };
    let supply = state.rules.supply(&place);
    if let (Some(left), Some(error)) = (supply.left, supply.short_of) {
        offer.limit(left, || error);
    }
    drop(state);
    let (asked, template) = (asked.clone(), template.clone());
    Ok(Offered { offer, asked, template, image, architecture: of_image, reservation, placement_group })
}

/// What the market, the table of offerings and the subnet say.
fn plain(
    shared: &Shared,
    region: &str,
    instance_type: &str,
    subnet: &Subnet,
    asked: &Override,
    capacity_type: CapacityType,
) -> Offer {
    let now = shared.clock.now();
    let state = shared.state();
    let list_price = services::on_demand_price(region, instance_type);
    let price = match capacity_type {
        CapacityType::Spot => state.market.price(region, instance_type, &subnet.zone, now),
        CapacityType::OnDemand | CapacityType::Reserved => list_price,
    };
    let mut offer = Offer {
        instance_type: instance_type.to_owned(),
        zone: subnet.zone.clone(),
        subnet: subnet.id.clone(),
        // Without a list price it is tried last.
        price: price.unwrap_or(f64::MAX),
        priority: asked.priority,
        weight: asked.weight.filter(|weight| *weight > 0.0).unwrap_or(1.0),
        depth: state.market.depth(instance_type, &subnet.zone),
        left: None,
        short_of: None,
    };
    if !services::is_offered(region, instance_type, &subnet.zone) {
        offer.refuse(faults::not_offered(instance_type, &subnet.zone));
    }
    offer.limit(subnet.available, || faults::no_free_addresses(&subnet.id));
    if capacity_type == CapacityType::Spot {
        offer.cap_price(asked.max_price);
    }
    offer
}
