//! The replay keeps every hard rule, and never loses a pod that is free to go anywhere.

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::*;
use muster_scheduling::{Solution, Waiting, replay, schedule, solve};

use crate::cases::case;
use crate::random::Random;

#[test]
fn replays_cost_at_least_the_plan() {
    let mut worse = 0;
    for seed in 0..3_000 {
        let problem = case(seed);
        let plan = solve(&problem, &Options::default());
        let planned: f64 = plan.new_nodes.iter().map(|node| node.price).sum();
        let replay = replay(&problem, &Options::default(), &plan);
        assert!(replay.expected_price >= planned, "seed {seed}: {replay:?} for {planned}");
        assert!(replay.left_over > 0 || replay.expected_price <= planned, "seed {seed}: {replay:?}");
        assert!(replay.unplaced <= replay.left_over && replay.empty_nodes <= plan.new_nodes.len(), "seed {seed}");
        worse += usize::from(replay.expected_price > planned);
    }
    println!("{worse} of 3000 plans cost more once kube-scheduler places the pods");
}

/// A pod that a plan places beside another one, and a node whose room is kept, which kube-scheduler prefers.
fn with_room_kept(kept: PodSpec) -> (Problem, Solution) {
    let cpu = |amount: i64| [(Resource::Cpu, amount)].into_iter().collect::<Resources>();
    let mut moving = PodSpec::unconstrained("default", cpu(800));
    moving.labels = Labels::from_iter([("app", "w0")]);
    let mut problem = crate::mutations::problem(&[moving]);
    for (number, spec) in [PodSpec::unconstrained("default", cpu(1_000)), kept].into_iter().enumerate() {
        let spec = problem.intern(spec);
        let name = format!("default/b{number}").into();
        problem.nodes.push(Node {
            name: format!("node-{number}").into(),
            labels: Labels::default(),
            taints: Vec::new(),
            allocatable: [(Resource::Cpu, 2_000), (Resource::Pods, 10)].into_iter().collect(),
            daemon_requests: Resources::new(),
            initialized: true,
            deleting: false,
            bound: vec![BoundPod { name, spec, counts: true, planned: false, daemon: false }],
            attach_limits: Vec::new(),
            attached: Vec::new(),
        });
    }
    let solution = Solution { existing: vec![(0, vec![0])], ..Solution::default() };
    (problem, solution)
}

#[test]
fn room_that_virtual_pods_lose_is_bought_again() {
    let kept = |amount: i64, is_virtual: bool, anti_affinity: Vec<AffinityTerm>| {
        let requests = [(Resource::Cpu, amount)].into_iter().collect();
        PodSpec { is_virtual, anti_affinity, ..PodSpec::unconstrained("default", requests) }
    };
    let apart = || vec![crate::mutations::term(HOSTNAME)];
    for (kept, bought) in [
        (kept(1_500, false, Vec::new()), 0),
        (kept(1_500, true, Vec::new()), 1),
        (kept(600, true, Vec::new()), 0),
        // There is room, but not beside that pod.
        (kept(1_100, true, apart()), 1),
    ] {
        let (problem, solution) = with_room_kept(kept.clone());
        let replay = replay(&problem, &Options::default(), &solution);
        assert_eq!((replay.left_over, replay.unplaced), (0, 0), "{replay:?}");
        assert_eq!(replay.second_nodes, bought, "{kept:?}");
    }
}

const NODES: usize = 5;
const WORKLOADS: usize = 7;
const PODS_PER_NODE: i64 = 3;

/// Nodes for three pods each, and pods of seven workloads that keep off one another at random.
fn crowd(random: &mut Random) -> Problem {
    let mut problem = Problem::default();
    problem.nodes.extend((0..NODES).map(|number| Node {
        name: format!("node-{number}").into(),
        labels: Labels::default(),
        taints: Vec::new(),
        allocatable: [(Resource::Pods, PODS_PER_NODE)].into_iter().collect(),
        daemon_requests: Resources::new(),
        initialized: true,
        deleting: false,
        bound: Vec::new(),
        attach_limits: Vec::new(),
        attached: Vec::new(),
    }));
    let mut specs = Vec::new();
    for number in 0..WORKLOADS {
        let mut spec = PodSpec::unconstrained("default", [(Resource::Pods, 1)].into_iter().collect());
        spec.labels = [("app", &*number.to_string())].into_iter().collect();
        for other in (0..WORKLOADS).filter(|_| random.chance(25)).collect::<Vec<_>>() {
            let values = vec![other.to_string().into()];
            let term = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values };
            spec.anti_affinity.push(AffinityTerm {
                topology_key: HOSTNAME.into(),
                selector: LabelSelector::Terms(vec![term]),
                namespaces: NamespaceScope::All,
            });
        }
        specs.push(problem.intern(spec));
    }
    for number in 0..18 {
        problem.pods.push(Pod { name: format!("default/p{number}").into(), spec: *random.pick(&specs) });
    }
    problem
}

#[test]
fn pods_that_keep_off_each_other_get_a_node_exactly_if_one_has_room() {
    for seed in 0..2_000 {
        let problem = crowd(&mut Random::new(seed));
        let keeps_off = |spec: usize, other: usize| {
            let labels = &problem.specs[other].labels;
            problem.specs[spec].anti_affinity.iter().any(|term| term.selector.matches(labels))
        };
        let queue: Vec<Waiting> = (0..problem.pods.len()).map(|pod| Waiting { pod, hint: None }).collect();
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); NODES];
        for (pod, place) in schedule(&problem, &queue).into_iter().enumerate() {
            let spec = problem.pods[pod].spec;
            let suits = |node: &Vec<usize>| {
                let is_apart = node.iter().all(|&other| !keeps_off(spec, other) && !keeps_off(other, spec));
                (node.len() as i64) < PODS_PER_NODE && is_apart
            };
            match place {
                Some(node) => {
                    assert!(suits(&on[node]), "seed {seed}: pod {pod} on {node}: {on:?}");
                    on[node].push(spec);
                }
                None => assert!(!on.iter().any(suits), "seed {seed}: pod {pod} has no node: {on:?}"),
            }
        }
    }
}
