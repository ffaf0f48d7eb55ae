//! Generated instance types: those of Karpenter's KWOK provider, whose prices and sizes its test suites expect.

use std::sync::Arc;

use muster_api::labels::{
    AMD64, ARCH, ARM64, CAPACITY_TYPE, INSTANCE_TYPE, KWOK_INSTANCE_CPU, KWOK_INSTANCE_FAMILY, KWOK_INSTANCE_MEMORY,
    KWOK_INSTANCE_SIZE, LINUX, ON_DEMAND, OS, SPOT, WINDOWS, ZONE,
};
use muster_aws::quantity;
use muster_scheduling::model::{InstanceType, Offering, Operator, Requirement, Requirements, Resource, Resources};

const GIB: i64 = 1 << 30;
const MIB: i64 = 1 << 20;

/// Numbers of virtual CPUs.
const CPUS: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Families: name, and GiB of memory per CPU.
const FAMILIES: [(&str, i64); 3] = [("c", 2), ("s", 4), ("m", 8)];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];

/// On-demand price in USD per hour: per CPU, and per 10⁹ bytes of memory.
const PRICE: (f64, f64) = (0.025, 0.001);
/// Spot price relative to the on-demand price.
const SPOT_SHARE: f64 = 0.7;

/// Overhead reserved for the kubelet: CPU in millicores, and memory in MiB.
const RESERVED: (i64, i64) = (100, 10);

/// Returns the 144 types, sorted by name.
#[must_use]
pub fn instance_types() -> Vec<InstanceType> {
    let mut all = Vec::with_capacity(144);
    for cpus in CPUS {
        for (family, factor) in FAMILIES {
            for os in [LINUX, WINDOWS] {
                for arch in [AMD64, ARM64] {
                    all.push(by_rule(cpus, family, factor, os, arch));
                }
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn by_rule(cpus: i64, family: &str, factor: i64, os: &str, arch: &str) -> InstanceType {
    let memory = cpus * factor * GIB;
    let capacity = Resources::from_iter([
        (Resource::Cpu, cpus * 1000),
        (Resource::Memory, memory),
        (Resource::Pods, (cpus * 16).clamp(0, 1024)),
        (Resource::EphemeralStorage, 20 * GIB),
    ]);
    let price = PRICE.0 * cpus as f64 + PRICE.1 * memory as f64 / 1e9;
    let offering = |zone: &&str, bought: &str, price: f64| Offering {
        requirements: Requirements::from_iter([label(ZONE, zone), label(CAPACITY_TYPE, bought)]),
        price: Some(price),
        available: true,
        reservation_capacity: 0,
    };
    let offerings = ZONES
        .iter()
        .flat_map(|zone| [offering(zone, SPOT, price * SPOT_SHARE), offering(zone, ON_DEMAND, price)])
        .collect();
    let name = format!("{family}-{cpus}x-{arch}-{os}");
    complete(Facts { name: &name, arch, systems: &[os.to_owned()], capacity, offerings })
}

/// Properties of a type from which its labels are derived.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) arch: &'a str,
    pub(super) systems: &'a [String],
    pub(super) capacity: Resources,
    pub(super) offerings: Vec<Offering>,
}

/// Creates the type with its derived labels.
pub(super) fn complete(facts: Facts<'_>) -> InstanceType {
    let Facts { name, arch, systems, capacity, offerings } = facts;
    let (family, size) = name.split_once('.').map_or_else(
        || (name.split_once('-').map_or("", |(family, _)| family), None),
        |(family, size)| (family.split('-').next().unwrap_or(family), Some(size.to_owned())),
    );
    let cpus = quantity::format(&Resource::Cpu, capacity.get(&Resource::Cpu));
    let memory = quantity::format(&Resource::Memory, capacity.get(&Resource::Memory));
    let size = size.unwrap_or_else(|| cpus.clone());
    let mut requirements = Requirements::from_iter([
        label(INSTANCE_TYPE, name),
        label(ARCH, arch),
        (Arc::from(OS), Requirement::new(Operator::In, systems.iter().map(String::as_str))),
        label(KWOK_INSTANCE_SIZE, &size),
        label(KWOK_INSTANCE_FAMILY, family),
        label(KWOK_INSTANCE_CPU, &cpus),
        label(KWOK_INSTANCE_MEMORY, &memory),
    ]);
    // A label of offerings is a label of the type, with the values of all its offerings.
    let mut keys: Vec<Arc<str>> =
        offerings.iter().flat_map(|one| one.requirements.iter().map(|(key, _)| Arc::clone(key))).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let single = offerings.iter().filter_map(|one| one.requirements.get(&key)?.single().cloned());
        requirements.add(Arc::clone(&key), Requirement::new(Operator::In, single));
    }
    InstanceType {
        name: Arc::from(name),
        requirements,
        capacity,
        overhead: Resources::from_iter([(Resource::Cpu, RESERVED.0), (Resource::Memory, RESERVED.1 * MIB)]),
        offerings,
    }
}

pub(super) fn label(key: &str, value: &str) -> (Arc<str>, Requirement) {
    (Arc::from(key), Requirement::new(Operator::In, [value]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_gives_the_types_of_karpenters_provider() {
        let all = instance_types();
        assert_eq!(all.len(), 144);
        let one = all.iter().find(|one| &*one.name == "s-16x-amd64-linux").unwrap();
        let allocatable = one.allocatable();
        assert_eq!(allocatable.get(&Resource::Cpu), 15_900);
        assert_eq!(allocatable.get(&Resource::Memory), 65_526 * MIB);
        assert_eq!(allocatable.get(&Resource::Pods), 256);
        assert_eq!(one.offerings.len(), 8);
        let prices = |bought: &str| -> Vec<f64> {
            one.offerings.iter().filter(|o| o.capacity_type() == Some(bought)).filter_map(|o| o.price).collect()
        };
        // 59 of them cost 27.654 USD an hour, as measured.
        assert!(prices("on-demand").iter().all(|price| (price * 59.0 - 27.654).abs() < 0.001));
        assert!(prices("spot").iter().all(|price| (price - 0.7 * prices("on-demand")[0]).abs() < 1e-9));
        for (key, value) in [
            (KWOK_INSTANCE_SIZE, "16"),
            (KWOK_INSTANCE_FAMILY, "s"),
            (KWOK_INSTANCE_CPU, "16"),
            (KWOK_INSTANCE_MEMORY, "64Gi"),
            (ARCH, "amd64"),
        ] {
            assert_eq!(one.requirements.single(key), Some(value), "{key}");
        }
        assert_eq!(one.requirements.get(ZONE).unwrap().values().count(), 4);
    }

    #[test]
    fn names_of_aws_give_their_size() {
        let facts = |name| Facts {
            name,
            arch: AMD64,
            systems: &[],
            capacity: Resources::from_iter([(Resource::Cpu, 4000)]),
            offerings: Vec::new(),
        };
        let one = complete(facts("m5.xlarge"));
        assert_eq!(one.requirements.single(KWOK_INSTANCE_SIZE), Some("xlarge"));
        assert_eq!(one.requirements.single(KWOK_INSTANCE_FAMILY), Some("m5"));
        assert_eq!(complete(facts("m-4x")).requirements.single(KWOK_INSTANCE_SIZE), Some("4"));
    }
}
