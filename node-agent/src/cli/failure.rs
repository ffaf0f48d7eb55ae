//! Failures of a command and their exit codes.

use std::io;

/// Reason why a command failed. `Display` is the whole message, with the hint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Invalid input or option.
    #[error("{0}")]
    Usage(String),
    /// The command succeeded, and its answer, which is already printed, is "no".
    #[error("the answer is no")]
    No,
    /// An external system failed.
    #[error("{0}")]
    Outside(String),
    /// The result could not be written.
    #[error("the result cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Returns the failure for a file that cannot be read.
    pub(crate) fn unreadable(name: &str, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "check the name of the file",
            io::ErrorKind::PermissionDenied => "check who may read the file",
            _ => "check that it is a file",
        };
        Self::Usage(format!("cannot read `{name}`: {error}\n\nhint: {hint}"))
    }

    /// Returns the exit code, as documented in `--help`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::No => 1,
            Self::Usage(_) => 2,
            Self::Outside(_) | Self::Output(_) => 3,
        }
    }

    /// Returns true if the reader of stdout closed the pipe, which is not an error.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
