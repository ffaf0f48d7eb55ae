//! Requirements by key, and when two sets of them can meet on one node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Labels, Requirement};

/// What is required of a node's labels, by key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Requirements(BTreeMap<Arc<str>, Requirement>);

/// Why two sets of requirements cannot meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// The incoming side needs a label that nothing on the other side defines.
    Unknown {
        /// The label.
        key: Arc<str>,
    },
    /// Both sides know the label, and no value suits both.
    Disjoint {
        /// The label.
        key: Arc<str>,
        /// What comes in.
        incoming: Requirement,
        /// What is there.
        existing: Requirement,
    },
}

impl Requirements {
    /// No requirement.
    pub fn new() -> Self {
        Self::default()
    }

    /// Narrows `key`, under its stable name, by `requirement`.
    pub fn add(&mut self, key: impl Into<Arc<str>>, requirement: Requirement) {
        let key: Arc<str> = key.into();
        let stable = crate::labels::stable_name(&key);
        let key = if stable == &*key { key } else { stable.into() };
        let narrowed = match self.0.get(&key) {
            Some(existing) => existing.intersection(&requirement),
            None => requirement,
        };
        self.0.insert(key, narrowed);
    }

    /// Narrows by every requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (key, requirement) in other.iter() {
            self.add(Arc::clone(key), requirement.clone());
        }
    }

    /// The requirement on `key`, if there is one. An absent one allows everything.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    /// The one value that `key` may have, if it is one.
    pub fn single(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Requirement::single).map(|value| &**value)
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// All of them, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Requirement)> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys that must have exactly these values.
    pub fn from_labels(labels: &Labels) -> Self {
        let mut requirements = Self::new();
        for (key, value) in labels.iter() {
            requirements.add(Arc::clone(key), Requirement::new(super::Operator::In, [Arc::clone(value)]));
        }
        requirements
    }

    /// The first key on which `incoming` cannot meet this side, both sides knowing it. Two sides that both allow absence
    /// (`NotIn`, `DoesNotExist`) meet in the absent label.
    pub fn first_disjoint(&self, incoming: &Self) -> Option<Conflict> {
        incoming.iter().find_map(|(key, wanted)| {
            let there = self.get(key)?;
            let meets = wanted.overlaps(there) || (wanted.allows_absence() && there.allows_absence());
            (!meets).then(|| Conflict::Disjoint {
                key: Arc::clone(key),
                incoming: wanted.clone(),
                existing: there.clone(),
            })
        })
    }

    /// Whether both can hold on one node, keys that only one side knows left open.
    pub fn intersects(&self, incoming: &Self) -> bool {
        self.first_disjoint(incoming).is_none()
    }

    /// Like [`Self::first_disjoint`], and every key of `incoming` must be known here, unless `may_be_undefined` says the
    /// launch will define it or the requirement is met by its absence.
    pub fn first_conflict(&self, incoming: &Self, may_be_undefined: impl Fn(&str) -> bool) -> Option<Conflict> {
        let unknown = incoming
            .iter()
            .find(|(key, wanted)| self.get(key).is_none() && !wanted.allows_absence() && !may_be_undefined(key));
        match unknown {
            Some((key, _)) => Some(Conflict::Unknown { key: Arc::clone(key) }),
            None => self.first_disjoint(incoming),
        }
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, Requirement)> for Requirements {
    fn from_iter<I: IntoIterator<Item = (K, Requirement)>>(entries: I) -> Self {
        let mut requirements = Self::new();
        for (key, requirement) in entries {
            requirements.add(key, requirement);
        }
        requirements
    }
}
