//! Specs of claims, and what has been allocated for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::model::Resource;

use super::Allocation;
use crate::field::{Decoded, Field};

/// Devices that a claim requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceClaimSpec {
    /// Requests.
    pub requests: Vec<DeviceRequest>,
    /// Constraints on the devices of several requests.
    pub constraints: Vec<DeviceConstraint>,
}

/// One request of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceRequest {
    /// Name.
    pub name: Arc<str>,
    /// The alternative of `exactly`, or those of `firstAvailable` in their order.
    pub alternatives: Vec<DeviceAlternative>,
}

/// Devices that meet a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceAlternative {
    /// Name among the alternatives of `firstAvailable`.
    pub name: Option<Arc<str>>,
    /// Name of the DeviceClass.
    pub class: Arc<str>,
    /// CEL expressions, all of which a device must meet.
    pub selectors: Vec<Arc<str>>,
    /// Number of devices.
    pub count: DeviceCount,
    /// True if devices are used although others have them.
    pub is_admin: bool,
    /// Requested capacity of each device, by name as written.
    pub capacity: BTreeMap<Arc<str>, i64>,
}

/// Number of devices of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceCount {
    /// This number.
    Exact(u32),
    /// All devices of the node that match.
    All,
}

/// A constraint on the devices of several requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceConstraint {
    /// Names of the requests; empty means all.
    pub requests: Vec<Arc<str>>,
    /// Qualified name of the attribute that has the same value on all devices; none for a constraint of another kind.
    pub same: Option<Arc<str>>,
}

/// Nodes that have allocated devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Located {
    /// All of them.
    Anywhere,
    /// One node.
    Node(Arc<str>),
    /// Those that a selector matches.
    Selected,
}

/// A device that was allocated to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllocatedDevice {
    /// Driver.
    pub driver: Arc<str>,
    /// Pool of the driver.
    pub pool: Arc<str>,
    /// Name of the device.
    pub device: Arc<str>,
    /// True if other claims may have the device.
    pub is_admin: bool,
}

// === impl DeviceRequest ===

impl DeviceRequest {
    /// Returns true if a constraint that lists `requests` is about this alternative.
    pub(crate) fn is_among(&self, requests: &[Arc<str>], alternative: &DeviceAlternative) -> bool {
        let is_own = |name: &Arc<str>| match (name.split_once('/'), &alternative.name) {
            (Some((request, sub)), Some(own)) => request == &*self.name && sub == &**own,
            _ => *name == self.name,
        };
        requests.is_empty() || requests.iter().any(is_own)
    }
}

/// Reads `devices` of the spec of a claim.
pub(crate) fn claim_spec(field: &Field<'_>) -> Decoded<DeviceClaimSpec> {
    field
        .read("devices", |devices| {
            let requests = devices.list("requests", |request| self::request(&request))?;
            let constraints = devices.list("constraints", |constraint| {
                let requests = constraint.list("requests", |name| name.shared())?;
                Ok(DeviceConstraint { requests, same: constraint.shared_at("matchAttribute")? })
            })?;
            Ok(DeviceClaimSpec { requests, constraints })
        })
        .map(|spec| spec.unwrap_or_else(|| DeviceClaimSpec { requests: Vec::new(), constraints: Vec::new() }))
}

fn request(field: &Field<'_>) -> Decoded<DeviceRequest> {
    let name = field.require("name")?.shared()?;
    let first = field.list("firstAvailable", |one| alternative(&one, one.shared_at("name")?))?;
    if !first.is_empty() {
        return Ok(DeviceRequest { name, alternatives: first });
    }
    let exactly = field.get("exactly")?;
    // Versions before v1beta2 have the fields in the request.
    let alternatives = vec![alternative(exactly.as_ref().unwrap_or(field), None)?];
    Ok(DeviceRequest { name, alternatives })
}

fn alternative(field: &Field<'_>, name: Option<Arc<str>>) -> Decoded<DeviceAlternative> {
    let mode = field.shared_at("allocationMode")?;
    let count = match mode.as_deref() {
        Some("All") => DeviceCount::All,
        None | Some("ExactCount") => DeviceCount::Exact(field.read("count", |count| count.count())?.unwrap_or(1)),
        Some(other) => {
            let problem = format!("`{other}` is not an allocation mode");
            return Err(field.fault_at("allocationMode", problem, "write ExactCount or All"));
        }
    };
    let capacity = field.read("capacity", |capacity| {
        capacity.read("requests", |requests| {
            let amount = |(name, field): (&str, Field<'_>)| Ok((name.into(), field.quantity(&Resource::Memory)?));
            requests.entries()?.into_iter().map(amount).collect::<Decoded<BTreeMap<Arc<str>, i64>>>()
        })
    })?;
    Ok(DeviceAlternative {
        name,
        class: field.require("deviceClassName")?.shared()?,
        selectors: selectors(field)?,
        count,
        is_admin: field.read("adminAccess", |flag| flag.boolean())?.unwrap_or(false),
        capacity: capacity.flatten().unwrap_or_default(),
    })
}

/// Reads `selectors`.
pub(super) fn selectors(field: &Field<'_>) -> Decoded<Vec<Arc<str>>> {
    let expressions =
        field.list("selectors", |selector| selector.read("cel", |cel| cel.require("expression")?.shared()))?;
    // A selector of another kind matches nothing, and neither does an empty expression.
    Ok(expressions.into_iter().map(Option::unwrap_or_default).collect())
}

/// Reads `status.allocation`.
pub(crate) fn allocation(field: &Field<'_>) -> Decoded<Allocation> {
    let devices = field.read("devices", |devices| {
        devices.list("results", |result| {
            Ok(AllocatedDevice {
                driver: result.require("driver")?.shared()?,
                pool: result.require("pool")?.shared()?,
                device: result.require("device")?.shared()?,
                is_admin: result.read("adminAccess", |flag| flag.boolean())?.unwrap_or(false),
            })
        })
    })?;
    let located = field.read("nodeSelector", |selector| {
        let names = selector.list("nodeSelectorTerms", |term| {
            let fields = term.list("matchFields", |one| {
                let is_name = one.shared_at("key")?.as_deref() == Some("metadata.name");
                let values = one.list("values", |value| value.shared())?;
                Ok(values.into_iter().filter(|_| is_name).collect::<Vec<_>>())
            })?;
            Ok(fields.into_iter().flatten().collect::<Vec<_>>())
        })?;
        let mut names = names.into_iter().flatten();
        Ok(match (names.next(), names.next()) {
            (Some(name), None) => Located::Node(name),
            _ => Located::Selected,
        })
    })?;
    Ok(Allocation { located: located.unwrap_or(Located::Anywhere), devices: devices.unwrap_or_default() })
}
