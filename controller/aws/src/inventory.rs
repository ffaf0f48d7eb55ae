//! Instance types of a region with their zones and prices.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::model::InstanceType;

use crate::class::ClassSettings;
use crate::embedded::Ec2;
use crate::error::Error;
use crate::facts::{InstanceTypeFacts, Place};
use crate::prices::{PriceList, PriceSource, Prices};
use crate::resolve::Resolver;

/// All facts about a region's instance types, embedded or queried from EC2.
#[derive(Debug, Clone, PartialEq)]
pub struct Inventory {
    region: Arc<str>,
    zones: Vec<Arc<str>>,
    types: BTreeMap<Arc<str>, (InstanceTypeFacts, Prices)>,
    /// True if EC2 has listed the types; the embedded ones lack those that came later.
    is_described: bool,
    /// Source of the prices.
    pub price_source: PriceSource,
}

impl Inventory {
    /// Returns the embedded inventory of a region.
    ///
    /// # Errors
    /// If the embedded table does not have the region.
    pub fn embedded(region: &str) -> Result<Self, Error> {
        let ec2 = Ec2::embedded()?;
        let found = ec2.region(region)?;
        Ok(Self {
            region: region.into(),
            zones: found.zones().to_vec(),
            types: ec2.types(found).map(|(facts, prices)| (Arc::clone(&facts.name), (facts, prices))).collect(),
            is_described: false,
            price_source: found.price_source(),
        })
    }

    /// Creates an inventory from types that EC2 described with their zones. Prices are the embedded ones until they are
    /// set.
    #[must_use]
    pub fn described(region: &str, types: Vec<InstanceTypeFacts>) -> Self {
        let mut zones: Vec<Arc<str>> = types.iter().flat_map(|facts| facts.zones.iter().cloned()).collect();
        zones.sort_unstable();
        zones.dedup();
        let known = Ec2::embedded().ok();
        let own = known.and_then(|ec2| ec2.region(region).ok());
        let stand_in = own.or_else(|| known?.region(crate::PRICE_REGION).ok());
        let mut prices: BTreeMap<Arc<str>, Prices> = known
            .zip(stand_in)
            .map(|(ec2, region)| ec2.types(region).map(|(facts, prices)| (facts.name, prices)).collect())
            .unwrap_or_default();
        let types = types.into_iter().map(|facts| {
            let prices = prices.remove(&facts.name).unwrap_or_default();
            (Arc::clone(&facts.name), (facts, prices))
        });
        let price_source = own.map_or(
            PriceSource::StandIn { region: crate::PRICE_REGION, date: crate::PRICE_DATE },
            crate::Region::price_source,
        );
        let types: BTreeMap<Arc<str>, _> = types.collect();
        Self { region: region.into(), zones, is_described: !types.is_empty(), types, price_source }
    }

    /// Returns the region and its zones.
    #[must_use]
    pub fn place(&self) -> Place<'_> {
        Place { region: &self.region, zones: &self.zones }
    }

    /// Returns the facts about a type.
    #[must_use]
    pub fn facts(&self, instance_type: &str) -> Option<&InstanceTypeFacts> {
        self.types.get(instance_type).map(|(facts, _)| facts)
    }

    /// Returns the prices of a type.
    #[must_use]
    pub fn prices(&self, instance_type: &str) -> Option<&Prices> {
        self.types.get(instance_type).map(|(_, prices)| prices)
    }

    /// Returns true if EC2 has listed the types, so that one that is missing does not exist in the region.
    #[must_use]
    pub const fn is_described(&self) -> bool {
        self.is_described
    }

    /// Iterates over the names of all types, sorted.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.types.keys()
    }

    /// Copies the prices of an older inventory.
    pub fn keep_prices(&mut self, older: &Self) {
        for (name, (_, prices)) in &mut self.types {
            if let Some((_, known)) = older.types.get(name) {
                prices.clone_from(known);
            }
        }
        self.price_source.clone_from(&older.price_source);
    }

    /// Sets the prices that AWS gives; a type that the list leaves out keeps its price.
    pub fn tell(&mut self, list: &PriceList) {
        for (name, (_, prices)) in &mut self.types {
            list.lay_over(name, prices);
        }
        if list.has_on_demand() {
            self.price_source = PriceSource::Live;
        }
    }

    /// Returns all types of the scheduling model under `class`, sorted by name.
    #[must_use]
    pub fn instance_types(&self, class: &ClassSettings) -> Vec<InstanceType> {
        let mut resolver = Resolver::new(self.place(), class);
        self.types.values().map(|(facts, prices)| resolver.resolve(facts, prices)).collect()
    }

    /// Returns one type of the scheduling model under `class`.
    #[must_use]
    pub fn instance_type(&self, name: &str, class: &ClassSettings) -> Option<InstanceType> {
        let (facts, prices) = self.types.get(name)?;
        Some(Resolver::new(self.place(), class).resolve(facts, prices))
    }
}
