//! Thousands of workloads of some hundred and fifty sizes on few instance types, drawn from a seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::labels::{HOSTNAME, ZONE};
use muster_scheduling::model::*;

use crate::market::{add, amounts, instance_type, market, one_of_apps, spread, term, workload};
use crate::random::Random;

/// Parameters of a random workload.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    pub types: usize,
    pub pods: usize,
    pub shapes: usize,
    /// Anti-affinity rules between workloads, drawn at random.
    pub pairs: usize,
    /// True if all rules of a workload are one term, whose `In` lists the others.
    pub listed: bool,
    /// Workloads in a hundred whose replicas are apart.
    pub apart: usize,
    /// Workloads in a hundred of whose replicas a host takes one to three.
    pub hosts: usize,
    /// Workloads in a hundred that are spread over zones.
    pub zoned: usize,
    /// Millicores and MiB that are no whole cores and GiB.
    pub fine: bool,
    /// GiB for each core, in hundredths.
    pub memory: usize,
    pub seed: u64,
}

/// One type, without rules.
pub const ONE: Draw = Draw {
    types: 1,
    pods: 70_000,
    shapes: 144,
    pairs: 0,
    listed: false,
    apart: 0,
    hosts: 0,
    zoned: 0,
    fine: false,
    memory: 200,
    seed: 1,
};

const CORES: [i64; 18] = [1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 16, 20, 24, 32];

/// Roughly normal, mean 0 and deviation 1.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0
}

pub fn drawn(draw: Draw) -> Problem {
    let mut random = Random::new(draw.seed);
    // 64 cores and 128 GiB; more types are sizes and proportions around it.
    let types = (0..draw.types).map(|number| {
        let cores = [64, 32, 48, 96, 16, 64][number / 3 % 6] + number as i64 / 18 * 8;
        let gibibytes = cores * [2, 4, 8][number % 3];
        let cost = 0.034 * cores as f64 + 0.0037 * gibibytes as f64 + 0.001 * (number % 7) as f64;
        instance_type(&format!("t{number}"), amounts(cores * 1000, gibibytes << 10, 512), Resources::new(), cost)
    });
    let mut problem = market(types.collect());
    let mut shapes: Vec<(i64, i64)> = Vec::new();
    while shapes.len() < draw.shapes {
        let cores = *random.pick(&CORES);
        let gibibytes = ((cores as f64 * draw.memory as f64 / 100.0 * (0.7 * normal(&mut random) - 0.2).exp()).round()
            as i64)
            .clamp(1, 96);
        if !shapes.contains(&(cores, gibibytes)) {
            shapes.push((cores, gibibytes));
        }
    }
    shapes.sort_unstable();
    let mut workloads = Vec::new();
    let mut left = draw.pods;
    while left > 0 {
        let replicas = ((1.3 + 1.1 * normal(&mut random)).exp().round() as usize).clamp(1, left);
        // Small ones are more frequent.
        let (cores, gibibytes) = shapes[random.below(shapes.len()).min(random.below(shapes.len()))];
        let name = format!("w{}", workloads.len());
        let odd = if draw.fine { (cores * 37 % 10 * 50 + 30, gibibytes * 71 % 50 * 13) } else { (0, 0) };
        let mut spec = workload(&name, amounts(cores * 1000 - odd.0, (gibibytes << 10) - odd.1, 1));
        if random.chance(draw.apart) {
            spec.anti_affinity.push(term(HOSTNAME, &name));
        }
        if random.chance(draw.zoned) {
            spec.spread.push(spread(ZONE, &name));
        }
        if draw.hosts > 0 && random.chance(draw.hosts) {
            let max_skew = 1 + random.below(3) as i32;
            spec.spread.push(SpreadConstraint { max_skew, ..spread(HOSTNAME, &name) });
        }
        workloads.push((spec, replicas));
        left -= replicas;
    }
    let mut targets: BTreeMap<usize, Vec<Arc<str>>> = BTreeMap::new();
    for _ in 0..draw.pairs {
        let (owner, target) = (random.below(workloads.len()), random.below(workloads.len()));
        if owner != target {
            targets.entry(owner).or_default().push(format!("w{target}").into());
        }
    }
    for (owner, mut names) in targets {
        let terms = &mut workloads[owner].0.anti_affinity;
        if draw.listed {
            names.sort();
            names.dedup();
            terms.push(AffinityTerm { selector: one_of_apps(names), ..term(HOSTNAME, "") });
        } else {
            terms.extend(names.iter().map(|name| term(HOSTNAME, name)));
        }
    }
    for (spec, replicas) in workloads {
        add(&mut problem, spec, replicas);
    }
    problem
}
