//! What is offered where, and at what list price: the table that Muster's catalogue is made of.
//!
//! The table has the prices of `us-east-1`; they stand in for all regions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use muster_aws::{Architecture, Ec2};

use super::super::lock;

#[derive(Debug)]
pub(super) struct Facts {
    pub(super) price: Option<f64>,
    pub(super) architecture: &'static str,
    pub(super) bare_metal: bool,
    pub(super) spot: bool,
    pub(super) zones: Vec<Arc<str>>,
    pub(super) vcpus: u32,
    pub(super) memory_mib: u64,
}

pub(super) type Types = BTreeMap<Arc<str>, Facts>;

/// The types of a region by name; empty if there is no such region.
pub(super) fn types(region: &str) -> Arc<Types> {
    static READ: Mutex<BTreeMap<String, Arc<Types>>> = Mutex::new(BTreeMap::new());
    let mut read = lock(&READ);
    Arc::clone(
        read.entry(region.to_owned()).or_insert_with_key(|region| Arc::new(of_region(region).unwrap_or_default())),
    )
}

fn of_region(region: &str) -> Option<Types> {
    // The table is checked by a test of its crate; without it nothing would be offered, and every launch would say so.
    let ec2 = Ec2::embedded().ok()?;
    let types = ec2.types(ec2.region(region).ok()?).map(|(facts, prices)| {
        let architecture = match facts.architecture {
            Architecture::Amd64 => "x86_64",
            Architecture::Arm64 => "arm64",
        };
        let of_type = Facts {
            price: prices.linux.on_demand,
            architecture,
            bare_metal: facts.bare_metal,
            spot: facts.usage.spot,
            zones: facts.zones,
            vcpus: facts.vcpus,
            memory_mib: facts.memory_mib,
        };
        (facts.name, of_type)
    });
    Some(types.collect())
}

/// USD per hour for Windows, with its licence: other than what Muster takes where it knows no price.
pub(super) fn with_licence(linux: f64, facts: &Facts) -> f64 {
    linux + 0.05 * f64::from(facts.vcpus)
}

/// USD per hour for Linux. `None`: no list price is known.
pub(in crate::ec2) fn on_demand_price(region: &str, instance_type: &str) -> Option<f64> {
    types(region).get(instance_type)?.price
}

/// `x86_64` or `arm64`; `None` if the region has no such type.
pub(in crate::ec2) fn architecture(region: &str, instance_type: &str) -> Option<&'static str> {
    Some(types(region).get(instance_type)?.architecture)
}

/// Whether `zone` has the type.
pub(in crate::ec2) fn is_offered(region: &str, instance_type: &str, zone: &str) -> bool {
    types(region).get(instance_type).is_some_and(|facts| facts.zones.iter().any(|offered| &**offered == zone))
}
