//! Thousands of workloads of some hundred and fifty sizes on few instance types.

use muster_scheduling::labels::{HOSTNAME, ZONE};
use muster_scheduling::model::*;

use crate::random::Random;
use crate::*;

/// Parameters of a random workload.
#[derive(Debug, Clone, Copy)]
struct Draw {
    types: usize,
    pods: usize,
    shapes: usize,
    /// Anti-affinity rules between workloads, drawn at random.
    pairs: usize,
    /// Workloads in a hundred whose replicas are apart.
    apart: usize,
    /// Workloads in a hundred that are spread over zones.
    zoned: usize,
    /// Millicores and MiB that are no whole cores and GiB.
    fine: bool,
    /// GiB for each core, in hundredths.
    memory: usize,
    seed: u64,
}

const CORES: [i64; 18] = [1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 16, 20, 24, 32];

/// Roughly normal, mean 0 and deviation 1.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0
}

fn drawn(draw: Draw) -> Problem {
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
        workloads.push((spec, replicas));
        left -= replicas;
    }
    for _ in 0..draw.pairs {
        let (owner, target) = (random.below(workloads.len()), random.below(workloads.len()));
        if owner != target {
            workloads[owner].0.anti_affinity.push(term(HOSTNAME, &format!("w{target}")));
        }
    }
    for (spec, replicas) in workloads {
        add(&mut problem, spec, replicas);
    }
    problem
}

const ONE: Draw =
    Draw { types: 1, pods: 70_000, shapes: 144, pairs: 0, apart: 0, zoned: 0, fine: false, memory: 200, seed: 1 };

/// The plan of a draw as a multiple of its bound; not dearer than plain first fit.
fn ratio(draw: Draw) -> f64 {
    let problem = drawn(draw);
    let (solution, price) = planned(&problem);
    let bound = lower_bound(&problem, &Options::default(), &solution);
    println!("{draw:?}: {:.4} of the bound", price / bound);
    if draw.zoned == 0 {
        let (first_fit, _) = first_fit::price(&problem);
        assert!(price <= first_fit, "{draw:?}: {price}, first fit {first_fit}");
    }
    price / bound
}

#[test]
fn plans_of_few_types_are_close_to_the_bound() {
    for types in [1, 3, 10] {
        for (seed, fine, most) in [(1, false, 1.005), (2, false, 1.005), (3, true, 1.01)] {
            let draw = Draw { types, pods: 10_000, fine, seed, ..ONE };
            let ratio = ratio(draw);
            assert!(ratio <= most, "{draw:?}: {ratio:.4}");
        }
    }
}

#[test]
fn rules_between_workloads_cost_almost_nothing() {
    for (zoned, most) in [(0, 1.005), (30, 1.015)] {
        let draw = Draw { pods: 10_000, pairs: 3_000, apart: 20, zoned, ..ONE };
        let ratio = ratio(draw);
        assert!(ratio <= most, "{draw:?}: {ratio:.4}");
    }
}

#[test]
fn limits_of_a_pool_hold() {
    let mut problem = drawn(Draw { pods: 2_000, ..ONE });
    let most = solve(&problem, &Options::default()).new_nodes.len() as i64 - 20;
    problem.pools[0].limits = Some([(Resource::Cpu, most * 64_000)].into_iter().collect());
    let solution = solve(&problem, &Options::default());
    assert!(validate(&problem, &Options::default(), &solution).is_empty());
    assert!(solution.new_nodes.len() as i64 <= most && !solution.unschedulable.is_empty());
}

#[expect(clippy::disallowed_methods, reason = "a developer asks for one case")]
fn asked(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Prints one plan, for a developer who measures: `TYPES`, `PODS`, `SHAPES`, `PAIRS`, `APART`, `SEED`, `COMPARE`.
#[test]
#[ignore = "prints; measure the process"]
fn measure() {
    let draw = Draw {
        types: asked("TYPES", 1),
        pods: asked("PODS", 70_000),
        shapes: asked("SHAPES", 144),
        pairs: asked("PAIRS", 0),
        apart: asked("APART", 0),
        zoned: asked("ZONED", 0),
        fine: asked("FINE", 0) > 0,
        memory: asked("MEMORY", 200),
        seed: asked("SEED", 1) as u64,
    };
    let problem = drawn(draw);
    if asked("SOLVES", 1) == 0 {
        return;
    }
    let solution = solve(&problem, &Options::default());
    let price = price(&solution);
    let nodes = solution.new_nodes.len();
    println!("{draw:?}: {nodes} nodes, {price:.3} USD per hour, {} left", solution.unschedulable.len());
    if asked("COMPARE", 0) > 0 {
        let bound = lower_bound(&problem, &Options::default(), &solution);
        let (first_fit, first_nodes) = first_fit::price(&problem);
        let violations = validate(&problem, &Options::default(), &solution);
        println!("  {:.4} of the bound {bound:.3}; first fit {first_nodes} nodes, {first_fit:.3}", price / bound);
        println!("  {} violations", violations.len());
    }
}
