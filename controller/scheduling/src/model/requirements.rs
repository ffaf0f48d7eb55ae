//! Requirements by key, and the test if two sets of them can hold on one node.

use std::sync::Arc;

use super::{Labels, Requirement};

/// Requirements on a node's labels, by key. A clone shares the entries until one of the two is changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Requirements(Option<Arc<Vec<Entry>>>);

/// Entries are sorted by key; an empty set has no list.
type Entry = (Arc<str>, Requirement);

/// Reason why two sets of requirements cannot hold on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// The incoming side needs a label that the other side does not define.
    Unknown {
        /// The label.
        key: Arc<str>,
    },
    /// Both sides define the label, but no value suits both.
    Disjoint {
        /// The label.
        key: Arc<str>,
        /// The requirement of the incoming side.
        incoming: Requirement,
        /// The requirement of this side.
        existing: Requirement,
    },
}

impl Requirements {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Narrows `key`, under its stable name, by `requirement`.
    pub fn add(&mut self, key: impl Into<Arc<str>>, requirement: Requirement) {
        let key: Arc<str> = key.into();
        let stable = crate::labels::stable_name(&key);
        let key = if stable == &*key { key } else { stable.into() };
        let entries = Arc::make_mut(self.0.get_or_insert_default());
        match find(entries, &key) {
            Ok(at) => entries[at].1 = entries[at].1.intersection(&requirement),
            Err(at) => entries.insert(at, (key, requirement)),
        }
    }

    /// Narrows by every requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        for (key, requirement) in other.iter() {
            self.add(Arc::clone(key), requirement.clone());
        }
    }

    /// Returns the requirement on `key`, if there is one. An absent one allows everything.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        let entries = self.entries();
        find(entries, key).ok().map(|at| &entries[at].1)
    }

    /// Returns the only value that `key` may have, if there is exactly one.
    pub fn single(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Requirement::single).map(|value| &**value)
    }

    /// Removes the requirement on `key`.
    pub fn remove(&mut self, key: &str) {
        let Some(entries) = &mut self.0 else { return };
        if let Ok(at) = find(entries, key) {
            Arc::make_mut(entries).remove(at);
        }
        if entries.is_empty() {
            self.0 = None;
        }
    }

    /// Returns all requirements, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Requirement)> {
        self.entries().iter().map(|(key, requirement)| (key, requirement))
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Address of the entries: equal only for sets that share them or are empty.
    #[must_use]
    pub fn address(&self) -> usize {
        self.0.as_ref().map_or(0, |entries| Arc::as_ptr(entries).addr())
    }

    fn entries(&self) -> &[Entry] {
        self.0.as_ref().map_or(&[], |entries| entries)
    }

    /// Returns the requirements that every key has exactly its value in `labels`.
    pub fn from_labels(labels: &Labels) -> Self {
        let mut requirements = Self::new();
        for (key, value) in labels.iter() {
            requirements.add(Arc::clone(key), Requirement::new(super::Operator::In, [Arc::clone(value)]));
        }
        requirements
    }

    /// Returns the first key on which `incoming` cannot be satisfied together with this side, if both define it. Two
    /// sides that both allow absence (`NotIn`, `DoesNotExist`) are satisfied by an absent label.
    pub fn first_disjoint(&self, incoming: &Self) -> Option<Conflict> {
        incoming.iter().find_map(|(key, wanted)| {
            let there = self.get(key)?;
            (!there.meets(wanted)).then(|| Conflict::Disjoint {
                key: Arc::clone(key),
                incoming: wanted.clone(),
                existing: there.clone(),
            })
        })
    }

    /// Returns true if both can hold on one node; keys that only one side defines are not checked.
    pub fn intersects(&self, incoming: &Self) -> bool {
        incoming.iter().all(|(key, wanted)| self.get(key).is_none_or(|there| there.meets(wanted)))
    }

    /// Like [`Self::first_disjoint`], but every key of `incoming` must also be defined here, unless `may_be_undefined`
    /// returns true for it (the launch defines it) or its requirement allows absence.
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

fn find(entries: &[Entry], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| (**other).cmp(key))
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
