//! What can be wrong with the input, in words for the person who has to mend it.

use std::fmt;

/// Where something stands in the input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file as it was named, `stdin` for `-`.
    pub file: String,
    /// The document in the file, from 1.
    pub document: usize,
    /// The item of the document, from 1, if the document is a list.
    pub item: Option<usize>,
    /// The line in the file, from 1, if it is known.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.document > 0 {
            write!(f, ": document {}", self.document)?;
        }
        if let Some(item) = self.item {
            write!(f, ", item {item}")?;
        }
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        Ok(())
    }
}

/// What is wrong with the input. `Display` is the whole message: what failed, on which object, a blank line, a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A file or folder cannot be read.
    #[error("cannot read `{file}`: {reason}\n\nhint: {hint}")]
    File {
        /// Its name.
        file: String,
        /// The cause.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// A document is not YAML or JSON.
    #[error("{place}: {reason}\n\nhint: {hint}")]
    Syntax {
        /// Where.
        place: Box<Place>,
        /// What the parser says.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// A key stands twice in one map.
    #[error("{place}: {reason}\n\nhint: keep one of the two entries; only one of them could count")]
    DuplicateKey {
        /// Where.
        place: Box<Place>,
        /// What the parser says.
        reason: String,
    },
    /// A document is not an object of Kubernetes.
    #[error("{place}: {reason}\n\nhint: {hint}")]
    NotAnObject {
        /// Where.
        place: Box<Place>,
        /// Why.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// Another version of a kind of ours.
    #[error("{place}: {object} has apiVersion `{version}`, which is not supported; `{supported}` is\n\nhint: {hint}")]
    Version {
        /// Where.
        place: Box<Place>,
        /// Which object.
        object: String,
        /// The version it has.
        version: String,
        /// The version that is read.
        supported: &'static str,
        /// What to do.
        hint: String,
    },
    /// A field has a value that means nothing.
    #[error("{place}: {object}: field `{field}` {problem}\n\nhint: {hint}")]
    Field {
        /// Where.
        place: Box<Place>,
        /// Which object.
        object: String,
        /// The way to the field.
        field: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// An object is refused as a whole.
    #[error("{place}: {object}: {problem}\n\nhint: {hint}")]
    Object {
        /// Where.
        place: Box<Place>,
        /// Which object.
        object: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// An object stands twice in the input.
    #[error("{place}: {object} is already in {first}\n\nhint: keep one of the two; only one of them could count")]
    Twice {
        /// Where the second is.
        place: Box<Place>,
        /// Which object.
        object: String,
        /// Where the first is.
        first: Box<Place>,
    },
}
