//! Packing (being written).
use crate::model::{Options, Problem};
use crate::solution::Solution;

/// Packs the pending pods of `problem`.
pub fn solve(_problem: &Problem, _options: &Options) -> Solution {
    Solution::default()
}
