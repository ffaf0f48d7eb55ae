//! What no plan can undercut, where there is little or nothing to plan with.

use muster_scheduling::labels::{HOSTNAME, ZONE};
use muster_scheduling::model::{
    AffinityTerm, Catalogue, InstanceType, LabelSelector, Labels, NamespaceScope, Pod, PodSpec, Problem, Resource,
    Resources, SelectorOperator, SelectorTerm, SpreadConstraint,
};
use muster_scheduling::{lower_bound, lower_bound_of, solve, validate};

use crate::cases::crowd;
use crate::mutations::{kind, pool};
use crate::options;

const CROWDS: u64 = 200;

/// The least for all pods of a problem without nodes.
fn least(problem: &Problem) -> f64 {
    lower_bound_of(problem, &options(), 0..problem.pods.len())
}

/// Crowds without the nodes that are there.
fn crowds() -> impl Iterator<Item = Problem> {
    (0..CROWDS).map(|seed| {
        let mut problem = crowd(seed);
        problem.nodes.clear();
        problem
    })
}

#[test]
fn where_nothing_is_on_sale_nothing_must_be_paid() {
    for problem in crowds() {
        let bare =
            |problem: &mut Problem| problem.catalogues.iter_mut().for_each(|types| *types = Catalogue::default());
        let unpriced = |problem: &mut Problem| {
            let offerings = |types: &mut Catalogue| {
                types.edit(|types| {
                    types.iter_mut().flat_map(|one| &mut one.offerings).for_each(|offering| offering.available = false);
                });
            };
            problem.catalogues.iter_mut().for_each(offerings);
        };
        let poolless = |problem: &mut Problem| problem.pools.clear();
        let podless = |problem: &mut Problem| problem.pods.clear();
        for strip in [&bare as &dyn Fn(&mut Problem), &unpriced, &poolless, &podless] {
            let mut stripped = problem.clone();
            strip(&mut stripped);
            assert_eq!(least(&stripped), 0.0);
        }
    }
}

/// Pods that fit nowhere and must not share a node ask for no nodes.
#[test]
fn pods_that_fit_nothing_cost_nothing() {
    let mut dear = 0;
    for mut problem in crowds() {
        let before = least(&problem);
        let labels: Labels = [("app", "giant")].into_iter().collect();
        let term = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec!["giant".into()] };
        let apart = AffinityTerm {
            topology_key: HOSTNAME.into(),
            selector: LabelSelector::Terms(vec![term]),
            namespaces: NamespaceScope::All,
        };
        let giant = PodSpec {
            labels,
            anti_affinity: vec![apart],
            ..PodSpec::unconstrained("default", Resources::from_iter([(Resource::Cpu, 1_000_000), (Resource::Pods, 1)]))
        };
        problem.specs.push(giant);
        let spec = problem.specs.len() - 1;
        problem.pods.extend((0..40).map(|number| Pod { name: format!("default/giant-{number}").into(), spec }));
        let after = least(&problem);
        // Prices of resources are searched for with numbers: with the giants others are found, hardly different ones.
        assert!(after <= 1.001 * before && (after > 0.0 || before == 0.0), "{before} and {after}");
        dear += usize::from(before > 0.0);
    }
    assert!(dear > 100, "{dear}");
}

/// VerticalPodAutoscaler recommends single bytes: what pods ask for has no common divisor then.
#[test]
fn single_bytes_cost_what_round_numbers_do() {
    let mut compared = 0;
    for round in crowds() {
        let mut odd = round.clone();
        for (spare, spec) in (1..).zip(&mut odd.specs) {
            let asked = spec.requests.get(&Resource::Memory);
            spec.requests.set(Resource::Memory, asked - (2 * spare + 1).min(asked));
        }
        let plan = solve(&odd, &options());
        assert_eq!(validate(&odd, &options(), &plan), []);
        let pods: Vec<usize> = plan.new_nodes.iter().flat_map(|node| &node.pods).copied().collect();
        let bound = lower_bound_of(&odd, &options(), pods.iter().copied());
        let paid = plan.new_nodes.iter().map(|node| node.price).sum::<f64>();
        assert!(bound <= paid + 1e-9, "{bound} for {paid}");
        // Pods that ask for a few bytes more pay the same.
        let same = solve(&round, &options());
        if same.unschedulable.len() == plan.unschedulable.len() {
            let price = same.new_nodes.iter().map(|node| node.price).sum::<f64>();
            assert!(paid <= 1.1 * price + 1e-9, "{paid} for {price}");
            assert!(bound <= price + 1e-9, "{bound} for {price}");
            compared += 1;
        }
    }
    assert!(compared > 150, "{compared}");
}

/// What a giant asks for does not make the others inexact: two halves still fill a node.
#[test]
fn giants_do_not_blur_the_others() {
    let mut problem = Problem::default();
    problem.catalogues.push([kind("small", 2000, 1.0)].into_iter().collect());
    problem.pools.push(pool("only"));
    for (name, cpu) in [("a", 1000), ("b", 1000), ("giant", 1_000_000_000_000_001)] {
        let requests = Resources::from_iter([(Resource::Cpu, cpu), (Resource::Pods, 1)]);
        let spec = problem.intern(PodSpec::unconstrained("default", requests));
        problem.pods.push(Pod { name: format!("default/{name}").into(), spec });
    }
    let plan = solve(&problem, &options());
    assert_eq!(plan.new_nodes.len(), 1);
    assert_eq!(lower_bound_of(&problem, &options(), 0..2), plan.new_nodes[0].price);
}

/// Pods of three cores and six gibibytes, and one that is a little larger: a node of four cores and ten gibibytes holds
/// one of them, which neither tells. The other type holds none, and makes cores cheap.
fn lonely(pods: usize, spread: bool, price_in_b: f64) -> Problem {
    let sized = |name: &str, cpu: i64, gibibytes: i64| {
        let mut one: InstanceType = kind(name, cpu, 1.0);
        one.capacity.set(Resource::Memory, gibibytes << 30);
        one.offerings[1].price = Some(price_in_b);
        one
    };
    let mut problem = Problem::default();
    problem.catalogues.push(Catalogue::new(vec![sized("memory", 4_000, 10), sized("cores", 20_000, 2)]));
    problem.pools.push(pool("only"));
    let requests = |more: i64| {
        let (cpu, memory) = (3_000 + 100 * more, (6_000 + 100 * more) << 20);
        [(Resource::Cpu, cpu), (Resource::Memory, memory), (Resource::Pods, 1)].into_iter().collect::<Resources>()
    };
    let mut spec = PodSpec::unconstrained("default", requests(0));
    spec.labels = [("app", "lonely")].into_iter().collect();
    if spread {
        let term = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec!["lonely".into()] };
        spec.spread.push(SpreadConstraint {
            topology_key: ZONE.into(),
            max_skew: 1,
            min_domains: None,
            selector: LabelSelector::Terms(vec![term]),
            honor_affinity: true,
            honor_taints: false,
            required: true,
        });
    }
    let alike = problem.intern(spec);
    let other = problem.intern(PodSpec::unconstrained("default", requests(1)));
    for number in 0..=pods {
        let spec = if number < pods { alike } else { other };
        problem.pods.push(Pod { name: format!("default/p{number}").into(), spec });
    }
    problem
}

#[test]
fn what_a_small_node_can_hold_is_known() {
    let problem = lonely(20, false, 1.0);
    assert!((least(&problem) - 21.0).abs() < 1e-6, "{}", least(&problem));
    assert_eq!(solve(&problem, &options()).new_nodes.len(), 21);
}

/// Ten pods over two zones, at most one more in one than in the other: at least five are in the dearer one, as are five
/// of eleven. A single one is not.
#[test]
fn pods_that_a_spread_forces_into_a_zone_pay_its_prices() {
    for (pods, paid) in [(10, 16.0), (11, 17.0), (1, 2.0)] {
        let problem = lonely(pods, true, 2.0);
        let plan = solve(&problem, &options());
        let bound = lower_bound(&problem, &options(), &plan);
        assert!((bound - paid).abs() < 1e-6, "{pods} pods: {bound}");
        assert_eq!(plan.new_nodes.iter().map(|node| node.price).sum::<f64>(), paid);
        // Of pods that run, those in the dearer zone may be the ones that ended.
        assert!((least(&problem) - (pods + 1) as f64).abs() < 1e-6);
    }
}
