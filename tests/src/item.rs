//! Things that a test makes.

use std::collections::BTreeSet;
use std::fmt;

/// A thing that outlives the test that made it unless the test removes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// As `Node`, `instance`, `launch template`.
    pub kind: String,
    /// Its name or identifier.
    pub name: String,
    /// The values of its labels or tags, where a mark may be.
    pub marks: BTreeSet<String>,
}

impl Item {
    /// With one mark more.
    #[must_use]
    pub fn marked(mut self, mark: &str) -> Self {
        self.marks.insert(mark.to_owned());
        self
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}
