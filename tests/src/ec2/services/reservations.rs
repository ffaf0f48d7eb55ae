//! Capacity reservations, which moto does not have: made, described, changed, cancelled, and used up by launches.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::super::answer::{Answer, ApiError};
use super::super::faults::invalid_value;
use super::super::instances::{Instance, Instances, Kept};
use super::super::parameters::Parameters;
use super::super::request::Request;
use super::super::shared::Shared;
use super::super::xml;
use super::prices;

/// By id.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Reservations {
    all: BTreeMap<String, Reservation>,
    /// Time for which an instance that has ended is counted.
    pub(in crate::ec2) counts_ended_for: Duration,
}

/// Way in which instances of a reservation are bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ec2) enum Market {
    OnDemand,
    Block,
    Interruptible,
}

/// A capacity block as it is bought.
pub(in crate::ec2) struct BlockOrder<'a> {
    pub(in crate::ec2) region: &'a str,
    pub(in crate::ec2) instance_type: &'a str,
    pub(in crate::ec2) zone: &'a str,
    pub(in crate::ec2) count: u32,
    pub(in crate::ec2) ends: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ec2) struct Reservation {
    pub(in crate::ec2) id: String,
    region: String,
    pub(in crate::ec2) instance_type: String,
    pub(in crate::ec2) zone: String,
    total: u32,
    /// `open`: any matching launch uses it; `targeted`: only launches that name it.
    pub(in crate::ec2) criteria: String,
    platform: String,
    tenancy: String,
    created: Timestamp,
    pub(in crate::ec2) ends: Option<Timestamp>,
    cancelled: bool,
    pub(in crate::ec2) market: Market,
    /// Instances of others in it.
    pub(in crate::ec2) others: u32,
    /// Its owner takes it back.
    pub(in crate::ec2) is_taken_back: bool,
    tags: BTreeMap<String, String>,
}

impl Reservation {
    pub(in crate::ec2) fn is_active(&self, now: Timestamp) -> bool {
        !self.cancelled && self.ends.is_none_or(|ends| now < ends)
    }

    /// How many instances it still takes.
    fn available<'a>(&self, used: impl Iterator<Item = &'a Instance>) -> u32 {
        if self.is_taken_back {
            return 0;
        }
        let used = used.filter(|instance| instance.reservation.as_ref() == Some(&self.id)).count();
        self.total.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX).saturating_add(self.others))
    }
}

impl Market {
    /// `DefaultTargetCapacityType` of a fleet, and the market type of its template, that launch into it.
    pub(in crate::ec2) const fn asked_as(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::OnDemand => ("on-demand", None),
            Self::Block => ("capacity-block", Some("capacity-block")),
            Self::Interruptible => ("reserved-capacity", Some("interruptible-capacity-reservation")),
        }
    }

    /// `InstanceLifecycle` of an instance in it.
    pub(in crate::ec2) const fn lifecycle(self) -> Option<&'static str> {
        self.asked_as().1
    }
}

impl Reservations {
    pub(in crate::ec2) fn get(&self, id: &str) -> Option<&Reservation> {
        self.all.get(id)
    }

    pub(in crate::ec2) fn change(&mut self, id: &str, change: impl FnOnce(&mut Reservation)) {
        if let Some(reservation) = self.all.get_mut(id) {
            change(reservation);
        }
    }

    pub(in crate::ec2) fn add_block(&mut self, id: &str, order: &BlockOrder<'_>, now: Timestamp) {
        let block = Reservation {
            id: id.to_owned(),
            region: order.region.to_owned(),
            instance_type: order.instance_type.to_owned(),
            zone: order.zone.to_owned(),
            total: order.count,
            criteria: "targeted".to_owned(),
            platform: "Linux/UNIX".to_owned(),
            tenancy: "default".to_owned(),
            created: now,
            ends: Some(order.ends),
            cancelled: false,
            market: Market::Block,
            others: 0,
            is_taken_back: false,
            tags: BTreeMap::new(),
        };
        self.all.insert(id.to_owned(), block);
    }

    /// Number of instances that a reservation still takes.
    pub(in crate::ec2) fn available(&self, reservation: &Reservation, instances: &Instances, now: Timestamp) -> u32 {
        let counts = |kept: &&Kept| {
            let until = |(at, _): &(Timestamp, _)| at.checked_add(self.counts_ended_for).unwrap_or(Timestamp::MAX);
            kept.ended.as_ref().is_none_or(|ended| now < until(ended))
        };
        reservation.available(instances.all().filter(counts).map(|kept| &*kept.instance))
    }

    /// The open one that a launch which names none falls into.
    pub(in crate::ec2) fn open(&self, instance_type: &str, zone: &str, now: Timestamp) -> Option<&Reservation> {
        self.all.values().find(|reservation| {
            reservation.criteria == "open"
                && reservation.instance_type == instance_type
                && reservation.zone == zone
                && reservation.is_active(now)
        })
    }
}

pub(super) fn answer(shared: &Shared, request: &Request, request_id: &str) -> Option<Result<Answer, ApiError>> {
    let Request { action, parameters, .. } = request;
    let done = |()| Answer::ec2(action, request_id, vec![xml::leaf("return", "true")]);
    Some(match action.as_str() {
        "CreateCapacityReservation" => create(shared, request).map(|made| {
            Answer::ec2(action, request_id, vec![xml::branch("capacityReservation", element(shared, &made))])
        }),
        "DescribeCapacityReservations" => describe(shared, request).map(|found| {
            let items = found.iter().map(|reservation| element(shared, reservation));
            Answer::ec2(action, request_id, vec![xml::list("capacityReservationSet", items)])
        }),
        "ModifyCapacityReservation" => modify(shared, parameters).map(done),
        "CancelCapacityReservation" => cancel(shared, parameters).map(done),
        _ => return None,
    })
}

fn create(shared: &Shared, request: &Request) -> Result<Reservation, ApiError> {
    let Request { parameters, region, .. } = request;
    let needed = |name: &str| {
        let missing =
            || ApiError::new(400, "MissingParameter", format!("The request must contain the parameter {name}"));
        parameters.text(name).map(str::to_owned).ok_or_else(missing)
    };
    let (instance_type, zone) = (needed("InstanceType")?, needed("AvailabilityZone")?);
    if !prices::is_offered(region, &instance_type, &zone) {
        return Err(super::super::faults::not_offered(&instance_type, &zone));
    }
    let total = parameters.number("InstanceCount").ok_or_else(|| invalid_value("Invalid value for InstanceCount."))?;
    let now = shared.clock.now();
    let mut state = shared.state();
    let reservation = Reservation {
        id: state.id("cr-"),
        region: region.clone(),
        instance_type,
        zone,
        total,
        criteria: parameters.text("InstanceMatchCriteria").unwrap_or("open").to_owned(),
        platform: needed("InstancePlatform")?,
        tenancy: parameters.text("Tenancy").unwrap_or("default").to_owned(),
        created: now,
        ends: end(parameters)?,
        cancelled: false,
        market: Market::OnDemand,
        others: 0,
        is_taken_back: false,
        tags: parameters
            .groups("TagSpecifications")
            .iter()
            .flat_map(|specification| specification.groups("Tag"))
            .filter_map(|tag| Some((tag.text("Key")?.to_owned(), tag.text("Value").unwrap_or_default().to_owned())))
            .collect(),
    };
    state.reservations.all.insert(reservation.id.clone(), reservation.clone());
    Ok(reservation)
}

fn end(parameters: &Parameters) -> Result<Option<Timestamp>, ApiError> {
    let read = |text: &str| text.parse().map_err(|_| invalid_value(format!("Invalid value '{text}' for EndDate.")));
    parameters.text("EndDate").map(read).transpose()
}

fn describe(shared: &Shared, request: &Request) -> Result<Vec<Reservation>, ApiError> {
    let Request { parameters, region, .. } = request;
    let state = shared.state();
    let ids = parameters.list("CapacityReservationId");
    if let Some(id) = ids.iter().find(|id| state.reservations.get(id).is_none()) {
        return Err(not_found(id));
    }
    let now = shared.clock.now();
    let wants = |reservation: &Reservation| {
        parameters.groups("Filter").iter().all(|filter| {
            let name = filter.text("Name").unwrap_or_default();
            let is = match name {
                "instance-type" => Some(reservation.instance_type.as_str()),
                "availability-zone" => Some(reservation.zone.as_str()),
                "instance-match-criteria" => Some(reservation.criteria.as_str()),
                "owner-id" => Some(shared.account.as_str()),
                "state" => Some(state_of(reservation, now)),
                "tag-key" => return filter.list("Value").iter().any(|key| reservation.tags.contains_key(key)),
                _ => name.strip_prefix("tag:").and_then(|key| reservation.tags.get(key)).map(String::as_str),
            };
            is.is_some_and(|is| filter.list("Value").iter().any(|value| value == is))
        })
    };
    let found = state.reservations.all.values().filter(|reservation| reservation.region == *region);
    let found = found.filter(|reservation| ids.is_empty() || ids.contains(&reservation.id)).filter(|it| wants(it));
    Ok(found.cloned().collect())
}

fn modify(shared: &Shared, parameters: &Parameters) -> Result<(), ApiError> {
    let id = parameters.text("CapacityReservationId").unwrap_or_default();
    let ends = end(parameters)?;
    let mut state = shared.state();
    let reservation = state.reservations.all.get_mut(id).ok_or_else(|| not_found(id))?;
    if let Some(total) = parameters.number("InstanceCount") {
        reservation.total = total;
    }
    match parameters.text("EndDateType") {
        Some("unlimited") => reservation.ends = None,
        _ => reservation.ends = ends.or(reservation.ends),
    }
    Ok(())
}

fn cancel(shared: &Shared, parameters: &Parameters) -> Result<(), ApiError> {
    let id = parameters.text("CapacityReservationId").unwrap_or_default();
    let mut state = shared.state();
    let reservation = state.reservations.all.get_mut(id).ok_or_else(|| not_found(id))?;
    reservation.cancelled = true;
    Ok(())
}

fn state_of(reservation: &Reservation, now: Timestamp) -> &'static str {
    match (reservation.cancelled, reservation.is_active(now)) {
        (true, _) => "cancelled",
        (false, true) => "active",
        (false, false) => "expired",
    }
}

fn element(shared: &Shared, reservation: &Reservation) -> Vec<xmltree::Element> {
    let state = shared.state();
    let now = shared.clock.now();
    let available =
        if reservation.is_active(now) { state.reservations.available(reservation, &state.instances, now) } else { 0 };
    let is_block = reservation.market == Market::Block;
    let Reservation { id, region, .. } = reservation;
    let arn = format!("arn:aws:ec2:{region}:{}:capacity-reservation/{id}", shared.account);
    let mut element = vec![
        xml::leaf("capacityReservationId", id),
        xml::leaf("ownerId", &shared.account),
        xml::leaf("capacityReservationArn", arn),
        xml::leaf("instanceType", &reservation.instance_type),
        xml::leaf("instancePlatform", &reservation.platform),
        xml::leaf("availabilityZone", &reservation.zone),
        xml::leaf("tenancy", &reservation.tenancy),
        xml::leaf("totalInstanceCount", reservation.total.to_string()),
        xml::leaf("availableInstanceCount", available.to_string()),
        xml::leaf("state", state_of(reservation, now)),
        xml::leaf("reservationType", if is_block { "capacity-block" } else { "default" }),
        xml::leaf("instanceMatchCriteria", &reservation.criteria),
        xml::leaf("endDateType", if reservation.ends.is_some() { "limited" } else { "unlimited" }),
        xml::leaf("createDate", reservation.created.to_string()),
        xml::leaf("startDate", reservation.created.to_string()),
        xml::leaf("interruptible", (reservation.market == Market::Interruptible).to_string()),
        xml::tag_set(&reservation.tags),
    ];
    element.extend(reservation.ends.map(|ends| xml::leaf("endDate", ends.to_string())));
    element
}

pub(in crate::ec2) fn not_found(id: &str) -> ApiError {
    let message = format!("The capacity reservation ID '{id}' does not exist");
    ApiError::new(400, "InvalidCapacityReservationId.NotFound", message)
}
