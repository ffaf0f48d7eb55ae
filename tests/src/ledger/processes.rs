//! Processes of a world: known by number and start time, or by the marker that every one of them inherits.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// The variable in the environment of every process of a world. Its value is the folder of the ledger. It finds what
/// was started in the moment before the ledger could say its number, and whatever a server started by itself.
pub const MARKER: &str = "MUSTER_WORLD";

/// How long the kernel may take to end a process that was killed. It is done in milliseconds; a process in the middle of
/// a large write to a slow disk needs seconds.
const KERNEL: Duration = Duration::from_secs(10);

/// A process that cannot be mistaken for a later one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it was started, in clock ticks after boot: field 22 of `/proc/PID/stat`.
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
        let pid = getpid().as_raw_nonzero().get();
        Self::of(pid).unwrap_or(Self { pid, start: 0 })
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends `signal`, and says whether there was a process to take it.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        let Some(pidfd) = self.open() else { return false };
        pidfd_send_signal(pidfd, signal).is_ok()
    }

    /// Waits until it has ended; false when `most` passed before.
    pub(crate) fn wait_end(self, most: Duration) -> bool {
        let Some(pidfd) = self.open() else { return true };
        let end = Instant::now() + most;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            // A pidfd becomes readable when its process ends.
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return !self.is_alive(),
            }
        }
    }

    /// A handle that stays with this very process, if it still runs.
    fn open(self) -> Option<std::os::fd::OwnedFd> {
        let pidfd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Asked after the handle is held: from here on the number cannot be given to another.
        self.is_alive().then_some(pidfd)
    }
}

/// The processes that carry the marker of the world whose ledger lies in `folder`, those in other process namespaces
/// included. The calling process is not among them.
pub fn alive_in(folder: &Path) -> Vec<ProcessId> {
    let mut wanted = format!("{MARKER}=").into_bytes();
    wanted.extend_from_slice(folder.as_os_str().as_bytes());
    let own = ProcessId::own();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
        })
        .filter_map(ProcessId::of)
        .filter(|process| *process != own)
        .collect()
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
        process.signal(Signal::KILL);
    }
    let end = Instant::now() + KERNEL;
    // Not `all`, which would stop at the first that stays.
    processes.iter().filter(|process| !process.wait_end(end.saturating_duration_since(Instant::now()))).count() == 0
}
