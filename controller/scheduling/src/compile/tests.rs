//! Compiled rules against the same worked out pod by pod and selector by selector.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::rules::Rules;
use super::selection::Selection;
use super::{Compiled, Part, Softness};
use crate::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use crate::model::{
    AffinityTerm, InstanceType, LabelSelector, Labels, NamespaceScope, NodePool, Offering, Operator, Options, Pod,
    PodSpec, PoolState, Problem, Requirement, Resource, Resources, SelectorOperator, SelectorTerm,
};

const KEYS: [&str; 3] = ["app", "tier", "team"];

fn namespace() -> impl Strategy<Value = Arc<str>> {
    (0..3_u8).prop_map(|number| format!("ns-{number}").into())
}

fn value() -> impl Strategy<Value = Arc<str>> {
    (0..14_u8).prop_map(|number| format!("v{number}").into())
}

fn labels() -> impl Strategy<Value = Labels> {
    prop::collection::vec(prop::option::weighted(0.7, value()), KEYS.len()).prop_map(|values| {
        let pairs = KEYS.into_iter().zip(values);
        pairs.filter_map(|(key, value)| Some((key, value?))).collect()
    })
}

fn operator() -> impl Strategy<Value = SelectorOperator> {
    use SelectorOperator::{DoesNotExist, Exists, In, NotIn};
    prop_oneof![4 => Just(In), 1 => Just(NotIn), 1 => Just(Exists), 1 => Just(DoesNotExist)]
}

fn term() -> impl Strategy<Value = SelectorTerm> {
    let key = prop::sample::select(KEYS.to_vec());
    (key, operator(), prop::collection::btree_set(value(), 1..12)).prop_map(|(key, operator, values)| {
        let lists = matches!(operator, SelectorOperator::In | SelectorOperator::NotIn);
        let values = values.into_iter().filter(|_| lists).collect();
        SelectorTerm { key: key.into(), operator, values }
    })
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    prop_oneof![
        1 => Just(LabelSelector::Nothing),
        12 => prop::collection::vec(term(), 0..4).prop_map(LabelSelector::Terms),
    ]
}

fn scope() -> impl Strategy<Value = NamespaceScope> {
    prop_oneof![
        1 => Just(NamespaceScope::All),
        4 => prop::collection::btree_set(namespace(), 0..3).prop_map(NamespaceScope::Only),
    ]
}

fn spec() -> impl Strategy<Value = PodSpec> {
    let key = prop_oneof![2 => Just(HOSTNAME), 1 => Just(ZONE)];
    let terms = prop::collection::vec((key, selector(), scope()), 0..4);
    (namespace(), labels(), terms).prop_map(|(namespace, labels, terms)| {
        let anti_affinity = terms
            .into_iter()
            .map(|(key, selector, namespaces)| AffinityTerm { topology_key: key.into(), selector, namespaces })
            .collect();
        PodSpec { labels, anti_affinity, ..PodSpec::unconstrained(namespace, Resources::new()) }
    })
}

fn is_meant((selector, namespaces): &(LabelSelector, NamespaceScope), spec: &PodSpec) -> bool {
    namespaces.contains(&spec.namespace) && selector.matches(&spec.labels)
}

proptest! {
    #[test]
    fn selection_finds_what_comparison_finds(
        subjects in prop::collection::vec((selector(), scope()), 0..40),
        pods in prop::collection::vec((namespace(), labels()), 1..12),
    ) {
        let mut selection = Selection::default();
        for (number, (selector, namespaces)) in subjects.iter().enumerate() {
            selection.add(number as u32, selector, namespaces);
        }
        for (namespace, labels) in pods {
            let spec = PodSpec { labels, ..PodSpec::unconstrained(namespace, Resources::new()) };
            let compared = (0..subjects.len()).filter(|&number| is_meant(&subjects[number], &spec));
            let compared: Vec<u32> = compared.map(|number| number as u32).collect();
            let selects = |number: u32| is_meant(&subjects[number as usize], &spec);
            prop_assert_eq!(selection.of(&spec.namespace, &spec.labels, selects).to_vec(), compared);
        }
    }

    #[test]
    fn rules_count_whom_their_selectors_match(specs in prop::collection::vec(spec(), 1..20)) {
        let mut rules = Rules::default();
        let mut parts: Vec<Part> = specs.iter().map(|spec| rules.learn(spec, true, Softness::default())).collect();
        let by_subject = rules.by_subject();
        for (spec, part) in specs.iter().zip(&mut parts) {
            rules.aim(spec, part, &by_subject);
        }
        for (spec, part) in specs.iter().zip(&parts) {
            let meant = rules.host.indices().filter(|&rule| rules.selects(rules.host[rule].subject, spec));
            let targets: Vec<_> = part.targets_host.iter().map(|&(rule, _)| rule).collect();
            prop_assert_eq!(targets, meant.collect::<Vec<_>>());
            let meant = rules.domain.indices().filter(|&rule| rules.selects(rules.domain[rule].subject, spec));
            let targets: Vec<_> = part.targets_domain.iter().map(|&(rule, _)| rule).collect();
            prop_assert_eq!(targets, meant.collect::<Vec<_>>());
            // Each distinct term is one rule, and an owner that is meant itself may be there once.
            let hosts = spec.anti_affinity.iter().filter(|term| &*term.topology_key == HOSTNAME);
            let distinct: BTreeSet<_> = hosts.map(|term| format!("{:?} {:?}", term.selector, term.namespaces)).collect();
            prop_assert_eq!(part.owns_host.len(), distinct.len());
            for &rule in &part.owns_host {
                let rule = &rules.host[rule];
                prop_assert_eq!(rule.limit, i32::from(rules.selects(rule.subject, spec)));
            }
        }
    }
}

/// A pool of 300 types that leaves a label with 40 values open, and pods with rules about the instance type.
fn many_kinds(teams: &[&str]) -> Problem {
    let one_of =
        |values: Vec<String>| Requirement::new(Operator::In, values.iter().map(|value| Arc::<str>::from(&**value)));
    let amounts = |cpu: i64| Resources::from_iter([(Resource::Cpu, cpu), (Resource::Pods, 110)]);
    let types = (0..300).map(|number| {
        let name = format!("t{number}");
        let offering = |(zone, capacity_type): (&str, &str)| Offering {
            requirements: [(ZONE, one_of(vec![zone.into()])), (CAPACITY_TYPE, one_of(vec![capacity_type.into()]))]
                .into_iter()
                .collect(),
            price: Some(0.1 + 0.01 * f64::from(number)),
            available: true,
            reservation_capacity: 0,
        };
        let places =
            [("a", "spot"), ("a", "on-demand"), ("b", "spot"), ("b", "on-demand"), ("c", "spot"), ("c", "on-demand")];
        InstanceType {
            requirements: [(INSTANCE_TYPE, one_of(vec![name.clone()]))].into_iter().collect(),
            name: name.into(),
            capacity: amounts(4_000),
            overhead: Resources::new(),
            offerings: places.map(offering).into(),
        }
    });
    let mut problem = Problem::default();
    problem.catalogues.push(types.collect());
    let all_teams = (0..40).map(|number| format!("team-{number:02}")).collect();
    problem.pools.push(NodePool {
        name: "general".into(),
        weight: 0,
        requirements: [(TEAM, one_of(all_teams))].into_iter().collect(),
        labels: Labels::default(),
        annotations: Labels::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: None,
        usage: Resources::new(),
        catalogue: 0,
        state: PoolState::Ready,
        missing_replicas: None,
    });
    for team in teams {
        let mut spec = PodSpec::unconstrained("default", amounts(500));
        spec.labels = [("team", *team)].into_iter().collect();
        spec.node_selector = [(TEAM, one_of(vec![(*team).to_owned()]))].into_iter().collect();
        spec.anti_affinity.push(AffinityTerm {
            topology_key: INSTANCE_TYPE.into(),
            selector: LabelSelector::Terms(Vec::new()),
            namespaces: NamespaceScope::All,
        });
        let spec = problem.intern(spec);
        problem.pods.push(Pod { name: format!("default/{team}").into(), spec });
    }
    problem
}

const TEAM: &str = "example.com/team";

#[test]
fn the_number_of_cells_is_limited() {
    let (problem, options) = (many_kinds(&["team-00", "team-37"]), Options::default());
    let compiled = Compiled::new(&problem, &options);
    assert!(compiled.cells.len() <= 8_192, "{} cells", compiled.cells.len());
    assert_eq!(compiled.shapes.len(), 300, "every type can be launched");
    let offered = compiled.offered_in().iter();
    assert!(offered.into_iter().all(|cells| cells.len() >= 6), "in every zone and capacity type");
}

#[test]
fn values_that_pods_name_are_kept() {
    let (problem, options) = (many_kinds(&["team-00", "team-37"]), Options::default());
    let solution = crate::solve(&problem, &options);
    assert_eq!(solution.unschedulable, [], "both pods find a place");
}
