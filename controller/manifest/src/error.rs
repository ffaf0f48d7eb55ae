//! Errors in the input, with messages for the user who has to fix it.

use std::fmt;

/// Position in the input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// File as named by the user, or `stdin` for `-`.
    pub file: String,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Number of the item in the document, from 1, if the document is a list.
    pub item: Option<usize>,
    /// Line in the file, from 1, if known.
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

/// Error in the input. `Display` is the whole message: the problem, the object, a blank line, a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A file or folder cannot be read.
    #[error("cannot read `{file}`: {reason}\n\nhint: {hint}")]
    File {
        /// Name of the file.
        file: String,
        /// Cause.
        reason: String,
        /// Hint.
        hint: String,
    },
    /// A document is not YAML or JSON.
    #[error("{place}: {reason}\n\nhint: {hint}")]
    Syntax {
        /// Position.
        place: Box<Place>,
        /// Message of the parser.
        reason: String,
        /// Hint.
        hint: String,
    },
    /// A map has a duplicate key.
    #[error("{place}: {reason}\n\nhint: keep one of the two entries; only one of them could count")]
    DuplicateKey {
        /// Position.
        place: Box<Place>,
        /// Message of the parser.
        reason: String,
    },
    /// A document is not a Kubernetes object.
    #[error("{place}: {reason}\n\nhint: {hint}")]
    NotAnObject {
        /// Position.
        place: Box<Place>,
        /// Cause.
        reason: String,
        /// Hint.
        hint: String,
    },
    /// An object of Muster's kinds has an unsupported version.
    #[error("{place}: {object} has apiVersion `{version}`, which is not supported; `{supported}` is\n\nhint: {hint}")]
    Version {
        /// Position.
        place: Box<Place>,
        /// Object.
        object: String,
        /// Version of the object.
        version: String,
        /// Supported version.
        supported: &'static str,
        /// Hint.
        hint: String,
    },
    /// A field has an invalid value.
    #[error("{place}: {object}: field `{field}` {problem}\n\nhint: {hint}")]
    Field {
        /// Position.
        place: Box<Place>,
        /// Object.
        object: String,
        /// Path of the field.
        field: String,
        /// Problem.
        problem: String,
        /// Hint.
        hint: String,
    },
    /// An object is rejected as a whole.
    #[error("{place}: {object}: {problem}\n\nhint: {hint}")]
    Object {
        /// Position.
        place: Box<Place>,
        /// Object.
        object: String,
        /// Problem.
        problem: String,
        /// Hint.
        hint: String,
    },
    /// An object occurs twice in the input.
    #[error("{place}: {object} is already in {first}\n\nhint: keep one of the two; only one of them could count")]
    Twice {
        /// Position of the second one.
        place: Box<Place>,
        /// Object.
        object: String,
        /// Position of the first one.
        first: Box<Place>,
    },
    /// Several objects or fields are rejected.
    #[error("{}", joined(.errors, .more))]
    Several {
        /// The first ones.
        errors: Vec<InputError>,
        /// Number of the others.
        more: usize,
    },
}

/// Maximum number of errors that are shown at once.
pub(super) const SHOWN: usize = 20;

/// Rejected objects, collected so that one run shows all of them.
#[derive(Debug, Default)]
pub(super) struct Rejected {
    errors: Vec<InputError>,
    more: usize,
}

// === impl InputError ===

impl InputError {
    /// Joins the errors of one object.
    pub(super) fn several(first: Self, others: Vec<Self>) -> Self {
        if others.is_empty() {
            return first;
        }
        Self::Several { errors: std::iter::once(first).chain(others).collect(), more: 0 }
    }
}

// === impl Rejected ===

impl Rejected {
    /// Adds the error of an object, if it has any.
    pub(super) fn note(&mut self, read: Result<(), InputError>) {
        let (errors, more) = match read {
            Ok(()) => return,
            Err(InputError::Several { errors, more }) => (errors, more),
            Err(error) => (vec![error], 0),
        };
        self.more += more;
        for error in errors {
            if self.errors.len() < SHOWN {
                self.errors.push(error);
            } else {
                self.more += 1;
            }
        }
    }

    /// Returns all errors as one, if there are any.
    pub(super) fn into_result(self) -> Result<(), InputError> {
        let Self { errors, more } = self;
        let mut errors = errors.into_iter();
        let Some(first) = errors.next() else { return Ok(()) };
        let others: Vec<InputError> = errors.collect();
        match InputError::several(first, others) {
            InputError::Several { errors, more: _ } => Err(InputError::Several { errors, more }),
            one => Err(one),
        }
    }
}

/// Formats errors one after the other, each like the only one.
fn joined(errors: &[InputError], more: &usize) -> String {
    let mut text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\nerror: ");
    if *more > 0 {
        text.push_str(&format!(
            "\n\nerror: {more} more errors like these\n\nhint: correct the first ones and try again"
        ));
    }
    text
}
