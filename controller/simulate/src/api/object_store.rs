//! Store of the objects of one kind.

use std::collections::BTreeMap;
use std::fmt;

/// Namespace and name; the namespace is empty for cluster-scoped kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Path {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Objects of one kind by namespace and name.
#[derive(Debug, Clone)]
pub(crate) struct ObjectStore<T>(pub(super) BTreeMap<Path, T>);

// === impl Path ===

impl Path {
    /// Creates the path of a namespaced object.
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Creates the path of a cluster-scoped object.
    pub(crate) fn bare(name: impl Into<String>) -> Self {
        Self { namespace: String::new(), name: name.into() }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

// === impl ObjectStore ===

impl<T> Default for ObjectStore<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> ObjectStore<T> {
    pub(crate) fn get(&self, path: &Path) -> Option<&T> {
        self.0.get(path)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &T)> {
        self.0.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
