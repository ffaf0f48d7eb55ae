//! Labels to which a pool gives a value of the launch's choice (`Exists`), and types of which the kubelet takes a part.

use std::iter::repeat_n;

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::*;
use muster_scheduling::{Solution, solve, validate};

use crate::mutations::{amounts, pod, problem};

const TEAM: &str = "example.com/team";

fn any() -> Requirement {
    Requirement::new(Operator::Exists, [""; 0])
}

fn asking(requirements: &[Requirement]) -> PodSpec {
    let mut spec = pod();
    requirements.iter().for_each(|one| spec.node_selector.add(TEAM, one.clone()));
    spec
}

#[track_caller]
fn planned(problem: &Problem) -> Solution {
    let solution = solve(problem, &Options::default());
    let violations = validate(problem, &Options::default(), &solution);
    assert!(violations.is_empty(), "{}", violations[0]);
    solution
}

#[test]
fn any_value_is_one_that_a_pool_gives() {
    let not = |value: &str| Requirement::new(Operator::NotIn, [value]);
    let bound = |operator, value: &str| Requirement::new(operator, [value]);
    for asked in [
        vec![any()],
        vec![bound(Operator::Gt, "5")],
        vec![bound(Operator::Gt, "5"), not("6"), not("7")],
        vec![bound(Operator::Lt, "5"), not("4")],
    ] {
        let mut open = problem(&[asking(&asked), asking(&[any()])]);
        // As for Karpenter, several expressions allow absence together if one of them excludes values.
        let without = if asked.len() == 1 { 2 } else { 1 };
        assert_eq!(planned(&open).unschedulable.len(), without, "no node has the label: {asked:?}");
        open.pools[0].requirements.add(TEAM, any());
        let solution = planned(&open);
        assert_eq!(solution.unschedulable, [], "{asked:?}");
        let mut given = solution.new_nodes.iter().map(|node| node.requirements.get(TEAM).unwrap());
        assert!(asked.len() > 1 || given.all(|given| !given.allows_absence()), "{asked:?}");
    }
}

#[test]
fn pods_that_no_value_suits_share_no_node() {
    let bound = |operator, value: &str| asking(&[Requirement::new(operator, [value])]);
    let mut open = problem(&[bound(Operator::Gt, "5"), bound(Operator::Lt, "3"), asking(&[any()])]);
    open.pools[0].requirements.add(TEAM, any());
    let solution = planned(&open);
    assert_eq!(solution.unschedulable, []);
    assert!(solution.new_nodes.len() >= 2, "{:?}", solution.new_nodes);
}

#[test]
fn a_pod_follows_the_group_that_all_its_terms_select() {
    let labelled = |labels: &[(&str, &str)]| PodSpec { labels: labels.iter().copied().collect(), ..pod() };
    let beside = |key: &str, value: &str| AffinityTerm {
        topology_key: HOSTNAME.into(),
        selector: LabelSelector::Terms(vec![SelectorTerm {
            key: key.into(),
            operator: SelectorOperator::In,
            values: vec![value.into()],
        }]),
        namespaces: NamespaceScope::All,
    };
    let follower =
        PodSpec { affinity: vec![beside("app", "x"), beside("tier", "backend")], ..labelled(&[("app", "follower")]) };
    // The first workload has one of the two labels. Enough pods that no search over all placements mends it.
    let mut pods: Vec<PodSpec> = repeat_n(labelled(&[("app", "y"), ("tier", "backend")]), 24).collect();
    pods.extend(repeat_n(labelled(&[("app", "x"), ("tier", "backend")]), 12));
    pods.extend(repeat_n(follower, 2));
    assert_eq!(planned(&problem(&pods)).unschedulable, []);
}

#[test]
fn huge_pages_come_out_of_the_memory() {
    let mut paged = problem(&repeat_n(pod(), 4).collect::<Vec<_>>());
    // Two pods of a core and a GiB each fill a small type, but for the memory of its huge pages.
    paged.catalogues[0].edit(|types| {
        types.truncate(1);
        types[0].capacity.set(Resource::new("hugepages-2Mi"), amounts(500, 0).get(&Resource::Memory));
    });
    let solution = planned(&paged);
    assert_eq!((solution.new_nodes.len(), solution.unschedulable.len()), (4, 0));
}
