//! Small nodes for two or three pods each, of both architectures: patterns for few types, and for more than a program
//! has room for.

use muster_scheduling::labels::{HOSTNAME, ZONE};

use crate::random::Random;
use crate::*;

const ARCH: &str = "kubernetes.io/arch";
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

fn sized(name: String, cores: i64, mebibytes: i64, price: f64, architecture: &str) -> InstanceType {
    let mut one = instance_type(&name, amounts(cores * 1000, mebibytes, 58), amounts(70, 500, 0), price);
    one.requirements.add(ARCH, one_of([architecture]));
    one
}

/// Burstable types: two cores and more for little money, memory is what costs. arm64 costs a tenth less.
fn burstable(sizes: &[(i64, i64)]) -> Vec<InstanceType> {
    let of_size = |&(cores, gibibytes): &(i64, i64)| {
        ARCHITECTURES.into_iter().zip([1.0, 0.9]).map(move |(architecture, factor)| {
            let price = factor * 0.0084 * gibibytes as f64;
            sized(format!("t-{architecture}-{cores}-{gibibytes}"), cores, gibibytes << 10, price, architecture)
        })
    };
    sizes.iter().flat_map(of_size).collect()
}

/// Types of general purpose with two to eight gibibytes for each core: each of ten generations has a little more memory
/// than the one before, at a little higher a price. Every third is not sold in zone c.
fn general() -> Vec<InstanceType> {
    let mut types = Vec::new();
    for (generation, ratio) in (0..10).flat_map(|generation| [2, 4, 8].map(|ratio| (generation, ratio))) {
        for size in 0..6 {
            for (architecture, factor) in ARCHITECTURES.into_iter().zip([1.0, 0.9]) {
                let (cores, newer) = (1 << size, f64::from(generation));
                let memory = ((cores * ratio * 1024) as f64 * (1.0 + 0.004 * newer)) as i64;
                let price = factor * (1.0 + 0.006 * newer) * cores as f64 * (0.024 + 0.003 * ratio as f64);
                let mut one =
                    sized(format!("g{generation}-{architecture}-{cores}-{memory}"), cores, memory, price, architecture);
                if generation % 3 == 2 {
                    one.offerings.truncate(2);
                }
                types.push(one);
            }
        }
    }
    types
}

/// Workloads of up to 40 replicas: most that the smallest nodes do not hold name an architecture, a third spreads over
/// zones, a tenth has no two replicas on a node.
fn add_workloads(problem: &mut Problem, random: &mut Random, pods: usize, step: i64) {
    let mut number = 0;
    while problem.pods.len() < pods {
        let name = format!("w{number}");
        let (cores, steps) = (1 + random.below(30) as i64, 2 + random.below(60) as i64);
        let mut spec = workload(&name, amounts(cores * 50, steps * step, 1));
        if steps > 23 && random.chance(66) {
            spec.node_selector.add(ARCH, one_of([*random.pick(&ARCHITECTURES)]));
        }
        if random.chance(33) {
            spec.spread.push(spread(ZONE, &name));
        } else if random.chance(15) {
            spec.anti_affinity.push(term(HOSTNAME, &name));
        }
        let replicas = (1 + random.below(40)).min(pods - problem.pods.len());
        add(problem, spec, replicas);
        number += 1;
    }
}

#[test]
fn few_types_of_two_architectures() {
    for seed in 0..30 {
        let mut random = Random::new(seed ^ 0x2a2c);
        let mut problem = market(burstable(&[(2, 2), (2, 4), (2, 8), (4, 8)][..3 + random.below(2)]));
        let step = *random.pick(&[64, 65, 61]);
        add_workloads(&mut problem, &mut random, 60 + 20 * seed as usize % 300, step);
        planned(&problem);
    }
}

/// Memory in steps of 64 MiB, which small rooms hold exactly, and of 61, which they do not.
#[test]
fn many_types_are_packed_by_patterns() {
    for (seed, step, most) in [(1, 64, 1.05), (2, 64, 1.05), (3, 61, 1.06), (4, 61, 1.06)] {
        let mut types = burstable(&[(2, 1), (2, 2), (2, 4), (2, 8), (4, 16), (8, 32)]);
        types.extend(general());
        let mut problem = market(types);
        add_workloads(&mut problem, &mut Random::new(seed), 2_000, step);
        let (solution, price) = planned(&problem);
        let bound = lower_bound(&problem, &Options::default(), &solution);
        println!("set {seed}: {:.4} of the bound", price / bound);
        assert!(price <= most * bound, "set {seed}: {price:.3}, at least {bound:.3}");
    }
}

/// Cores cost a quarter less in one zone: pods that may go anywhere go there, and leave the other zones to those whose
/// spread forces them there.
#[test]
fn pods_of_any_zone_go_where_they_cost_least() {
    for seed in 1..3 {
        let mut types = burstable(&[(2, 1), (2, 2), (2, 4), (8, 32)]);
        types.extend(general());
        let mut dense = sized("dense".to_owned(), 64, 128 << 10, 0.0192 * 64.0, "arm64");
        let (zone, rest) = dense.offerings.split_first().unwrap();
        assert!(!rest.is_empty());
        dense.offerings = vec![zone.clone()];
        types.push(dense);
        let mut problem = market(types);
        let random = &mut Random::new(seed);
        add_workloads(&mut problem, random, 700, 64);
        for number in 0..30 {
            // Neither architecture is asked for, and two do not fit into four cores.
            let spec = workload(&format!("cores-{number}"), amounts(2000 + 50 * random.below(120) as i64, 192, 1));
            add(&mut problem, spec, 10 + random.below(20));
        }
        let (solution, price) = planned(&problem);
        let bound = lower_bound(&problem, &Options::default(), &solution);
        println!("set {seed}: {:.4} of the bound", price / bound);
        assert!(price <= 1.04 * bound, "set {seed}: {price:.3}, at least {bound:.3}");
    }
}
