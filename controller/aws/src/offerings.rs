//! Offerings of an instance type: zones, capacity types and prices.

use std::ops::RangeInclusive;
use std::sync::Arc;

use muster_api::labels::{self, CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, ZONE};
use muster_scheduling::model::{Offering, Requirements};

use crate::class::{CapacityReservation, ClassSettings, PlacementGroup};
use crate::compatibility;
use crate::facts::{InstanceTypeFacts, PlacementStrategy};
use crate::intern::Texts;
use crate::prices::Prices;
use crate::requirements::LabelWriter;

/// Divisor of the on-demand price for reserved capacity: it is already paid for, but a cheaper type is still preferred.
const RESERVED_DISCOUNT: f64 = 10_000_000.0;

impl PlacementGroup {
    /// Returns the partitions; empty unless the strategy is partition.
    pub(crate) fn partitions(&self) -> RangeInclusive<u32> {
        let last = if self.strategy == PlacementStrategy::Partition { self.partitions } else { 0 };
        1..=last
    }
}

/// A zone and capacity type of a launch, with all labels.
#[derive(Debug)]
struct Slot {
    zone: Arc<str>,
    spot: bool,
    requirements: Requirements,
}

/// Zones × capacity types of a region under one NodeClass: the same for every instance type.
#[derive(Debug)]
pub(crate) struct Slots(Vec<Slot>);

impl Slots {
    pub(crate) fn new(zones: &[Arc<str>], class: &ClassSettings, texts: &mut Texts) -> Self {
        let mut slots = Vec::with_capacity(zones.len() * 2);
        for zone in zones {
            for (capacity_type, spot) in [(ON_DEMAND, false), (SPOT, true)] {
                let mut labels = LabelWriter::new(texts);
                place(&mut labels, capacity_type, zone, class);
                for key in [
                    labels::CAPACITY_RESERVATION_ID,
                    labels::CAPACITY_RESERVATION_TYPE,
                    labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
                ] {
                    labels.absent(key);
                }
                slots.push(Slot { zone: Arc::clone(zone), spot, requirements: labels.finish() });
            }
        }
        Self(slots)
    }

    /// Returns all offerings of `facts`, including unavailable ones; reserved ones first, then by zone.
    pub(crate) fn of_type(
        &self,
        facts: &InstanceTypeFacts,
        class: &ClassSettings,
        prices: &Prices,
        texts: &mut Texts,
    ) -> Vec<Offering> {
        let can_launch = compatibility::can_launch(facts, class);
        let on_demand = prices.on_demand(facts, class.ami_family);
        let mut offerings = Vec::with_capacity(self.0.len());
        for reservation in class.reservations.iter().filter(|reservation| reservation.instance_type == facts.name) {
            let usable = can_launch && has_zone(facts, class, &reservation.zone);
            offerings.push(reserved(reservation, usable, class, on_demand, texts));
        }
        for slot in &self.0 {
            let is_sold = if slot.spot { facts.usage.spot } else { facts.usage.on_demand };
            if is_sold {
                offerings.push(Offering {
                    requirements: slot.requirements.clone(),
                    price: if slot.spot { prices.spot(&slot.zone, facts, class.ami_family) } else { on_demand },
                    available: can_launch && has_zone(facts, class, &slot.zone),
                    reservation_capacity: 0,
                });
            }
        }
        in_partitions(offerings, class, texts)
    }
}

fn has_zone(facts: &InstanceTypeFacts, class: &ClassSettings, zone: &Arc<str>) -> bool {
    facts.zones.contains(zone) && class.zones.as_ref().is_none_or(|zones| zones.contains_key(zone))
}

fn place(labels: &mut LabelWriter<'_>, capacity_type: &str, zone: &str, class: &ClassSettings) {
    labels.one(CAPACITY_TYPE, capacity_type);
    labels.one(ZONE, zone);
    let zone_id = class.zones.as_ref().and_then(|zones| zones.get(zone)).and_then(Option::as_deref);
    if let Some(zone_id) = zone_id {
        labels.one(labels::ZONE_ID, zone_id);
    }
}

fn reserved(
    reservation: &CapacityReservation,
    usable: bool,
    class: &ClassSettings,
    on_demand: Option<f64>,
    texts: &mut Texts,
) -> Offering {
    let mut labels = LabelWriter::new(texts);
    place(&mut labels, RESERVED, &reservation.zone, class);
    labels.one(labels::CAPACITY_RESERVATION_ID, &reservation.id);
    labels
        .one(labels::CAPACITY_RESERVATION_TYPE, if reservation.capacity_block { "capacity-block" } else { "default" });
    labels.one(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, if reservation.interruptible { "true" } else { "false" });
    let left = reservation.available_instances.unwrap_or(0);
    Offering {
        requirements: labels.finish(),
        price: Some(on_demand.map_or(0.0, |price| price / RESERVED_DISCOUNT)),
        // A full one has no instances left, and is open all the same: one that ends makes room in it.
        available: usable && !reservation.expiring,
        reservation_capacity: left,
    }
}

/// Multiplies the offerings by the partitions of a partition placement group.
fn in_partitions(offerings: Vec<Offering>, class: &ClassSettings, texts: &mut Texts) -> Vec<Offering> {
    let Some(group) = class.placement_group.as_ref().filter(|group| group.strategy == PlacementStrategy::Partition)
    else {
        return offerings;
    };
    let mut multiplied = Vec::new();
    for offering in offerings {
        for partition in group.partitions() {
            let mut labels = LabelWriter::new(texts);
            labels.one(labels::PLACEMENT_GROUP_PARTITION, &partition.to_string());
            let mut of_partition = offering.clone();
            of_partition.requirements.add_all(&labels.finish());
            multiplied.push(of_partition);
        }
    }
    multiplied
}
