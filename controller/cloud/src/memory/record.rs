//! What was asked, for assertions.

use jiff::Timestamp;

use crate::launch::LaunchToken;

/// A method of [`crate::Cloud`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `launch`
    Launch,
    /// `get`
    Get,
    /// `list`
    List,
    /// `console`
    Console,
    /// `terminate`
    Terminate,
    /// `tag`
    Tag,
}

/// What a call was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A launch with this token.
    Launch(LaunchToken),
    /// Another operation on this instance; all of them for a list.
    On(Operation, Option<String>),
}

/// A call, and how it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// When it came.
    pub at: Timestamp,
    /// What was asked.
    pub call: Call,
    /// Reason of the error that the caller got, if it got one.
    pub error: Option<String>,
}

// === impl Call ===

impl Call {
    /// The method that was called.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Launch(_) => Operation::Launch,
            Self::On(operation, _) => *operation,
        }
    }
}
