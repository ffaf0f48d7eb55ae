//! Removing things, whether they were fully made, half made or not made at all.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};

use super::entry::{Entry, Thing};
use super::processes::{ProcessId, end_all_of, kill};
use crate::error::{Error, Result};

/// How long a control group may stay busy after its processes have ended: the kernel lets go of the last one a moment
/// after its end is seen.
const BUSY: Duration = Duration::from_secs(5);

/// Removes `entries` youngest first, and says in one line each what resisted. Processes go first, all at once: nothing
/// may make new things while the rest is removed.
pub(super) fn all(ledger: &Path, entries: &[Entry]) -> Vec<String> {
    let mut problems = Vec::new();
    let known: Vec<ProcessId> = entries
        .iter()
        .filter_map(|entry| match &entry.thing {
            Thing::Process { process, .. } => *process,
            _ => None,
        })
        .collect();
    kill(&known);
    if let Err(left) = end_all_of(ledger) {
        problems.extend(left.iter().map(|process| format!("process {} does not end", process.pid)));
    }
    for entry in entries.iter().rev() {
        if let Err(error) = thing(ledger, &entry.thing) {
            problems.push(format!("{}: {error}", entry.thing));
        }
    }
    problems
}

/// Makes sure that `thing` exists no more.
pub(super) fn thing(ledger: &Path, thing: &Thing) -> Result<()> {
    match thing {
        Thing::Process { process: Some(process), .. } => {
            if !kill(&[*process]) {
                return Err(io::Error::new(ErrorKind::TimedOut, "it does not end").into());
            }
            Ok(())
        }
        // Its number is not known: it was about to be started when the owner died, and all that carry the marker end.
        Thing::Process { process: None, .. } => {
            end_all_of(ledger).map_err(|_| io::Error::new(ErrorKind::TimedOut, "it does not end").into())
        }
        Thing::NetworkNamespace { name } => network_namespace(name),
        Thing::Link { name } => link(name),
        Thing::Mount { at } => mount(at),
        Thing::Cgroup { path } => cgroup(path),
        Thing::Folder { path } => folder(path),
    }
}

fn network_namespace(name: &str) -> Result<()> {
    if !Path::new("/run/netns").join(name).exists() {
        return Ok(());
    }
    run(&["ip", "netns", "delete", name])
}

fn link(name: &str) -> Result<()> {
    if !Path::new("/sys/class/net").join(name).exists() {
        return Ok(());
    }
    run(&["ip", "link", "delete", name])
}

fn mount(at: &Path) -> Result<()> {
    // Several mounts can lie over one another.
    while mounts_at_or_below(at)?.iter().any(|found| found == at) {
        detach(at)?;
    }
    Ok(())
}

/// Detaches at once, also when files are open: those who hold them are gone or going.
fn detach(at: &Path) -> Result<()> {
    match umount2(at, MntFlags::MNT_DETACH) {
        // Gone in the meantime.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

fn cgroup(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let mut folders = Vec::new();
    folders_below(path, &mut folders)?;
    let end = Instant::now() + BUSY;
    for folder in folders {
        loop {
            let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            let members: Vec<_> = members.lines().filter_map(|pid| ProcessId::of(pid.parse().ok()?)).collect();
            kill(&members);
            match fs::remove_dir(&folder) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                // There is nothing to wait on: version 1 tells nobody when a group becomes empty.
                Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < end => {
                    std::thread::yield_now();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The folders at and below `path`, the deepest first. The files of a control group cannot be removed and need not be.
fn folders_below(path: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders_below(&entry.path(), into)?;
        }
    }
    into.push(path.to_owned());
    Ok(())
}

/// Never reaches through a mount: what is mounted below is detached first, and if that fails nothing is removed.
fn folder(path: &Path) -> Result<()> {
    // A ledger that was tampered with must not make us remove a part of the system.
    if !path.is_absolute() || path.components().count() < 3 {
        return Err(io::Error::new(ErrorKind::InvalidInput, "too near to the root to be a folder of a world").into());
    }
    for below in mounts_at_or_below(path)? {
        detach(&below)?;
    }
    if let Some(still) = mounts_at_or_below(path)?.first() {
        let text = format!("`{}` is still mounted", still.display());
        return Err(io::Error::new(ErrorKind::ResourceBusy, text).into());
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Mount points of this process's namespace at or below `path`, the last mounted first.
pub(super) fn mounts_at_or_below(path: &Path) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(unescape(field)))
        .filter(|at| at.starts_with(path))
        .collect();
    found.reverse();
    Ok(found)
}

/// The kernel writes blanks, tabs, line ends and backslashes of a path as `\` and three octal digits.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                text.push(char::from(byte));
                text.push_str(&part[3..]);
            }
            None => text.push_str(part),
        }
    }
    text
}

fn run(command: &[&str]) -> Result<()> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: command.join(" "),
        answer: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_mount_table_is_read_back() {
        assert_eq!(unescape(r"/mnt/two\040words"), "/mnt/two words");
        assert_eq!(unescape("/mnt/plain"), "/mnt/plain");
    }

    #[test]
    fn a_folder_near_the_root_is_never_removed() {
        for path in ["/", "/etc", "relative/path/of/some/length"] {
            let refused = folder(Path::new(path)).unwrap_err();
            assert!(refused.to_string().contains("too near to the root"), "{path}: {refused}");
        }
    }
}
