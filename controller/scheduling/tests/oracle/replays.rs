//! The replay keeps every hard rule, and never loses a pod that is free to go anywhere.

use muster_scheduling::model::{Options, PodSpec, Problem};
use muster_scheduling::{Waiting, replay, schedule, solve};

use crate::cases::case;
use crate::mutations::{self, amounts};

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

/// Two nodes of two cores, and pods of one and a half with these priorities.
fn two_nodes(priorities: &[i32]) -> Problem {
    let pod = |&priority: &i32| PodSpec { priority, ..PodSpec::unconstrained("default", amounts(1500, 1)) };
    let mut problem = mutations::problem(&priorities.iter().map(pod).collect::<Vec<_>>());
    problem.nodes = vec![mutations::node("n0"), mutations::node("n1")];
    problem
}

#[test]
fn room_for_other_nominated_pods_is_held_on_the_own_node_too() {
    let queue = [Waiting { pod: 0, hint: Some(0) }, Waiting { pod: 1, hint: Some(0) }];
    assert_eq!(schedule(&two_nodes(&[0, 0]), &queue), [Some(1), Some(0)]);
    assert_eq!(schedule(&two_nodes(&[5, 0]), &queue), [Some(0), Some(1)], "the other has a lower priority");
}

#[test]
fn room_for_nominated_pods_is_not_held_from_pods_of_higher_priority() {
    let queue = [Waiting { pod: 0, hint: None }, Waiting { pod: 1, hint: Some(0) }];
    assert_eq!(schedule(&two_nodes(&[0, 0]), &queue), [Some(1), Some(0)]);
    assert_eq!(schedule(&two_nodes(&[5, 0]), &queue), [Some(0), Some(1)]);
}
