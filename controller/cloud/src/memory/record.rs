//! Recorded calls, for assertions.

use jiff::Timestamp;

use crate::token::LaunchToken;

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
    /// `reboot`
    Reboot,
    /// `tag`
    Tag,
}

/// Operation of a call and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A launch with this token.
    Launch(LaunchToken),
    /// Another operation and the instance it is for; `None` for `list`.
    On(Operation, Option<String>),
}

/// A call and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// Time of the call.
    pub at: Timestamp,
    /// Operation and target.
    pub call: Call,
    /// Reason of the returned error, if any.
    pub error: Option<String>,
}

// === impl Call ===

impl Call {
    /// Returns the method that was called.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Launch(_) => Operation::Launch,
            Self::On(operation, _) => *operation,
        }
    }
}
