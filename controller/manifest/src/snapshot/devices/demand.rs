//! Amounts of devices that the claims of a pod take from a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_scheduling::model::{Resource, Resources};

use super::supply::{Attributes, Group, RequestId, Supply};
use crate::{DeviceAlternative, DeviceClaimSpec, DeviceCount, DeviceRequest};

/// Largest number of combinations of alternatives that are tried for a pod.
const MOST_COMBINATIONS: usize = 256;

/// Devices taken from a node: number by driver, and number of groups of devices with one value of an attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Demand {
    /// Number of devices, or of shares of them.
    pub(super) devices: BTreeMap<Arc<str>, i64>,
    /// Number of groups.
    pub(super) groups: i64,
}

/// An alternative of a request, chosen for each request of the claims of a pod.
#[derive(Clone, Copy)]
pub(super) struct Choice<'c> {
    /// Index of the claim.
    claim: usize,
    request: &'c DeviceRequest,
    alternative: &'c DeviceAlternative,
    id: RequestId,
}

/// Reason why a node does not have the devices; a later variant is nearer to having them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// No device meets a request.
    None(Arc<str>),
    /// There are fewer devices than are requested.
    Few {
        /// Number of devices that there are.
        there: i64,
        /// Number of devices that are requested.
        wanted: i64,
        /// The request.
        request: Arc<str>,
    },
    /// Devices do not have one value of this attribute.
    Apart(Arc<str>),
}

impl Demand {
    /// Adds another demand.
    pub(super) fn add(&mut self, other: &Self) {
        for (driver, count) in &other.devices {
            *self.devices.entry(Arc::clone(driver)).or_default() += count;
        }
        self.groups += other.groups;
    }

    /// Adds what the demand takes to the requests of a pod.
    pub(super) fn add_to(&self, requests: &mut Resources) {
        for (driver, count) in &self.devices {
            let resource = Resource::devices(driver);
            requests.set(resource.clone(), requests.get(&resource).saturating_add(*count));
        }
        if self.groups > 0 {
            let resource = Resource::device_groups();
            requests.set(resource.clone(), requests.get(&resource).saturating_add(self.groups));
        }
    }
}

impl Lack {
    /// Describes the best of the reasons of all instance types.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::None(request) => {
                format!("no instance type of the NodePools is known to have a device for request `{request}`")
            }
            Self::Few { there, wanted, request } => {
                format!(
                    "request `{request}` takes {wanted} devices of a node, and no instance type has more than {there}"
                )
            }
            Self::Apart(attribute) => {
                format!(
                    "no instance type is known to have devices with one value of `{attribute}` for all its requests"
                )
            }
        }
    }
}

/// Returns the combinations of alternatives of the requests, the preferred one first; none if there are too many.
pub(super) fn combinations<'c>(
    claims: &[&'c DeviceClaimSpec],
    mut id: impl FnMut(&DeviceAlternative) -> RequestId,
) -> Option<Vec<Vec<Choice<'c>>>> {
    let mut all: Vec<Vec<Choice<'c>>> = vec![Vec::new()];
    for (claim, spec) in claims.iter().enumerate() {
        for request in &spec.requests {
            let choices: Vec<Choice<'c>> = request
                .alternatives
                .iter()
                .map(|alternative| Choice { claim, request, alternative, id: id(alternative) })
                .collect();
            if all.len().saturating_mul(choices.len()) > MOST_COMBINATIONS {
                return None;
            }
            let longer = |one: &Vec<Choice<'c>>| {
                let one = one.clone();
                choices.clone().into_iter().map(move |choice| one.iter().copied().chain([choice]).collect::<Vec<_>>())
            };
            all = all.iter().flat_map(longer).collect();
        }
    }
    Some(all)
}

/// Returns the request of the choices that nothing can meet, and why.
pub(super) fn hopeless<'c>(
    choices: &[Choice<'c>],
    problem: impl Fn(RequestId) -> Option<String>,
) -> Option<(&'c DeviceRequest, String)> {
    choices.iter().find_map(|choice| {
        let admin = choice.alternative.is_admin.then(|| "administrative access is not looked at".to_owned());
        admin.or_else(|| problem(choice.id)).map(|why| (choice.request, why))
    })
}

/// Returns what the choices take from a node with these devices. Constraints on the attribute `grouping` take a group
/// of devices that have one value; other devices may be taken from any group, in the worst case each from another one.
pub(super) fn evaluate(
    supply: &Supply,
    choices: &[Choice<'_>],
    claims: &[&DeviceClaimSpec],
    grouping: Option<&Arc<str>>,
) -> Result<Demand, Lack> {
    let mut demand = Demand::default();
    let mut taken: Vec<(&Arc<str>, &Group, i64)> = Vec::new();
    for Choice { request, alternative, id, .. } in choices {
        let mut meeting = supply.iter().filter(|(_, group)| group.requests.contains(id));
        // Devices of several drivers meet it: which of them would be taken is not known.
        let (Some((driver, group)), None) = (meeting.next(), meeting.next()) else {
            return Err(Lack::None(Arc::clone(&request.name)));
        };
        let count = match alternative.count {
            DeviceCount::Exact(count) => i64::from(count),
            DeviceCount::All => i64::from(group.total),
        };
        let sum = demand.devices.entry(Arc::clone(driver)).or_default();
        *sum += count;
        if *sum > i64::from(group.total) {
            let (there, request) = (i64::from(group.total), Arc::clone(&request.name));
            return Err(Lack::Few { there, wanted: *sum, request });
        }
        taken.push((driver, group, count));
    }
    let mut apart: BTreeSet<usize> = (0..choices.len()).collect();
    for (claim, spec) in claims.iter().enumerate() {
        for constraint in &spec.constraints {
            let Some(attribute) = &constraint.same else { continue };
            let is_bound = |index: &usize| {
                let choice = &choices[*index];
                choice.claim == claim && choice.request.is_among(&constraint.requests, choice.alternative)
            };
            let bound: Vec<usize> = (0..choices.len()).filter(is_bound).collect();
            let devices: Vec<_> = bound.iter().map(|index| taken[*index]).collect();
            fits_together(&devices, attribute, grouping)?;
            if grouping == Some(attribute) && !bound.is_empty() {
                demand.groups += 1;
                apart.retain(|index| !bound.contains(index));
            }
        }
    }
    if grouping.is_some() {
        demand.groups += apart.iter().map(|index| taken[*index].2).sum::<i64>();
    }
    Ok(demand)
}

/// Checks that every group of devices with one value of the attribute has all that is taken.
fn fits_together(
    taken: &[(&Arc<str>, &Group, i64)],
    attribute: &Arc<str>,
    grouping: Option<&Arc<str>>,
) -> Result<(), Lack> {
    let apart = || Lack::Apart(Arc::clone(attribute));
    let mut values = Vec::new();
    for (_, group, _) in taken {
        for (device, _) in &group.devices {
            let value = device.get(attribute).ok_or_else(apart)?;
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    if values.len() <= 1 {
        return Ok(());
    }
    if grouping != Some(attribute) {
        return Err(apart());
    }
    let mut wanted: BTreeMap<&Arc<str>, (&Group, i64)> = BTreeMap::new();
    for (driver, group, count) in taken {
        wanted.entry(driver).or_insert((group, 0)).1 += count;
    }
    let fits = |value, (group, count): &(&Group, i64)| {
        let here = group.devices.iter().filter(|(device, _)| device.get(attribute) == Some(value));
        here.map(|(_, claims)| i64::from(*claims)).sum::<i64>() >= *count
    };
    let all = values.into_iter().all(|value| wanted.values().all(|one| fits(value, one)));
    if all { Ok(()) } else { Err(apart()) }
}

/// Returns the number of groups of devices with one value of the attribute, if there are several.
pub(super) fn groups(supply: &Supply, attribute: &str) -> Option<i64> {
    let devices = supply.values().flat_map(|group| group.devices.iter().map(|(device, _)| device));
    let mut values = Vec::new();
    for value in devices.filter_map(|device: &Arc<Attributes>| device.get(attribute)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    i64::try_from(values.len()).ok().filter(|count| *count > 1)
}
