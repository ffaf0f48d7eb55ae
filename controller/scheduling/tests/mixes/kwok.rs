//! Replicas that are spread over hosts share nodes with others where that is cheaper, and only there. Types and prices are
//! those of KWOK, the simulated cloud.

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::*;

use crate::*;

/// Types of fewer than 32 cores, of one architecture and operating system.
fn types() -> Vec<InstanceType> {
    let mut types = Vec::new();
    for cores in [1, 2, 4, 8, 16] {
        for (family, factor) in [("c", 2), ("s", 4), ("m", 8)] {
            let gibibytes = cores * factor;
            let price = 0.025 * cores as f64 + (gibibytes << 30) as f64 * 0.001 / 1e9;
            let pods = (16 * cores).min(1024);
            let name = format!("{family}-{cores}x-amd64-linux");
            types.push(instance_type(&name, amounts(cores * 1000, gibibytes << 10, pods), amounts(100, 10, 0), price));
        }
    }
    types
}

fn two_workloads(small: (i64, i64), large: (i64, i64)) -> f64 {
    let mut problem = market(types());
    let mut spec = workload("small", amounts(small.0, small.1, 1));
    spec.spread.push(spread(HOSTNAME, "small"));
    add(&mut problem, spec, 500);
    add(&mut problem, workload("large", amounts(large.0, large.1 << 10, 1)), 500);
    let (solution, price) = planned(&problem);
    println!("{} nodes, {price:.3} USD per hour", solution.new_nodes.len());
    price
}

#[test]
fn spread_replicas_share_nodes_where_they_fit() {
    let price = two_workloads((900, 3_100), (3_500, 28));
    assert!(price <= 78.2, "{price}");
}

#[test]
fn spread_replicas_stay_alone_where_they_displace_others() {
    let price = two_workloads((950, 3_900), (3_800, 31));
    assert!(price <= 94.33, "{price}");
}
