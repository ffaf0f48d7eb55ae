//! Index of objects by a key that several of them may share.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Paths of objects by key. Only looked up by key, so the order of the hash map has no effect.
#[derive(Debug, Clone, Default)]
pub(super) struct Index(FxHashMap<Arc<str>, Paths>);

/// A `BTreeSet` allocates room for eleven entries, but most keys, such as 10,000 provider IDs, have one object.
#[derive(Debug, Clone)]
enum Paths {
    One(Arc<str>),
    Many(BTreeSet<Arc<str>>),
}

impl Index {
    /// Returns the objects with `key`, sorted by path.
    pub(super) fn get<'i>(&'i self, key: &str) -> impl Iterator<Item = &'i Arc<str>> + use<'i> {
        let (one, many) = match self.0.get(key) {
            None => (None, None),
            Some(Paths::One(path)) => (Some(path), None),
            Some(Paths::Many(paths)) => (None, Some(paths)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Moves the object at `path` from key `old` to key `new`.
    pub(super) fn shift(&mut self, old: Option<&Arc<str>>, new: Option<&Arc<str>>, path: &Arc<str>) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(paths) = self.0.get_mut(old)
            && !paths.remove(path)
        {
            self.0.remove(old);
        }
        if let Some(new) = new {
            match self.0.entry(Arc::clone(new)) {
                Entry::Vacant(vacant) => drop(vacant.insert(Paths::One(Arc::clone(path)))),
                Entry::Occupied(occupied) => occupied.into_mut().insert(path),
            }
        }
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Paths {
    fn insert(&mut self, path: &Arc<str>) {
        match self {
            Self::One(only) if only == path => {}
            Self::One(only) => *self = Self::Many([Arc::clone(only), Arc::clone(path)].into()),
            Self::Many(paths) => drop(paths.insert(Arc::clone(path))),
        }
    }

    /// Removes a path. Returns true if any are left.
    fn remove(&mut self, path: &str) -> bool {
        match self {
            Self::One(only) => **only != *path,
            Self::Many(paths) => {
                paths.remove(path);
                !paths.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_came_and_went_the_paths_of_a_key_are_those_that_have_it() {
        let name = |text: &str| Arc::<str>::from(text);
        let (one, other) = (name("one"), name("other"));
        let mut index = Index::default();
        let mut shift = |old: Option<&Arc<str>>, new: Option<&Arc<str>>, path: &str| {
            index.shift(old, new, &name(path));
            let of = |key: &str| index.get(key).map(|path| &**path).collect::<Vec<_>>().join(" ");
            (of("one"), of("other"), index.len())
        };
        let are = |one: &str, other: &str, keys| (one.to_owned(), other.to_owned(), keys);
        assert_eq!(shift(None, Some(&one), "b"), are("b", "", 1));
        assert_eq!(shift(None, Some(&one), "b"), are("b", "", 1), "twice is once");
        assert_eq!(shift(None, Some(&one), "a"), are("a b", "", 1));
        assert_eq!(shift(Some(&one), Some(&other), "b"), are("a", "b", 2));
        assert_eq!(shift(Some(&one), None, "c"), are("a", "b", 2), "it was not there");
        assert_eq!(shift(Some(&other), None, "c"), are("a", "b", 2), "nor there");
        assert_eq!(shift(Some(&one), Some(&other), "a"), are("", "a b", 1));
        assert_eq!(shift(Some(&other), None, "a"), are("", "b", 1));
        assert_eq!(shift(Some(&other), None, "b"), are("", "", 0));
    }
}
