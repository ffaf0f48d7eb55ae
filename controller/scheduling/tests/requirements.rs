//! The requirement algebra: what the tables of Karpenter say, and laws that hold for every set of values.

use std::sync::Arc;

use muster_scheduling::model::{Conflict, Operator, Requirement, Requirements};
use proptest::prelude::*;

use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};

fn requirement(operator: Operator, values: &[&str]) -> Requirement {
    Requirement::new(operator, values.iter().copied())
}

#[test]
fn operators_become_sets() {
    type Row<'r> = (Operator, &'r [&'r str], &'r [&'r str], &'r [&'r str]);
    let table: [Row<'_>; 9] = [
        (In, &["a", "b"], &["a", "b"], &["c", "1"]),
        (NotIn, &["a"], &["b", "1"], &["a"]),
        (Exists, &[], &["a", "1"], &[]),
        (DoesNotExist, &[], &[], &["a", "1"]),
        (Gt, &["3"], &["4", "100"], &["3", "2", "a"]),
        (Lt, &["3"], &["2", "-1"], &["3", "4", "a"]),
        (Gte, &["3"], &["3", "4"], &["2", "a"]),
        (Lte, &["3"], &["3", "2"], &["4", "a"]),
        (Gt, &["9223372036854775807"], &[], &["9223372036854775807", "1"]),
    ];
    for (operator, values, inside, outside) in table {
        let requirement = requirement(operator, values);
        for value in inside {
            assert!(requirement.has(value), "{operator:?} {values:?} has {value}");
        }
        for value in outside {
            assert!(!requirement.has(value), "{operator:?} {values:?} has not {value}");
        }
    }
}

#[test]
fn absence_suits_what_excludes() {
    for (operator, values, absent) in [
        (In, &["a"][..], false),
        (NotIn, &["a"], true),
        (Exists, &[], false),
        (DoesNotExist, &[], true),
        (Gt, &["1"], false),
        (Lte, &["1"], false),
    ] {
        assert_eq!(requirement(operator, values).allows_absence(), absent, "{operator:?}");
    }
}

#[test]
fn intersections() {
    let table = [
        ((In, &["a", "b"][..]), (In, &["b", "c"][..]), (In, &["b"][..])),
        ((In, &["a"]), (In, &["b"]), (DoesNotExist, &[])),
        ((In, &["a", "b"]), (NotIn, &["a"]), (In, &["b"])),
        ((NotIn, &["a"]), (NotIn, &["b"]), (NotIn, &["a", "b"])),
        ((Exists, &[]), (In, &["a"]), (In, &["a"])),
        ((Exists, &[]), (NotIn, &["a"]), (NotIn, &["a"])),
        ((DoesNotExist, &[]), (Exists, &[]), (DoesNotExist, &[])),
        ((Gt, &["5"]), (Lt, &["5"]), (DoesNotExist, &[])),
        ((Gt, &["5"]), (Gt, &["7"]), (Gt, &["7"])),
        ((Gt, &["5"]), (Gte, &["6"]), (Gte, &["6"])),
        ((In, &["1", "6", "a"]), (Gt, &["5"]), (In, &["6"])),
        ((NotIn, &["1", "a"]), (Gt, &["5"]), (Gt, &["5"])),
    ];
    for (a, b, both) in table {
        let (left, right) = (requirement(a.0, a.1), requirement(b.0, b.1));
        let want = requirement(both.0, both.1);
        assert_eq!(left.intersection(&right), want, "{a:?} and {b:?}");
        assert_eq!(right.intersection(&left), want, "{b:?} and {a:?}");
    }
}

#[test]
fn min_values_are_the_larger_ones() {
    let few = requirement(In, &["a"]).with_min_values(Some(2));
    let more = requirement(In, &["b"]).with_min_values(Some(5));
    assert_eq!(few.intersection(&more).min_values, Some(5));
    assert_eq!(few.intersection(&requirement(Exists, &[])).min_values, Some(2));
}

#[test]
fn a_range_whose_values_are_all_excluded_is_empty() {
    let range = requirement(Gte, &["1"]).intersection(&requirement(Lte, &["2"]));
    assert!(!range.overlaps(&requirement(NotIn, &["1", "2"])));
    assert!(range.overlaps(&requirement(NotIn, &["1", "3"])));
}

#[test]
fn unknown_labels_conflict_unless_absence_suits() {
    let pool: Requirements = [("known", requirement(In, &["a"]))].into_iter().collect();
    let asks = |operator, values| -> Requirements { [("label", requirement(operator, values))].into_iter().collect() };
    for (operator, values, conflicts) in [
        (In, &["x"][..], true),
        (Exists, &[], true),
        (Gt, &["1"], true),
        (NotIn, &["x"], false),
        (DoesNotExist, &[], false),
    ] {
        let wanted = asks(operator, values);
        let conflict = pool.first_conflict(&wanted, |_| false);
        assert_eq!(matches!(conflict, Some(Conflict::Unknown { .. })), conflicts, "{operator:?}");
        assert_eq!(pool.first_conflict(&wanted, |key| key == "label"), None, "{operator:?} may be undefined");
    }
}

#[test]
fn two_sides_that_allow_absence_meet() {
    let of = |operator, values| -> Requirements { [("k", requirement(operator, values))].into_iter().collect() };
    assert!(of(NotIn, &["a"]).intersects(&of(DoesNotExist, &[])));
    assert!(of(DoesNotExist, &[]).intersects(&of(DoesNotExist, &[])));
    assert!(!of(DoesNotExist, &[]).intersects(&of(Exists, &[])));
    assert!(!of(In, &["a"]).intersects(&of(NotIn, &["a"])));
    assert!(matches!(of(In, &["a"]).first_disjoint(&of(In, &["b"])), Some(Conflict::Disjoint { .. })));
}

#[test]
fn beta_labels_stand_for_stable_ones() {
    let mut requirements = Requirements::new();
    requirements.add("failure-domain.beta.kubernetes.io/zone", requirement(In, &["a", "b"]));
    requirements.add("topology.kubernetes.io/zone", requirement(In, &["b", "c"]));
    assert_eq!(requirements.single("topology.kubernetes.io/zone"), Some("b"));
    for (beta, stable) in [
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ] {
        let requirements: Requirements = [(beta, requirement(In, &["x"]))].into_iter().collect();
        assert_eq!(requirements.single(stable), Some("x"));
    }
}

/// Every value that the generated requirements can tell apart, and one that they all treat alike.
fn witnesses() -> Vec<Arc<str>> {
    (-3..12)
        .map(|number: i64| number.to_string())
        .chain(["a", "b", "c", "else"].map(String::from))
        .map(Arc::from)
        .collect()
}

fn any_requirement() -> impl Strategy<Value = Requirement> {
    let value = prop_oneof![(0..9_i64).prop_map(|number| number.to_string()), "[abc]"];
    let set = (prop::sample::select(vec![In, NotIn]), prop::collection::vec(value, 1..4))
        .prop_map(|(operator, values)| Requirement::new(operator, values));
    let bound = (prop::sample::select(vec![Gt, Lt, Gte, Lte]), 0..9_i64)
        .prop_map(|(operator, number)| Requirement::new(operator, [number.to_string()]));
    let simple = prop_oneof![set, bound, Just(Requirement::any()), Just(Requirement::none())];
    prop::collection::vec(simple, 1..4)
        .prop_map(|parts| parts.iter().fold(Requirement::any(), |all, part| all.intersection(part)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn intersection_is_commutative(a in any_requirement(), b in any_requirement()) {
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
    }

    #[test]
    fn intersection_is_idempotent(a in any_requirement()) {
        prop_assert_eq!(a.intersection(&a), a);
    }

    #[test]
    fn intersection_has_what_both_have(a in any_requirement(), b in any_requirement(), c in any_requirement()) {
        let (left, right) = (a.intersection(&b).intersection(&c), a.intersection(&b.intersection(&c)));
        for value in witnesses() {
            let all = a.has(&value) && b.has(&value) && c.has(&value);
            prop_assert_eq!(left.has(&value), all, "{}", &value);
            prop_assert_eq!(right.has(&value), all, "{}", &value);
        }
    }

    #[test]
    fn overlap_means_a_common_value(a in any_requirement(), b in any_requirement()) {
        let common = witnesses().iter().any(|value| a.has(value) && b.has(value));
        let open = |requirement: &Requirement| !requirement.is_finite() && requirement.bounds() == (None, None);
        prop_assert_eq!(a.overlaps(&b), common || open(&a) && open(&b));
        prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
    }

    #[test]
    fn entries_describe_the_set(a in any_requirement()) {
        let again = a.entries().into_iter().fold(Requirement::any(), |all, (operator, values)| {
            all.intersection(&Requirement::new(operator, values))
        });
        for value in witnesses() {
            prop_assert_eq!(again.has(&value), a.has(&value), "{}", &value);
        }
    }
}
