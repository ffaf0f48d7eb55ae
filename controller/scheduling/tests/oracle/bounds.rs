//! What no plan can undercut, where there is little or nothing to plan with.

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::lower_bound_of;
use muster_scheduling::model::{
    AffinityTerm, Catalogue, LabelSelector, Labels, NamespaceScope, Pod, PodSpec, Problem, Resource, Resources,
    SelectorOperator, SelectorTerm,
};

use crate::cases::crowd;
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
        // Sizes are rounded by the largest: the same pods are bounded a little less sharply.
        // Sizes are counted in what all of them are multiples of: with the giants another price is found, hardly higher.
        assert!(after <= 1.001 * before && (after > 0.0 || before == 0.0), "{before} and {after}");
        dear += usize::from(before > 0.0);
    }
    assert!(dear > 100, "{dear}");
}
