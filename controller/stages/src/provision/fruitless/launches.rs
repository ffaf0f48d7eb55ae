//! The fruitless NodeClaims of one set of pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// Number of fruitless NodeClaims of a set from which launches for it are held.
pub(super) const ENOUGH: usize = 3;

/// NodeClaims launched for a set, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launches {
    /// NodeClaims whose nodes came up and received no pod of the set.
    pub(super) unused: BTreeSet<String>,
    /// NodeClaims whose nodes do not accept pods of the set because of taints or labels.
    pub(super) refusing: BTreeSet<String>,
    /// NodeClaims whose nodes were deleted right after they came up, with the time of it.
    pub(super) lost: BTreeMap<String, Timestamp>,
    /// Number of nodes of the last minutes that accept pods of the set.
    pub(super) taking: usize,
    /// Time at which the last fruitless one was found.
    pub(super) at: Timestamp,
    /// Number of holds so far. Nodes of one launch are found fruitless at the same time, and cause one hold.
    pub(super) holds: u32,
}

// === impl Launches ===

impl Launches {
    pub(super) const fn none(now: Timestamp) -> Self {
        Self { unused: BTreeSet::new(), refusing: BTreeSet::new(), lost: BTreeMap::new(), taking: 0, at: now, holds: 0 }
    }

    /// Records the time of another fruitless launch.
    pub(super) fn note(&mut self, now: Timestamp) {
        let is_news = self.holds == 0 || self.at < now;
        self.holds += u32::from(is_news && self.count() >= ENOUGH);
        self.at = now;
    }

    pub(super) fn count(&self) -> usize {
        let refusing = self.refusing.len() + self.lost.keys().filter(|claim| !self.refusing.contains(*claim)).count();
        if refusing > self.taking { self.claims().collect::<BTreeSet<_>>().len() } else { self.unused.len() }
    }

    /// Returns all fruitless NodeClaims. One may come several times.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        self.unused.iter().chain(&self.refusing).chain(self.lost.keys()).map(String::as_str)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.claims().next().is_none()
    }
}
