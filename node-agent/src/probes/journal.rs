//! The journal, followed from the boot on.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::watch::journal::Line;
use crate::watch::units::UNITS;

/// `journalctl` that follows the units.
pub struct Journal {
    lines: BufReader<ChildStdout>,
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
        Ok(Self { lines: BufReader::new(stdout), _child: child })
    }

    /// The next line of a service that is followed; `None` if the journal ended.
    pub async fn next(&mut self) -> Option<Line> {
        /// A longer line is the kubelet printing an object; what it begins with says enough.
        const LONGEST: u64 = 1 << 18;
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut self.lines).take(LONGEST);
            if limited.read_until(b'\n', &mut line).await.ok()? == 0 {
                return None;
            }
            if let Some(line) = Line::read(&String::from_utf8_lossy(&line)) {
                return Some(line);
            }
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
