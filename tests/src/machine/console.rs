//! The serial console: a terminal whose other end writes a file, as EC2 keeps one for each instance.

use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{OFlag, open};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;

use super::record::Record;
use crate::error::Result;

/// Wide enough that systemd shortens no unit's name.
const COLUMNS: &str = "200";

/// The terminal of one machine.
#[derive(Debug)]
pub(super) struct Console {
    record: Record,
    terminal: PathBuf,
    /// Without one open end the reader would see the end of the console whenever systemd closes it for a moment.
    _open: OwnedFd,
}

impl Console {
    /// Opens a terminal and a thread that copies what is written to it to `file`, until the value and the machine are
    /// gone.
    pub(super) fn open(file: PathBuf) -> Result<Self> {
        let record = Record::create(file)?;
        let Ends { reader, open, name } = Ends::open()?;
        let copy = record.clone();
        std::thread::Builder::new().name("console".to_owned()).spawn(move || copy_to(&copy, reader))?;
        Ok(Self { record, terminal: PathBuf::from(name), _open: open })
    }

    /// What was written so far.
    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// The device that the machine writes to.
    pub(super) fn terminal(&self) -> &Path {
        &self.terminal
    }
}

/// The two ends of a terminal.
struct Ends {
    reader: PtyMaster,
    open: OwnedFd,
    name: String,
}

impl Ends {
    fn open() -> std::io::Result<Self> {
        // A program started in the meantime must not inherit an end, or the console would not end before it.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let reader = posix_openpt(flags)?;
        grantpt(&reader)?;
        unlockpt(&reader)?;
        let name = ptsname_r(&reader)?;
        let open = open(name.as_str(), flags, Mode::empty())?;
        // The size of a terminal cannot be set without unsafe code.
        let set = Command::new("stty").args(["-F", &name, "-opost", "rows", "50", "columns", COLUMNS]).status()?;
        if !set.success() {
            return Err(std::io::Error::other(format!("stty of `{name}`: {set}")));
        }
        Ok(Self { reader, open, name })
    }
}

fn copy_to(record: &Record, mut reader: PtyMaster) {
    let mut buffer = [0; 4096];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                if record.take(buffer.get(..count).unwrap_or_default()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // EIO: nobody has the terminal open any more.
            Err(_) => return,
        }
    }
}
