//! The journal, by way of stderr.

use std::io::{self, Write as _};

use tracing::Level;

/// Writes the lines to stderr. For the journal, each begins with its level (sd-daemon(3)), which the journal takes off.
pub(crate) fn install() {
    let is_journal = is_journal();
    super::write_with(move |level, line| {
        let prefix = if is_journal { prefix(level) } else { "" };
        // A log that cannot be written must not stop the agent.
        let _lost = writeln!(io::stderr().lock(), "{prefix}{line}");
    });
}

/// Returns the syslog level as systemd reads it at the beginning of a line.
fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        _ => "<6>",
    }
}

/// Returns true if stderr is the journal: systemd names its device and inode (systemd.exec(5), `JOURNAL_STREAM`).
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let stderr = nix::sys::stat::fstat(io::stderr()).ok();
    stream.zip(stderr).is_some_and(|(stream, stderr)| stream == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}
