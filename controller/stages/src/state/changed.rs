//! Set of changed and affected objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::kind::Kind;
use super::milestone::Milestone;

/// Objects affected by a change. Irrelevant changes, such as heartbeats, affect nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// NodeClaims that were changed or removed, or a related object of which was: a Node, a pod or a volume on it, the
    /// NodePool, the class.
    pub claims: BTreeSet<Arc<str>>,
    /// NodePools that were changed or removed, or a NodeClaim or Node of which was.
    pub pools: BTreeSet<Arc<str>>,
    /// NodeClasses that were changed or removed, or that a changed or removed NodeClaim references.
    pub classes: BTreeSet<(Kind, Arc<str>)>,
    /// Pods (`namespace/name`) that wait for a node, and are new or changed.
    pub waiting: BTreeSet<Arc<str>>,
    /// Nodes on which a pod arrived, terminated, or started to be deleted, as in Karpenter. Daemons and mirror pods do
    /// not count, because they come and go with their node. The initial list of pods counts, so new readers should
    /// discard it.
    pub moved: BTreeSet<Arc<str>>,
    /// Nodes among these that a pod has left or is leaving.
    pub left: BTreeSet<Arc<str>>,
    /// True if a pod was bound to another node than the one it was nominated for.
    pub has_strayed: bool,
    /// True if a pod without a node has lost its nomination: nothing reserves capacity for it any more.
    pub has_forgotten: bool,
    /// True if a NodePool or NodeClass changed, apart from its status.
    pub has_new_policy: bool,
    /// Kinds of the objects that were added, changed or removed.
    pub kinds: Kinds,
    /// Transitions for metrics, in order. They do not make the change count as one.
    pub milestones: Vec<Milestone>,
}

/// Set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds(u32);

// === impl Changed ===

impl Changed {
    /// Returns true if nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns true if what the DaemonSet pods of nodes take may have changed.
    #[must_use]
    pub fn concerns_daemons(&self) -> bool {
        [Kind::DaemonSet, Kind::LimitRange, Kind::RuntimeClass].into_iter().any(|kind| self.kinds.contains(kind))
    }

    /// Adds the objects that `other` affects.
    pub fn merge(&mut self, other: Self) {
        let Self {
            mut claims,
            mut pools,
            mut classes,
            mut waiting,
            mut moved,
            mut left,
            has_strayed,
            has_forgotten,
            has_new_policy,
            kinds,
            mut milestones,
        } = other;
        self.claims.append(&mut claims);
        self.pools.append(&mut pools);
        self.classes.append(&mut classes);
        self.waiting.append(&mut waiting);
        self.moved.append(&mut moved);
        self.left.append(&mut left);
        self.has_strayed |= has_strayed;
        self.has_forgotten |= has_forgotten;
        self.has_new_policy |= has_new_policy;
        self.kinds.0 |= kinds.0;
        self.milestones.append(&mut milestones);
    }
}

// === impl Kinds ===

impl Kinds {
    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set contains `kind`.
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Returns true if the set contains `kind` only.
    #[must_use]
    pub const fn is_only(self, kind: Kind) -> bool {
        self.0 == 1 << kind as u32
    }

    /// Adds `kind`.
    pub const fn insert(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u32;
    }

    /// Returns the kinds in the set.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(all: I) -> Self {
        let mut kinds = Self::default();
        all.into_iter().for_each(|kind| kinds.insert(kind));
        kinds
    }
}
