use proptest::prelude::*;

use super::*;
use crate::labels::{HOSTNAME, ZONE};
use crate::model::{
    AffinityTerm, Attachment, BoundPod, LabelSelector, Labels, NamespaceScope, Node, Pod, PodSpec, Requirements,
    Resource, Resources, SelectorOperator, SelectorTerm, SpreadConstraint,
};

fn amounts(cpu: i64) -> Resources {
    Resources::from_iter([(Resource::Cpu, cpu), (Resource::Pods, 1)])
}

fn plain(cpu: i64) -> PodSpec {
    PodSpec::unconstrained("default", amounts(cpu))
}

fn spread(cpu: i64, key: &str) -> PodSpec {
    let constraint = SpreadConstraint {
        topology_key: key.into(),
        max_skew: 1,
        min_domains: None,
        selector: LabelSelector::Nothing,
        required: true,
        honor_affinity: true,
        honor_taints: false,
    };
    PodSpec { spread: vec![constraint], ..plain(cpu) }
}

/// Nodes with their zone, what they have, what is taken by bound pods, and what is meant for them.
fn cluster(nodes: &[(&str, i64, i64, Vec<PodSpec>)]) -> (Problem, Vec<(usize, Vec<usize>)>) {
    let mut problem = Problem::default();
    let mut places = Vec::new();
    for (number, (zone, cpu, taken, pods)) in nodes.iter().enumerate() {
        let mut allocatable = amounts(*cpu);
        allocatable.set(Resource::Pods, 110);
        let mut labels = Labels::default();
        labels.set(ZONE, *zone);
        let spec = problem.intern(plain(*taken));
        let bound =
            BoundPod { name: format!("bound-{number}").into(), spec, counts: true, planned: false, daemon: false };
        problem.nodes.push(Node {
            name: format!("node-{number}").into(),
            labels,
            taints: Vec::new(),
            allocatable,
            daemon_requests: Resources::new(),
            initialized: true,
            deleting: false,
            bound: vec![bound],
            attach_limits: Vec::new(),
            attached: Vec::new(),
        });
        let mut here = Vec::new();
        for spec in pods {
            let spec = problem.intern(spec.clone());
            here.push(problem.pods.len());
            problem.pods.push(Pod { name: format!("pod-{}", problem.pods.len()).into(), spec });
        }
        places.push((number, here));
    }
    (problem, places)
}

fn mended(nodes: &[(&str, i64, i64, Vec<PodSpec>)]) -> (Vec<(usize, usize)>, Vec<usize>) {
    let (problem, places) = cluster(nodes);
    let Exchange { moves, left } = exchange(&problem, &Options::default(), &places);
    (moves.iter().map(|one| (one.pod, one.to)).collect(), left)
}

fn plains(all: &[i64]) -> Vec<PodSpec> {
    all.iter().map(|cpu| plain(*cpu)).collect()
}

#[test]
fn where_all_fit_nothing_moves() {
    assert_eq!(mended(&[("a", 1000, 400, plains(&[300, 300])), ("a", 1000, 0, plains(&[100]))]), (vec![], vec![]));
}

#[test]
fn the_last_one_that_fits_elsewhere_goes_there() {
    let moved = mended(&[("a", 1000, 400, plains(&[300, 300, 300])), ("a", 1000, 700, vec![])]);
    assert_eq!(moved, (vec![(2, 1)], vec![]));
}

#[test]
fn a_large_one_goes_for_a_small_one() {
    // 240 were taken on the first node, and are free on the second one; none asks for so much or less.
    let moved = mended(&[("a", 1240, 240, plains(&[500, 740])), ("a", 1240, 0, plains(&[500, 500]))]);
    assert_eq!(moved, (vec![(1, 1), (3, 0)], vec![]));
}

#[test]
fn a_third_node_passes_it_on() {
    // The first one has 300 too many; only the third has room, for 200; the second one passes 200 on.
    let moved = mended(&[
        ("a", 1000, 300, plains(&[300, 700])),
        ("a", 1000, 0, plains(&[800, 200])),
        ("a", 1000, 0, plains(&[700])),
    ]);
    let (moves, left) = moved;
    assert_eq!(left, [0; 0]);
    assert!(!moves.is_empty() && moves.len() <= 2, "{moves:?}");
}

#[test]
fn who_finds_nobody_leaves_its_place_and_it_is_the_smallest_that_is_enough() {
    let full = ("a", 1000, 1000, vec![]);
    assert_eq!(mended(&[("a", 1000, 300, plains(&[400, 200, 300])), full.clone()]), (vec![], vec![1]));
    assert_eq!(mended(&[("a", 1000, 900, plains(&[400, 200, 300])), full]), (vec![], vec![0, 1, 2]));
}

#[test]
fn a_node_that_is_too_full_without_them_keeps_nobody() {
    assert_eq!(mended(&[("a", 1000, 1200, plains(&[100, 100])), ("b", 50, 0, vec![])]), (vec![], vec![0, 1]));
}

#[test]
fn volumes_that_cannot_be_attached_send_the_last_pods_away() {
    let with = |claims: &[&str]| {
        let attachment = |claim: &&str| Attachment { driver: "ebs".into(), claim: (*claim).into() };
        PodSpec { attachments: claims.iter().map(attachment).collect(), ..plain(100) }
    };
    let pods = vec![with(&["a", "b"]), with(&["b", "c"]), with(&["d"]), plain(100), with(&["a"])];
    let (mut problem, places) = cluster(&[("a", 1000, 0, pods), ("a", 1000, 0, vec![])]);
    let mut left = |limit| {
        problem.nodes[0].attach_limits = vec![("ebs".into(), limit)];
        exchange(&problem, &Options::default(), &places).left
    };
    assert_eq!(left(4), [0; 0]);
    assert_eq!(left(3), [2], "what the last one uses stays attached");
    assert_eq!(left(0), [0, 1, 2, 4]);
}

#[test]
fn a_spread_stays_in_its_zone_and_one_over_hosts_on_its_node() {
    let nodes =
        |spec: PodSpec| [("a", 1000, 500, vec![spec.clone(), spec]), ("b", 9000, 0, vec![]), ("a", 600, 0, vec![])];
    assert_eq!(mended(&nodes(spread(400, ZONE))), (vec![(1, 2)], vec![]));
    assert_eq!(mended(&nodes(spread(400, HOSTNAME))), (vec![], vec![1]));
    assert_eq!(mended(&nodes(plain(400))), (vec![(1, 1)], vec![]));
}

#[test]
fn a_spread_goes_to_another_zone_where_it_is_as_even_after_that() {
    let mut one = spread(400, ZONE);
    one.labels.set("app", "web");
    let term = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec!["web".into()] };
    one.spread[0].selector = LabelSelector::Terms(vec![term]);
    // Three in the first zone, of which one does not fit.
    let nodes = |others: usize| {
        let here = vec![one.clone(); 2];
        let there = vec![one.clone(); others];
        [("a", 1200, 500, here), ("a", 400, 0, vec![one.clone()]), ("b", 1200, 0, there), ("b", 900, 0, vec![])]
    };
    assert_eq!(mended(&nodes(2)), (vec![(1, 3)], vec![]), "two and three instead");
    assert_eq!(mended(&nodes(3)), (vec![], vec![1]), "two and four");
}

#[test]
fn no_more_of_a_spread_come_to_a_node_than_its_skew() {
    let one = || spread(400, ZONE);
    let nodes = [("a", 1000, 500, vec![one(), one()]), ("a", 9000, 0, vec![one()]), ("a", 9000, 0, vec![])];
    assert_eq!(mended(&nodes), (vec![(1, 2)], vec![]));
}

#[test]
fn whom_labels_taints_or_neighbours_keep_stays() {
    let mut choosy = plain(400);
    choosy.node_selector =
        Requirements::from_iter([(ZONE, crate::model::Requirement::new(crate::model::Operator::In, ["b"]))]);
    let mut shy = plain(400);
    let term = AffinityTerm {
        topology_key: HOSTNAME.into(),
        selector: LabelSelector::Nothing,
        namespaces: NamespaceScope::All,
    };
    shy.anti_affinity = vec![term];
    for spec in [choosy, shy] {
        let nodes = [("b", 1000, 500, vec![plain(300), spec]), ("a", 400, 0, vec![])];
        assert_eq!(mended(&nodes), (vec![(0, 1)], vec![]));
    }
}

/// The fewest pods that have to leave, if all of them may go to every node.
fn fewest(problem: &Problem, places: &[(usize, Vec<usize>)]) -> usize {
    fn put(pod: usize, sizes: &[i64], free: &mut [i64], gone: usize, best: &mut usize) {
        if gone >= *best {
            return;
        }
        let Some(size) = sizes.get(pod) else {
            *best = gone;
            return;
        };
        for at in 0..free.len() {
            if free[at] >= *size {
                free[at] -= size;
                put(pod + 1, sizes, free, gone, best);
                free[at] += size;
            }
        }
        put(pod + 1, sizes, free, gone + 1, best);
    }
    let cpu = |spec: usize| problem.specs[spec].requests.get(&Resource::Cpu);
    let free = places.iter().map(|(node, _)| {
        let node = &problem.nodes[*node];
        node.allocatable.get(&Resource::Cpu) - node.bound.iter().map(|pod| cpu(pod.spec)).sum::<i64>()
    });
    let mut free: Vec<i64> = free.collect();
    let sizes: Vec<i64> = problem.pods.iter().map(|pod| cpu(pod.spec)).collect();
    let mut best = sizes.len();
    put(0, &sizes, &mut free, 0, &mut best);
    best
}

proptest! {
    /// Nobody gets two places, all that stay fit, and nobody is left out that the checker, or a search of all places, knows of.
    #[test]
    fn all_who_keep_a_place_fit(
        nodes in prop::collection::vec((400..1000_i64, prop::collection::vec(1..5_i64, 0..4)), 1..4),
        taken in 0..600_i64,
    ) {
        let nodes: Vec<(&str, i64, i64, Vec<PodSpec>)> = nodes
            .iter()
            .enumerate()
            .map(|(at, (cpu, pods))| {
                let pods: Vec<i64> = pods.iter().map(|size| size * 90).collect();
                ("a", *cpu, if at == 0 { taken } else { 0 }, plains(&pods))
            })
            .collect();
        let (problem, mut places) = cluster(&nodes);
        let Exchange { moves, left } = exchange(&problem, &Options::default(), &places);
        prop_assert!(left.len() >= fewest(&problem, &places));
        for one in &moves {
            prop_assert!(one.from != one.to);
            let before = places[one.from].1.len();
            places[one.from].1.retain(|pod| *pod != one.pod);
            prop_assert_eq!(places[one.from].1.len() + 1, before);
            places[one.to].1.push(one.pod);
        }
        places.iter_mut().for_each(|(_, pods)| pods.retain(|pod| !left.contains(pod)));
        let kept: usize = places.iter().map(|(_, pods)| pods.len()).sum();
        prop_assert_eq!(kept + left.len(), problem.pods.len());
        let existing = places.clone();
        let broken = validate(&problem, &Options::default(), &Solution { existing, ..Solution::default() });
        let broken: Vec<_> = broken.iter().filter(|one| one.promise != crate::Promise::Once).collect();
        prop_assert!(broken.is_empty(), "{broken:?}");
        let mut table = Table::new(&problem, &places);
        prop_assert!(table.shed().is_empty());
    }
}
