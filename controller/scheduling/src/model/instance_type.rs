//! Instance types and their offerings.

use std::sync::Arc;

use super::{Requirements, Resources};

/// An instance type as one NodeClass sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceType {
    /// Its name (`m7g.large`).
    pub name: Arc<str>,
    /// The labels of its nodes; several values where the launch decides (zones, capacity types).
    pub requirements: Requirements,
    /// Capacity that the node reports.
    pub capacity: Resources,
    /// Sum of kube-reserved, system-reserved and the eviction threshold.
    pub overhead: Resources,
    /// Zones, capacity types and reservations in which it is offered.
    pub offerings: Vec<Offering>,
}

impl InstanceType {
    /// Returns capacity minus overhead: the amounts that pods and daemons can use.
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
    /// Zone, capacity type, and reservation if there is one.
    pub requirements: Requirements,
    /// USD per hour; `None` if unknown, and such an offering is never launched.
    pub price: Option<f64>,
    /// True if the cloud is believed to have it now.
    pub available: bool,
    /// Instances left in the reservation; only for capacity type `reserved`.
    pub reservation_capacity: u32,
}

impl Offering {
    /// Returns its zone, if it has exactly one.
    pub fn zone(&self) -> Option<&str> {
        self.requirements.single(crate::labels::ZONE)
    }

    /// Returns its capacity type (`on-demand`, `spot`, `reserved`), if it has exactly one.
    pub fn capacity_type(&self) -> Option<&str> {
        self.requirements.single(crate::labels::CAPACITY_TYPE)
    }

    /// Returns true if its capacity type is `reserved`: it is already paid for.
    pub fn reserved(&self) -> bool {
        self.capacity_type() == Some("reserved")
    }

    /// Returns true if it is available and its price is known.
    pub fn launchable(&self) -> bool {
        self.available && self.price.is_some_and(|price| price.is_finite() && price >= 0.0)
    }
}
