//! Plans whose pods are told their nodes: replicas of a spread keep out of each other's way, if that costs next to nothing.

use std::collections::BTreeMap;

use muster_scheduling::model::{Options, PodSpec, Problem, Resource};
use muster_scheduling::{Solution, labels, solve, validate};

use crate::cases::crowd;
use crate::{many_domains, options, price};

const CROWDS: u64 = 1_500;

/// Replicas on new nodes that share one with more of theirs than their spread over zones lets be apart.
fn crammed(problem: &Problem, solution: &Solution) -> usize {
    let spread = |spec: &PodSpec| {
        let own = spec.spread.iter().filter(|one| one.required && &*one.topology_key != labels::HOSTNAME);
        own.filter(|one| one.selector.matches(&spec.labels)).map(|one| one.max_skew).min()
    };
    let mut crammed = 0;
    for node in &solution.new_nodes {
        let mut replicas: BTreeMap<usize, usize> = BTreeMap::new();
        for pod in &node.pods {
            *replicas.entry(problem.pods[*pod].spec).or_default() += 1;
        }
        let over = |(spec, count): (&usize, &usize)| {
            let most = spread(&problem.specs[*spec]).map_or(usize::MAX, |most| usize::try_from(most.max(1)).unwrap());
            count.saturating_sub(most)
        };
        crammed += replicas.iter().map(over).sum::<usize>();
    }
    crammed
}

#[test]
fn replicas_that_are_told_their_nodes_are_crammed_less_for_next_to_nothing() {
    let told = Options { tells_nodes: true, ..options() };
    let mut failed = Vec::new();
    let (mut before, mut after) = (0, 0);
    for seed in 0..CROWDS {
        let problem = crowd(seed);
        let plain = solve(&problem, &options());
        let apart = solve(&problem, &told);
        let mut faults: Vec<String> = validate(&problem, &told, &apart).iter().map(ToString::to_string).collect();
        if apart.unschedulable.len() > plain.unschedulable.len() {
            faults.push("more pods are left over".to_owned());
        }
        if apart.unschedulable.len() == plain.unschedulable.len() && price(&apart) > 1.02 * price(&plain) + 1e-9 {
            faults.push(format!("{} against {}", price(&apart), price(&plain)));
        }
        for fault in faults {
            println!("crowd {seed}: {fault}");
            failed.push(seed);
        }
        before += crammed(&problem, &plain);
        after += crammed(&problem, &apart);
    }
    failed.dedup();
    println!("{before} replicas were crammed, {after} are");
    assert!(failed.is_empty(), "{} crowds failed: {failed:?}", failed.len());
    assert!(after < before, "{before} replicas were crammed, {after} are");
}

/// Twelve replicas of whole cores, where every core costs the same, on fewest nodes and as they are told.
fn twelve(overhead: i64) -> (Problem, Solution, Solution) {
    let mut problem = many_domains::workload(12, |spec| {
        spec.requests.set(Resource::Cpu, 1000);
        spec.spread.push(many_domains::spread(labels::ZONE, true));
    });
    let mut types = problem.catalogues[0].types().to_vec();
    types.iter_mut().for_each(|one| one.overhead.set(Resource::Cpu, overhead));
    problem.catalogues[0] = types.into();
    let plain = solve(&problem, &options());
    let told = solve(&problem, &Options { tells_nodes: true, ..options() });
    (problem, plain, told)
}

#[test]
fn replicas_have_nodes_of_their_own_where_that_costs_nothing() {
    let (problem, plain, told) = twelve(0);
    assert_eq!((crammed(&problem, &told), told.new_nodes.len()), (0, 12));
    assert!((price(&told) - price(&plain)).abs() < 1e-9, "{} against {}", price(&told), price(&plain));
}

#[test]
fn replicas_share_nodes_where_every_node_costs_something() {
    let (problem, plain, told) = twelve(500);
    assert!(crammed(&problem, &plain) > 0);
    assert_eq!(told, plain, "half a core of each node, of which there would be twelve");
}
