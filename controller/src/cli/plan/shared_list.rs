//! Lists that documents of several nodes share: thousands of nodes have few different ones, of hundreds of texts each.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A list, see the module.
#[derive(Debug, PartialEq)]
pub(crate) struct SharedList<T>(Arc<[T]>);

// === impl SharedList ===

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for SharedList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for SharedList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
