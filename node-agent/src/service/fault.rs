//! Reasons why the service ends.

use std::io;

use super::parts::{Ended, Part};

/// Reason why the service ended.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The agent's folder cannot be created.
    #[error("the agent's folder cannot be made: {0}")]
    Folder(#[source] io::Error),
    /// The agent's socket cannot be created.
    #[error("the agent's socket cannot be made: {0}")]
    Socket(#[source] io::Error),
    /// The first status cannot be written.
    #[error("the status cannot be written: {0}")]
    Status(#[source] io::Error),
    /// The service manager cannot be told that the agent runs.
    #[error("whoever started the agent cannot be told that it runs: {0}")]
    Ready(#[source] io::Error),
    /// The runtime of the service cannot be created.
    #[error("{0}")]
    Runtime(#[source] io::Error),
    /// A part of the agent ended. None should.
    #[error("{part} has ended: {why}")]
    Part {
        /// The part.
        part: Part,
        /// Reason.
        why: Ended,
    },
}
