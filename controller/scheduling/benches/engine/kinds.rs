//! The kinds of problems, each drawn from a size and a seed.

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::*;

use crate::cases::{Case, KEYS, Rules, add_hostile, add_selectors, ordinary};
use crate::drawn::{Draw, ONE, drawn};
use crate::market::{add, amounts, instance_type, market, spread, workload};

/// A kind of problem.
pub struct Kind {
    pub name: &'static str,
    /// Pods in the usual table.
    pub size: usize,
    pub make: fn(usize, u64) -> Problem,
    /// True if plain first fit knows all rules of the kind.
    pub first_fit: bool,
    /// Number of the first pods, which get the same nodes without the rest.
    pub others: usize,
}

const fn few(name: &'static str, make: fn(usize, u64) -> Problem) -> Kind {
    Kind { name, size: 70_000, make, first_fit: true, others: 0 }
}

const fn hostile(name: &'static str, make: fn(usize, u64) -> Problem) -> Kind {
    Kind { name, size: 1_000, make, first_fit: false, others: OTHERS }
}

/// Pods of other namespaces beside hostile ones.
const OTHERS: usize = 500;

/// Rules between workloads of 70,000 pods; in smaller problems the share of it.
fn pairs(pods: usize, of_all: usize) -> usize {
    (of_all as f64 * (pods as f64 / 70_000.0).powi(2)) as usize
}

fn costly(pods: usize, seed: u64, rules: Rules, terms: usize, keys: &[&'static str]) -> Problem {
    let mut problem = ordinary(OTHERS);
    add_hostile(&mut problem, &Case { pods, terms, rules, keys: keys.to_vec(), seed });
    problem
}

/// The labels that anybody can look up on a node.
const KNOWN: [&str; 4] = [KEYS[3], KEYS[7], KEYS[2], KEYS[1]];

pub const KINDS: [Kind; 20] = [
    few("one-type", |pods, seed| drawn(Draw { pods, seed, ..ONE })),
    few("three-types", |pods, seed| drawn(Draw { pods, seed, types: 3, ..ONE })),
    few("ten-types", |pods, seed| drawn(Draw { pods, seed, types: 10, ..ONE })),
    few("thirty-types", |pods, seed| drawn(Draw { pods, seed, types: 30, ..ONE })),
    few("fine", |pods, seed| drawn(Draw { pods, seed, fine: true, ..ONE })),
    few("pairs-475k", |pods, seed| drawn(Draw { pods, seed, pairs: pairs(pods, 475_000), apart: 20, ..ONE })),
    few("skew-475k", |pods, seed| drawn(Draw { pods, seed, pairs: pairs(pods, 475_000), apart: 20, hosts: 30, ..ONE })),
    few("pairs-870k", |pods, seed| drawn(Draw { pods, seed, pairs: pairs(pods, 870_000), apart: 20, ..ONE })),
    few("listed-870k", |pods, seed| {
        drawn(Draw { pods, seed, pairs: pairs(pods, 870_000), listed: true, apart: 20, ..ONE })
    }),
    few("pairs-2400k", |pods, seed| drawn(Draw { pods, seed, pairs: pairs(pods, 2_400_000), apart: 20, ..ONE })),
    few("listed-2400k", |pods, seed| {
        drawn(Draw { pods, seed, pairs: pairs(pods, 2_400_000), listed: true, apart: 20, ..ONE })
    }),
    Kind { name: "hosts", size: 1_000, make: hosts, first_fit: true, others: 0 },
    hostile("hostile-any", |pods, seed| costly(pods, seed, Rules::Any, 8, &KEYS)),
    hostile("hostile-apart", |pods, seed| costly(pods, seed, Rules::AntiAffinity, 8, &KNOWN)),
    hostile("hostile-spread", |pods, seed| costly(pods, seed, Rules::Spread, 5, &KNOWN)),
    hostile("hostile-spread-8", |pods, seed| costly(pods, seed, Rules::Spread, 8, &KEYS)),
    hostile("hostile-hosts", |pods, seed| costly(pods, seed, Rules::AntiAffinity, 8, &[HOSTNAME])),
    hostile("hostile-case", |_, seed| {
        let mut problem = ordinary(OTHERS);
        add_hostile(&mut problem, &Case::random(seed));
        problem
    }),
    Kind { name: "selectors", size: 3_000, make: selectors, first_fit: false, others: OTHERS },
    Kind { name: "nowhere", size: 1_000, make: nowhere, first_fit: false, others: OTHERS },
];

/// Replicas that spread over hosts beside others, on types of KWOK's proportions.
fn hosts(pods: usize, _seed: u64) -> Problem {
    let mut types = Vec::new();
    for cores in [1, 2, 4, 8, 16] {
        for (family, factor) in [("c", 2), ("s", 4), ("m", 8)] {
            let gibibytes = cores * factor;
            let price = 0.025 * cores as f64 + (gibibytes << 30) as f64 * 0.001 / 1e9;
            let size = amounts(cores * 1000, gibibytes << 10, (16 * cores).min(1024));
            types.push(instance_type(&format!("{family}-{cores}x"), size, amounts(100, 10, 0), price));
        }
    }
    let mut problem = market(types);
    let mut small = workload("small", amounts(900, 3_100, 1));
    small.spread.push(spread(HOSTNAME, "small"));
    add(&mut problem, small, pods / 2);
    add(&mut problem, workload("large", amounts(3_500, 28 << 10, 1)), pods - pods / 2);
    problem
}

fn selectors(count: usize, _seed: u64) -> Problem {
    let mut problem = ordinary(OTHERS);
    add_selectors(&mut problem, count);
    problem
}

/// Pods that no type is large enough for, each of another size.
fn nowhere(count: usize, _seed: u64) -> Problem {
    let mut problem = ordinary(OTHERS);
    for number in 0..count {
        let requests = amounts(1_000_000 + 1_000 * number as i64, 512, 1);
        let spec = problem.intern(PodSpec::unconstrained("nowhere", requests));
        problem.pods.push(Pod { name: format!("nowhere/p{number}").into(), spec });
    }
    problem
}
