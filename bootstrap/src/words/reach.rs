//! The reach of an interpreter in a script: what ends it for certain, whatever the values on the node are.
//!
//! The readers know the outline of the grammar only. Where it does not suffice they give up, and nothing is said.

use std::fmt;

/// A place behind which nothing of a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Line, from 1, of the command that ends the script, or of the fault.
    pub(crate) line: usize,
    /// First line of which nothing runs. A shell runs what precedes the faulty command; PowerShell runs nothing.
    pub(crate) from: usize,
    pub(crate) cause: Cause,
}

/// Reason for which a script stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A command ends the script, under no condition.
    Leaves(&'static str),
    /// A quote, parenthesis or block has no end.
    Unclosed(&'static str),
    /// A token that cannot be at its place.
    Stray(&'static str),
}

impl Cause {
    /// Returns true if the script cannot be parsed.
    pub(crate) fn is_fault(self) -> bool {
        !matches!(self, Self::Leaves(_))
    }

    /// Returns the command or the token.
    pub(crate) fn token(self) -> &'static str {
        match self {
            Self::Leaves(token) | Self::Unclosed(token) | Self::Stray(token) => token,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Leaves(command) => write!(f, "`{command}` ends the script"),
            // A backquote cannot be quoted by backquotes.
            Self::Unclosed("`") => f.write_str("a backquote is never closed"),
            Self::Unclosed(token) => write!(f, "`{token}` is never closed"),
            Self::Stray(token) => write!(f, "there is a `{token}` without what it belongs to"),
        }
    }
}

/// Reason for which a reader stops.
pub(super) enum Halt {
    /// The line, and what is there.
    At(usize, Cause),
    /// Only the interpreter can tell what follows.
    Unsure,
}

pub(super) type Scan<T> = Result<T, Halt>;
