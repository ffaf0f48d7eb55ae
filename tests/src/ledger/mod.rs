//! What each world has made on this machine, written down before it is made.
//!
//! ```text
//!  /run/muster-world/           (as root; else $XDG_RUNTIME_DIR/muster-world)
//!    lock                       held for the moment in which a world is opened or dead ones are listed
//!    w1/ledger                  locked by its owner for as long as it lives: the kernel lets go when it dies
//!      {"world":…}              who, since when
//!      {"make":{"number":1,…}}  about to make a thing ──┐ SIGKILL anywhere in between
//!      {"made":{"number":1,…}}  what is known only now ─┘ and the thing is still found
//!      {"gone":{"number":1}}    removed
//! ```
//!
//! [`Ledger::open`] starts a world by removing what dead ones left ([`sweep`]). A dead world is one whose ledger nobody
//! locks: no process number has to be trusted, and a process number that was used again cannot deceive.

mod entry;
mod processes;
mod remove;
mod root;
mod sweep;

pub use entry::{Entry, Header, Line, Thing};
pub use processes::{MARKER, ProcessId, alive_in, end_all_of};
pub use root::Root;
pub use sweep::{Swept, WorldState, sweep, worlds};

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fs_err as fs;

use crate::error::{Error, Result};

/// The ledger of a world that lives: the only way in which something may be made outside of memory.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    /// Appended to by every thread that makes something. Locked (flock) until the process ends.
    file: Mutex<Pages>,
}

/// The open file and what it says so far.
#[derive(Debug)]
struct Pages {
    file: fs::File,
    entries: Vec<Entry>,
    next: u64,
}

impl Ledger {
    /// Removes what dead worlds left, then opens the ledger of a new one under `root`. `owner` says in a word who it is
    /// for, as `status` shows it. What could not be removed is in the second value: it does not stop a new world.
    ///
    /// # Errors
    /// When the folder of the ledgers cannot be written.
    pub fn open(root: &Root, owner: &str) -> Result<(Self, Vec<Swept>)> {
        let swept = sweep(root)?;
        let _alone = root.lock()?;
        let (number, folder) = root.free_number()?;
        fs::create_dir(&folder)?;
        let file = fs::OpenOptions::new().create_new(true).append(true).read(true).open(folder.join("ledger"))?;
        file.lock()?;
        let ledger = Self { folder, file: Mutex::new(Pages { file, entries: Vec::new(), next: 1 }) };
        ledger.append(&Line::World(Header::of_this_process(&number, owner)))?;
        Ok((ledger, swept))
    }

    /// The number of the world: unique among those that live on this machine, as `w1`. Short, because names of network
    /// interfaces are made of it and have at most 15 letters.
    pub fn number(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or("w0")
    }

    /// The folder of the ledger, the value of [`MARKER`] in the environment of every process of this world.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes down that `thing` is about to be made. Call it first, make the thing second.
    ///
    /// # Errors
    /// When the line cannot be written; then the thing must not be made.
    pub fn make(&self, thing: Thing) -> Result<u64> {
        let mut pages = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let number = pages.next;
        pages.next += 1;
        let entry = Entry { number, thing };
        write(&mut pages.file, &Line::Make(entry.clone()))?;
        pages.entries.push(entry);
        Ok(number)
    }

    /// Adds what became known of a process by starting it.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub fn started(&self, number: u64, process: ProcessId) -> Result<()> {
        let mut pages = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut pages.file, &Line::Made { number, process })?;
        for entry in &mut pages.entries {
            entry.take_process(number, process);
        }
        Ok(())
    }

    /// Writes down that the thing is no more. Remove it first, call this second.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub fn gone(&self, number: u64) -> Result<()> {
        let mut pages = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut pages.file, &Line::Gone { number })?;
        pages.entries.retain(|entry| entry.number != number);
        Ok(())
    }

    /// Makes sure that `thing` exists no more, whether or not it was fully made, and writes that down.
    ///
    /// # Errors
    /// When the thing resists, or the line cannot be written.
    pub fn remove(&self, number: u64) -> Result<()> {
        let Some(entry) = self.entries().into_iter().find(|entry| entry.number == number) else { return Ok(()) };
        remove::thing(&self.folder, &entry.thing)?;
        self.gone(number)
    }

    /// What this world has made and not removed yet, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).entries.clone()
    }

    /// Removes everything, youngest first, and then the ledger itself.
    ///
    /// # Errors
    /// [`Error::LeftBehind`] with all that resisted; the ledger stays, and the next start tries again.
    pub fn close(&self) -> Result<()> {
        let problems = remove::all(&self.folder, &self.entries());
        if problems.is_empty() {
            fs::remove_dir_all(&self.folder)?;
            return Ok(());
        }
        Err(Error::LeftBehind { world: self.number().to_owned(), what: problems })
    }

    fn append(&self, line: &Line) -> Result<()> {
        write(&mut self.file.lock().unwrap_or_else(PoisonError::into_inner).file, line)
    }
}

/// A ledger that is dropped but not closed is that of a dead world. Said explicitly: a process that another thread is
/// starting at this moment has inherited the file, and would hold the lock until it becomes another program.
impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = self.file.get_mut().unwrap_or_else(PoisonError::into_inner).file.file().unlock();
    }
}

/// One write for one line: a process that dies in between leaves a whole line or none. No fsync: the kernel keeps what a
/// dead process wrote, and after a loss of power nothing of a world exists but files.
fn write(file: &mut fs::File, line: &Line) -> Result<()> {
    let mut text = serde_json::to_string(line).map_err(std::io::Error::from)?;
    text.push('\n');
    Ok(file.write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests;
