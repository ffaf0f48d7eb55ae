//! A process that runs, and its end.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::ledger::{Ledger, ProcessId};

/// Lines of a log that an error quotes: enough for the panic of a Go program with its first frames.
const TAIL: usize = 20;

/// A process of a world. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    name: String,
    /// None once its end was seen, and it was waited for.
    child: Option<Child>,
    status: Option<ExitStatus>,
    id: ProcessId,
    number: u64,
    ledger: Arc<Ledger>,
    log: PathBuf,
}

/// A process as a person is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Its name in the ledger.
    pub name: String,
    /// Its number.
    pub pid: i32,
    /// What it writes to.
    pub log: PathBuf,
}

/// How a process ended when it was told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, before it was told to.
    Before,
    /// It did what it was told.
    Asked,
    /// The deadline passed, and it was killed.
    Killed,
}

impl Running {
    pub(super) fn new(
        name: String,
        child: Child,
        id: ProcessId,
        number: u64,
        ledger: Arc<Ledger>,
        log: PathBuf,
    ) -> Self {
        Self { name, child: Some(child), status: None, id, number, ledger, log }
    }

    /// Its name in the ledger.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// What a person is told.
    pub fn summary(&self) -> Summary {
        Summary { name: self.name.clone(), pid: self.id.pid, log: self.log.clone() }
    }

    /// What it writes to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`Error::Ended`] with the last lines of its log when it does not.
    pub fn check(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child {
            match child.try_wait()? {
                None => return Ok(()),
                Some(status) => self.note_end(Some(status)),
            }
        }
        Err(Error::Ended {
            name: self.name.clone(),
            status: self.status.map_or_else(|| "unknown".to_owned(), |status| status.to_string()),
            log: self.log.clone(),
            tail: self.tail(),
        })
    }

    /// Sends a signal to it alone; false when it has ended.
    pub fn signal(&self, signal: Signal) -> bool {
        self.child.is_some() && self.id.signal(signal)
    }

    /// Asks it to end (SIGTERM), and kills it when `most` has passed.
    pub fn end(&mut self, most: Duration) -> Ending {
        let Some(child) = &mut self.child else { return Ending::Before };
        if let Ok(Some(status)) = child.try_wait() {
            self.note_end(Some(status));
            return Ending::Before;
        }
        self.id.signal(Signal::SIGTERM);
        if self.id.wait_end(most) {
            self.wait();
            return Ending::Asked;
        }
        self.kill();
        Ending::Killed
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            self.wait();
        }
    }

    fn wait(&mut self) {
        let status = self.child.as_mut().and_then(|child| child.wait().ok());
        self.note_end(status);
    }

    fn note_end(&mut self, status: Option<ExitStatus>) {
        self.child = None;
        self.status = status;
        // A line that cannot be written makes the sweep look for a process that is not there: no harm.
        let _ = self.ledger.gone(self.number);
    }

    fn tail(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
