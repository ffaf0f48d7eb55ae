//! Selection of the subnet in each zone for a launch.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::nodeclass::Subnet;

/// Free addresses by subnet: the last values of EC2, minus the addresses of later launches.
///
/// A node takes as many addresses as its pod limit, since the VPC CNI assigns one to each pod. The instance type is not
/// known in advance, so the smallest limit counts, as in Karpenter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    free: BTreeMap<String, i64>,
    /// Subnets that EC2 reported as exhausted since its last values.
    exhausted: BTreeSet<String>,
    /// Number of updates from EC2, so that reservations made before an update are not released after it.
    told: u64,
}

/// Addresses reserved for a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    by_subnet: BTreeMap<String, i64>,
    told: u64,
}

// === impl Addresses ===

impl Addresses {
    /// Sets the free addresses that EC2 reported, which include earlier reservations.
    pub fn tell(&mut self, free: impl IntoIterator<Item = (String, i64)>) {
        for (subnet, free) in free {
            self.exhausted.remove(&subnet);
            self.free.insert(subnet, free);
        }
        self.told += 1;
    }

    /// Records that EC2 reported no free addresses in the subnet. Until its next values, nothing is released there:
    /// what a launch had reserved was not free either.
    pub fn exhaust(&mut self, subnet: &str) {
        self.free.insert(subnet.to_owned(), 0);
        self.exhausted.insert(subnet.to_owned());
    }

    /// Returns the number of free addresses, if it is known.
    #[must_use]
    pub fn free(&self, subnet: &str) -> Option<i64> {
        self.free.get(subnet).copied()
    }

    /// Returns for each zone the subnet with the most free addresses; ties go to the lower ID. Zones without free
    /// addresses are left out, unless no zone has any: then EC2 returns the error.
    #[must_use]
    pub fn choose(&self, subnets: &[Subnet]) -> BTreeMap<String, String> {
        let left = |subnet: &Subnet| self.free.get(&subnet.id).copied().unwrap_or(i64::MAX);
        let mut best: BTreeMap<&str, &Subnet> = BTreeMap::new();
        for subnet in subnets {
            let there = best.entry(&subnet.zone).or_insert(subnet);
            if (left(subnet), &there.id) > (left(there), &subnet.id) {
                *there = subnet;
            }
        }
        let has_room = best.values().any(|subnet| left(subnet) > 0);
        let useful = best.into_iter().filter(|(_, subnet)| !has_room || left(subnet) > 0);
        useful.map(|(zone, subnet)| (zone.to_owned(), subnet.id.clone())).collect()
    }

    /// Reserves `each` addresses in every subnet, since the instance may be launched in any of them.
    pub fn take<'a>(&mut self, subnets: impl IntoIterator<Item = &'a str>, each: i64) -> Taken {
        let mut by_subnet = BTreeMap::new();
        for subnet in subnets {
            if let Some(free) = self.free.get_mut(subnet) {
                *free = free.saturating_sub(each);
                by_subnet.insert(subnet.to_owned(), each);
            }
        }
        Taken { by_subnet, told: self.told }
    }

    /// Releases the reserved addresses of the subnets in which the instance was not launched.
    pub fn settle(&mut self, taken: &Taken, came_to: Option<&str>) {
        if taken.told != self.told {
            return;
        }
        for (subnet, amount) in taken.by_subnet.iter().filter(|(subnet, _)| Some(subnet.as_str()) != came_to) {
            if let Some(free) = self.free.get_mut(subnet).filter(|_| !self.exhausted.contains(subnet)) {
                *free = free.saturating_add(*amount);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(id: &str, zone: &str) -> Subnet {
        Subnet { id: id.to_owned(), zone: zone.to_owned(), zone_id: None }
    }

    fn chosen(addresses: &Addresses) -> Vec<String> {
        let subnets = [subnet("s-2", "a"), subnet("s-1", "a"), subnet("s-3", "b")];
        addresses.choose(&subnets).into_values().collect()
    }

    #[test]
    fn the_emptiest_subnet_of_each_zone_counted_in_flight() {
        let mut addresses = Addresses::default();
        addresses.tell([("s-1", 100), ("s-2", 100), ("s-3", 5)].map(|(id, free)| (id.to_owned(), free)));
        assert_eq!(chosen(&addresses), ["s-1", "s-3"], "of equals the lesser id");
        let taken = addresses.take(["s-1", "s-3"], 29);
        assert_eq!(chosen(&addresses), ["s-2"], "-24 are no addresses");
        addresses.settle(&taken, Some("s-1"));
        assert_eq!(chosen(&addresses), ["s-2", "s-3"]);
        assert_eq!((addresses.free("s-1"), addresses.free("s-3")), (Some(71), Some(5)));
        let taken = addresses.take(["s-2"], 29);
        addresses.tell([("s-2".to_owned(), 71)]);
        addresses.settle(&taken, None);
        assert_eq!(addresses.free("s-2"), Some(71), "what EC2 has said since is not changed");
    }

    #[test]
    fn what_a_launch_reserved_is_given_back_unless_ec2_says_that_the_subnet_is_full() {
        let mut addresses = Addresses::default();
        addresses.tell([("s-1".to_owned(), 29), ("s-2".to_owned(), 29)]);
        let taken = addresses.take(["s-1", "s-2"], 29);
        addresses.settle(&taken, Some("s-1"));
        assert_eq!((addresses.free("s-1"), addresses.free("s-2")), (Some(0), Some(29)), "the last ones are given back");
        let first = addresses.take(["s-2"], 10);
        addresses.exhaust("s-2");
        let second = addresses.take(["s-2"], 10);
        addresses.settle(&first, None);
        addresses.settle(&second, None);
        assert!(addresses.free("s-2") <= Some(0), "EC2 said that there are none");
        addresses.tell([("s-2".to_owned(), 29)]);
        let taken = addresses.take(["s-2"], 10);
        addresses.settle(&taken, None);
        assert_eq!(addresses.free("s-2"), Some(29), "EC2 has said since that there are some");
    }

    #[test]
    fn a_subnet_that_is_full_is_left_alone_unless_all_are() {
        let mut addresses = Addresses::default();
        addresses.exhaust("s-3");
        assert_eq!(chosen(&addresses), ["s-1"]);
        for full in ["s-1", "s-2"] {
            addresses.exhaust(full);
        }
        assert_eq!(chosen(&addresses), ["s-1", "s-3"]);
    }
}
