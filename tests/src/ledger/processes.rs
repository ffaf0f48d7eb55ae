//! Processes of a world: known by number and start time, or by the marker that every one of them inherits.

use std::ffi::OsString;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fs_err as fs;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use crate::error::Result;

/// The variable in the environment of every process of a world. Its value is the folder of the ledger. It finds what
/// was started in the moment before the ledger could say its number, and whatever a server started by itself.
pub const MARKER: &str = "MUSTER_WORLD";

/// How long the kernel may take to end a process that was killed. It is done in milliseconds; a process in the middle of
/// a large write to a slow disk needs seconds.
const KERNEL: Duration = Duration::from_secs(10);
/// How long passes between two looks at a process that is to end.
const LOOK: Duration = Duration::from_millis(2);

/// A process that cannot be mistaken for a later one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it was started, in clock ticks after boot: field 22 of `/proc/PID/stat`, read by hand. Libraries round it to
    /// seconds, in which a number can be used again.
    pub start: u64,
}

impl ProcessId {
    /// The process with this number now, if there is one. One that has ended but was not waited for counts as none.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the name in parentheses and may hold anything, parentheses too.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        Some(Self { pid, start: fields.nth(18)?.parse().ok()? })
    }

    /// The calling process.
    pub fn own() -> Self {
        let pid = Pid::this().as_raw();
        Self::of(pid).unwrap_or(Self { pid, start: 0 })
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends `signal`, and says whether there was a process to take it.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        // The kernel gives out all other numbers before it uses this one again, which takes longer than these two lines.
        self.is_alive() && signal::kill(Pid::from_raw(self.pid), signal).is_ok()
    }

    /// Waits until it has ended; false when `most` passed before.
    pub(crate) fn wait_end(self, most: Duration) -> bool {
        let end = Instant::now() + most;
        // Only the parent of a process can wait for it.
        while self.is_alive() {
            if Instant::now() >= end {
                return false;
            }
            sleep(LOOK);
        }
        true
    }
}

/// The processes that carry the marker of the world whose ledger lies in `folder`, those in other process namespaces
/// included. The calling process is not among them.
pub fn alive_in(folder: &Path) -> Vec<ProcessId> {
    let mut wanted = OsString::from(format!("{MARKER}="));
    wanted.push(folder);
    let own = ProcessId::own();
    let Ok(mut system) = System::new() else { return Vec::new() };
    let kind = ProcessRefreshKind::nothing().without_tasks().with_environ(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::All, false, kind);
    let marked = system.processes().values().filter(|process| process.environ().contains(&wanted));
    let marked = marked.filter_map(|process| ProcessId::of(process.pid().as_u32().try_into().ok()?));
    marked.filter(|process| *process != own).collect()
}

/// Kills all processes of the world whose ledger lies in `folder`, again and again until none is left: one that was
/// being started while the others were killed is found in the next round.
///
/// # Errors
/// Never in itself; the value is the processes that would not end.
pub fn end_all_of(folder: &Path) -> Result<(), Vec<ProcessId>> {
    for _ in 0..8 {
        let alive = alive_in(folder);
        if alive.is_empty() {
            return Ok(());
        }
        kill(&alive);
    }
    let left = alive_in(folder);
    if left.is_empty() { Ok(()) } else { Err(left) }
}

/// Kills these and waits until the kernel is done with them.
pub(super) fn kill(processes: &[ProcessId]) -> bool {
    for process in processes {
        process.signal(Signal::SIGKILL);
    }
    let end = Instant::now() + KERNEL;
    // Not `all`, which would stop at the first that stays.
    processes.iter().filter(|process| !process.wait_end(end.saturating_duration_since(Instant::now()))).count() == 0
}
