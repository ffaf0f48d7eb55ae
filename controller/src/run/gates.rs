//! Nodes that take no pods yet, and when each of them opens: pure.
//!
//! ```text
//!   held, held, held ──► nothing holds them ──► one after the other, by the first of their pods in the scheduler's queue
//! ```
//!
//! With the first node that opens kube-scheduler goes on with its queue, some fifty pods a second. Whoever is tried before its own
//! node is open takes the place of another one, so nodes open in the order of the queue, and as fast as the API server is written to.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

use crate::provision::{Hold, Position};

/// Between two nodes: what is sent at once arrives in any order.
const IN_TURN: Duration = Duration::from_millis(1);
/// Until the first of several: within that time every claim can be looked at once more, however lately it was.
const FIRST: Duration = Duration::from_millis(100);
/// How long it takes at most until nodes are open whose moment has come.
const OPENING: Duration = Duration::from_secs(2);

/// A Node that takes no pods yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gate {
    /// UID of the Node.
    pub(super) node: String,
    /// What holds it back, if anything does.
    pub(super) hold: Option<Hold>,
    /// Where the first of its pods stands in its scheduler's queue.
    pub(super) turn: Position,
    /// Whether it takes pods, though its claim does not say so yet.
    pub(super) is_open: bool,
}

/// Those of a cluster, by their NodeClaims.
#[derive(Debug, Default)]
pub(super) struct Gates {
    all: BTreeMap<String, Gate>,
    /// When those open that nothing holds back.
    openings: BTreeMap<String, Timestamp>,
}

impl Gates {
    /// Takes in how they are now. What has been given a moment keeps it: pods that are tried meanwhile may forget what they
    /// were told, and whoever waited for them would open behind all others.
    pub(super) fn succeed(&mut self, all: BTreeMap<String, Gate>, now: Timestamp) {
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

    /// What is known of the Node with that UID, of the claim.
    pub(super) fn of(&self, claim: &str, node: &str) -> Option<&Gate> {
        self.all.get(claim).filter(|gate| gate.node == node)
    }

    /// When the node of the claim opens, if nothing holds it back.
    pub(super) fn opens(&self, claim: &str) -> Option<Timestamp> {
        self.openings.get(claim).copied()
    }

    /// Claims whose nodes nothing holds back, and when they open.
    pub(super) fn openings(&self) -> impl Iterator<Item = (&String, Timestamp)> {
        self.openings.iter().map(|(claim, moment)| (claim, *moment))
    }

    /// Until when at most nothing else is written about those that open, of which some have not: every other write makes
    /// that take longer.
    pub(super) fn busy_until(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.openings.values().max().filter(|_| self.openings.len() > 1 && self.is_any_opening())?;
        Some(after(*last, OPENING)).filter(|until| now < *until)
    }

    /// Whether nothing holds one back that is not open yet.
    fn is_any_opening(&self) -> bool {
        self.openings.keys().any(|claim| self.all.get(claim).is_some_and(|gate| !gate.is_open))
    }

    /// Whether any is held back.
    pub(super) fn is_any_held(&self) -> bool {
        self.held().next().is_some()
    }

    /// When the first of them is held back no more, whatever is still missing.
    pub(super) fn over(&self) -> Option<Timestamp> {
        self.held().map(|hold| hold.until).min()
    }

    fn held(&self) -> impl Iterator<Item = &Hold> {
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
            let hold = is_held.then(|| Hold { why: "its pods do not know".to_owned(), until: at(30_000) });
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
        // A pod that is tried meanwhile changes nothing, and who comes later is behind.
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
