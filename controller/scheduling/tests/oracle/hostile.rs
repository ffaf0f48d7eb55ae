//! Pods that cost much: whoever may create pods in one namespace cannot hold up, or change, what others get.

use std::collections::BTreeMap;

use muster_scheduling::model::*;
use muster_scheduling::{NewNode, Reason, Solution, labels, lower_bound, solve, validate};

use crate::cases::one_of;
use crate::mutations;
use crate::random::Random;

const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const SIZE: &str = "karpenter.k8s.aws/instance-size";
const KEYS: [&str; 7] =
    [labels::HOSTNAME, labels::ZONE, labels::CAPACITY_TYPE, labels::INSTANCE_TYPE, FAMILY, SIZE, labels::ARCH];
const FAMILIES: usize = 40;
const SIZES: usize = 10;
const HOSTILE: &str = "hostile";

fn amounts(cpu: i64, gibibytes: i64) -> Resources {
    [(Resource::Cpu, cpu), (Resource::Memory, gibibytes << 30), (Resource::Pods, 1)].into_iter().collect()
}

fn instance_type(family: usize, size: usize) -> InstanceType {
    let (family_name, size_name) = (format!("f{family:02}"), format!("s{size:02}"));
    let name = format!("{family_name}.{size_name}");
    let cpu = 1_000 << size.min(6);
    let price = cpu as f64 * (1.0 + family as f64 / 100.0) / 40_000.0;
    let offerings = ["a", "b", "c"].into_iter().flat_map(|zone| {
        [("on-demand", 1.0), ("spot", 0.4)].map(|(capacity_type, share)| Offering {
            requirements: [(labels::ZONE, one_of([zone])), (labels::CAPACITY_TYPE, one_of([capacity_type]))]
                .into_iter()
                .collect(),
            price: Some(price * share),
            available: true,
            reservation_capacity: 0,
        })
    });
    let requirements = [
        (labels::INSTANCE_TYPE, one_of([&*name])),
        (FAMILY, one_of([&*family_name])),
        (SIZE, one_of([&*size_name])),
        (labels::ARCH, one_of([if family.is_multiple_of(4) { "arm64" } else { "amd64" }])),
        (labels::ZONE, one_of(["a", "b", "c"])),
        (labels::CAPACITY_TYPE, one_of(["on-demand", "spot"])),
    ];
    InstanceType {
        requirements: requirements.into_iter().collect(),
        capacity: [(Resource::Cpu, cpu), (Resource::Memory, (cpu / 250) << 30), (Resource::Pods, 110)]
            .into_iter()
            .collect(),
        overhead: Resources::new(),
        offerings: offerings.collect(),
        name: name.into(),
    }
}

/// A hundred pods of several namespaces with the rules that charts have.
fn ordinary() -> Problem {
    let mut problem = Problem::default();
    let types = (0..FAMILIES).flat_map(|family| (0..SIZES).map(move |size| instance_type(family, size)));
    problem.catalogues.push(types.collect());
    problem.pools.push(mutations::pool("general"));
    let mut random = Random::new(7);
    for number in 0..20 {
        let namespace = format!("team-{}", number % 3);
        let mut spec = PodSpec::unconstrained(&*namespace, amounts(200 + 100 * random.below(20) as i64, 1));
        let name = format!("app-{number}");
        spec.labels = Labels::from_iter([("app", &*name)]);
        let own = selector("app", &[&name]);
        match number % 4 {
            0 => spec.spread.push(SpreadConstraint { selector: own, ..mutations::spread(labels::ZONE) }),
            1 => spec.anti_affinity.push(term(labels::HOSTNAME, own, &namespace)),
            _ => {}
        }
        push(&mut problem, spec, 5, &name);
    }
    problem
}

fn push(problem: &mut Problem, spec: PodSpec, count: usize, name: &str) {
    let namespace = spec.namespace.clone();
    let spec = problem.intern(spec);
    let pods = (0..count).map(|pod| Pod { name: format!("{namespace}/{name}-{pod}").into(), spec });
    problem.pods.extend(pods);
}

fn selector(key: &str, values: &[&str]) -> LabelSelector {
    let mut values: Vec<std::sync::Arc<str>> = values.iter().map(|&value| value.into()).collect();
    values.sort();
    values.dedup();
    LabelSelector::Terms(vec![SelectorTerm { key: key.into(), operator: SelectorOperator::In, values }])
}

fn term(key: &str, selector: LabelSelector, namespace: &str) -> AffinityTerm {
    AffinityTerm {
        topology_key: key.into(),
        selector,
        namespaces: NamespaceScope::Only([namespace.into()].into_iter().collect()),
    }
}

/// Adds `count` pods with up to `terms` terms of any kind about any label.
fn add_hostile(problem: &mut Problem, seed: u64, count: usize, terms: usize) {
    let mut random = Random::new(seed);
    for number in 0..count {
        let mut spec = PodSpec::unconstrained(HOSTILE, amounts(500, 1));
        let (own, group) = (number.to_string(), (number % 7).to_string());
        spec.labels = Labels::from_iter([("app", "hostile"), ("number", &*own), ("group", &*group)]);
        for _ in 0..1 + random.below(terms) {
            let other = random.below(count).to_string();
            let selector = match random.below(3) {
                0 => selector("app", &["hostile"]),
                1 => selector("group", &[&group]),
                _ => selector("number", &[&own, &other]),
            };
            let key = *random.pick(&KEYS);
            match random.below(5) {
                0 => spec.affinity.push(term(key, selector, HOSTILE)),
                1 | 2 => spec.anti_affinity.push(term(key, selector, HOSTILE)),
                _ => spec.spread.push(SpreadConstraint { selector, ..mutations::spread(key) }),
            }
        }
        push(problem, spec, 1, &format!("p{number}"));
    }
}

fn is_ordinary(problem: &Problem, node: &NewNode) -> bool {
    node.pods.iter().any(|&pod| &*problem.spec_of(pod).namespace != HOSTILE)
}

#[track_caller]
fn planned(problem: &Problem) -> Solution {
    let solution = solve(problem, &Options::default());
    let violations = validate(problem, &Options::default(), &solution);
    assert!(violations.is_empty(), "{}", violations[0]);
    let price: f64 = solution.new_nodes.iter().map(|node| node.price).sum();
    assert!(lower_bound(problem, &Options::default(), &solution) <= price + 1e-9);
    solution
}

fn told(solution: &Solution) -> BTreeMap<&str, usize> {
    let mut told = BTreeMap::new();
    solution.unschedulable.iter().for_each(|one| *told.entry(one.reason.name()).or_default() += 1);
    told
}

#[test]
fn hostile_pods_change_nothing_for_others() {
    let alone = planned(&ordinary());
    assert!(alone.unschedulable.is_empty());
    for seed in 0..6 {
        let mut problem = ordinary();
        add_hostile(&mut problem, seed, 120, 8);
        let solution = planned(&problem);
        let nodes: Vec<&NewNode> = solution.new_nodes.iter().filter(|node| is_ordinary(&problem, node)).collect();
        assert_eq!(nodes, alone.new_nodes.iter().collect::<Vec<_>>(), "seed {seed}");
        let left = solution.unschedulable.iter().map(|one| &*problem.spec_of(one.pod).namespace);
        assert!(left.into_iter().all(|namespace| namespace == HOSTILE), "seed {seed}");
    }
}

/// Replicas that are apart over every label at once: as many as there are capacity types find a place.
#[test]
fn replicas_apart_over_types_get_what_there_is() {
    let apart = |problem: &mut Problem, count: usize| {
        let mut spec = PodSpec::unconstrained(HOSTILE, amounts(500, 1));
        spec.labels = Labels::from_iter([("app", "hostile")]);
        for key in KEYS {
            spec.anti_affinity.push(term(key, selector("app", &["hostile"]), HOSTILE));
        }
        push(problem, spec, count, "apart");
    };
    let mut problem = ordinary();
    apart(&mut problem, 60);
    let solution = planned(&problem);
    assert_eq!(told(&solution), BTreeMap::from([("PodAntiAffinity", 58)]));
}

#[test]
fn replicas_over_families_take_one_each() {
    let mut problem = ordinary();
    let mut spec = PodSpec::unconstrained(HOSTILE, amounts(500, 1));
    spec.labels = Labels::from_iter([("app", "hostile")]);
    spec.anti_affinity.push(term(FAMILY, selector("app", &["hostile"]), HOSTILE));
    push(&mut problem, spec, FAMILIES, "apart");
    let solution = planned(&problem);
    assert_eq!(solution.unschedulable, []);
}

#[test]
fn pods_beyond_all_shares_are_told_which_label_costs() {
    let mut problem = ordinary();
    let mut spec = PodSpec::unconstrained(HOSTILE, amounts(500, 1));
    spec.labels = Labels::from_iter([("app", "hostile")]);
    for _ in 0..8 {
        let spread = SpreadConstraint {
            selector: selector("app", &["hostile"]),
            max_skew: 1_000 + spec.spread.len() as i32,
            ..mutations::spread(labels::INSTANCE_TYPE)
        };
        spec.spread.push(spread);
    }
    push(&mut problem, spec, 1_000, "many");
    let solution = planned(&problem);
    let left = told(&solution).get("TooComplex").copied().unwrap_or(0);
    assert!(left > 0 && left < 1_000, "{left} of 1,000");
    let one = solution.unschedulable.iter().find(|one| one.reason == Reason::TooComplex).unwrap();
    assert!(one.message.contains(labels::INSTANCE_TYPE), "{}", one.message);
    assert!(one.pools[0].hint.is_some());
}

/// A workload beside them in the same namespace whose rules are about labels of few values is placed.
#[test]
fn cheap_workloads_of_a_costly_namespace_are_placed() {
    let mut problem = ordinary();
    let mut spec = PodSpec::unconstrained(HOSTILE, amounts(500, 1));
    spec.labels = Labels::from_iter([("app", "honest")]);
    spec.spread.push(SpreadConstraint { selector: selector("app", &["honest"]), ..mutations::spread(labels::ZONE) });
    push(&mut problem, spec, 6, "honest");
    add_hostile(&mut problem, 3, 300, 8);
    let solution = planned(&problem);
    let name = |pod: usize| problem.pods[pod].name.to_string();
    let left: Vec<String> = solution.unschedulable.iter().map(|one| name(one.pod)).collect();
    assert!(!left.iter().any(|name| name.contains("honest")), "{left:?}");
}
