//! Where something stands, so that every finding can point at it.

use std::fmt;
use std::sync::Arc;

/// A piece of text and where its first line stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// What the text is: `user-data part 2`, `kubelet-config`.
    pub name: Arc<str>,
    /// The line, from 1, at which the text begins in what the reader has before them.
    pub first_line: usize,
}

/// A line of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// What the text is.
    pub source: Arc<str>,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
}

/// What a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence {
    /// Where it stands.
    pub place: Place,
    /// What stands there, shortened, on one line, and without secrets.
    pub text: String,
}

impl Source {
    /// A text that is the whole of what its reader sees.
    #[must_use]
    pub fn whole(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), first_line: 1 }
    }

    /// Line number `line`, from 1, of the text.
    #[must_use]
    pub fn at(&self, line: usize) -> Place {
        Place { source: Arc::clone(&self.name), line: Some(self.first_line.saturating_add(line).saturating_sub(1)) }
    }

    /// The text as a whole.
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

/// The line, from 1, of byte number `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// Line number `line`, from 1.
pub(crate) fn line_text(text: &str, line: usize) -> &str {
    text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim()
}

/// Where the lines of a text begin, for those who ask often.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).collect())
    }

    /// The line, from 1, of byte number `at`.
    pub(crate) fn of(&self, at: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= at)
    }
}
