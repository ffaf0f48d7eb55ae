//! The replay keeps every hard rule, and never loses a pod that is free to go anywhere.

use muster_scheduling::model::Options;
use muster_scheduling::{replay, solve};

use crate::cases::case;

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
