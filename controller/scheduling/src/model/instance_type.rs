//! Instance types and their offerings.

use std::sync::Arc;

use super::{Requirements, Resource, Resources};

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
    /// Returns capacity minus overhead: the amounts that pods and daemons can use. Huge pages come out of the memory,
    /// as for the kubelet.
    pub fn allocatable(&self) -> Resources {
        let mut allocatable = self.capacity.clone();
        for (resource, amount) in self.overhead.iter() {
            if allocatable.contains(resource) {
                let left = allocatable.get(resource).saturating_sub(amount);
                allocatable.set(resource.clone(), left);
            }
        }
        let is_huge = |resource: &Resource| resource.name().starts_with("hugepages-");
        let huge = self.capacity.iter().filter(|(resource, _)| is_huge(resource)).map(|(_, amount)| amount);
        let huge = huge.fold(0_i64, i64::saturating_add);
        if huge > 0 {
            allocatable.set(Resource::Memory, allocatable.get(&Resource::Memory).saturating_sub(huge).max(0));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_come_out_of_the_memory() {
        let amounts = |memory: i64, huge: i64| {
            Resources::from_iter([(Resource::Memory, memory), (Resource::new("hugepages-2Mi"), huge)])
        };
        let of = |capacity: Resources| InstanceType {
            name: "a".into(),
            requirements: Requirements::new(),
            capacity,
            overhead: Resources::from_iter([(Resource::Memory, 100)]),
            offerings: Vec::new(),
        };
        assert_eq!(of(amounts(1000, 0)).allocatable().get(&Resource::Memory), 900);
        let with = of(amounts(1000, 300)).allocatable();
        assert_eq!((with.get(&Resource::Memory), with.get(&Resource::new("hugepages-2Mi"))), (600, 300));
        assert_eq!(of(amounts(1000, 5000)).allocatable().get(&Resource::Memory), 0);
    }
}
