//! The systemd journal, followed from boot.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::watch::journal::Line;
use crate::watch::units::UNITS;

/// Units whose lines go into a log bundle.
pub const SOURCES: &[&str] = &UNITS;

/// Maximum line length. Longer lines are objects printed by the kubelet, and are skipped.
const LONGEST: usize = 1 << 18;
/// Maximum line length for a bundle, in bytes. The bundle shows less.
const LONGEST_OF_BUNDLE: usize = 4 << 10;

/// A `journalctl` process that follows the units.
pub struct Journal {
    lines: BufReader<ChildStdout>,
    /// Beginning of a line, kept if [`Journal::next`] is cancelled in the middle of it.
    begun: Vec<u8>,
    _child: Child,
}

impl Journal {
    /// Starts `journalctl`.
    ///
    /// # Errors
    /// `journalctl` cannot be started.
    pub fn follow() -> std::io::Result<Self> {
        let mut command = Command::new("journalctl");
        command.args(["--boot", "--follow", "--lines=all", "--output=json", "--no-pager", "--quiet"]);
        command.arg("--output-fields=MESSAGE,UNIT,_SYSTEMD_UNIT,_PID");
        for (index, unit) in UNITS.iter().enumerate() {
            // Messages of the unit, and of systemd about the unit.
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

    /// Returns the next line of a followed service; `None` if the journal ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Line> {
        loop {
            let (line, is_whole) = next(&mut self.lines, &mut self.begun, LONGEST).await?;
            if let Some(line) = Line::read(&String::from_utf8_lossy(&line)).filter(|_| is_whole) {
                return Some(line);
            }
        }
    }
}

/// Returns the next line, cut at `longest` bytes, and true if it is complete. `begun` keeps partial input if the future
/// is dropped.
async fn next(lines: &mut BufReader<ChildStdout>, begun: &mut Vec<u8>, longest: usize) -> Option<(Vec<u8>, bool)> {
    let mut is_whole = true;
    loop {
        let buffer = lines.fill_buf().await.ok()?;
        if buffer.is_empty() {
            return None;
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(buffer.len(), |end| end + 1);
        let room = longest.saturating_sub(begun.len());
        is_whole &= taken <= room;
        begun.extend_from_slice(buffer.get(..taken.min(room)).unwrap_or_default());
        lines.consume(taken);
        if end.is_some() {
            return Some((std::mem::take(begun), is_whole));
        }
    }
}

/// Returns the last lines of a unit, for the bundle.
pub async fn tail(unit: &str, lines: u32) -> String {
    let mut command = Command::new("journalctl");
    command.args(["--boot", "--no-pager", "--quiet", "--output=short-iso-precise", "--lines"]);
    command.arg(lines.to_string()).args(["--unit", unit]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let Ok(mut child) = command.spawn() else { return String::new() };
    let Some(stdout) = child.stdout.take() else { return String::new() };
    let mut text = String::new();
    let read = async {
        let (mut printed, mut begun) = (BufReader::new(stdout), Vec::new());
        while let Some((line, _)) = next(&mut printed, &mut begun, LONGEST_OF_BUNDLE).await {
            text.push_str(String::from_utf8_lossy(&line).trim_end());
            text.push('\n');
        }
    };
    // On a timeout, the lines read so far are used.
    let _in_time = tokio::time::timeout(super::PROGRAM, read).await;
    text
}
