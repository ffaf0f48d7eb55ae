//! Devices that nodes have, and those that nodes of each instance type would have, by the requests that they meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::selector::{self, Selector};
use super::table::Devices;
use crate::devices::qualified;
use crate::{Attribute, Device, DeviceAlternative, DeviceClass};

/// Number of claims for a device that any number of them share.
const UNLIMITED: u32 = 1 << 20;

/// Cost of the selectors that the requests of a namespace may have, by [`selector::cost`]: some hundred requests with
/// selectors as they are usually written. Each is evaluated for some hundred kinds of devices.
const SHARE: usize = 1 << 17;

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
    /// Cost of the selectors that were compiled for each namespace.
    spent: FxHashMap<Arc<str>, usize>,
    /// Devices by driver, of equal ones one, whose addresses are keys.
    kept: FxHashMap<Arc<str>, FxHashSet<Arc<Device>>>,
    met: FxHashMap<usize, Arc<Met>>,
}

/// Requests that a device meets.
#[derive(Debug, Default)]
struct Met {
    requests: BTreeSet<RequestId>,
    /// Number of claims that it can take, each counted as the largest one; none if it meets no request.
    claims: Option<u32>,
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
    /// Adds a request of a namespace, unless it is over the share of the namespace.
    pub(super) fn add(
        &mut self,
        namespace: &str,
        wanted: &DeviceAlternative,
        classes: &BTreeMap<Arc<str>, DeviceClass>,
    ) {
        let key = Key::of(wanted);
        if self.ids.contains_key(&key) {
            return;
        }
        let known = classes.get(&wanted.class);
        let texts = || known.iter().flat_map(|class| &class.selectors).chain(&wanted.selectors);
        let cost = texts().map(|text| selector::cost(text)).fold(selector::LEAST_COST, usize::saturating_add);
        let spent = self.spent.entry(namespace.into()).or_default();
        let sum = spent.saturating_add(cost);
        if sum > SHARE {
            return;
        }
        *spent = sum;
        let selectors = match known {
            None => Err(format!("DeviceClass `{}` does not exist", wanted.class)),
            Some(_) => texts().map(|text| compile(text)).collect(),
        };
        self.ids.insert(key, self.requests.len());
        self.requests.push(Compiled { selectors, capacity: wanted.capacity.clone() });
    }

    /// Returns the ID of a request that was added.
    pub(super) fn id(&self, wanted: &DeviceAlternative) -> RequestId {
        self.ids.get(&Key::of(wanted)).copied().unwrap_or(RequestId::MAX)
    }

    /// Returns true if the device meets these requests and no others.
    pub(super) fn meets_exactly(
        &mut self,
        driver: &Arc<str>,
        device: &Arc<Device>,
        requests: &BTreeSet<RequestId>,
    ) -> bool {
        self.met(driver, device).requests == *requests
    }

    /// Returns the reason why no device can meet a request, if there is one apart from the devices.
    pub(super) fn problem(&self, id: RequestId) -> Option<&str> {
        match self.requests.get(id) {
            Some(request) => request.selectors.as_ref().err().map(String::as_str),
            None => Some("the requests of its namespace have more selectors than are evaluated for one namespace"),
        }
    }

    /// Returns the devices that count. Of devices of one driver that meet different requests, only the largest part
    /// with equal ones counts: which of them kube-scheduler takes for a request that several meet is not known.
    pub(super) fn supply(&mut self, devices: &Devices) -> Supply {
        let mut supply = Supply::new();
        for (driver, devices) in devices {
            let mut groups: BTreeMap<BTreeSet<RequestId>, Group> = BTreeMap::new();
            for (device, count) in devices {
                let met = self.met(driver, device);
                let Some(claims) = met.claims else { continue };
                let requests = || met.requests.clone();
                let group =
                    groups.entry(requests()).or_insert_with(|| Group { requests: requests(), ..Group::default() });
                let claims = claims.saturating_mul(*count);
                group.devices.push((Arc::new(device.attributes.clone()), claims));
                group.total = group.total.saturating_add(claims);
            }
            let largest = groups.into_values().max_by(|a, b| a.total.cmp(&b.total).then(b.requests.cmp(&a.requests)));
            supply.extend(largest.map(|group| (Arc::clone(driver), group)));
        }
        supply
    }

    /// Returns the requests that a device meets. Devices that differ in unknown attributes only meet the same.
    fn met(&mut self, driver: &Arc<str>, device: &Arc<Device>) -> Arc<Met> {
        if device.is_uncertain {
            return Arc::default();
        }
        let device = self.kept(driver, device);
        let address = Arc::as_ptr(&device).addr();
        if let Some(known) = self.met.get(&address) {
            return Arc::clone(known);
        }
        let value = selector::value(driver, &device);
        let mut met = Met::default();
        for (id, Compiled { selectors, capacity }) in self.requests.iter().enumerate() {
            let meets = selectors.as_ref().is_ok_and(|all| all.iter().all(|selector| selector.matches(&value)));
            if let Some(claims) = meets.then(|| claims(driver, &device, capacity)).flatten() {
                met.requests.insert(id);
                met.claims = met.claims.min(Some(claims)).or(Some(claims));
            }
        }
        let met = Arc::new(met);
        self.met.insert(address, Arc::clone(&met));
        met
    }

    /// Returns the device of the driver that is kept for all that are equal apart from unknown attributes.
    fn kept(&mut self, driver: &Arc<str>, device: &Arc<Device>) -> Arc<Device> {
        let kept = self.kept.entry(Arc::clone(driver)).or_default();
        let mut known = Device::clone(device);
        known.attributes.retain(|_, value| !matches!(value, Attribute::Unknown(_)));
        if let Some(same) = kept.get(&known) {
            return Arc::clone(same);
        }
        let known = Arc::new(known);
        kept.insert(Arc::clone(&known));
        known
    }
}

impl Key {
    fn of(wanted: &DeviceAlternative) -> Self {
        let DeviceAlternative { class, selectors, capacity, .. } = wanted;
        Self { class: Arc::clone(class), selectors: selectors.clone(), capacity: capacity.clone() }
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
