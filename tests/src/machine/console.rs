//! The serial console: a terminal whose other end writes a file, as EC2 keeps one for each instance.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::record::Record;
use crate::error::Result;

/// Wide enough that systemd shortens no unit's name.
const COLUMNS: u16 = 200;

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
        std::thread::Builder::new().name("console".to_owned()).spawn(move || copy_to(&copy, &reader))?;
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
    reader: OwnedFd,
    open: OwnedFd,
    name: String,
}

impl Ends {
    fn open() -> std::io::Result<Self> {
        let reader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&reader)?;
        unlockpt(&reader)?;
        let name = ptsname(&reader, Vec::new())?.to_string_lossy().into_owned();
        let open = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let mut modes = tcgetattr(&open)?;
        modes.output_modes.remove(OutputModes::OPOST);
        tcsetattr(&open, OptionalActions::Now, &modes)?;
        tcsetwinsize(&open, Winsize { ws_row: 50, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok(Self { reader, open, name })
    }
}

fn copy_to(record: &Record, reader: &OwnedFd) {
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::read(reader, &mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                if record.take(buffer.get(..count).unwrap_or_default()).is_err() {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            // EIO: nobody has the terminal open any more.
            Err(_) => return,
        }
    }
}
