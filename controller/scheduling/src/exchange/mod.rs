//! Repair of nominations that no longer hold: pods exchange their nodes, so that every pod has one and no node is
//! bought.
//!
//! ```text
//!   planned    node 1: a b c    node 2: d e x      both full
//!   then       node 1: a b c X  node 2: d e _      x was bound to node 1, and is as large as none of a, b, c
//!   exchange   node 1: a b d X  node 2: c e        c for d: the difference is what x takes, or a little more
//! ```
//!
//! A new solve would replan the whole node: plans are so tight that the one excess pod would lead to a node bought for
//! it. Instead few pods move, one to three at a time, and only pods without affinity, anti-affinity, host ports or
//! volumes, to nodes that keep their spreads. The validator, which shares nothing with the packer, checks the result.

mod search;
mod table;

use crate::model::{Options, Problem};
use crate::solution::Solution;
use crate::validate::validate;
use table::Table;

/// A pod that moves to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// Index of the pod.
    pub pod: usize,
    /// Index of the node that it was nominated to.
    pub from: usize,
    /// Index of the node that it moves to.
    pub to: usize,
}

/// Result of [`exchange`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchange {
    /// Moves, sorted by pod; each pod at most once.
    pub moves: Vec<Move>,
    /// Pods that lose their places, ascending: where a resource is scarce, as few and as small as possible.
    pub left: Vec<usize>,
}

/// Repairs `places`: pods of `problem.pods` by the existing node that each is nominated to, every node once. Of two
/// equivalent pods, the one with the higher index moves.
///
/// If every place holds, nothing moves. A node that its own bound pods overcommit keeps none of the places of pods that
/// request the scarce resource. Pods whose volumes their node, which is initialized, cannot attach leave, the last ones
/// first.
///
/// ```
/// use muster_scheduling::exchange;
/// use muster_scheduling::model::{Options, Problem};
///
/// let exchanged = exchange(&Problem::default(), &Options::default(), &[]);
/// assert!(exchanged.moves.is_empty() && exchanged.left.is_empty());
/// ```
#[must_use]
pub fn exchange(problem: &Problem, options: &Options, places: &[(usize, Vec<usize>)]) -> Exchange {
    let mut table = Table::new(problem, places);
    let mut left = table.shed_volumes();
    let attached = table.places();
    if !left.is_empty() {
        table = Table::new(problem, &attached);
    }
    let moves = search::mend(&mut table);
    if !moves.is_empty() && breaks_rules(problem, options, &attached, &table) {
        table = Table::new(problem, &attached);
    }
    left.extend(table.shed());
    left.sort_unstable();
    Exchange { moves: table.moves(), left }
}

/// Returns true if the places of the table violate at least as many promises as `places`.
fn breaks_rules(problem: &Problem, options: &Options, places: &[(usize, Vec<usize>)], table: &Table<'_>) -> bool {
    let broken = |existing: Vec<(usize, Vec<usize>)>| {
        validate(problem, options, &Solution { existing, ..Solution::default() }).len()
    };
    broken(table.places()) >= broken(places.to_vec())
}

#[cfg(test)]
mod tests;
