//! Real instance types against what Karpenter publishes of them: allocatable, price and every label, digit by digit.

use std::collections::{BTreeMap, BTreeSet};

use muster_aws::{ClassSettings, instance_types, quantity};
use muster_scheduling::model::{InstanceType, Resource};

const GOLDEN: &str = include_str!("golden/types.tsv");
const PREFIX: &str = "karpenter.k8s.aws/instance-";

/// Where EC2's own answers of 2026-10, or the figures of this crate, differ from that reference: type, what, ours. Anything
/// else must agree, and each of these must still differ.
const EXCEPTIONS: [(&str, &str, &str); 9] = [
    // Two network cards now: only the default card's interfaces count for pods.
    ("i7ie.48xlarge", "pods", "394"),
    ("i7ie.48xlarge", "memory", "1520655400960"),
    // Branch interfaces that the reference does not list.
    ("c8gb.metal-24xl", "vpc.amazonaws.com/pod-eni", "98"),
    ("c9g.medium", "vpc.amazonaws.com/pod-eni", "4"),
    ("hpc7g.4xlarge", "vpc.amazonaws.com/pod-eni", "118"),
    // EC2 states another clock speed.
    ("c9g.medium", "cpu-sustained-clock-speed-mhz", "3300"),
    ("i7ie.48xlarge", "cpu-sustained-clock-speed-mhz", "3200"),
    // The figures state another baseline.
    ("g7.2xlarge", "network-bandwidth", "40000"),
    // On bare metal the label exists and is empty; the reference prints no empty label.
    ("*.metal*", "hypervisor", ""),
];

fn exception(name: &str, what: &str, ours: &str) -> Option<usize> {
    let size = name.split_once('.').map_or("", |(_, size)| size);
    EXCEPTIONS.iter().position(|&(of, key, value)| {
        (of == name || (of == "*.metal*" && size.starts_with("metal"))) && key == what && value == ours
    })
}

fn labels(instance_type: &InstanceType) -> BTreeMap<String, String> {
    let single = instance_type.requirements.iter().filter_map(|(key, requirement)| {
        let key = key.strip_prefix(PREFIX).or_else(|| key.strip_prefix("kubernetes.io/"))?;
        Some((key.to_owned(), requirement.single()?.to_string()))
    });
    single.collect()
}

#[test]
fn types_are_what_karpenter_publishes() {
    let types = instance_types("us-east-1", &ClassSettings::default()).unwrap();
    let by_name: BTreeMap<&str, &InstanceType> = types.iter().map(|entry| (&*entry.name, entry)).collect();
    let mut compared = 0;
    let mut differences = Vec::new();
    let mut used = BTreeSet::new();
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let [name, allocatable, price, expected_labels] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let ours = by_name.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        let mut differs = |what: &str, expected: &str, found: &str| {
            compared += 1;
            if expected != found {
                match exception(name, what, found) {
                    Some(number) => _ = used.insert(number),
                    None => differences.push(format!("{name} {what}: expected {expected:?}, found {found:?}")),
                }
            }
        };

        let mut found: BTreeMap<String, String> =
            ours.allocatable().iter().map(|(resource, amount)| (resource.to_string(), amount.to_string())).collect();
        for (resource, amount) in allocatable.split(' ').map(|entry| entry.split_once('=').unwrap()) {
            let amount = quantity::parse(&Resource::new(resource), amount).unwrap();
            differs(resource, &amount.to_string(), &found.remove(resource).unwrap_or_default());
        }
        for (resource, amount) in found {
            differs(&resource, "", &amount);
        }

        let mut found = labels(ours);
        for (key, value) in expected_labels.split(' ').map(|entry| entry.split_once('=').unwrap()) {
            differs(key, value, &found.remove(key).unwrap_or_default());
        }
        for (key, value) in found {
            differs(&key, "absent", &value);
        }

        let on_demand = ours.offerings.iter().find(|offering| offering.capacity_type() == Some("on-demand"));
        let found_price = on_demand.and_then(|offering| offering.price).map(|price| price.to_string());
        differs("price", price, &found_price.unwrap_or_default());
    }
    assert!(compared > 1200, "only {compared} values compared");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(used.len(), EXCEPTIONS.len(), "exceptions that are none: used are only {used:?}");
}
