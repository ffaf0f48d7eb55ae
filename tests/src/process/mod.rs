//! Starting the servers of a world and ending them.
//!
//! ```text
//!  Program ──► Spawner::start ──► ledger: make ──► spawning thread ──► ledger: started ──► Running
//!  what        log file,                           setpriv --pdeathsig                     end, kill,
//!  to run      clean environment                   [nsenter --net] program                 Drop kills
//! ```
//!
//! Each process has its own group, so that Ctrl-C at a terminal reaches us alone and the servers end in the right order.
//! It also has a parent-death signal: when the owner of a world is killed the kernel ends its servers at once, and what
//! is left for the next start is files and namespaces. The kernel sends that signal when the *thread* that started the
//! process ends, so one thread that lives as long as this process starts them all.

mod program;
mod running;
mod spawning;

pub use nix::sys::signal::Signal;
pub use program::Program;
pub use running::{Ending, Running, Summary};

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use fs_err as fs;

use crate::error::{Error, Result};
use crate::ledger::{Ledger, ProcessId, Thing};

/// Starts processes of one world.
#[derive(Debug, Clone)]
pub struct Spawner {
    ledger: Arc<Ledger>,
    logs: PathBuf,
}

impl Spawner {
    /// Processes are written down in `ledger`; each writes to `logs/NAME.log`.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(ledger: Arc<Ledger>, logs: impl Into<PathBuf>) -> Result<Self> {
        let logs = logs.into();
        fs::create_dir_all(&logs)?;
        Ok(Self { ledger, logs })
    }

    /// The ledger of the world.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Where the logs are.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Starts `program`. It runs until [`Running::end`] or until the value is dropped. A second program of the same name
    /// appends to the log of the first.
    ///
    /// # Errors
    /// [`Error::Missing`] when there is no such program; otherwise what the system answered.
    pub fn start(&self, program: &Program) -> Result<Running> {
        program.look()?;
        let log = self.logs.join(format!("{}.log", program.name()));
        let out = fs::OpenOptions::new().create(true).append(true).open(&log)?.into_parts().0;
        let mut command = program.command(&self.ledger);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);

        let number = self.ledger.make(Thing::Process { name: program.name().to_owned(), process: None })?;
        let child = match spawning::spawn(command) {
            Ok(child) => child,
            Err(error) => {
                self.ledger.gone(number)?;
                return Err(program.not_started(error));
            }
        };
        // One that ends at once is not waited for by anyone yet, so its number still belongs to it.
        let pid = child.id().cast_signed();
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, start: 0 });
        let running = Running::new(program.name().to_owned(), child, id, number, Arc::clone(&self.ledger), log);
        self.ledger.started(number, id)?;
        Ok(running)
    }

    /// Runs `program` to its end and gives what it wrote to stdout.
    ///
    /// # Errors
    /// [`Error::Command`] with its last words when it does not end with success.
    pub fn run(&self, program: &Program) -> Result<String> {
        program.look()?;
        let mut command = program.command(&self.ledger);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let number = self.ledger.make(Thing::Process { name: program.name().to_owned(), process: None })?;
        let output = spawning::spawn(command).and_then(std::process::Child::wait_with_output);
        self.ledger.gone(number)?;
        let output = output.map_err(|error| program.not_started(error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(Error::Command { command: program.to_string(), answer: format!("{}\n{}", output.status, words.trim()) })
    }
}

#[cfg(test)]
mod tests;
