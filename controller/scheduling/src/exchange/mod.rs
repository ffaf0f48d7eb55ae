//! Places that do not hold any more: which pods exchange theirs, so that everybody has one and nothing is bought.
//!
//! ```text
//!   planned    node 1: a b c    node 2: d e x      both full
//!   then       node 1: a b c X  node 2: d e _      x was bound to node 1, and is as large as none of a, b, c
//!   exchange   node 1: a b d X  node 2: c e        c for d: the difference is what x takes, or a little more
//! ```
//!
//! Whoever solved again would take the node apart: plans fit so tightly that what was one pod too many would end as a node
//! bought for it. Few pods move instead, one to three at a time, and only where no rule sees them come or go: to nodes of their own
//! domains, and none with rules about its neighbours. The checker that shares nothing with the packer has the last word.

mod search;
mod table;

use crate::model::{Options, Problem};
use crate::solution::Solution;
use crate::validate::validate;
use table::Table;

/// A pod that goes to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// Index of the pod.
    pub pod: usize,
    /// Index of the node that it had a place on.
    pub from: usize,
    /// Index of the node that it goes to.
    pub to: usize,
}

/// What [`exchange`] has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchange {
    /// Who goes where, by pod; each at most once.
    pub moves: Vec<Move>,
    /// Pods that lose their places, ascending: the least that lets the others keep theirs.
    pub left: Vec<usize>,
}

/// Mends `places`: pods of `problem.pods` by the existing node that each is meant for, every node once. Of two pods that would do,
/// the one with the higher index moves.
///
/// Where nothing is broken nothing moves. A node whose own bound pods are too many keeps none of its places that ask for what is short.
#[must_use]
pub fn exchange(problem: &Problem, options: &Options, places: &[(usize, Vec<usize>)]) -> Exchange {
    let mut table = Table::new(problem, places);
    let moves = search::mend(&mut table);
    if !moves.is_empty() && breaks_rules(problem, options, places, &table) {
        table = Table::new(problem, places);
    }
    let left = table.shed();
    Exchange { moves: table.moves(), left }
}

/// Whether the table breaks more promises than the places that it began with.
fn breaks_rules(problem: &Problem, options: &Options, places: &[(usize, Vec<usize>)], table: &Table<'_>) -> bool {
    let broken = |existing: Vec<(usize, Vec<usize>)>| {
        validate(problem, options, &Solution { existing, ..Solution::default() }).len()
    };
    broken(table.places()) >= broken(places.to_vec())
}

#[cfg(test)]
mod tests;
