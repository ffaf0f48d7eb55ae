//! The lines of a ledger.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::processes::ProcessId;
use crate::error::{Error, Result};

/// One line. JSON, one object with one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// The first line.
    World(Header),
    /// A thing is about to be made.
    Make(Entry),
    /// A process runs.
    Made {
        /// Of its [`Line::Make`].
        number: u64,
        /// The process.
        process: ProcessId,
    },
    /// A thing is no more.
    Gone {
        /// Of its [`Line::Make`].
        number: u64,
    },
}

/// Who a world belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// As `w1`.
    pub number: String,
    /// Whose: a suite, `up`, the shared daemon.
    pub owner: String,
    /// The process that owns it.
    pub process: ProcessId,
    /// The boot of the machine, from `/proc/sys/kernel/random/boot_id`: of an earlier one nothing but files is left.
    pub boot: String,
}

/// A thing and its number within its ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// Counted from 1.
    pub number: u64,
    /// What it is.
    pub thing: Thing,
}

/// What a world makes outside of its own memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Thing {
    /// A process with all that it starts. Found by its number once that is known, and by [`super::MARKER`] always.
    Process {
        /// As `etcd`.
        name: String,
        /// Known from the moment after the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessId>,
    },
    /// A named network namespace, as `ip netns` knows it.
    NetworkNamespace {
        /// At most 255 letters.
        name: String,
    },
    /// A network interface outside of the namespaces that the world made. (Those inside go with their namespace.)
    Link {
        /// At most 15 letters.
        name: String,
    },
    /// A mount in the machine's own mount namespace.
    Mount {
        /// Where.
        at: PathBuf,
    },
    /// A control group with all below it; processes in it are killed.
    Cgroup {
        /// As `/sys/fs/cgroup/memory/w1-node`.
        path: PathBuf,
    },
    /// A folder with all that is in it. Mounts below it are unmounted first.
    Folder {
        /// Absolute.
        path: PathBuf,
    },
}

impl Header {
    /// The header for a world of the calling process.
    pub(super) fn of_this_process(number: &str, owner: &str) -> Self {
        Self {
            number: number.to_owned(),
            owner: owner.to_owned(),
            process: ProcessId::own(),
            boot: boot().unwrap_or_default(),
        }
    }
}

impl Entry {
    /// Takes in what is known of the process with this entry's number.
    pub(super) fn take_process(&mut self, number: u64, known: ProcessId) {
        if self.number == number
            && let Thing::Process { process, .. } = &mut self.thing
        {
            *process = Some(known);
        }
    }
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { name, process: Some(process) } => write!(f, "process `{name}` ({})", process.pid),
            Self::Process { name, process: None } => write!(f, "process `{name}`"),
            Self::NetworkNamespace { name } => write!(f, "network namespace `{name}`"),
            Self::Link { name } => write!(f, "network interface `{name}`"),
            Self::Mount { at } => write!(f, "mount `{}`", at.display()),
            Self::Cgroup { path } => write!(f, "control group `{}`", path.display()),
            Self::Folder { path } => write!(f, "folder `{}`", path.display()),
        }
    }
}

/// The boot of this machine.
pub(super) fn boot() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Reads a ledger: who it belongs to, and what is still there. A last line without its end was never followed by the
/// thing that it announces, so it counts for nothing. An empty ledger is one whose owner died at once.
pub(super) fn read(path: &Path) -> Result<(Option<Header>, Vec<Entry>)> {
    let text = fs::read_to_string(path)?;
    let (mut header, mut entries) = (None, Vec::<Entry>::new());
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (index, line) in whole.lines().enumerate() {
        let line = serde_json::from_str(line).map_err(|error| Error::Ledger {
            path: path.to_owned(),
            line: index + 1,
            why: error.to_string(),
        })?;
        match line {
            Line::World(found) => header = Some(found),
            Line::Make(entry) => entries.push(entry),
            Line::Made { number, process } => {
                entries.iter_mut().for_each(|entry| entry.take_process(number, process));
            }
            Line::Gone { number } => entries.retain(|entry| entry.number != number),
        }
    }
    Ok((header, entries))
}
