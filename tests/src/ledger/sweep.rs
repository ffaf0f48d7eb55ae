//! Removing what dead worlds left, and telling who lives.

use std::fs::TryLockError;
use std::io::ErrorKind;
use std::path::Path;

use fs_err as fs;

use super::entry::{self, Entry, Header, Thing};
use super::remove;
use super::root::Root;
use crate::error::Result;

/// A dead world that was cleaned up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// As `w1`.
    pub number: String,
    /// Whose it was, if it lived long enough to say so.
    pub owner: Option<String>,
    /// How many things its ledger named.
    pub things: usize,
    /// What resisted, a line each. Its ledger is then still there.
    pub problems: Vec<String>,
}

/// A world as its ledger tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldState {
    /// As `w1`.
    pub number: String,
    /// Missing in the first moment of its life.
    pub header: Option<Header>,
    /// What is there.
    pub entries: Vec<Entry>,
    /// Whether its owner lives.
    pub is_alive: bool,
}

/// Cleans up after all worlds whose owner is dead. Several processes may do so at once: each dead world is taken by one.
///
/// # Errors
/// When the folder of the ledgers cannot be read.
pub fn sweep(root: &Root) -> Result<Vec<Swept>> {
    let mut dead = Vec::new();
    {
        let _alone = root.lock()?;
        for folder in root.folders()? {
            match take(&folder) {
                Ok(Some(file)) => dead.push((folder, file)),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
    }
    // The lock of the root is free again: a large world takes a second to remove, and nobody need wait for that.
    Ok(dead.iter().map(|(folder, _held)| clean(folder)).collect())
}

/// All worlds of this user, dead ones too, by number.
///
/// # Errors
/// When the folder of the ledgers cannot be read.
pub fn worlds(root: &Root) -> Result<Vec<WorldState>> {
    let _alone = root.lock()?;
    let mut states = Vec::new();
    for folder in root.folders()? {
        let is_alive = match take(&folder)? {
            Some(file) => {
                file.file().unlock()?;
                false
            }
            None => true,
        };
        let (header, entries) = match entry::read(&folder.join("ledger")) {
            Ok(read) => read,
            Err(_) if !folder.exists() => continue,
            Err(error) => return Err(error),
        };
        states.push(WorldState { number: number(&folder), header, entries, is_alive });
    }
    Ok(states)
}

/// Locks the ledger of a dead world. None when its owner lives. Only under the lock of the root, so that no world is
/// being opened: then a folder without a ledger is one whose owner died before it wrote one.
fn take(folder: &Path) -> Result<Option<fs::File>> {
    let file = fs::OpenOptions::new().create(true).append(true).open(folder.join("ledger"));
    let file = match file {
        Ok(file) => file,
        // Closed by its owner between the listing and now.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match file.file().try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn clean(folder: &Path) -> Swept {
    let mut swept = Swept { number: number(folder), owner: None, things: 0, problems: Vec::new() };
    match entry::read(&folder.join("ledger")) {
        Ok((header, mut entries)) => {
            swept.things = entries.len();
            // Of an earlier boot only files are left, and its process numbers mean nothing.
            if header.as_ref().is_some_and(|header| entry::boot().is_ok_and(|boot| boot != header.boot)) {
                entries.retain(|entry| matches!(entry.thing, Thing::Folder { .. }));
            }
            swept.owner = header.map(|header| header.owner);
            swept.problems = remove::all(folder, &entries);
        }
        Err(error) => swept.problems.push(error.to_string()),
    }
    if swept.problems.is_empty()
        && let Err(error) = fs::remove_dir_all(folder)
    {
        swept.problems.push(error.to_string());
    }
    swept
}

fn number(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
