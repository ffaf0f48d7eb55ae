//! What can go wrong with a world, in words for whoever reads the end of a failed run.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a world, or a part of it, could not be made, used or removed. `Display` is the whole message, hint included.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that the machine must have is not there.
    #[error("{what}\n\nhint: {hint}")]
    Missing {
        /// What is missing, as a sentence.
        what: String,
        /// The command that mends it.
        hint: String,
    },
    /// A file, a folder or a socket. The text of the error names its path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A program that should have run to its end with success did not.
    #[error("`{command}` failed: {answer}")]
    Command {
        /// The command as it was run.
        command: String,
        /// Its exit status and the last lines it wrote.
        answer: String,
    },
    /// A server ended although it should run.
    #[error("`{name}` ended: {status}; its last lines:\n{tail}\n\nhint: the whole log is `{}`", log.display())]
    Ended {
        /// The name in the ledger.
        name: String,
        /// Exit status, or `unknown`.
        status: String,
        /// Where it wrote.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// A condition did not come true in time.
    #[error("{what}: not so after {} s; last seen: {seen}", waited.as_secs_f64())]
    Deadline {
        /// The condition.
        what: String,
        /// How long it was waited for.
        waited: Duration,
        /// What was there instead.
        seen: String,
    },
    /// A ledger that this build cannot read.
    #[error("line {line} of `{}` is not understood: {why}\n\nhint: remove what it names by hand, then its folder", path.display())]
    Ledger {
        /// The ledger.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A part of a world could not be removed.
    #[error("left behind by world `{world}`:\n{}\n\nhint: `cargo run -p muster-tests -- down` tries again", what.join("\n"))]
    LeftBehind {
        /// Its number.
        world: String,
        /// One line for each thing.
        what: Vec<String>,
    },
    /// A test did not remove what it made.
    #[error("`{test}` left behind:\n{}\n\nhint: remove it in the test, or mark it with the test's id", what.join("\n"))]
    Leaked {
        /// The test.
        test: String,
        /// One line for each thing.
        what: Vec<String>,
    },
    /// The shared world could not be started; the daemon's own words.
    #[error("the shared world: {0}")]
    Daemon(String),
    /// Prometheus refuses a question; its own words.
    #[error("Prometheus refuses `{query}`: {why}")]
    Query {
        /// The expression.
        query: String,
        /// Why.
        why: String,
    },
    /// A world was named that is not there.
    #[error("no world `{0}` on this machine\n\nhint: `muster-tests status` lists them")]
    NoWorld(String),
    /// A certificate could not be made.
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The API server refused, or was not reached.
    #[error("the API server: {0}")]
    Kube(#[from] Box<kube::Error>),
}

impl Error {
    /// Whether the machine lacks something that set-up brings, so that nothing of ours is at fault.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Whether what was typed is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoWorld(_))
    }

    /// Whether a deadline passed.
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Deadline { .. })
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// The result of everything that touches a world.
pub type Result<T, E = Error> = std::result::Result<T, E>;
