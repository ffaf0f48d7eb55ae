//! Plain first fit on problems small enough to be solved by hand.

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::Resources;

use crate::first_fit::price;
use crate::market::{add, amounts, instance_type, market, spread, term, workload};

#[test]
fn plain_first_fit_takes_the_first_node_with_room() {
    let mut problem = market(vec![instance_type("t", amounts(4_000, 16 << 10, 110), Resources::new(), 1.0)]);
    add(&mut problem, workload("large", amounts(3_000, 1 << 10, 1)), 2);
    add(&mut problem, workload("small", amounts(1_000, 1 << 10, 1)), 3);
    assert_eq!(price(&problem), (3.0, 3), "a small pod beside each large one, and one alone");
    problem.specs[1].anti_affinity.push(term(HOSTNAME, "large"));
    assert_eq!(price(&problem), (3.0, 3), "the small pods share a node");
    problem.specs[1].spread.push(spread(HOSTNAME, "small"));
    assert_eq!(price(&problem), (5.0, 5), "each pod has a node");
}
