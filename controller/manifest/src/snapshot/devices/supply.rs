//! Devices that nodes have, and those that nodes of each instance type would have, by the requests that they meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cel::objects::Value;
use rustc_hash::FxHashMap;

use super::selector::{self, Selector};
use super::table::Devices;
use crate::devices::qualified;
use crate::{Attribute, Device, DeviceAlternative, DeviceClass};

/// Number of claims for a device that any number of them share.
const UNLIMITED: u32 = 1 << 20;

/// Index of a distinct request.
pub(super) type RequestId = usize;

/// A request apart from its number of devices: requests that the same devices meet share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    class: Arc<str>,
    selectors: Vec<Arc<str>>,
    capacity: BTreeMap<Arc<str>, i64>,
}

/// A request with compiled selectors.
struct Compiled {
    /// The selectors, or why they cannot be evaluated.
    selectors: Result<Vec<Selector>, String>,
    capacity: BTreeMap<Arc<str>, i64>,
}

/// Distinct requests of a snapshot, and the devices that meet them.
#[derive(Default)]
pub(super) struct Matcher {
    ids: FxHashMap<Key, RequestId>,
    requests: Vec<Compiled>,
    values: FxHashMap<usize, Value>,
    found: FxHashMap<(RequestId, usize), Option<u32>>,
    /// Devices whose addresses are keys.
    kept: Vec<Arc<Device>>,
}

/// Devices of one driver that meet the same requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Requests that each of them meets.
    pub(super) requests: BTreeSet<RequestId>,
    /// The devices, with the number of claims that those like it can take.
    pub(super) devices: Vec<(Arc<Attributes>, u32)>,
    /// Total number of claims.
    pub(super) total: u32,
}

/// Attributes of a device.
pub(super) type Attributes = BTreeMap<Arc<str>, Attribute>;

/// Devices of a node that count, by driver.
pub(super) type Supply = BTreeMap<Arc<str>, Group>;

impl Matcher {
    /// Returns the ID of a request.
    pub(super) fn id(&mut self, wanted: &DeviceAlternative, classes: &BTreeMap<Arc<str>, DeviceClass>) -> RequestId {
        let DeviceAlternative { class, selectors, capacity, .. } = wanted;
        let key = Key { class: Arc::clone(class), selectors: selectors.clone(), capacity: capacity.clone() };
        let next = self.requests.len();
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            let compiled = match classes.get(class) {
                None => Err(format!("DeviceClass `{class}` does not exist")),
                Some(known) => known.selectors.iter().chain(selectors).map(|text| compile(text)).collect(),
            };
            self.requests.push(Compiled { selectors: compiled, capacity: capacity.clone() });
        }
        id
    }

    /// Returns the ID of a request that [`Self::id`] has seen.
    pub(super) fn known_id(&self, wanted: &DeviceAlternative) -> RequestId {
        let DeviceAlternative { class, selectors, capacity, .. } = wanted;
        let key = Key { class: Arc::clone(class), selectors: selectors.clone(), capacity: capacity.clone() };
        self.ids.get(&key).copied().unwrap_or(RequestId::MAX)
    }

    /// Returns the requests that a device meets.
    pub(super) fn met(&mut self, driver: &str, device: &Arc<Device>) -> BTreeSet<RequestId> {
        (0..self.requests.len()).filter(|id| self.claims(*id, driver, device).is_some()).collect()
    }

    /// Returns the reason why no device can meet a request, if there is one apart from the devices.
    pub(super) fn problem(&self, id: RequestId) -> Option<&str> {
        self.requests.get(id)?.selectors.as_ref().err().map(String::as_str)
    }

    /// Returns the devices that count. Of devices of one driver that meet different requests, only the largest part
    /// with equal ones counts: which of them kube-scheduler takes for a request that several meet is not known.
    pub(super) fn supply(&mut self, devices: &Devices) -> Supply {
        let mut supply = Supply::new();
        for (driver, devices) in devices {
            let mut groups: BTreeMap<BTreeSet<RequestId>, Group> = BTreeMap::new();
            for (device, count) in devices {
                let met: BTreeMap<RequestId, u32> =
                    (0..self.requests.len()).filter_map(|id| Some((id, self.claims(id, driver, device)?))).collect();
                // Each claim counts as the largest one.
                let Some(claims) = met.values().min().copied() else { continue };
                let requests: BTreeSet<RequestId> = met.into_keys().collect();
                let group = groups.entry(requests.clone()).or_insert_with(|| Group { requests, ..Group::default() });
                let claims = claims.saturating_mul(*count);
                group.devices.push((Arc::new(device.attributes.clone()), claims));
                group.total = group.total.saturating_add(claims);
            }
            let largest = groups.into_values().max_by(|a, b| a.total.cmp(&b.total).then(b.requests.cmp(&a.requests)));
            supply.extend(largest.map(|group| (Arc::clone(driver), group)));
        }
        supply
    }

    /// Returns the number of claims with this request that a device can take; none if it does not meet the request.
    fn claims(&mut self, id: RequestId, driver: &str, device: &Arc<Device>) -> Option<u32> {
        if device.is_uncertain {
            return None;
        }
        let address = Arc::as_ptr(device).addr();
        if let Some(found) = self.found.get(&(id, address)) {
            return *found;
        }
        let value = self.values.entry(address).or_insert_with(|| {
            self.kept.push(Arc::clone(device));
            selector::value(driver, device)
        });
        let Compiled { selectors, capacity } = &self.requests[id];
        let meets = selectors.as_ref().is_ok_and(|all| all.iter().all(|selector| selector.matches(value)));
        let found = meets.then(|| claims(driver, device, capacity)).flatten();
        self.found.insert((id, address), found);
        found
    }
}

fn compile(text: &str) -> Result<Selector, String> {
    Selector::compile(text).map_err(|why| format!("selector `{text}` {why}"))
}

/// Returns the number of claims with this request for capacity that a device can take.
fn claims(driver: &str, device: &Device, requested: &BTreeMap<Arc<str>, i64>) -> Option<u32> {
    let wanted: BTreeMap<Arc<str>, i64> =
        requested.iter().map(|(name, amount)| (qualified(driver, name), *amount)).collect();
    if wanted.iter().any(|(name, amount)| device.capacity.get(name).is_none_or(|there| there.amount < *amount)) {
        return None;
    }
    if !device.is_shared {
        return Some(1);
    }
    let mut most = UNLIMITED;
    for (name, capacity) in &device.capacity {
        let consumed = capacity.consumed(wanted.get(name).copied())?;
        if consumed > 0 {
            most = most.min(u32::try_from(capacity.amount / consumed).unwrap_or(UNLIMITED));
        }
    }
    Some(most)
}
