//! What can be launched.

use std::sync::Arc;

use super::{Requirements, Resources};

/// An instance type as one NodeClass sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceType {
    /// Its name (`m7g.large`).
    pub name: Arc<str>,
    /// The labels of its nodes; several values where the launch decides (zones, capacity types).
    pub requirements: Requirements,
    /// What the node reports as capacity.
    pub capacity: Resources,
    /// Kube-reserved, system-reserved and eviction threshold together.
    pub overhead: Resources,
    /// Where and how it can be bought.
    pub offerings: Vec<Offering>,
}

impl InstanceType {
    /// Capacity less overhead: what pods and daemons may use.
    pub fn allocatable(&self) -> Resources {
        let mut allocatable = self.capacity.clone();
        for (resource, amount) in self.overhead.iter() {
            if allocatable.contains(resource) {
                let left = allocatable.get(resource).saturating_sub(amount);
                allocatable.set(resource.clone(), left);
            }
        }
        allocatable
    }
}

/// One way to buy an instance type.
#[derive(Debug, Clone, PartialEq)]
pub struct Offering {
    /// Zone, capacity type, and the reservation if it is one.
    pub requirements: Requirements,
    /// USD per hour; `None` is unknown, and such an offering is never launched.
    pub price: Option<f64>,
    /// Whether the cloud is believed to have it now.
    pub available: bool,
    /// Instances left in the reservation; only for capacity type `reserved`.
    pub reservation_capacity: u32,
}

impl Offering {
    /// Its zone, if it has exactly one.
    pub fn zone(&self) -> Option<&str> {
        self.requirements.single(crate::labels::ZONE)
    }

    /// Its capacity type (`on-demand`, `spot`, `reserved`), if it has exactly one.
    pub fn capacity_type(&self) -> Option<&str> {
        self.requirements.single(crate::labels::CAPACITY_TYPE)
    }

    /// Whether it is capacity that is paid for already.
    pub fn reserved(&self) -> bool {
        self.capacity_type() == Some("reserved")
    }

    /// Available and with a known price.
    pub fn launchable(&self) -> bool {
        self.available && self.price.is_some_and(|price| price.is_finite() && price >= 0.0)
    }
}
