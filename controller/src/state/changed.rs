//! What is to be looked at again.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::kind::Kind;

/// What a change of the picture touches. Changes that nobody can see, such as a heartbeat, touch nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// NodeClaims that changed or went, and those around which something did: their Node, a pod or a volume of it, their
    /// NodePool, their class.
    pub claims: BTreeSet<Arc<str>>,
    /// NodePools that changed or went, and those of which a NodeClaim or a Node did.
    pub pools: BTreeSet<Arc<str>>,
    /// NodeClasses that changed or went, and those of which a NodeClaim came or went.
    pub classes: BTreeSet<(Kind, Arc<str>)>,
    /// Pods (`namespace/name`) that wait for a node, and are new or changed.
    pub waiting: BTreeSet<Arc<str>>,
    /// Nodes that a pod came to, ended on, or began to leave: what Karpenter counts. Daemons and mirror pods come and go
    /// with their node. The first look at a pod is among it, so whoever begins to look forgets what is in here.
    pub moved: BTreeSet<Arc<str>>,
    /// Nodes of these that a pod has left, or begins to leave.
    pub left: BTreeSet<Arc<str>>,
    /// Whether a pod was bound elsewhere than where it had been told to go.
    pub has_strayed: bool,
    /// Whether a pod without a node has lost what it had been told: nobody keeps its room.
    pub has_forgotten: bool,
    /// Tells if a NodePool or a NodeClass says something else, beside what we write into its status.
    pub has_new_policy: bool,
    /// Kinds of which an object came, changed or went.
    pub kinds: Kinds,
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds(u32);

// === impl Changed ===

impl Changed {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Adds what `other` touches.
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
    }
}

// === impl Kinds ===

impl Kinds {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `kind` is among them.
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Whether there is nothing but `kind` among them.
    #[must_use]
    pub const fn is_only(self, kind: Kind) -> bool {
        self.0 == 1 << kind as u32
    }

    /// Adds `kind`.
    pub const fn insert(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u32;
    }

    /// All of them.
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
