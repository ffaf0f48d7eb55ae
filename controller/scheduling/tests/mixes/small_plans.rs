//! Small plans against first fit, and against themselves beside workloads that share no node with them.

use muster_scheduling::labels::{CAPACITY_TYPE, HOSTNAME, NODE_POOL, ZONE};
use muster_scheduling::model::*;

use crate::random::Random;
use crate::*;

/// Cores, GiB, USD per hour on demand.
const TYPES: [(&str, i64, i64, f64); 24] = [
    ("c6g.medium", 1, 2, 0.034),
    ("c6g.large", 2, 4, 0.068),
    ("c6g.xlarge", 4, 8, 0.136),
    ("c6g.2xlarge", 8, 16, 0.272),
    ("m6g.medium", 1, 4, 0.0385),
    ("m6g.large", 2, 8, 0.077),
    ("m6g.xlarge", 4, 16, 0.154),
    ("m6g.2xlarge", 8, 32, 0.308),
    ("r6g.medium", 1, 8, 0.0504),
    ("r6g.large", 2, 16, 0.1008),
    ("r6g.xlarge", 4, 32, 0.2016),
    ("r6g.2xlarge", 8, 64, 0.4032),
    ("c7g.medium", 1, 2, 0.0363),
    ("c7g.large", 2, 4, 0.0725),
    ("c7g.xlarge", 4, 8, 0.145),
    ("c7g.2xlarge", 8, 16, 0.29),
    ("m7g.medium", 1, 4, 0.0408),
    ("m7g.large", 2, 8, 0.0816),
    ("m7g.xlarge", 4, 16, 0.1632),
    ("m7g.4xlarge", 16, 64, 0.6528),
    ("r7g.medium", 1, 8, 0.0536),
    ("r7g.large", 2, 16, 0.1071),
    ("r7g.xlarge", 4, 32, 0.2142),
    ("r7g.4xlarge", 16, 128, 0.8568),
];

fn types() -> Vec<InstanceType> {
    let one = |&(name, cores, gibibytes, price): &(&str, i64, i64, f64)| {
        let mut one = instance_type(
            name,
            amounts(cores * 1000, gibibytes << 10, if cores == 1 { 8 } else { 29 * cores.min(8) }),
            amounts(80, 300 + gibibytes * 60, 0),
            price,
        );
        one.requirements.add(CAPACITY_TYPE, one_of(["on-demand", "spot"]));
        one
    };
    TYPES.iter().map(one).collect()
}

fn random_set(seed: u64, most: usize, domains: bool) -> Problem {
    let mut random = Random::new(seed ^ 0x0005_ca1e);
    let mut problem = market(types());
    let wanted = 8 + random.below(most - 8);
    let mut number = 0;
    while problem.pods.len() < wanted {
        let millicores = *random.pick(&[50, 100, 200, 250, 400, 500, 750, 1000, 1500, 2000, 3500]);
        let mebibytes = ((millicores * *random.pick(&[1, 1, 2, 3, 4, 6, 8])) / 64 + 1) * 64;
        let name = format!("w{number}");
        let mut spec = workload(&name, amounts(millicores, mebibytes, 1));
        if random.chance(25) {
            spec.anti_affinity.push(term(HOSTNAME, &name));
        } else if random.chance(20) {
            spec.spread.push(spread(HOSTNAME, &name));
        }
        if number > 0 && random.chance(15) {
            spec.anti_affinity.push(term(HOSTNAME, &format!("w{}", random.below(number))));
        }
        if domains && random.chance(40) {
            spec.spread.push(spread(ZONE, &name));
        }
        let replicas = (1 + random.below(40)).min(wanted - problem.pods.len());
        add(&mut problem, spec, replicas);
        number += 1;
    }
    problem
}

#[test]
fn no_plan_is_dearer_than_first_fit() {
    let mut dearer = Vec::new();
    let (mut all, mut theirs, mut bounds) = (0.0, 0.0, 0.0);
    for seed in sets(150) {
        let domains = seed % 3 == 2;
        let problem = random_set(seed, 300, domains);
        let (solution, price) = planned(&problem);
        let as_karpenter = Options { packing: Packing::FirstFit, ..Options::default() };
        let karpenter = crate::price(&solve(&problem, &as_karpenter));
        let plain = if domains { f64::INFINITY } else { first_fit::price(&problem).0 };
        let least = karpenter.min(plain);
        if price > least + 1e-9 {
            println!(
                "set {seed}, {} pods: {price:.4}, Karpenter {karpenter:.4}, first fit {plain:.4}",
                problem.pods.len()
            );
            dearer.push(seed);
        }
        all += price;
        theirs += karpenter;
        bounds += lower_bound(&problem, &Options::default(), &solution);
    }
    println!("{:.4} of the bounds, {:.4} of Karpenter's", all / bounds, all / theirs);
    assert!(dearer.is_empty(), "{} sets are dearer: {dearer:?}", dearer.len());
}

/// The problem of `seed` alone, and with other workloads that tolerate a pool of their own.
fn alone_and_beside(seed: u64) -> (Problem, Problem) {
    let alone = random_set(seed, 80, true);
    let mut beside = alone.clone();
    let taint = Taint { key: "team".into(), value: "batch".into(), effect: Effect::NoSchedule };
    let mut pool = beside.pools[0].clone();
    pool.name = "batch".into();
    pool.labels.set(NODE_POOL, "batch");
    pool.requirements = Requirements::from_labels(&pool.labels);
    pool.taints.push(taint);
    beside.pools.push(pool);
    let mut random = Random::new(seed);
    for number in 0..2 {
        let mut spec = workload(&format!("batch{number}"), amounts(300 + 400 * random.below(5) as i64, 2_048, 1));
        spec.node_selector.add(NODE_POOL, one_of(["batch"]));
        spec.tolerations.push(Toleration { key: Some("team".into()), value: None, effect: None });
        add(&mut beside, spec, 1 + random.below(30));
    }
    (alone, beside)
}

#[test]
fn a_plan_alone_is_hardly_dearer_than_beside_others() {
    let mut dearer = Vec::new();
    let (mut sum, mut other) = (0.0, 0.0);
    let seeds = sets(150);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let (alone, beside) = alone_and_beside(seed);
        let (plan, price) = planned(&alone);
        let alone_nodes = plan.new_nodes.len();
        let (solution, _) = planned(&beside);
        let own = solution.new_nodes.iter().filter(|node| node.pool == 0);
        let together: f64 = own.map(|node| node.price).sum();
        if price > together + 1e-9 {
            let nodes = (alone_nodes, solution.new_nodes.iter().filter(|node| node.pool == 0).count());
            println!(
                "set {seed}, {} pods: {price:.4} alone, {together:.4} beside others, nodes {nodes:?}",
                alone.pods.len()
            );
            dearer.push((seed, price / together));
        }
        sum += price;
        other += together;
    }
    println!("{} of {count} are dearer alone, {:.4} in all", dearer.len(), sum / other);
    assert!(sum <= other, "{:.4}", sum / other);
    assert!(dearer.iter().all(|&(_, ratio)| ratio < 1.05), "{dearer:?}");
}
