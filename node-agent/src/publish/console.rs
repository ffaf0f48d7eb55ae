//! Output to the serial console. EC2 keeps the last part, which can be read even if the node is unreachable.

use std::fs::OpenOptions;
use std::io::Write;
#[cfg(target_os = "linux")]
use std::os::unix::fs::OpenOptionsExt;

#[cfg(target_os = "linux")]
use nix::fcntl::OFlag;

use crate::report::{Report, Verdict, Weight};

/// Console kept by EC2. On Windows it is the first serial port, where EC2Launch reports that Windows is ready.
const CONSOLE: &str = if cfg!(windows) { r"\\.\COM1" } else { "/dev/console" };

/// Returns a line in a machine-readable format: `key=value`, with text values quoted as in JSON.
#[must_use]
pub fn line(report: &Report, verdict: &Verdict) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let instance = report.instance_id.as_deref().unwrap_or("unknown");
    format!(
        "MUSTER-AGENT VERDICT code={} severity=error phase={} instance={instance} held={} message={} fix={}",
        verdict.code,
        verdict.phase,
        report.held,
        quoted(&verdict.message),
        quoted(&verdict.fix)
    )
}

/// Writes the verdict to the console if it is an error other than `said`, which is updated.
pub fn say(report: &Report, said: &mut Option<String>) {
    let Some(verdict) = report.verdict.as_ref().filter(|verdict| verdict.severity == Weight::Error) else {
        *said = None;
        return;
    };
    let line = line(report, verdict);
    if said.as_ref() == Some(&line) {
        return;
    }
    // A console that blocks must not stop the agent: output that it does not accept at once is lost.
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(target_os = "linux")]
    options.custom_flags(OFlag::O_NONBLOCK.union(OFlag::O_NOCTTY).bits());
    if let Ok(mut console) = options.open(CONSOLE) {
        let _lost_with_the_console = writeln!(console, "{line}");
    }
    *said = Some(line);
}
