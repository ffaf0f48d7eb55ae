//! Which overlay wins, which conflict, and which pools keep a common catalogue.

use super::{Overlay, OverlayOutcome, PriceChange, apply};
use crate::labels;
use crate::model::{
    Catalogue, InstanceType, Labels, NodePool, Offering, Operator, PoolState, Requirement, Requirements, Resource,
    Resources,
};

fn requires(entries: &[(&str, &str)]) -> Requirements {
    entries.iter().map(|(key, value)| (*key, Requirement::new(Operator::In, [*value]))).collect()
}

fn instance_type(name: &str) -> InstanceType {
    let offer = |zone, price| Offering {
        requirements: requires(&[(labels::ZONE, zone), (labels::CAPACITY_TYPE, "on-demand")]),
        price,
        available: true,
        reservation_capacity: 0,
    };
    InstanceType {
        name: name.into(),
        requirements: requires(&[(labels::INSTANCE_TYPE, name), (labels::ARCH, "amd64")]),
        capacity: Resources::from_iter([(Resource::Cpu, 2000)]),
        overhead: Resources::new(),
        offerings: vec![offer("a", Some(1.0)), offer("b", None)],
    }
}

fn pool(name: &str) -> NodePool {
    NodePool {
        name: name.into(),
        weight: 0,
        requirements: requires(&[(labels::NODE_POOL, name)]),
        labels: Labels::default(),
        annotations: Labels::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: None,
        usage: Resources::new(),
        catalogue: 0,
        state: PoolState::Ready,
        missing_replicas: None,
    }
}

fn overlay(name: &str, weight: i32, requirements: &[(&str, &str)], price: Option<PriceChange>) -> Overlay {
    let capacity = Resources::new();
    Overlay { name: name.into(), weight, requirements: requires(requirements), price, capacity }
}

fn with_gpus(mut overlay: Overlay, count: i64) -> Overlay {
    overlay.capacity.set(Resource::new("example.com/gpu"), count);
    overlay
}

struct Outcome {
    pools: Vec<NodePool>,
    catalogues: Vec<Catalogue>,
    reports: Vec<(String, OverlayOutcome)>,
}

/// Two pools that share m.small and m.large.
fn after(overlays: &[Overlay]) -> Outcome {
    let mut pools = vec![pool("x"), pool("y")];
    let mut catalogues = vec![Catalogue::new(vec![instance_type("m.small"), instance_type("m.large")])];
    let reports = apply(overlays, &mut pools, &mut catalogues);
    let reports = reports.into_iter().map(|report| (report.name.to_string(), report.outcome)).collect();
    Outcome { pools, catalogues, reports }
}

fn applied(prices: usize, capacities: usize) -> OverlayOutcome {
    OverlayOutcome::Applied { prices, capacities }
}

impl Outcome {
    fn price(&self, pool: usize, instance_type: usize, offering: usize) -> Option<f64> {
        self.catalogues[self.pools[pool].catalogue][instance_type].offerings[offering].price
    }

    fn gpus(&self, pool: usize, instance_type: usize) -> i64 {
        self.catalogues[self.pools[pool].catalogue][instance_type].capacity.get(&Resource::new("example.com/gpu"))
    }
}

const SMALL: (&str, &str) = (labels::INSTANCE_TYPE, "m.small");

#[test]
fn price_changes() {
    let cases = [
        (PriceChange::Absolute(0.5), Some(0.5), Some(0.5)),
        (PriceChange::Delta(0.25), Some(1.25), None),
        (PriceChange::Delta(-3.0), Some(0.0), None),
        (PriceChange::Percent(-25.0), Some(0.75), None),
        (PriceChange::Percent(-100.0), Some(0.0), None),
    ];
    for (change, known, unknown) in cases {
        let outcome = after(&[overlay("o", 0, &[SMALL], Some(change))]);
        assert_eq!((outcome.price(0, 0, 0), outcome.price(0, 0, 1)), (known, unknown), "{change:?}");
        assert_eq!(outcome.price(0, 1, 0), Some(1.0), "{change:?}");
        assert_eq!((outcome.catalogues.len(), outcome.pools[1].catalogue), (1, 0), "{change:?}");
    }
}

#[test]
fn the_heavier_wins_and_then_the_later_name_conflicts() {
    let set = |name, weight, price| overlay(name, weight, &[SMALL], Some(PriceChange::Absolute(price)));
    let outcome = after(&[set("light", 1, 3.0), set("heavy", 9, 2.0)]);
    assert_eq!(outcome.price(0, 0, 0), Some(2.0));
    assert_eq!(outcome.reports, [("heavy".to_owned(), applied(4, 0)), ("light".to_owned(), applied(0, 0))]);

    let wide = with_gpus(overlay("a", 5, &[], Some(PriceChange::Absolute(3.0))), 8);
    let outcome = after(&[wide, set("b", 5, 2.0)]);
    assert_eq!(outcome.price(0, 0, 0), Some(2.0));
    assert_eq!(outcome.price(0, 1, 0), Some(1.0), "a conflict skips the whole overlay");
    assert_eq!(outcome.gpus(0, 1), 0);
    let conflict = OverlayOutcome::Conflict { with: vec!["b".into()] };
    assert_eq!(outcome.reports, [("b".to_owned(), applied(4, 0)), ("a".to_owned(), conflict)]);

    let outcome = after(&[set("top", 9, 2.0), set("b", 5, 3.0), set("a", 5, 4.0)]);
    let conflict = OverlayOutcome::Conflict { with: vec!["b".into()] };
    assert_eq!(outcome.reports[2], ("a".to_owned(), conflict), "also where a heavier one wins");
}

#[test]
fn equal_weights_on_different_things_do_not_conflict() {
    let price = overlay("p", 5, &[SMALL, (labels::ZONE, "a")], Some(PriceChange::Absolute(2.0)));
    let other_zone = overlay("q", 5, &[SMALL, (labels::ZONE, "b")], Some(PriceChange::Absolute(3.0)));
    let gpus = with_gpus(overlay("r", 5, &[SMALL, (labels::ZONE, "a")], None), 4);
    let outcome = after(&[price, other_zone, gpus]);
    assert_eq!((outcome.price(0, 0, 0), outcome.price(0, 0, 1)), (Some(2.0), Some(3.0)));
    assert_eq!(outcome.gpus(1, 0), 4, "one matching offering gives the type its capacity");
    let outcomes: Vec<&OverlayOutcome> = outcome.reports.iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, [&applied(0, 2), &applied(2, 0), &applied(2, 0)]);
}

#[test]
fn a_pool_gets_its_own_catalogue_only_if_it_differs() {
    let only_y = overlay("o", 0, &[SMALL, (labels::NODE_POOL, "y")], Some(PriceChange::Absolute(2.0)));
    let outcome = after(std::slice::from_ref(&only_y));
    assert_eq!((outcome.price(0, 0, 0), outcome.price(1, 0, 0)), (Some(1.0), Some(2.0)));
    assert_eq!(outcome.pools.iter().map(|pool| pool.catalogue).collect::<Vec<_>>(), [0, 1]);

    let same_price = Overlay { price: Some(PriceChange::Delta(0.0)), ..only_y };
    assert_eq!(after(&[same_price]).catalogues.len(), 1);
}

#[test]
fn what_matches_nothing_or_is_invalid() {
    let invalid = |why: &str| OverlayOutcome::Invalid(why.to_owned());
    let mut cpu = overlay("o", 0, &[], None);
    cpu.capacity.set(Resource::Cpu, 1);
    let cases = [
        (overlay("o", 0, &[("example.com/rack", "1")], None), OverlayOutcome::MatchesNothing),
        (overlay("o", 0, &[(labels::ZONE, "z")], None), OverlayOutcome::MatchesNothing),
        (overlay("o", 0, &[(labels::ARCH, "arm64")], None), OverlayOutcome::MatchesNothing),
        (cpu, invalid("capacity may only name extended resources, not cpu")),
        (with_gpus(overlay("o", 0, &[], None), -1), invalid("capacity of example.com/gpu is negative")),
        (overlay("o", 0, &[], Some(PriceChange::Absolute(-1.0))), invalid("the price is not a number of zero or more")),
        (overlay("o", 0, &[], Some(PriceChange::Delta(f64::NAN))), invalid("the price adjustment is not a number")),
        (
            overlay("o", 0, &[], Some(PriceChange::Percent(-101.0))),
            invalid("the price adjustment is not a percentage of -100 or more"),
        ),
    ];
    for (overlay, expected) in cases {
        let outcome = after(std::slice::from_ref(&overlay));
        assert_eq!(outcome.reports, [("o".to_owned(), expected)], "{overlay:?}");
        assert_eq!(outcome.price(0, 0, 0), Some(1.0), "{overlay:?}");
    }
}
