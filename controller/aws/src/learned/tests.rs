use super::*;
use crate::{ClassSettings, Inventory};

const GIB: i64 = 1 << 30;

fn computed(name: &str) -> InstanceType {
    Inventory::embedded("us-east-1").unwrap().instance_type(name, &ClassSettings::default()).unwrap()
}

fn bounds(name: &str) -> Bounds {
    Bounds::of(Inventory::embedded("us-east-1").unwrap().facts(name).unwrap(), &computed(name))
}

fn build(image: &str) -> Build {
    Build { image: image.to_owned(), class: "c1a55".to_owned(), prefix_delegation: false }
}

/// A Node that says this of one resource, and nothing else.
fn says(resource: &Resource, capacity: i64, allocatable: i64) -> Said {
    let only = |amount| Resources::from_iter([(resource.clone(), amount)]);
    Said { capacity: only(capacity), allocatable: only(allocatable) }
}

fn hears(learned: &mut Learned, image: &str, said: &Said) -> Vec<(Resource, Doubt)> {
    hears_of("i-1", learned, image, said)
}

fn hears_of(instance: &str, learned: &mut Learned, image: &str, said: &Said) -> Vec<(Resource, Doubt)> {
    learned.hear(&build(image), "m5.large", instance, said, || Some(bounds("m5.large")))
}

/// Capacity and allocatable of an m5.large.
fn room(learned: &Learned, image: &str, resource: &Resource) -> (i64, i64) {
    let mut one = computed("m5.large");
    learned.apply(&build(image), &mut one);
    (one.capacity.get(resource), one.allocatable().get(resource))
}

#[test]
fn what_is_believed_of_an_m5_large() {
    use Doubt::{Contradiction, TooLittle, TooMuch};
    let (memory, cpu, disk, pods) = (Resource::Memory, Resource::Cpu, Resource::EphemeralStorage, Resource::Pods);
    // Computed: 7,577 MiB of 8 GiB, of which 6,903 for pods.
    let one = computed("m5.large");
    assert_eq!((one.capacity.get(&memory), one.allocatable().get(&memory)), (7577 * MIB, 6903 * MIB));
    for (resource, capacity, allocatable, judged) in [
        (&memory, 7_800 * MIB, 7_100 * MIB, Ok((7_800 * MIB, 7_100 * MIB))),
        // As kubelets write it.
        (&memory, 7_986_180 << 10, 7_295_980 << 10, Ok((7_799 * MIB, 7_124 * MIB))),
        (&memory, 8 * GIB, 8 * GIB, Ok((8 * GIB, 8 * GIB))),
        (&memory, 8 * GIB + 1, 7 * GIB, Err(TooMuch)),
        (&memory, 16 * GIB, 15 * GIB, Err(TooMuch)),
        (&memory, 7 * GIB, 7 * GIB + 1, Err(Contradiction)),
        // Half of it for huge pages.
        (&memory, 7_800 * MIB, 3_700 * MIB, Ok((7_800 * MIB, 3_700 * MIB))),
        (&memory, 7_800 * MIB, 3_450 * MIB, Err(TooLittle)),
        (&memory, 3_700 * MIB, 3_600 * MIB, Err(TooLittle)),
        (&memory, 800 * MIB, 700 * MIB, Err(TooLittle)),
        (&memory, 0, 0, Err(TooLittle)),
        (&memory, i64::MAX, i64::MAX, Err(TooMuch)),
        (&cpu, 2_000, 1_930, Ok((2_000, 1_930))),
        (&cpu, 1_000, 965, Ok((1_000, 965))),
        (&cpu, 4_000, 1_930, Err(TooMuch)),
        (&cpu, 999, 999, Err(TooLittle)),
        (&disk, 19 * GIB, 16 * GIB, Ok((19 * GIB, 16 * GIB))),
        (&disk, 21 * GIB, 16 * GIB, Err(TooMuch)),
        (&pods, 29, 29, Ok((29, 29))),
        (&pods, 20, 20, Ok((20, 20))),
        (&pods, 30, 30, Err(TooMuch)),
        (&pods, 13, 13, Err(TooLittle)),
    ] {
        let judged = judged.map(|(capacity, allocatable)| Room { capacity, allocatable });
        let bounds = bounds("m5.large");
        let said = says(resource, capacity, allocatable);
        let all: Vec<_> = bounds.judge(&said).collect();
        assert_eq!(all, [(resource, judged)], "{resource}: {capacity}, {allocatable}");
    }
}

#[test]
fn a_graviton_may_have_what_ec2_says() {
    // Computed without the 64 MiB that its kernel keeps.
    let said = says(&Resource::Memory, 8 * GIB, 7 * GIB);
    assert!(bounds("m6g.large").judge(&said).all(|(_, judged)| judged.is_ok()));
}

#[test]
fn what_a_node_does_not_say_stays_as_it_was() {
    let mut learned = Learned::default();
    let half = Said { capacity: says(&Resource::Memory, 7_800 * MIB, 0).capacity, allocatable: Resources::new() };
    assert_eq!(hears(&mut learned, "ami-1", &half), []);
    assert_eq!((learned.count(), learned.edition()), (0, 0));
    hears(&mut learned, "ami-1", &says(&Resource::Memory, 7_800 * MIB, 7_100 * MIB));
    assert_eq!(room(&learned, "ami-1", &Resource::Memory), (7_800 * MIB, 7_100 * MIB));
    for resource in [Resource::Cpu, Resource::EphemeralStorage, Resource::Pods] {
        assert_eq!(room(&learned, "ami-1", &resource), room(&Learned::default(), "ami-1", &resource), "{resource}");
    }
}

#[test]
fn the_least_counts_whatever_the_order() {
    let said = [(7_810, 7_000), (7_800, 7_100), (7_900, 7_200)];
    let said = said.map(|(capacity, allocatable)| says(&Resource::Memory, capacity * MIB, allocatable * MIB));
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut learned = Learned::default();
        for at in order {
            hears_of(&format!("i-{at}"), &mut learned, "ami-1", &said[at]);
        }
        assert_eq!(room(&learned, "ami-1", &Resource::Memory), (7_800 * MIB, 7_000 * MIB), "{order:?}");
    }
}

/// Computed: 7,577 MiB, of which 6,903 for pods.
#[test]
fn what_two_liars_have_said_is_taken_back_by_the_nodes_after_them() {
    let memory = Resource::Memory;
    let mut learned = Learned::default();
    let mut hear = |instance: &str, mib: i64| {
        let said = says(&memory, mib * MIB, (mib - 700) * MIB);
        hears_of(instance, &mut learned, "ami-1", &said);
        room(&learned, "ami-1", &memory).0 / MIB
    };
    assert_eq!((hear("i-8", 4200), hear("i-9", 4200)), (7577, 4200), "nobody else has been heard");
    assert_eq!(hear("i-1", 7800), 4200, "they are the most");
    assert_eq!(hear("i-2", 7800), 7577, "they are not the most any more");
    for number in 10..60 {
        assert_eq!(hear(&format!("i-a{number}"), 7800), 7577);
    }
    // Where there is less than was computed, most of them say so, and the least of these counts.
    let mut less = Learned::default();
    for (instance, mib) in [("i-1", 4200), ("i-2", 4200), ("i-3", 7010), ("i-4", 7000), ("i-5", 7005)] {
        hears_of(instance, &mut less, "ami-1", &says(&memory, mib * MIB, (mib - 700) * MIB));
    }
    assert_eq!(room(&less, "ami-1", &memory), (7000 * MIB, 6300 * MIB));
}

/// Computed: 7,577 MiB, of which 6,903 for pods.
#[test]
fn what_is_less_than_was_computed_counts_when_two_instances_say_so() {
    let memory = Resource::Memory;
    let says = |mib: i64| says(&memory, mib * MIB, (mib - 700) * MIB);
    let heard = |said: &[(&str, i64)]| {
        let mut learned = Learned::default();
        for (instance, mib) in said {
            hears_of(instance, &mut learned, "ami-1", &says(*mib));
        }
        let (capacity, allocatable) = room(&learned, "ami-1", &memory);
        (capacity / MIB, allocatable / MIB)
    };
    let (computed, larger) = ((7577, 6903), (7800, 7100));
    assert_eq!(heard(&[("i-1", 4200)]), computed, "one may lie");
    assert_eq!(heard(&[("i-1", 4200), ("i-1", 4100), ("i-1", 4200)]), computed, "however often");
    for orders in [
        (&[("i-1", 4200), ("i-2", 7800)][..], computed, "what is more is not believed against it either"),
        (&[("i-1", 7800), ("i-2", 7900)], larger, "what is more counts at once, the least of it"),
        (&[("i-1", 4200), ("i-2", 7000)], (7000, 6300), "both say that there is no more than this"),
        (&[("i-1", 4200), ("i-2", 7000), ("i-3", 6000)], (6000, 5300), "of many the least but one"),
        (&[("i-1", 4200), ("i-1", 6000), ("i-2", 7000), ("i-3", 7800)], (7000, 6300), "an instance counts once"),
        (&[("i-2", 4300), ("i-1", 4200), ("i-2", 7800), ("i-3", 7800)], (4300, 3600), "each with its least"),
    ] {
        let (said, expected, why) = orders;
        let turned: Vec<_> = said.iter().rev().copied().collect();
        let cut: Vec<_> = [&said[1..], &said[..1]].concat();
        for order in [said, &turned, &cut] {
            assert_eq!(heard(order), expected, "{why}: {order:?}");
        }
    }
}

#[test]
fn it_is_true_of_the_same_build_only() {
    let mut learned = Learned::default();
    hears(&mut learned, "ami-1", &says(&Resource::Memory, 7_800 * MIB, 7_100 * MIB));
    let before = computed("m5.large");
    for other in [
        build("ami-2"),
        Build { class: "0".to_owned(), ..build("ami-1") },
        Build { prefix_delegation: true, ..build("ami-1") },
    ] {
        let mut one = before.clone();
        learned.apply(&other, &mut one);
        assert_eq!(one, before, "{other:?}");
    }
    let mut larger = computed("m5.xlarge");
    learned.apply(&build("ami-1"), &mut larger);
    assert_eq!(larger, computed("m5.xlarge"));
    assert_eq!(learned.count(), 1);
}

#[test]
fn the_edition_changes_with_what_is_learned_and_each_doubt_is_told_once() {
    let mut learned = Learned::default();
    let good = says(&Resource::Memory, 7_800 * MIB, 7_100 * MIB);
    hears(&mut learned, "ami-1", &good);
    let edition = learned.edition();
    hears(&mut learned, "ami-1", &good);
    hears(&mut learned, "ami-1", &says(&Resource::Memory, 7_900 * MIB, 7_200 * MIB));
    let lie = says(&Resource::Memory, 16 * GIB, 15 * GIB);
    assert_eq!(hears(&mut learned, "ami-1", &lie), [(Resource::Memory, Doubt::TooMuch)]);
    assert_eq!(hears(&mut learned, "ami-1", &lie), []);
    let tenth = says(&Resource::Memory, 780 * MIB, 700 * MIB);
    assert_eq!(hears(&mut learned, "ami-1", &tenth), [(Resource::Memory, Doubt::TooLittle)]);
    assert_eq!(learned.edition(), edition, "nothing new");
    assert_eq!(room(&learned, "ami-1", &Resource::Memory), (7_800 * MIB, 7_100 * MIB));
    hears(&mut learned, "ami-1", &says(&Resource::Memory, 7_700 * MIB, 7_200 * MIB));
    assert_eq!(learned.edition(), edition + 1);
}

#[test]
fn a_type_that_nobody_knows_teaches_nothing() {
    let mut learned = Learned::default();
    let good = says(&Resource::Memory, 7_800 * MIB, 7_100 * MIB);
    assert_eq!(learned.hear(&build("ami-1"), "m99.large", "i-1", &good, || None), []);
    assert_eq!((learned.count(), learned.edition()), (0, 0));
}

#[test]
fn of_too_many_builds_the_oldest_is_forgotten() {
    let mut learned = Learned::default();
    let good = says(&Resource::Memory, 7_800 * MIB, 7_100 * MIB);
    for image in 0..=BUILDS {
        hears(&mut learned, &format!("ami-{image}"), &good);
    }
    assert_eq!(learned.count(), BUILDS);
    assert_eq!(room(&learned, "ami-0", &Resource::Memory), room(&Learned::default(), "ami-0", &Resource::Memory));
    assert_eq!(room(&learned, "ami-1", &Resource::Memory).0, 7_800 * MIB);
}
