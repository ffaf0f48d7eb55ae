//! Locations in documents, for findings.

use std::fmt;
use std::sync::Arc;

/// A text and the line at which it begins in its document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Name of the text: `user-data part 2`, `kubelet-config`.
    pub name: Arc<str>,
    /// Line, from 1, of the document that the reader sees, at which the text begins.
    pub first_line: usize,
}

/// A line of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the text.
    pub source: Arc<str>,
    /// Line, from 1, if known.
    pub line: Option<usize>,
}

/// Location and text that a finding is based on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence {
    /// Location of the text.
    pub place: Place,
    /// The text, shortened, on one line, and without secrets.
    pub text: String,
}

impl Source {
    /// Creates the source of a text that is the whole document.
    #[must_use]
    pub fn whole(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), first_line: 1 }
    }

    /// Returns the location of line `line`, from 1, of the text.
    #[must_use]
    pub fn at(&self, line: usize) -> Place {
        Place { source: Arc::clone(&self.name), line: Some(self.first_line.saturating_add(line).saturating_sub(1)) }
    }

    /// Returns the location of the whole text.
    #[must_use]
    pub fn anywhere(&self) -> Place {
        Place { source: Arc::clone(&self.name), line: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// Returns the line, from 1, of the byte at offset `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// Returns the text of line `line`, from 1.
pub(crate) fn line_text(text: &str, line: usize) -> &str {
    text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim()
}

/// Offsets at which the lines of a text begin, for repeated lookups.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).collect())
    }

    /// Returns the line, from 1, of the byte at offset `at`.
    pub(crate) fn of(&self, at: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= at)
    }
}
