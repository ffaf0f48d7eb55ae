//! The rules that turn facts and settings into what a node offers, one table each.

#![expect(clippy::unwrap_used, clippy::panic, reason = "fixtures fail the test that asked for them")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_aws::{
    AmiFamily, BlockDevice, CapacityReservation, ClassSettings, Ec2, InstanceStorePolicy, InstanceTypeFacts,
    InterfaceType, KubeletSettings, NetworkInterface, PlacementGroup, PlacementStrategy, Prices, Threshold, resolve,
};
use muster_scheduling::model::{InstanceType, Operator, Resource, Resources};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

fn facts(name: &str) -> (InstanceTypeFacts, Prices) {
    let ec2 = Ec2::embedded().unwrap();
    let region = ec2.region("us-east-1").unwrap();
    ec2.types(region).find(|(facts, _)| &*facts.name == name).unwrap_or_else(|| panic!("{name}"))
}

fn resolved(name: &str, class: &ClassSettings) -> InstanceType {
    let (facts, prices) = facts(name);
    resolve(&facts, &prices, Ec2::embedded().unwrap().region("us-east-1").unwrap().place(), class)
}

fn family(ami_family: AmiFamily) -> ClassSettings {
    ClassSettings { ami_family, ..ClassSettings::default() }
}

fn kubelet(kubelet: KubeletSettings) -> ClassSettings {
    ClassSettings { kubelet, ..ClassSettings::default() }
}

fn capacity(name: &str, class: &ClassSettings, resource: &str) -> i64 {
    resolved(name, class).capacity.get(&Resource::new(resource))
}

fn overhead(name: &str, class: &ClassSettings, resource: &str) -> i64 {
    resolved(name, class).overhead.get(&Resource::new(resource))
}

fn has_available(name: &str, class: &ClassSettings) -> bool {
    resolved(name, class).offerings.iter().any(|offering| offering.available)
}

#[test]
fn pods_follow_interfaces_family_and_kubelet() {
    let default = ClassSettings::default();
    let max_pods = kubelet(KubeletSettings { max_pods: Some(200), ..KubeletSettings::default() });
    let per_core = KubeletSettings { pods_per_core: 4, ..KubeletSettings::default() };
    for (name, class, pods) in [
        ("m5.large", default.clone(), 29),
        ("m5.24xlarge", default.clone(), 737),
        ("t3.nano", default.clone(), 4),
        ("p5.48xlarge", default.clone(), 100),
        ("m5.large", family(AmiFamily::Windows2022), 110),
        ("m5.large", max_pods, 200),
        ("m5.large", kubelet(per_core.clone()), 8),
        ("m5.24xlarge", kubelet(per_core.clone()), 384),
        ("m5.large", ClassSettings { kubelet: per_core, ..family(AmiFamily::Bottlerocket) }, 29),
        ("m5.large", ClassSettings { reserved_enis: 1, ..default.clone() }, 20),
        ("m5.large", ClassSettings { reserved_enis: 3, ..default.clone() }, 0),
        ("m5.large", ClassSettings { reserved_enis: 9, ..default.clone() }, 0),
        ("m5.large", ClassSettings { prefix_delegation: true, ..default.clone() }, 110),
        ("m5.24xlarge", ClassSettings { prefix_delegation: true, ..default.clone() }, 250),
        ("t3.nano", ClassSettings { prefix_delegation: true, ..default.clone() }, 34),
        ("m4.large", ClassSettings { prefix_delegation: true, ..default.clone() }, 20),
    ] {
        assert_eq!(capacity(name, &class, "pods"), pods, "{name} {class:?}");
    }
}

#[test]
fn memory_reservation_follows_the_family() {
    let one_eni_reserved = |ami_family| ClassSettings { reserved_enis: 1, ami_family, ..ClassSettings::default() };
    for (class, mib) in [
        // 11 MiB for each of the 29 pods that the interfaces allow, 255 for the node, 100 for eviction.
        (one_eni_reserved(AmiFamily::Al2023), 11 * 29 + 255 + 100),
        (one_eni_reserved(AmiFamily::Custom), 11 * 29 + 255 + 100),
        (one_eni_reserved(AmiFamily::Bottlerocket), 11 * 20 + 255 + 100),
        (one_eni_reserved(AmiFamily::Windows2019), 11 * 110 + 255 + 100),
        (kubelet(KubeletSettings { max_pods: Some(5), ..KubeletSettings::default() }), 11 * 29 + 255 + 100),
    ] {
        assert_eq!(overhead("m5.large", &class, "memory"), mib * MIB, "{class:?}");
    }
}

#[test]
fn memory_is_less_than_ec2_states() {
    let exact = ClassSettings { vm_memory_overhead: 0.0, ..ClassSettings::default() };
    assert_eq!(capacity("m5.large", &exact, "memory"), 8192 * MIB);
    assert_eq!(capacity("m6g.large", &exact, "memory"), (8192 - 64) * MIB, "Graviton keeps 64 MiB");
    assert_eq!(capacity("m5.large", &ClassSettings::default(), "memory"), (8192 - 615) * MIB, "7.5 %, rounded up");
    let all = ClassSettings { vm_memory_overhead: 9.0, ..ClassSettings::default() };
    assert_eq!(capacity("m5.large", &all, "memory"), 0);
}

#[test]
fn reservations_and_thresholds_of_the_kubelet_replace_defaults_one_by_one() {
    let class = kubelet(KubeletSettings {
        kube_reserved: Resources::from_iter([(Resource::Cpu, 500)]),
        system_reserved: Resources::from_iter([(Resource::Cpu, 100), (Resource::Memory, GIB)]),
        eviction_memory: Some(Threshold::Percent(5.0)),
        eviction_storage: Some(Threshold::Percent(100.0)),
        ..KubeletSettings::default()
    });
    let m5 = resolved("m5.large", &class);
    let five_percent = (m5.capacity.get(&Resource::Memory) as f64 / 100.0 * 5.0).ceil() as i64;
    assert_eq!(m5.overhead.get(&Resource::Cpu), 600);
    assert_eq!(m5.overhead.get(&Resource::Memory), (11 * 29 + 255) * MIB + GIB + five_percent);
    assert_eq!(m5.overhead.get(&Resource::EphemeralStorage), GIB, "100 % is no threshold");
    assert_eq!(m5.allocatable().get(&Resource::Cpu), 1400);
}

#[test]
fn storage_is_that_of_the_device_that_pods_write_to() {
    let device = |name: Option<&str>, root_volume, size: Option<i64>| BlockDevice {
        device_name: name.map(str::to_owned),
        root_volume,
        volume_size: size.map(|gib| gib * GIB),
    };
    let with = |ami_family, block_devices| ClassSettings { block_devices, ..family(ami_family) };
    let (os, data) = (device(Some("/dev/xvda"), false, Some(30)), device(Some("/dev/xvdb"), false, Some(70)));
    for (class, gib) in [
        (family(AmiFamily::Al2023), 20),
        (family(AmiFamily::Bottlerocket), 20),
        (family(AmiFamily::Windows2025), 50),
        (family(AmiFamily::Custom), 20),
        (with(AmiFamily::Al2, vec![os.clone(), data.clone()]), 30),
        (with(AmiFamily::Bottlerocket, vec![os.clone(), data.clone()]), 70),
        (with(AmiFamily::Custom, vec![os.clone(), data.clone()]), 70),
        (with(AmiFamily::Custom, vec![os.clone(), device(None, false, None)]), 20),
        (with(AmiFamily::Windows2022, vec![os.clone()]), 50),
        (with(AmiFamily::Bottlerocket, vec![device(Some("/dev/xvda"), true, Some(90)), data.clone()]), 90),
        (with(AmiFamily::Al2023, vec![device(None, true, None), os.clone()]), 30),
    ] {
        assert_eq!(capacity("m5.large", &class, "ephemeral-storage"), gib * GIB, "{class:?}");
    }
    let raid = ClassSettings { instance_store_policy: Some(InstanceStorePolicy::Raid0), ..ClassSettings::default() };
    assert_eq!(capacity("m5d.large", &raid, "ephemeral-storage"), 75_000_000_000);
    assert_eq!(capacity("m5.large", &raid, "ephemeral-storage"), 20 * GIB, "no local disk to stripe");
    assert_eq!(overhead("m5d.large", &raid, "ephemeral-storage"), GIB + 7_500_000_000);
}

#[test]
fn devices_are_extended_resources() {
    let default = ClassSettings::default();
    for (name, resource, count) in [
        ("p5.48xlarge", "nvidia.com/gpu", 8),
        ("p5.48xlarge", "vpc.amazonaws.com/efa", 32),
        ("dl1.24xlarge", "habana.ai/gaudi", 0),
        ("trn1.32xlarge", "aws.amazon.com/neuron", 16),
        ("trn1.32xlarge", "aws.amazon.com/neuroncore", 32),
        ("inf1.xlarge", "aws.amazon.com/neuroncore", 4),
        ("a1.medium", "vpc.amazonaws.com/pod-eni", 10),
    ] {
        let (mut facts, prices) = facts(if name == "dl1.24xlarge" { "p5.48xlarge" } else { name });
        let mut expected = count;
        if name == "dl1.24xlarge" {
            // EC2's data has no Gaudi type any more; the rule is for those who still run one.
            facts.gpus[0].manufacturer = "Habana".into();
            expected = 8;
        }
        let place = Ec2::embedded().unwrap().region("us-east-1").unwrap().place();
        let found = resolve(&facts, &prices, place, &default).capacity.get(&Resource::new(resource));
        assert_eq!(found, expected, "{name} {resource}");
    }
    assert!(!resolved("t3.micro", &default).capacity.contains(&Resource::new("vpc.amazonaws.com/pod-eni")));
    assert_eq!(capacity("m5.large", &family(AmiFamily::Windows2022), "vpc.amazonaws.com/PrivateIPv4Address"), 9);
    assert_eq!(capacity("m5.large", &default, "vpc.amazonaws.com/PrivateIPv4Address"), 0);
}

#[test]
fn windows_changes_labels() {
    let windows = resolved("m5.large", &family(AmiFamily::Windows2022));
    assert_eq!(windows.requirements.single("kubernetes.io/os"), Some("windows"));
    assert_eq!(windows.requirements.single("node.kubernetes.io/windows-build"), Some("10.0.20348"));
    let arm = resolved("m6g.large", &family(AmiFamily::Windows2022));
    assert_eq!(arm.requirements.get("kubernetes.io/os").unwrap().operator(), Operator::DoesNotExist);
    let linux = resolved("m5.large", &ClassSettings::default());
    let build = linux.requirements.get("node.kubernetes.io/windows-build").unwrap();
    assert_eq!(build.operator(), Operator::DoesNotExist);
}

#[test]
fn a_class_that_cannot_launch_a_type_leaves_it_without_offers() {
    let default = ClassSettings::default();
    let tracking = ClassSettings { connection_tracking: true, ..default.clone() };
    let nested = ClassSettings { nested_virtualization: true, ..default.clone() };
    let interface = |network_card, device, kind| NetworkInterface { network_card, device, kind };
    let main = interface(0, 0, InterfaceType::Interface);
    let interfaces = |list: &[NetworkInterface]| ClassSettings { network_interfaces: list.to_vec(), ..default.clone() };
    let cluster = PlacementGroup { id: "pg-1".into(), strategy: PlacementStrategy::Cluster, partitions: 0 };
    let grouped = ClassSettings { placement_group: Some(cluster), ..default.clone() };
    for (name, class, expected) in [
        ("a1.medium", &default, false),
        ("a1.medium", &family(AmiFamily::Bottlerocket), true),
        ("m5.large", &tracking, true),
        ("m5.metal", &tracking, false),
        ("m4.large", &tracking, false),
        ("m5.large", &nested, false),
        ("c8i.large", &nested, true),
        ("m5.large", &interfaces(&[main]), true),
        ("m5.large", &interfaces(&[main, interface(0, 2, InterfaceType::Interface)]), true),
        ("m5.large", &interfaces(&[main, interface(0, 3, InterfaceType::Interface)]), false),
        ("m5.large", &interfaces(&[main, interface(1, 0, InterfaceType::Interface)]), false),
        ("m5.large", &interfaces(&[main, interface(0, 1, InterfaceType::EfaOnly)]), false),
        ("p5.48xlarge", &interfaces(&[main, interface(31, 1, InterfaceType::EfaOnly)]), true),
        ("m1.large", &interfaces(&[main]), false),
        ("m5.large", &grouped, true),
        ("t3.large", &grouped, false),
    ] {
        assert_eq!(has_available(name, class), expected, "{name} {class:?}");
    }
    let efa = interfaces(&[main, interface(0, 1, InterfaceType::EfaOnly)]);
    assert_eq!(capacity("p5.48xlarge", &efa, "vpc.amazonaws.com/efa"), 1);
    assert_eq!(capacity("p5.48xlarge", &efa, "pods"), 51, "one of two interfaces carries no pods");
}

#[test]
fn every_zone_is_offered_on_demand_and_as_spot() {
    let m5 = resolved("m5.large", &ClassSettings::default());
    let pairs: BTreeSet<_> = m5.offerings.iter().map(|o| (o.zone().unwrap(), o.capacity_type().unwrap())).collect();
    assert_eq!((pairs.len(), m5.offerings.len()), (12, 12), "six zones, two capacity types");
    assert!(m5.offerings.iter().all(|offering| offering.price == Some(0.096)), "spot counts as on demand");
    assert!(m5.offerings.iter().all(|offering| {
        offering
            .requirements
            .get("karpenter.k8s.aws/capacity-reservation-id")
            .is_some_and(|id| id.operator() == Operator::DoesNotExist)
    }));
    let available: BTreeSet<_> = m5.offerings.iter().filter(|o| o.available).map(|o| o.zone().unwrap()).collect();
    assert!(available.contains("us-east-1a") && !available.contains("us-east-1e"), "{available:?}");
    let zones: BTreeSet<_> =
        m5.requirements.get("topology.kubernetes.io/zone").unwrap().values().map(|z| &**z).collect();
    assert_eq!(zones, available);
}

#[test]
fn subnets_restrict_zones_and_name_their_ids() {
    let zones: BTreeMap<Arc<str>, Option<Arc<str>>> =
        BTreeMap::from([("us-east-1b".into(), Some("use1-az2".into())), ("us-east-1c".into(), None)]);
    let m5 = resolved("m5.large", &ClassSettings { zones: Some(zones), ..ClassSettings::default() });
    let available = m5.offerings.iter().filter(|offering| offering.available).count();
    assert_eq!(available, 4);
    assert_eq!(m5.requirements.single("topology.k8s.aws/zone-id"), Some("use1-az2"));
    let elsewhere = BTreeMap::from([("eu-west-1a".into(), None)]);
    let m5 = resolved("m5.large", &ClassSettings { zones: Some(elsewhere), ..ClassSettings::default() });
    assert!(m5.offerings.iter().all(|offering| !offering.available));
    assert_eq!(m5.requirements.get("topology.kubernetes.io/zone").unwrap().operator(), Operator::DoesNotExist);
}

#[test]
fn spot_prices_replace_the_stand_in() {
    let (facts, mut prices) = facts("m5.large");
    prices.linux.spot = Some(BTreeMap::from([("us-east-1a".into(), 0.03)]));
    let place = Ec2::embedded().unwrap().region("us-east-1").unwrap().place();
    let m5 = resolve(&facts, &prices, place, &ClassSettings::default());
    let spot =
        |zone| m5.offerings.iter().find(|o| o.zone() == Some(zone) && o.capacity_type() == Some("spot")).unwrap();
    assert_eq!(spot("us-east-1a").price, Some(0.03));
    assert_eq!(spot("us-east-1b").price, None, "not in the history: not for sale");
    assert!(!spot("us-east-1b").launchable());
}

#[test]
fn reservations_are_offers_of_their_own() {
    let reservation = CapacityReservation {
        id: "cr-1".into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_block: false,
        interruptible: true,
        expiring: false,
        available_instances: Some(3),
    };
    let with = |reservation: CapacityReservation| {
        let class = ClassSettings { reservations: vec![reservation], ..ClassSettings::default() };
        resolved("m5.large", &class)
    };
    let m5 = with(reservation.clone());
    let reserved = &m5.offerings[0];
    assert_eq!((reserved.capacity_type(), reserved.zone()), (Some("reserved"), Some("us-east-1a")));
    assert_eq!((reserved.available, reserved.reservation_capacity), (true, 3));
    assert_eq!(reserved.price, Some(0.096 / 10_000_000.0));
    assert_eq!(reserved.requirements.single("karpenter.k8s.aws/capacity-reservation-interruptible"), Some("true"));
    assert!(m5.requirements.get("karpenter.sh/capacity-type").unwrap().has("reserved"));
    assert_eq!(m5.requirements.single("karpenter.k8s.aws/capacity-reservation-id"), Some("cr-1"));
    for unusable in [
        CapacityReservation { expiring: true, ..reservation.clone() },
        CapacityReservation { zone: "us-east-1e".into(), ..reservation.clone() },
    ] {
        assert!(!with(unusable.clone()).offerings[0].available, "{unusable:?}");
    }
    for available_instances in [Some(0), None] {
        let full = with(CapacityReservation { available_instances, ..reservation.clone() });
        assert_eq!((full.offerings[0].available, full.offerings[0].reservation_capacity), (true, 0));
    }
    assert_eq!(with(CapacityReservation { instance_type: "m5.xlarge".into(), ..reservation }).offerings.len(), 12);
}

#[test]
fn partitions_multiply_offers() {
    let group = PlacementGroup { id: "pg-1".into(), strategy: PlacementStrategy::Partition, partitions: 3 };
    let m5 = resolved("m5.large", &ClassSettings { placement_group: Some(group), ..ClassSettings::default() });
    assert_eq!(m5.offerings.len(), 36);
    assert_eq!(m5.requirements.single("karpenter.k8s.aws/placement-group-id"), Some("pg-1"));
    assert_eq!(m5.requirements.get("karpenter.k8s.aws/placement-group-partition").unwrap().values().count(), 3);
}
