//! Amounts of resources as exact integers.

use std::fmt;
use std::sync::Arc;

/// A resource name. The four that every pod has are cheap to compare; the others are shared text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// `cpu`, in millicores.
    Cpu,
    /// `memory`, in bytes.
    Memory,
    /// `ephemeral-storage`, in bytes.
    EphemeralStorage,
    /// `pods`, a count.
    Pods,
    /// Any other resource (`nvidia.com/gpu`, `hugepages-2Mi`, `nodes`), in its own unit.
    Other(Arc<str>),
}

impl Resource {
    /// Prefix of the resources that are attach limits of CSI drivers, as kubelets have named them.
    pub const ATTACHABLE: &str = "attachable-volumes-csi-";

    /// Returns the resource for the number of volumes of a CSI driver that a node can attach.
    #[must_use]
    pub fn attachable(driver: &str) -> Self {
        Self::new(&format!("{}{driver}", Self::ATTACHABLE))
    }

    /// Prefix of the resources that are devices of DRA drivers.
    const DEVICES: &str = "devices.resource.k8s.io/";
    /// Resource for groups of devices that claims take as a whole.
    const DEVICE_GROUPS: &str = "groups.devices.resource.k8s.io";

    /// Returns the resource for the devices of a DRA driver, which claims take.
    #[must_use]
    pub fn devices(driver: &str) -> Self {
        Self::new(&format!("{}{driver}", Self::DEVICES))
    }

    /// Returns the resource for groups of devices with one value of an attribute.
    #[must_use]
    pub fn device_groups() -> Self {
        Self::new(Self::DEVICE_GROUPS)
    }

    /// Returns the DRA driver if the resource is its devices.
    #[must_use]
    pub fn device_driver(&self) -> Option<&str> {
        self.name().strip_prefix(Self::DEVICES)
    }

    /// Returns true if the resource exists for the engine only: claims of pods take it, no node lists it.
    #[must_use]
    pub fn is_of_claims(&self) -> bool {
        self.device_driver().is_some() || self.name() == Self::DEVICE_GROUPS
    }

    /// Returns the resource with the Kubernetes name `name`.
    pub fn new(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            "pods" => Self::Pods,
            other => Self::Other(other.into()),
        }
    }

    /// Returns the Kubernetes name.
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Pods => "pods",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Number of volumes that a node can attach if nothing is known of it.
pub(crate) const UNLIMITED: i64 = 1 << 30;

/// Amounts by resource, sorted by resource: cpu in millicores, all others in their base unit (bytes, counts), fractions
/// rounded up by the parser. An absent resource is zero. Arithmetic saturates: a sum beyond 2⁶³ is "too much" either
/// way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Resources(Vec<(Resource, i64)>);

impl Resources {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the numbers of volumes that a node with these resources can attach, by CSI driver.
    #[must_use]
    pub fn attach_limits(&self) -> Vec<(Arc<str>, u32)> {
        let limits = self.iter().filter_map(|(resource, count)| {
            let driver = resource.name().strip_prefix(Resource::ATTACHABLE)?;
            Some((Arc::from(driver), u32::try_from(count).unwrap_or(0)))
        });
        limits.collect()
    }

    /// Returns the amount of `resource`, zero if absent.
    pub fn get(&self, resource: &Resource) -> i64 {
        self.find(resource).map_or(0, |at| self.0[at].1)
    }

    /// Returns the amount that a node of this capacity counts against a pool's limit on `resource`: 1 for `nodes`.
    pub(crate) fn against_limit(&self, resource: &Resource) -> i64 {
        if resource.name() == "nodes" { 1 } else { self.get(resource) }
    }

    /// Returns true if `resource` is listed, even with amount zero.
    pub fn contains(&self, resource: &Resource) -> bool {
        self.find(resource).is_ok()
    }

    /// Sets the amount of `resource`.
    pub fn set(&mut self, resource: Resource, amount: i64) {
        match self.find(&resource) {
            Ok(at) => self.0[at].1 = amount,
            Err(at) => self.0.insert(at, (resource, amount)),
        }
    }

    /// Removes `resource` from the list.
    pub fn remove(&mut self, resource: &Resource) {
        if let Ok(at) = self.find(resource) {
            self.0.remove(at);
        }
    }

    /// Returns all entries, sorted by resource.
    pub fn iter(&self) -> impl Iterator<Item = (&Resource, i64)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }

    /// Returns true if no resource is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts every amount of `other`; results may be negative.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Replaces the amount of every resource of `other`. Both lists are sorted, so each is read once.
    fn combine(&mut self, other: &Self, result: impl Fn(i64, i64) -> i64) {
        let mut from = 0;
        for (resource, amount) in &other.0 {
            let at = from + self.0[from..].iter().take_while(|(known, _)| known < resource).count();
            match self.0.get_mut(at) {
                Some((known, sum)) if known == resource => *sum = result(*sum, *amount),
                _ => self.0.insert(at, (resource.clone(), result(0, *amount))),
            }
            from = at + 1;
        }
    }

    /// Raises every amount to at least that of `other`.
    pub fn raise_to(&mut self, other: &Self) {
        for (resource, amount) in other.iter() {
            if !self.contains(resource) || self.get(resource) < amount {
                self.set(resource.clone(), amount);
            }
        }
    }

    /// Returns the first resource of which `available` has less than this request, with the missing amount.
    pub fn first_shortage(&self, available: &Self) -> Option<(&Resource, i64)> {
        self.iter().find_map(|(resource, amount)| {
            let there = available.get(resource);
            (amount > there && amount > 0).then(|| (resource, amount.saturating_sub(there)))
        })
    }

    fn find(&self, resource: &Resource) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(resource))
    }
}

impl FromIterator<(Resource, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (Resource, i64)>>(entries: I) -> Self {
        let mut resources = Self::new();
        for (resource, amount) in entries {
            resources.set(resource, amount);
        }
        resources
    }
}
