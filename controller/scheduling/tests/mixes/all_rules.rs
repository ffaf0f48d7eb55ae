//! Plans under all kinds of rules against first fit under the same rules: selectors, taints, weights, limits, `minValues`,
//! spreads, affinities, ports, volumes, existing nodes and daemons.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_scheduling::labels::{HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use muster_scheduling::model::*;
use muster_scheduling::{Solution, solve, validate};

use crate::cases::{self, Size};
use crate::market::*;
use crate::random::Random;
use crate::{planned, price, sets};

/// Up to 300 pods of up to twelve workloads, in a market that is wider than that of a case.
fn wide(seed: u64) -> Problem {
    let mut random = Random::new(seed ^ 0x0a11_0f17);
    let size = Size {
        pods: 10 + random.below(291),
        zones: 1 + random.below(3),
        types: 2 + random.below(11),
        pools: 1 + random.below(3),
    };
    let mut problem = Problem::default();
    problem.catalogues.push((0..size.types).map(|number| cases::instance_type(&mut random, number, size)).collect());
    for number in 0..size.pools {
        problem.pools.push(cases::pool(&mut random, number, size));
    }
    let workloads: Vec<SpecId> = (0..1 + random.below(12))
        .map(|number| {
            let mut spec = cases::workload(&mut random, number, size, true);
            spec.priority = if random.chance(20) { 1000 } else { 0 };
            problem.intern(spec)
        })
        .collect();
    for number in 0..size.pods {
        problem.pods.push(Pod { name: format!("default/p{number}").into(), spec: *random.pick(&workloads) });
    }
    if random.chance(30) {
        for number in 0..1 + random.below(5) {
            let node = cases::node(&mut random, number, size, &workloads);
            problem.nodes.push(node);
        }
    }
    if random.chance(30) {
        let spec = cases::daemon(&mut random);
        let spec = problem.intern(spec);
        problem.daemons.push(DaemonSet { name: "kube-system/agent".into(), spec });
    }
    match random.below(10) {
        0 => {
            let least = 1 + random.below(3) as u32;
            problem.pools[0].requirements.add(INSTANCE_TYPE, Requirement::any().with_min_values(Some(least)));
        }
        1 => {
            let cores = 8_000 + 4_000 * random.below(20) as i64;
            problem.pools[0].limits = Some([(Resource::Cpu, cores)].into_iter().collect());
        }
        _ => {}
    }
    problem
}

/// Number of unplaced pods by priority, highest first: a pod may be left for one that is more important.
fn left_by_priority(problem: &Problem, solution: &Solution) -> Vec<(Reverse<i32>, usize)> {
    let priorities: BTreeSet<Reverse<i32>> =
        problem.pods.iter().map(|pod| Reverse(problem.specs[pod.spec].priority)).collect();
    let left = |priority: i32| {
        let left = solution.unschedulable.iter().filter(|one| problem.spec_of(one.pod).priority == priority);
        left.count()
    };
    priorities.into_iter().map(|priority| (priority, left(priority.0))).collect()
}

/// Number of unplaced pods by spec.
fn left(problem: &Problem, solution: &Solution) -> BTreeMap<SpecId, usize> {
    let mut left = BTreeMap::new();
    for one in &solution.unschedulable {
        *left.entry(problem.pods[one.pod].spec).or_default() += 1;
    }
    left
}

/// Sum over the pods on new nodes of the weight of their pool. A pool of higher weight is used even if it costs more.
fn weight(problem: &Problem, solution: &Solution) -> i64 {
    let nodes = solution.new_nodes.iter();
    nodes.map(|node| i64::from(problem.pools[node.pool].weight) * node.pods.len() as i64).sum()
}

/// Returns the way in which `ours` is worse than `theirs`, if it is.
fn worse(problem: &Problem, ours: &Solution, theirs: &Solution) -> Option<String> {
    let (mine, other) = (left(problem, ours), left(problem, theirs));
    if left_by_priority(problem, ours) > left_by_priority(problem, theirs) {
        let (count, fewest) = (ours.unschedulable.len(), theirs.unschedulable.len());
        return Some(format!("{count} pods are left instead of {fewest}"));
    }
    let (paid, least) = (price(ours), price(theirs));
    let is_heavier = weight(problem, ours) > weight(problem, theirs);
    (mine == other && !is_heavier && paid > least + 1e-9).then(|| format!("{paid:.4} instead of {least:.4}"))
}

#[test]
fn no_plan_under_rules_is_worse_than_first_fit() {
    let options = Options::default();
    let as_karpenter = Options { packing: Packing::FirstFit, ..options };
    let mut found = Vec::new();
    let (mut paid, mut theirs_paid, mut compared, mut broken) = (0.0, 0.0, 0, 0);
    // In 1912, first fit leaves fewer pods if those that fit nowhere are among them.
    let seeds: BTreeSet<u64> = sets(150).chain([1912]).collect();
    let count = seeds.len();
    for seed in seeds {
        let problem = wide(seed);
        let (ours, theirs) = (solve(&problem, &options), solve(&problem, &as_karpenter));
        let violations = validate(&problem, &options, &ours);
        if let Some(violation) = violations.first() {
            println!("set {seed}: {violation}");
            found.push(seed);
        }
        // First fit decides zones as it goes, and may break a rule by what it places later.
        if !validate(&problem, &as_karpenter, &theirs).is_empty() {
            broken += 1;
            continue;
        }
        if let Some(why) = worse(&problem, &ours, &theirs) {
            println!("set {seed}, {} pods: {why}", problem.pods.len());
            found.push(seed);
        }
        if left(&problem, &ours) == left(&problem, &theirs) {
            compared += 1;
            paid += price(&ours);
            theirs_paid += price(&theirs);
        }
    }
    println!("first fit breaks a rule in {broken} sets");
    println!("{compared} of {count} sets leave the same pods, and cost {:.4} of first fit", paid / theirs_paid);
    assert!(found.is_empty(), "{} sets are worse: {found:?}", found.len());
}

/// A market of one type in three zones, with a pool that is preferred and has no zone c.
fn two_pools() -> Problem {
    let mut problem = market(vec![instance_type("t", amounts(4_000, 16 << 10, 110), Resources::new(), 1.0)]);
    let mut heavier = problem.pools[0].clone();
    heavier.name = "heavier".into();
    heavier.weight = 10;
    heavier.labels.set(NODE_POOL, "heavier");
    heavier.requirements = Requirements::from_labels(&heavier.labels);
    heavier.requirements.add(ZONE, one_of(["zone-a", "zone-b"]));
    problem.pools.push(heavier);
    problem
}

#[test]
fn a_zone_without_the_heaviest_pool_takes_its_share_of_a_spread() {
    let mut problem = two_pools();
    let mut spec = workload("web", amounts(3_000, 4 << 10, 1));
    spec.spread.push(spread(ZONE, "web"));
    add(&mut problem, spec, 12);
    let (solution, _) = planned(&problem);
    let of_pool = |pool: usize| solution.new_nodes.iter().filter(|node| node.pool == pool).count();
    assert_eq!((of_pool(0), of_pool(1)), (4, 8));
}

#[test]
fn pods_are_placed_although_another_that_would_join_them_cannot_be() {
    let mut problem = market(vec![instance_type("t", amounts(4_000, 16 << 10, 110), Resources::new(), 1.0)]);
    add(&mut problem, workload("web", amounts(1_000, 1 << 10, 1)), 3);
    let mut spec = workload("shadow", amounts(1_000, 1 << 10, 1));
    spec.affinity.push(term(HOSTNAME, "web"));
    // No node that web can have is of this type.
    spec.node_selector.add(INSTANCE_TYPE, one_of(["u"]));
    add(&mut problem, spec, 2);
    let solution = solve(&problem, &Options::default());
    assert_eq!(solution.unschedulable.iter().map(|one| one.pod).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(solution.new_nodes.len(), 1);
}

#[test]
fn pods_that_no_node_could_hold_together_are_placed_as_far_as_they_can_be() {
    let mut problem = market(vec![instance_type("t", amounts(4_000, 16 << 10, 110), Resources::new(), 1.0)]);
    let mut spec = workload("pack", amounts(1_500, 1 << 10, 1));
    spec.affinity.push(term(HOSTNAME, "pack"));
    add(&mut problem, spec, 5);
    let solution = solve(&problem, &Options::default());
    assert_eq!((solution.new_nodes.len(), solution.unschedulable.len()), (1, 3));
}
