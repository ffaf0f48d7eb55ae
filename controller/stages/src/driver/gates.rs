//! Unregistered Nodes, and the time at which each becomes schedulable: pure.
//!
//! ```text
//!   held, held, held ──► released ──► one after the other, ordered by the first of their pods in the scheduler's queue
//! ```
//!
//! When the first node becomes schedulable, kube-scheduler works through its queue at about fifty pods a second. A pod
//! that is tried before its own node is schedulable takes the room of another pod. So the nodes are opened in the order
//! of the queue, and as fast as the API server accepts the writes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::provision::{NodeHold, Position};
use jiff::Timestamp;
use muster_cloud::after;

/// Interval between two nodes: concurrent writes would arrive in any order.
const IN_TURN: Duration = Duration::from_millis(1);
/// Delay of the first of several nodes: long enough for every claim to be reconciled again, whenever its last
/// reconciliation was.
const FIRST: Duration = Duration::from_millis(100);
/// Longest time to open all nodes that are due.
const OPENING: Duration = Duration::from_secs(2);

/// A Node that is not schedulable yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// UID of the Node.
    pub node: String,
    /// Hold on the Node, if any.
    pub hold: Option<NodeHold>,
    /// Position of the first of its pods in the scheduler's queue.
    pub turn: Position,
    /// True if the Node is schedulable although its claim is not Registered yet.
    pub is_open: bool,
}

/// The gates of a cluster, by NodeClaim.
#[derive(Debug, Default)]
pub struct Gates {
    all: BTreeMap<String, Gate>,
    /// Times at which the released nodes open.
    openings: BTreeMap<String, Timestamp>,
}

impl Gates {
    /// Replaces the gates. A node that has a time already keeps it: pods that are tried meanwhile may lose their
    /// nomination, and their node would otherwise open after all others.
    pub fn succeed(&mut self, all: BTreeMap<String, Gate>, now: Timestamp) {
        let is_same = |claim: &String| {
            let uid = |gates: &BTreeMap<String, Gate>| gates.get(claim).map(|gate| gate.node.clone());
            uid(&self.all) == uid(&all) && all.contains_key(claim)
        };
        let mut openings = std::mem::take(&mut self.openings);
        openings.retain(|claim, _| is_same(claim));
        let free = all.iter().filter(|(claim, gate)| gate.hold.is_none() && !openings.contains_key(*claim));
        let mut free: Vec<(Position, &String)> = free.map(|(claim, gate)| (gate.turn, claim)).collect();
        free.sort_unstable();
        let first = if free.len() > 1 { after(now, FIRST) } else { now };
        let last = openings.values().max().map(|last| after(*last, IN_TURN));
        let mut moment = last.map_or(first, |last| last.max(first));
        for (_, claim) in free {
            openings.insert(claim.clone(), moment);
            moment = after(moment, IN_TURN);
        }
        (self.all, self.openings) = (all, openings);
    }

    /// Returns the gate of the claim's Node with that UID.
    pub fn of(&self, claim: &str, node: &str) -> Option<&Gate> {
        self.all.get(claim).filter(|gate| gate.node == node)
    }

    /// Returns the time at which the claim's node opens, if it has been released.
    pub fn opens(&self, claim: &str) -> Option<Timestamp> {
        self.openings.get(claim).copied()
    }

    /// Returns the claims whose nodes have been released, with the times at which they open.
    pub fn openings(&self) -> impl Iterator<Item = (&String, Timestamp)> {
        self.openings.iter().map(|(claim, moment)| (claim, *moment))
    }

    /// Returns the time until which other writes about the opening nodes are postponed, since every write delays the
    /// rest; `None` if they are not.
    pub fn busy_until(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.openings.values().max().filter(|_| self.openings.len() > 1 && self.is_any_opening())?;
        Some(after(*last, OPENING)).filter(|until| now < *until)
    }

    /// Returns true if a released node is not open yet.
    fn is_any_opening(&self) -> bool {
        self.openings.keys().any(|claim| self.all.get(claim).is_some_and(|gate| !gate.is_open))
    }

    /// Returns true if any node is held.
    pub fn is_any_held(&self) -> bool {
        self.held().next().is_some()
    }

    /// Returns the time at which the first hold expires.
    pub fn over(&self) -> Option<Timestamp> {
        self.held().map(|hold| hold.until).min()
    }

    fn held(&self) -> impl Iterator<Item = &NodeHold> {
        self.all
            .iter()
            .filter(|(claim, _)| !self.openings.contains_key(*claim))
            .filter_map(|(_, gate)| gate.hold.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    const FIRST_PASS: Position = Position { is_passed: false, priority: Reverse(0), queued: 0 };

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn gates<const N: usize>(all: [(&str, &str, bool, u64); N]) -> BTreeMap<String, Gate> {
        let gate = |(claim, node, is_held, turn): (&str, &str, bool, u64)| {
            let hold = is_held.then(|| NodeHold { why: "its pods do not know".to_owned(), until: at(30_000) });
            (
                claim.to_owned(),
                Gate { node: node.to_owned(), hold, turn: Position { queued: turn, ..FIRST_PASS }, is_open: false },
            )
        };
        all.map(gate).into_iter().collect()
    }

    fn openings(gates: &Gates) -> Vec<(&str, i64)> {
        gates.openings().map(|(claim, moment)| (claim.as_str(), moment.as_millisecond())).collect()
    }

    #[test]
    fn nodes_open_in_the_order_of_the_queue() {
        let mut all = Gates::default();
        all.succeed(gates([("a", "1", true, 7), ("b", "2", true, 3), ("c", "3", true, 5)]), at(0));
        assert!(all.is_any_held());
        assert_eq!((openings(&all), all.over()), (vec![], Some(at(30_000))));
        all.succeed(gates([("a", "1", false, 7), ("b", "2", false, 3), ("c", "3", false, 5)]), at(1000));
        assert_eq!(openings(&all), [("a", 1102), ("b", 1100), ("c", 1101)]);
        // A pod that is tried meanwhile changes nothing, and a later node opens last.
        all.succeed(gates([("a", "1", false, 1), ("c", "3", false, 9), ("d", "4", false, 0)]), at(1001));
        assert_eq!(openings(&all), [("a", 1102), ("c", 1101), ("d", 1103)]);
    }

    #[test]
    fn one_alone_waits_for_nobody() {
        let mut all = Gates::default();
        all.succeed(gates([("a", "1", false, 0)]), at(50));
        assert_eq!(openings(&all), [("a", 50)]);
        assert!(all.of("a", "1").is_some() && all.of("a", "2").is_none());
    }

    #[test]
    fn another_node_of_a_claim_has_another_moment_and_one_that_would_be_held_again_keeps_its_own() {
        let mut all = Gates::default();
        all.succeed(gates([("a", "1", false, 0), ("b", "2", false, 1)]), at(0));
        all.succeed(gates([("a", "9", false, 0), ("b", "2", true, 1)]), at(10));
        assert_eq!(openings(&all), [("a", 102), ("b", 101)]);
        assert!(!all.is_any_held());
    }

    #[test]
    fn nothing_else_is_written_until_all_are_open() {
        let mut all = Gates::default();
        let mut gates = gates([("a", "1", false, 0), ("b", "2", false, 1)]);
        all.succeed(gates.clone(), at(0));
        assert_eq!(all.busy_until(at(0)), Some(at(2101)));
        gates.get_mut("a").unwrap().is_open = true;
        all.succeed(gates.clone(), at(200));
        assert_eq!(all.busy_until(at(200)), Some(at(2101)));
        assert_eq!(all.busy_until(at(2101)), None, "whatever has become of the other one");
        gates.get_mut("b").unwrap().is_open = true;
        all.succeed(gates, at(300));
        assert_eq!(all.busy_until(at(300)), None);
    }
}
