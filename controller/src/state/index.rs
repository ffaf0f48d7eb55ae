//! Who has what: objects by a value that several of them may share.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Paths of objects by key. Only ever asked for one key, so that no hash-map order shows.
#[derive(Debug, Default)]
pub(super) struct Index(FxHashMap<Arc<str>, BTreeSet<Arc<str>>>);

impl Index {
    /// The objects with `key`, in the order of their paths.
    pub(super) fn get<'i>(&'i self, key: &str) -> impl Iterator<Item = &'i Arc<str>> + use<'i> {
        self.0.get(key).into_iter().flatten()
    }

    /// The object at `path` had the key `old` and has `new`.
    pub(super) fn shift(&mut self, old: Option<&Arc<str>>, new: Option<&Arc<str>>, path: &Arc<str>) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(paths) = self.0.get_mut(old)
        {
            paths.remove(path);
            if paths.is_empty() {
                self.0.remove(old);
            }
        }
        if let Some(new) = new {
            self.0.entry(Arc::clone(new)).or_default().insert(Arc::clone(path));
        }
    }

    /// How many keys there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
