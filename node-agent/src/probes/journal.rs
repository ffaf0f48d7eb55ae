//! The journal, followed from the boot on.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::watch::journal::Line;
use crate::watch::units::UNITS;

/// Whose words are kept in a bundle.
pub const SOURCES: &[&str] = &UNITS;

/// `journalctl` that follows the units.
pub struct Journal {
    lines: BufReader<ChildStdout>,
    /// The beginning of a line: whoever waits for lines may stop waiting in the middle of one.
    begun: Vec<u8>,
    _child: Child,
}

impl Journal {
    /// Starts to follow.
    ///
    /// # Errors
    /// There is no `journalctl`.
    pub fn follow() -> std::io::Result<Self> {
        let mut command = Command::new("journalctl");
        command.args(["--boot", "--follow", "--lines=all", "--output=json", "--no-pager", "--quiet"]);
        command.arg("--output-fields=MESSAGE,UNIT,_SYSTEMD_UNIT,_PID");
        for (index, unit) in UNITS.iter().enumerate() {
            // What the unit says, or systemd about it.
            if index > 0 {
                command.arg("+");
            }
            command.args([format!("_SYSTEMD_UNIT={unit}.service"), "+".to_owned(), format!("UNIT={unit}.service")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| std::io::Error::other("no output"))?;
        Ok(Self { lines: BufReader::new(stdout), begun: Vec::new(), _child: child })
    }

    /// The next line of a service that is followed; `None` if the journal ended. Can be dropped and called again.
    pub async fn next(&mut self) -> Option<Line> {
        /// A longer line is the kubelet printing an object: it is passed over.
        const LONGEST: usize = 1 << 18;
        let mut is_too_long = false;
        loop {
            let buffer = self.lines.fill_buf().await.ok()?;
            if buffer.is_empty() {
                return None;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            if self.begun.len() + taken <= LONGEST {
                self.begun.extend_from_slice(buffer.get(..taken).unwrap_or_default());
            } else {
                is_too_long = true;
            }
            self.lines.consume(taken);
            if end.is_none() {
                continue;
            }
            let line = std::mem::take(&mut self.begun);
            if let Some(line) = Line::read(&String::from_utf8_lossy(&line)).filter(|_| !is_too_long) {
                return Some(line);
            }
            is_too_long = false;
        }
    }
}

/// The last lines of a unit, for the bundle.
pub async fn tail(unit: &str, lines: u32) -> String {
    let mut command = Command::new("journalctl");
    command.args(["--boot", "--no-pager", "--quiet", "--output=short-iso-precise", "--lines"]);
    command.arg(lines.to_string()).args(["--unit", unit]).stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(super::PROGRAM, command.output()).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => String::new(),
    }
}
