//! How a command can end other than well, and the exit code of each.

use std::io;

/// Why a command did not succeed. `Display` is the whole message, hint included.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The input or an option is wrong.
    #[error("{0}")]
    Usage(String),
    /// The command ran, and its answer, already printed, is "no".
    #[error("the answer is no")]
    No,
    /// Something outside did not do its part.
    #[error("{0}")]
    Outside(String),
    /// A result could not be written.
    #[error("the result cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// A message about a file that cannot be read.
    pub(crate) fn unreadable(name: &str, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "check the name of the file",
            io::ErrorKind::PermissionDenied => "check who may read the file",
            _ => "check that it is a file",
        };
        Self::Usage(format!("cannot read `{name}`: {error}\n\nhint: {hint}"))
    }

    /// The exit code of the command-line contract.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::No => 1,
            Self::Usage(_) => 2,
            Self::Outside(_) | Self::Output(_) => 3,
        }
    }

    /// Whether the reader of stdout went away, which is no failure of anyone.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
