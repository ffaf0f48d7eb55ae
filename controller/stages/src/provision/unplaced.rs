//! Problems of which no pod found a place. Such a problem is not solved again while it is the same, and less and less
//! often looked at while nothing changes.

use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_scheduling::Reason;
use muster_scheduling::model::{Options, Problem};

use super::plan::Failure;

/// Delay after which pods without a place are decided again although no change was observed: the capacity of a cloud
/// changes too. Karpenter's value. After a change, they are decided again within it.
pub const RETRY: Duration = Duration::from_secs(10);

/// Longest delay between two decisions about the same pods in the same cluster.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// A problem in which every pod stays pending.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unplaced {
    problem: Problem,
    packing: Options,
    /// By pod of the problem.
    failures: Vec<(usize, Failure)>,
    /// Number of earlier rounds with the same problem.
    rounds: u32,
}

// === impl Unplaced ===

impl Unplaced {
    pub(super) const fn new(problem: Problem, packing: Options, failures: Vec<(usize, Failure)>) -> Self {
        Self { problem, packing, failures, rounds: 0 }
    }

    /// Returns true if this is the answer for `problem` too.
    pub(super) fn answers(&self, problem: &Problem, packing: &Options) -> bool {
        self.packing == *packing && self.problem == *problem
    }

    /// Returns the answer for one more round.
    pub(super) fn again(self) -> Self {
        Self { rounds: self.rounds.saturating_add(1), ..self }
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = (usize, Failure)> {
        self.failures.iter().cloned()
    }

    /// Returns the time at which the pods are decided again if no change is observed.
    pub(super) fn retry_at(&self, now: Timestamp) -> Timestamp {
        // What can be bought changes without a change in the cluster.
        let market = [Reason::NoOffering.name(), Reason::Reserved.name(), Reason::MinValues.name()];
        let waits_for_market = self.failures.iter().any(|(_, why)| market.contains(&why.reason));
        let factor = if waits_for_market { 1 } else { 1_u32.checked_shl(self.rounds).unwrap_or(u32::MAX) };
        after(now, RETRY.saturating_mul(factor).min(LONGEST_RETRY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unplaced(reason: Reason) -> Unplaced {
        let why = Failure { reason: reason.name(), message: String::new() };
        Unplaced::new(Problem::default(), Options::default(), vec![(0, why)])
    }

    fn delays(reason: Reason, rounds: usize) -> Vec<i64> {
        let start = Timestamp::UNIX_EPOCH;
        let mut one = unplaced(reason);
        let mut delays = Vec::new();
        for _ in 0..rounds {
            delays.push(one.retry_at(start).as_second());
            one = one.again();
        }
        delays
    }

    #[test]
    fn the_same_problem_is_looked_at_less_and_less_often() {
        assert_eq!(delays(Reason::Resources, 8), [10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn pods_that_wait_for_an_offering_are_tried_every_ten_seconds() {
        assert_eq!(delays(Reason::NoOffering, 4), [10; 4]);
    }

    #[test]
    fn the_delay_has_a_limit_however_long_pods_wait() {
        let mut one = unplaced(Reason::Taints);
        one.rounds = u32::MAX;
        assert_eq!(one.again().retry_at(Timestamp::UNIX_EPOCH).as_second(), 300);
    }
}
