//! Conversion of facts and settings to instance types of the scheduling model.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::labels::{self, CAPACITY_TYPE, ZONE};
use muster_scheduling::model::{InstanceType, Offering};

use crate::class::ClassSettings;
use crate::embedded::Ec2;
use crate::error::Error;
use crate::facts::{InstanceTypeFacts, Place};
use crate::intern::Texts;
use crate::offerings::Slots;
use crate::prices::Prices;
use crate::requirements::LabelWriter;
use crate::{capacity, overhead, requirements};

/// Resolves the types of one region under one NodeClass. Reuse it, since the common parts of all types are computed
/// once.
#[derive(Debug)]
pub struct Resolver<'a> {
    place: Place<'a>,
    class: &'a ClassSettings,
    slots: Slots,
    texts: Texts,
}

impl<'a> Resolver<'a> {
    /// Creates a resolver for the types of `place` under `class`.
    pub fn new(place: Place<'a>, class: &'a ClassSettings) -> Self {
        let mut texts = Texts::default();
        let slots = Slots::new(place.zones, class, &mut texts);
        Self { place, class, slots, texts }
    }

    /// Returns the type in the scheduling model. A type that the class cannot launch has no available offering.
    pub fn resolve(&mut self, facts: &InstanceTypeFacts, prices: &Prices) -> InstanceType {
        let offerings = self.slots.of_type(facts, self.class, prices, &mut self.texts);
        let mut labels = LabelWriter::new(&mut self.texts);
        requirements::of_type(&mut labels, facts, self.class, self.place.region);
        // Only zones of available offerings count: others must not look like a choice.
        labels.many(ZONE, available(&offerings, ZONE));
        labels.many(CAPACITY_TYPE, available(&offerings, CAPACITY_TYPE));
        let zone_ids = available(&offerings, labels::ZONE_ID);
        if !zone_ids.is_empty() {
            labels.many(labels::ZONE_ID, zone_ids);
        }
        for key in [
            labels::CAPACITY_RESERVATION_ID,
            labels::CAPACITY_RESERVATION_TYPE,
            labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        ] {
            labels.many(key, available(&offerings, key));
        }
        InstanceType {
            name: Arc::clone(&facts.name),
            requirements: labels.finish(),
            capacity: capacity::of_type(facts, self.class),
            overhead: overhead::of_type(facts, self.class),
            offerings,
        }
    }
}

/// Returns the values of `key` among available offerings.
fn available(offerings: &[Offering], key: &str) -> BTreeSet<Arc<str>> {
    let of_available = offerings.iter().filter(|offering| offering.available);
    of_available.filter_map(|offering| offering.requirements.get(key)?.single().cloned()).collect()
}

/// Resolves one type. For many types of one region use a [`Resolver`].
pub fn resolve(facts: &InstanceTypeFacts, prices: &Prices, place: Place<'_>, class: &ClassSettings) -> InstanceType {
    Resolver::new(place, class).resolve(facts, prices)
}

/// Returns all embedded types of `region` under `class`, sorted by name.
///
/// # Errors
/// If the embedded table does not have the region.
pub fn instance_types(region: &str, class: &ClassSettings) -> Result<Vec<InstanceType>, Error> {
    let ec2 = Ec2::embedded()?;
    let found = ec2.region(region)?;
    let mut resolver = Resolver::new(found.place(), class);
    Ok(ec2.types(found).map(|(facts, prices)| resolver.resolve(&facts, &prices)).collect())
}
