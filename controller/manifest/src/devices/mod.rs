//! Objects of dynamic resource allocation (`resource.k8s.io`): classes of devices, claims, and what drivers publish.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::model::Resource;

use super::field::{Decoded, Field};
use super::meta::{Meta, meta};

mod claim;

pub use claim::{
    AllocatedDevice, DeviceAlternative, DeviceClaimSpec, DeviceConstraint, DeviceCount, DeviceRequest, Located,
};
pub(crate) use claim::{allocation, claim_spec};

/// A DeviceClass.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceClass {
    /// Name.
    pub name: Arc<str>,
    /// CEL expressions, all of which a device must meet.
    pub selectors: Vec<Arc<str>>,
}

/// A ResourceClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceClaim {
    /// Metadata.
    pub meta: Meta,
    /// Requested devices.
    pub spec: Arc<DeviceClaimSpec>,
    /// Devices that kube-scheduler has allocated.
    pub allocation: Option<Allocation>,
}

/// A ResourceClaimTemplate.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceClaimTemplate {
    /// Metadata.
    pub meta: Meta,
    /// Devices that each claim requests.
    pub spec: Arc<DeviceClaimSpec>,
}

/// `status.allocation` of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// Nodes that have the devices.
    pub located: Located,
    /// The devices.
    pub devices: Vec<AllocatedDevice>,
}

/// A ResourceSlice: devices that a driver has published.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceSlice {
    /// Name.
    pub name: Arc<str>,
    /// `spec.nodeName`; none for devices that several nodes reach.
    pub node: Option<Arc<str>>,
    /// Driver.
    pub driver: Arc<str>,
    /// Pool of the driver.
    pub pool: Arc<str>,
    /// Generation of the pool.
    pub generation: i64,
    /// Number of slices of the pool.
    pub count: i64,
    /// Devices.
    pub devices: Vec<Arc<Device>>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Device {
    /// Name in its pool.
    pub name: Arc<str>,
    /// Attributes by qualified name (`gpu.nvidia.com/productName`).
    pub attributes: BTreeMap<Arc<str>, Attribute>,
    /// Capacity by qualified name.
    pub capacity: BTreeMap<Arc<str>, Capacity>,
    /// True if several claims may share it.
    pub is_shared: bool,
    /// True if it cannot be counted on: it is tainted, waits for conditions, or is a part of another device.
    pub is_uncertain: bool,
}

/// A capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Capacity {
    /// Amount, in base units.
    pub amount: i64,
    /// Amount that a claim gets that requests none; none means all of it.
    pub default: Option<i64>,
    /// Smallest amount, and the step in which a larger one grows.
    pub range: Option<(i64, Option<i64>)>,
    /// Possible amounts, ascending; empty means any.
    pub choices: Vec<i64>,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// A text.
    Text(Arc<str>),
    /// A number.
    Number(i64),
    /// A boolean.
    Flag(bool),
    /// A semantic version.
    Version(Arc<str>),
    /// A value that is known only once the node runs; devices with the same number have the same one.
    Unknown(u32),
}

// === impl Capacity ===

impl Capacity {
    /// Returns the amount that a claim with this request consumes; none if the device never grants it.
    pub(crate) fn consumed(&self, requested: Option<i64>) -> Option<i64> {
        let Some(wanted) = requested.or(self.default) else { return Some(self.amount) };
        let granted = match self.range {
            _ if !self.choices.is_empty() => self.choices.iter().copied().find(|choice| *choice >= wanted)?,
            Some((least, step)) if wanted > least => {
                let step = step.unwrap_or(1).max(1);
                least
                    .saturating_add((wanted - least).div_euclid(step).saturating_mul(step))
                    .saturating_add(if (wanted - least).rem_euclid(step) > 0 { step } else { 0 })
            }
            Some((least, _)) => least,
            None => wanted,
        };
        (granted <= self.amount).then_some(granted)
    }
}

/// Returns the name of an attribute or capacity with its domain, by default that of the driver.
pub(crate) fn qualified(driver: &str, name: &str) -> Arc<str> {
    if name.contains('/') { name.into() } else { format!("{driver}/{name}").into() }
}

/// Decodes a DeviceClass.
pub(crate) fn device_class(object: &Field<'_>) -> Decoded<DeviceClass> {
    let meta = meta(object, false)?;
    let selectors = object.read_or_default("spec", |spec| claim::selectors(&spec))?;
    Ok(DeviceClass { name: meta.name, selectors })
}

/// Decodes a ResourceClaim.
pub(crate) fn resource_claim(object: &Field<'_>) -> Decoded<ResourceClaim> {
    let meta = meta(object, true)?;
    let spec = Arc::new(claim_spec(&object.require("spec")?)?);
    let allocation = object.read("status", |status| status.read("allocation", |found| allocation(&found)))?;
    Ok(ResourceClaim { meta, spec, allocation: allocation.flatten() })
}

/// Decodes a ResourceClaimTemplate.
pub(crate) fn resource_claim_template(object: &Field<'_>) -> Decoded<ResourceClaimTemplate> {
    let meta = meta(object, true)?;
    let spec = object.require("spec")?;
    Ok(ResourceClaimTemplate { meta, spec: Arc::new(claim_spec(&spec.require("spec")?)?) })
}

/// Decodes a ResourceSlice.
pub(crate) fn resource_slice(object: &Field<'_>) -> Decoded<ResourceSlice> {
    let name = meta(object, false)?.name;
    let spec = object.require("spec")?;
    let driver = spec.require("driver")?.shared()?;
    let pool = spec.require("pool")?;
    let number = |key: &str| pool.read(key, |field| field.integer(0, i64::MAX));
    let (generation, count) = (number("generation")?.unwrap_or(0), number("resourceSliceCount")?.unwrap_or(1));
    let devices = spec.list("devices", |field| Ok(Arc::new(device(&field, &driver)?)))?;
    Ok(ResourceSlice {
        name,
        node: spec.shared_at("nodeName")?,
        pool: pool.require("name")?.shared()?,
        driver,
        generation,
        count,
        devices,
    })
}

fn device(field: &Field<'_>, driver: &str) -> Decoded<Device> {
    // Versions before v1 nest the properties.
    let basic = field.get("basic")?;
    let properties = basic.as_ref().unwrap_or(field);
    let mut attributes = BTreeMap::new();
    for (name, value) in properties.read("attributes", entries)?.into_iter().flatten() {
        if let Some(value) = value {
            attributes.insert(qualified(driver, &name), value);
        }
    }
    let mut capacities = BTreeMap::new();
    properties.read("capacity", |all| {
        for (name, field) in all.entries()? {
            capacities.insert(qualified(driver, name), capacity(&field)?);
        }
        Ok(())
    })?;
    let has = |key: &str| -> Decoded<bool> { Ok(!properties.list(key, |_| Ok(()))?.is_empty()) };
    let evicts = properties.list("taints", |taint| Ok(taint.shared_at("effect")?.as_deref() != Some("None")))?;
    Ok(Device {
        name: field.require("name")?.shared()?,
        attributes,
        capacity: capacities,
        is_shared: properties.read("allowMultipleAllocations", |flag| flag.boolean())?.unwrap_or(false),
        is_uncertain: evicts.contains(&true) || has("consumesCounters")? || has("bindingConditions")?,
    })
}

fn capacity(field: &Field<'_>) -> Decoded<Capacity> {
    let amount = |field: Field<'_>| field.quantity(&Resource::Memory);
    let policy = field.read("requestPolicy", |policy| {
        let range = policy
            .read("validRange", |range| Ok((range.read("min", amount)?.unwrap_or(0), range.read("step", amount)?)))?;
        let mut choices = policy.list("validValues", amount)?;
        choices.sort_unstable();
        Ok(Capacity { amount: 0, default: policy.read("default", amount)?, range, choices })
    })?;
    Ok(Capacity { amount: field.read("value", amount)?.unwrap_or(0), ..policy.unwrap_or_default() })
}

/// Reads attributes by name; values of kinds that are not known are none.
fn entries(field: Field<'_>) -> Decoded<Vec<(String, Option<Attribute>)>> {
    let entry = |(name, value): (&str, Field<'_>)| Ok((name.to_owned(), attribute(&value)?));
    field.entries()?.into_iter().map(entry).collect()
}

fn attribute(field: &Field<'_>) -> Decoded<Option<Attribute>> {
    if let Some(text) = field.read("string", |value| value.shared())? {
        return Ok(Some(Attribute::Text(text)));
    }
    if let Some(number) = field.read("int", |value| value.integer(i64::MIN, i64::MAX))? {
        return Ok(Some(Attribute::Number(number)));
    }
    if let Some(flag) = field.read("bool", |value| value.boolean())? {
        return Ok(Some(Attribute::Flag(flag)));
    }
    Ok(field.read("version", |value| value.shared())?.map(Attribute::Version))
}

/// Returns the slices of the newest generation of each pool, by driver, without drivers that have an incomplete pool.
pub fn published<'s>(slices: impl Iterator<Item = &'s ResourceSlice>) -> BTreeMap<Arc<str>, Vec<&'s ResourceSlice>> {
    let mut pools: BTreeMap<(&Arc<str>, &Arc<str>), Vec<&ResourceSlice>> = BTreeMap::new();
    for slice in slices {
        let pool = pools.entry((&slice.driver, &slice.pool)).or_default();
        let newest = pool.first().map_or(i64::MIN, |other| other.generation);
        if slice.generation > newest {
            pool.clear();
        }
        if slice.generation >= newest {
            pool.push(slice);
        }
    }
    let mut drivers: BTreeMap<Arc<str>, Vec<&ResourceSlice>> = BTreeMap::new();
    let mut incomplete = Vec::new();
    for ((driver, _), slices) in pools {
        let count = slices.first().map_or(0, |slice| slice.count);
        if i64::try_from(slices.len()).is_ok_and(|there| there < count) {
            incomplete.push(driver);
        }
        drivers.entry(Arc::clone(driver)).or_default().extend(slices);
    }
    incomplete.into_iter().for_each(|driver| drop(drivers.remove(driver)));
    drivers
}
