//! Rules over labels that some nodes, or all, lack: pods that a rule only counts may go to any node. More units than
//! the searches of small plans take, so that the assignment of domains decides.

use muster_scheduling::model::*;
use muster_scheduling::{Solution, lower_bound, solve, validate};

use crate::cases::one_of;
use crate::mutations::{self, amounts, kind, pool};
use crate::price;

const RACK: &str = "example.com/rack";
const REPLICAS: usize = 600;

fn web() -> PodSpec {
    PodSpec { labels: Labels::from_iter([("app", "web")]), ..PodSpec::unconstrained("default", amounts(1000, 1)) }
}

fn other() -> PodSpec {
    PodSpec { labels: Labels::from_iter([("app", "other")]), ..PodSpec::unconstrained("default", amounts(1000, 1)) }
}

fn selects_web() -> LabelSelector {
    LabelSelector::Terms(vec![SelectorTerm {
        key: "app".into(),
        operator: SelectorOperator::In,
        values: vec!["web".into()],
    }])
}

fn about_web() -> AffinityTerm {
    AffinityTerm { selector: selects_web(), ..mutations::term(RACK) }
}

/// Pod `default/p0` is `owner`; the replicas of `web` follow.
fn beside(owner: PodSpec) -> Problem {
    let mut pods = vec![owner];
    pods.extend(std::iter::repeat_n(web(), REPLICAS));
    mutations::problem(&pods)
}

/// Adds a pool of dearer types whose nodes have a rack.
fn add_racks(problem: &mut Problem) {
    problem.catalogues.push(Catalogue::new(vec![kind("racked", 4000, 0.3)]));
    let mut racked = pool("racked");
    racked.labels.set(RACK, "r1");
    racked.requirements.add(RACK, one_of(["r1"]));
    racked.catalogue = 1;
    problem.pools.push(racked);
}

#[track_caller]
fn planned(problem: &Problem) -> Solution {
    let solution = solve(problem, &Options::default());
    let violations = validate(problem, &Options::default(), &solution);
    assert!(violations.is_empty(), "{}", violations[0]);
    assert!(lower_bound(problem, &Options::default(), &solution) <= price(&solution) + 1e-9);
    solution
}

fn left(solution: &Solution) -> Vec<usize> {
    solution.unschedulable.iter().map(|one| one.pod).collect()
}

fn on_racks(problem: &Problem, solution: &Solution) -> Vec<usize> {
    let racked = solution.new_nodes.iter().filter(|node| problem.pools[node.pool].labels.get(RACK).is_some());
    racked.flat_map(|node| node.pods.iter().copied()).collect()
}

#[test]
fn targets_of_rules_over_a_label_of_no_node_are_placed() {
    let apart = PodSpec { anti_affinity: vec![about_web()], ..other() };
    let together = PodSpec { affinity: vec![about_web()], ..other() };
    let spread = SpreadConstraint { selector: selects_web(), ..mutations::spread(RACK) };
    let spread = PodSpec { spread: vec![spread], ..other() };
    for owner in [apart, together, spread] {
        assert_eq!(left(&planned(&beside(owner))), [0], "only the owner needs the label");
    }
}

#[test]
fn targets_go_to_cheaper_nodes_without_the_label() {
    let apart = PodSpec { anti_affinity: vec![about_web()], ..other() };
    let spread = SpreadConstraint { selector: selects_web(), ..mutations::spread(RACK) };
    let spread = PodSpec { spread: vec![spread], ..other() };
    for owner in [apart, spread] {
        let mut problem = beside(owner);
        add_racks(&mut problem);
        let solution = planned(&problem);
        assert_eq!(left(&solution), []);
        let racked = on_racks(&problem, &solution);
        assert!(racked.contains(&0) && racked.len() <= 4, "{racked:?} on nodes that cost more");
    }
}

#[test]
fn followers_find_one_target_that_has_the_label() {
    let mut problem = beside(PodSpec { affinity: vec![about_web()], ..other() });
    add_racks(&mut problem);
    let solution = planned(&problem);
    assert_eq!(left(&solution), []);
    assert!(on_racks(&problem, &solution).contains(&0));
    assert!(on_racks(&problem, &solution).len() <= 4, "the others cost less elsewhere");
}

#[test]
fn targets_on_nodes_without_the_label_are_no_company() {
    let own = PodSpec { affinity: vec![about_web()], ..web() };
    let mut away = web();
    away.node_selector = [(muster_scheduling::labels::NODE_POOL, one_of(["general"]))].into_iter().collect();
    let mut problem = mutations::problem(&[]);
    add_racks(&mut problem);
    for (count, spec) in [(REPLICAS, away), (4, own)] {
        let spec = problem.intern(spec);
        problem.pods.extend((0..count).map(|pod| Pod { name: format!("default/{spec}-{pod}").into(), spec }));
    }
    assert_eq!(left(&planned(&problem)), [], "the pods that follow themselves start in a rack");
}

#[test]
fn launches_without_the_label_name_no_type_that_has_it() {
    let apart = PodSpec { anti_affinity: vec![about_web()], ..other() };
    let mut problem = beside(apart);
    let mut racked = kind("racked", 4000, 0.3);
    racked.requirements.add(RACK, one_of(["r1"]));
    problem.catalogues[0].edit(|types| types.push(racked));
    let solution = planned(&problem);
    assert_eq!(left(&solution), []);
    for node in solution.new_nodes.iter().filter(|node| !node.pods.contains(&0)) {
        let mut names = node.alternatives.iter().map(|&one| &*problem.catalogues[0][one].name);
        assert!(names.all(|name| name != "racked"), "{node:?}");
    }
}
